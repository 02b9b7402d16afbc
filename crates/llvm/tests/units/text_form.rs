//! An independent reading of LLVM's text form: it counts lines.
//!
//! Shares nothing with the C API. Instructions begin with two spaces, labels
//! with none; further lines of an instruction are indented more. Each edge is a
//! `label %` in the terminator.

/// What the text says of a function.
#[derive(Debug, PartialEq, Eq)]
pub struct Counts {
    pub name: String,
    pub blocks: usize,
    pub edges: usize,
    pub instructions: usize,
    pub calls: usize,
    pub memory: usize,
}

/// The functions with bodies, in order.
pub fn functions(text: &str) -> Vec<Counts> {
    let mut functions: Vec<Counts> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("define ") {
            inside = true;
            functions.push(Counts {
                name: defined_name(line),
                blocks: 0,
                edges: 0,
                instructions: 0,
                calls: 0,
                memory: 0,
            });
        } else if line == "}" {
            inside = false;
        } else if inside {
            count(functions.last_mut().expect("within a function"), line);
        }
    }
    functions
}

fn count(function: &mut Counts, line: &str) {
    let code = line.split(" ; ").next().unwrap_or(line);
    if code.is_empty() {
        return;
    }
    let is_label = !code.starts_with(' ') && code.trim_end().ends_with(':');
    // The entry block has a label only when the compiler names blocks.
    if is_label || function.blocks == 0 {
        function.blocks += 1;
    }
    if is_label {
        return;
    }
    function.edges += code.matches("label %").count();
    let is_instruction =
        code.starts_with("  ") && !code.starts_with("   ") && !code.starts_with("  ]");
    if !is_instruction {
        return;
    }
    function.instructions += 1;
    let operation = code.trim_start().split_once(" = ").map_or(code.trim_start(), |(_, it)| it);
    let word = operation.split(' ').next().unwrap_or_default();
    let is_call = matches!(word, "call" | "invoke" | "callbr")
        || matches!(word, "tail" | "musttail" | "notail") && operation.contains(" call ");
    function.calls += usize::from(is_call);
    function.memory +=
        usize::from(matches!(word, "load" | "store" | "atomicrmw" | "cmpxchg" | "alloca"));
}

/// The name in `define … @name(`, or `@"name"(`.
fn defined_name(line: &str) -> String {
    let (_, rest) = line.split_once(" @").expect("a definition has a name");
    let name = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split('(').next(),
    };
    name.expect("a name ends").replace("\\01", "")
}
