//! What a trace adds up to is what is counted: how often each block, each edge and
//! each path of every function was executed.

mod profile_program;

use std::collections::BTreeMap;

use profile_program::{Program, fixture};
use serde_json::Value;

/// Counts by function: of edges, and of paths by their blocks.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    entries: u64,
    edges: BTreeMap<(String, String), u64>,
    paths: BTreeMap<Vec<String>, u64>,
}

type Functions = BTreeMap<String, Counts>;

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// What a profile says, and behind which edges its paths end.
fn counted(program: &Program) -> (Functions, Vec<(String, String, String)>) {
    let document = program.backtrail(&["paths", "--json", "counted.btprof"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    let mut functions = Functions::new();
    let mut ends = Vec::new();
    for function in document["functions"].as_array().unwrap() {
        let name = text(&function["demangled"]);
        let counts = functions.entry(name.clone()).or_default();
        counts.entries = function["entries"].as_u64().unwrap();
        for edge in function["edges"].as_array().unwrap() {
            let count = edge["count"].as_u64().unwrap();
            if count > 0 {
                counts.edges.insert((text(&edge["from"]), text(&edge["to"])), count);
            }
        }
        for path in function["paths"].as_array().unwrap() {
            let blocks: Vec<String> = path["blocks"].as_array().unwrap().iter().map(text).collect();
            if let Some(next) = path["next"].as_str() {
                ends.push((name.clone(), blocks.last().unwrap().clone(), next.to_owned()));
            }
            *counts.paths.entry(blocks).or_default() += path["count"].as_u64().unwrap();
        }
    }
    functions.retain(|_, counts| counts.entries > 0);
    (functions, ends)
}

/// What a trace adds up to.
fn traced(program: &Program, ends: &[(String, String, String)]) -> Functions {
    let shown = program.backtrail(&["show", "--json", "traced.bttrace"]);
    let mut functions = Functions::new();
    // By frame: the function and the blocks of the path under way.
    let mut frames: Vec<(String, Vec<String>)> = Vec::new();
    let finish = |functions: &mut Functions, (name, path): (String, Vec<String>)| {
        *functions.entry(name).or_default().paths.entry(path).or_default() += 1;
    };
    for line in shown.lines().skip(1) {
        let row: Value = serde_json::from_str(line).unwrap();
        let (name, block) = (text(&row["function"]), text(&row["block"]));
        let depth = row["depth"].as_u64().unwrap() as usize;
        while frames.len() > depth || (frames.len() == depth && block == "b0") {
            let frame = frames.pop().unwrap();
            finish(&mut functions, frame);
        }
        let counts = functions.entry(name.clone()).or_default();
        if frames.len() < depth {
            counts.entries += 1;
            frames.push((name, vec![block]));
            continue;
        }
        let (_, path) = frames.last_mut().unwrap();
        let edge = (path.last().unwrap().clone(), block.clone());
        *counts.edges.entry(edge.clone()).or_default() += 1;
        if ends.contains(&(name.clone(), edge.0, edge.1)) {
            let ended = std::mem::replace(path, vec![block]);
            finish(&mut functions, (name, ended));
        } else {
            path.push(block);
        }
    }
    for frame in frames {
        finish(&mut functions, frame);
    }
    functions
}

#[track_caller]
fn equal(program: &Program, options: &[&str], arguments: &[&str]) {
    let run = |verb: &str, output: &str, options: &[&str]| {
        let mut words = vec![verb, "-o", output];
        words.extend(options);
        words.extend(["./program", "--"]);
        words.extend(arguments);
        program.backtrail(&words);
    };
    run("profile", "counted.btprof", &[]);
    run("trace", "traced.bttrace", options);
    let (counted, ends) = counted(program);
    let traced = traced(program, &ends);
    assert!(counted.values().map(|it| it.paths.values().sum::<u64>()).sum::<u64>() > 20);
    for (name, wanted) in &counted {
        assert_eq!(traced.get(name), Some(wanted), "{name} by {options:?}");
    }
    assert_eq!(traced.len(), counted.len(), "{options:?}");
}

#[test]
fn of_loops() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trace/loops.c");
    let program = Program::c(&std::fs::read_to_string(path).unwrap(), &["-O1"]);
    equal(&program, &[], &["7"]);
    equal(&program, &["--witness", "node", "--runs", "2"], &["7"]);
}

#[test]
fn of_a_larger_program() {
    equal(&Program::c(&fixture("words.c"), &["-O2"]), &[], &["9"]);
}
