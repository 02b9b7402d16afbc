//! The options of `clang -cc1` for each of the two steps.
//!
//! Step one compiles the source to optimised bitcode with line tables; step two
//! generates code from it. Together they give the code that one step gives: the
//! first runs the same passes, and the second is told to run none.
//!
//! What is not known to matter to one step alone is given to both. An option
//! that the second step cannot take makes it fail, and then the object is made
//! in one step and carries no IR: never wrong, only less.

/// Options that only the first step needs, written as one word or a prefix.
const FIRST_STEP_PREFIXES: [&str; 22] = [
    "-D",
    "-U",
    "-I",
    "-W",
    "-std=",
    "-fmodules",
    "-fmodule-",
    "-fprebuilt-module-path=",
    "-fprofile-instrument-use-path=",
    "-fprofile-sample-use=",
    "-fprofile-remapping-file=",
    "-fprofile-list=",
    "-fsanitize-ignorelist=",
    "-fsanitize-system-ignorelist=",
    "-fsanitize-coverage-allowlist=",
    "-fsanitize-coverage-ignorelist=",
    "-fpass-plugin=",
    "-plugin-arg-",
    "-fdepfile-entry=",
    // How messages look must not change what is carried.
    "-fcolor-diagnostics",
    "-fmessage-length=",
    "-fdiagnostics-",
];

/// Options that only the first step needs, with their value as a word of its own.
const FIRST_STEP_VALUES: [&str; 30] = [
    "-D",
    "-U",
    "-I",
    "-include",
    "-include-pch",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iframework",
    "-isysroot",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-internal-isystem",
    "-internal-externc-isystem",
    "-cxx-isystem",
    "-c-isystem",
    "-dependency-file",
    "-MT",
    "-header-include-file",
    "-dependency-dot",
    "-module-dependency-dir",
    "-serialize-diagnostic-file",
    "-diagnostic-log-file",
    "-mlink-builtin-bitcode",
    "-load",
    "-add-plugin",
    "-ferror-limit",
    "-dumpdir",
];

/// Options that only the first step needs, as one word.
const FIRST_STEP_WORDS: [&str; 8] =
    ["-MP", "-MG", "-MV", "-sys-header-deps", "-w", "-v", "-H", "-detailed-preprocessing-record"];

/// Options under which a compilation writes or prints something from both steps
/// that belongs together, by prefix. The object is then made in one step, as
/// clang would, and the two steps only give what is carried.
const ONE_STEP_PREFIXES: [&str; 9] = [
    "-R",
    "-stack-usage-file",
    "-opt-record-",
    "-ftime-trace",
    "-ftime-report",
    "-print-stats",
    "-stats-file",
    "-fembed-bitcode",
    "-fproc-stat-report",
];

/// Options that name what a compilation writes besides the object and what its
/// code refers to, with their value as a word of its own.
const SIDE_OUTPUT_VALUES: [&str; 10] = [
    "-stack-usage-file",
    "-split-dwarf-file",
    "-split-dwarf-output",
    "-opt-record-file",
    "-opt-record-passes",
    "-opt-record-format",
    "-dependency-file",
    "-header-include-file",
    "-serialize-diagnostic-file",
    "-MT",
];

/// The same, as one word.
const SIDE_OUTPUT_PREFIXES: [&str; 10] = [
    "-R",
    "-ftime-trace",
    "-ftime-report",
    "-print-stats",
    "-stats-file",
    "-fembed-bitcode",
    "-fproc-stat-report",
    "-save-temps",
    "-fmodule-output",
    "-sys-header-deps",
];

/// The end of a `-cc1` command: what is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The language (`c`, `c++`, `cpp-output`, `ir`, …).
    pub language: String,
    /// The file; `-` is standard input.
    pub path: String,
}

/// What a `-cc1` command compiles: its `-x LANGUAGE FILE`.
pub fn source(arguments: &[String]) -> Option<Source> {
    let at = arguments.iter().rposition(|argument| argument == "-x")?;
    match &arguments[at + 1..] {
        [language, path] => Some(Source { language: language.clone(), path: path.clone() }),
        _ => None,
    }
}

/// `arguments` without the option `name` and the word behind it.
fn without_value(arguments: &[String], name: &str) -> Vec<String> {
    let mut kept = Vec::with_capacity(arguments.len());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == name {
            words.next();
        } else {
            kept.push(word.clone());
        }
    }
    kept
}

/// Step one: the same compilation to bitcode at `bitcode`.
pub fn first_step(arguments: &[String], bitcode: &str, debug_wanted: bool) -> Vec<String> {
    let mut words = without_value(arguments, "-o");
    for word in &mut words {
        if word == "-emit-obj" {
            *word = "-emit-llvm-bc".to_owned();
        }
    }
    // Input comes last, so options go before `-x`.
    let at = words.iter().rposition(|word| word == "-x").unwrap_or(words.len());
    let mut added = vec!["-emit-llvm-uselists".to_owned()];
    if !debug_wanted {
        added.push("-debug-info-kind=line-tables-only".to_owned());
    }
    added.extend(["-o".to_owned(), bitcode.to_owned()]);
    words.splice(at..at, added);
    words
}

/// Step two: the options for generating code, without input and output.
pub fn second_step(arguments: &[String]) -> Vec<String> {
    let mut words = without_value(&without_value(arguments, "-o"), "-x");
    // What stood behind `-x LANGUAGE` is the source.
    words.pop();
    let mut kept = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "-mllvm" || word == "-Xclang" {
            kept.push(word);
            kept.extend(words.next());
        } else if FIRST_STEP_VALUES.contains(&word.as_str()) {
            words.next();
        } else if !FIRST_STEP_WORDS.contains(&word.as_str())
            && !FIRST_STEP_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
        {
            kept.push(word);
        }
    }
    kept.push("-disable-llvm-passes".to_owned());
    kept
}

/// Between the two: the options for optimising bitcode that step one left
/// unoptimised, to `bitcode`, without input.
pub fn optimising_step(arguments: &[String], bitcode: &str) -> Vec<String> {
    let mut words = second_step(arguments);
    words.retain(|word| word != "-disable-llvm-passes");
    for word in &mut words {
        if word == "-emit-obj" {
            *word = "-emit-llvm-bc".to_owned();
        }
    }
    words.extend(["-emit-llvm-uselists", "-o", bitcode].map(str::to_owned));
    words
}

/// Whether the user asked for debug information.
pub fn debug_wanted(arguments: &[String]) -> bool {
    arguments.iter().any(|word| word.starts_with("-debug-info-kind="))
}

/// Whether the object must be made in one step: see `ONE_STEP_PREFIXES`.
pub fn needs_one_step(arguments: &[String]) -> bool {
    // Sanitizers make use of lines where they have them: the address sanitizer
    // names them in its descriptions of stack frames, the memory sanitizer tells
    // origins apart by them.
    let goes_by_lines = |word: &String| word.starts_with("-fsanitize=");
    if !debug_wanted(arguments) && arguments.iter().any(goes_by_lines) {
        return true;
    }
    let prefixed = |word: &String| ONE_STEP_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    // The values of these options may look like anything.
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if ["-mllvm", "-main-file-name", "-o", "-D", "-U", "-MT", "-x"].contains(&&**word) {
            words.next();
        } else if prefixed(word) {
            return true;
        }
    }
    false
}

/// Options without those that write or print something besides the object: for
/// deriving a variant, and for a second compilation of a unit.
pub fn without_side_outputs(arguments: &[String]) -> Vec<String> {
    let mut kept = Vec::with_capacity(arguments.len());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "-mllvm" {
            kept.push(word.clone());
            kept.extend(words.next().cloned());
        } else if SIDE_OUTPUT_VALUES.contains(&word.as_str()) {
            words.next();
        } else if !SIDE_OUTPUT_PREFIXES.iter().any(|prefix| word.starts_with(prefix)) {
            kept.push(word.clone());
        }
    }
    kept
}

/// `arguments` with the values of `options` made absolute.
pub fn with_absolute(arguments: &[String], options: &[&str]) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    for at in 1..arguments.len() {
        if options.contains(&arguments[at - 1].as_str())
            && let Ok(path) = std::path::absolute(&arguments[at])
        {
            arguments[at] = path.display().to_string();
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_two_steps_share_out_the_options() {
        let all = words(
            "-cc1 -triple x86_64 -emit-obj -main-file-name a.c -D X=1 -DY -I inc -O2 -Wall \
             -dependency-file a.d -MT a.o -mllvm -Dfoo -o a.o -x c a.c",
        );
        assert_eq!(source(&all).unwrap().path, "a.c");
        let first = first_step(&all, "t.bc", false).join(" ");
        assert!(
            first.ends_with(
                "-emit-llvm-uselists -debug-info-kind=line-tables-only -o t.bc -x c a.c"
            )
        );
        assert!(first.contains("-emit-llvm-bc") && !first.contains("-emit-obj"));
        let second = second_step(&all).join(" ");
        assert_eq!(
            second,
            "-cc1 -triple x86_64 -emit-obj -main-file-name a.c -O2 -mllvm -Dfoo -disable-llvm-passes"
        );
    }
}
