//! Every JSON document keeps to its published schema.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn backtrail(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backtrail"));
    command.args(words);
    command
}

fn schema(name: &str) -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(name);
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn check(schema: &jsonschema::Validator, document: &str) -> Value {
    let value: Value = serde_json::from_str(document).unwrap();
    let errors: Vec<_> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?} in {document}");
    value
}

/// A program of C, C++-mangled names and assembly, and its log variant.
fn build(folder: &Path) -> (PathBuf, PathBuf) {
    std::fs::write(
        folder.join("a.cc"),
        "extern \"C\" int two(void);\nnamespace n { int f(int x) { return x > 1 ? two() : 1; } }\n\
         int main(int c, char **) { return n::f(c) - 1; }\n",
    )
    .unwrap();
    std::fs::write(
        folder.join("b.s"),
        ".globl two\ntwo: movl $2, %eax\nret\n.section .note.GNU-stack\n",
    )
    .unwrap();
    let program = folder.join("program");
    let variant = folder.join("variant");
    run(backtrail(&["c++", "-O1"]).args(["a.cc", "b.s", "-o"]).arg(&program).current_dir(folder));
    run(backtrail(&["instrument", "--scheme", "log", "-o"]).arg(&variant).arg(&program));
    (program, variant)
}

#[test]
fn info_of_a_program_and_of_its_variant() {
    let folder = tempfile::tempdir().unwrap();
    let (program, variant) = build(folder.path());
    let schema = schema("info-1.json");
    let document = check(&schema, &run(backtrail(&["info", "--json"]).arg(&program)));
    assert_eq!(document["units"][0]["carried"], "yes");
    assert_eq!(document["native"][0]["why"], "assembly");
    let names: Vec<_> =
        document["functions"].as_array().unwrap().iter().map(|f| &f["demangled"]).collect();
    assert_eq!(names, ["n::f(int)", "main"]);
    let of_variant = check(&schema, &run(backtrail(&["info", "--json"]).arg(&variant)));
    assert_eq!(of_variant["variant"], "log");
    assert_eq!(of_variant["derived_from"], document["build_id"]);

    // The schema is strict enough to notice something.
    let mut broken = document.clone();
    broken["functions"][0]["acyclic_paths"] = Value::from(3);
    assert!(!schema.is_valid(&broken));
}

#[test]
fn show_prints_a_header_and_a_line_per_block() {
    let folder = tempfile::tempdir().unwrap();
    let (_, variant) = build(folder.path());
    let records = folder.path().join("records");
    run(Command::new(&variant).env("BACKTRAIL_DIR", &records));
    let shown = run(backtrail(&["show", "--json"]).arg(&records));
    let schema = schema("show-1.json");
    let lines: Vec<Value> = shown.lines().map(|line| check(&schema, line)).collect();
    assert_eq!(lines[0]["schema"], "backtrail.show/1");
    assert!(lines.len() >= 2, "{shown}");
    assert!(lines[1..].iter().all(|line| line["function"].is_string()));
}

#[test]
fn paths_of_a_log_say_how_far_unfinished_paths_got() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = "#include <stdlib.h>\nvoid leave(int x) { if (x) exit(0); }\n\
                  int main(int c, char **v) { (void)v; if (c == 1) leave(c); return 1; }\n";
    std::fs::write(folder.join("a.c"), source).unwrap();
    run(backtrail(&["cc", "-O0", "a.c", "-o", "program"]).current_dir(folder));
    let schema = schema("paths-1.json");
    let partial = |scheme: &str| {
        let variant = format!("program.{scheme}");
        let words = ["instrument", "--scheme", scheme, "-o", &variant, "program"];
        run(backtrail(&words).current_dir(folder));
        let records = folder.join(scheme);
        run(Command::new(folder.join(&variant)).env("BACKTRAIL_DIR", &records));
        let document = check(&schema, &run(backtrail(&["paths", "--json"]).arg(&records)));
        let functions = document["functions"].as_array().unwrap();
        let main = functions.iter().find(|function| function["name"] == "main").unwrap();
        assert_eq!(main["unfinished"], 1, "{main}");
        main["partial"].clone()
    };
    assert_eq!(partial("profile"), serde_json::json!([]));
    let known = serde_json::json!([{ "starts": "entry", "blocks": ["b0", "b1"], "count": 1 }]);
    assert_eq!(partial("log"), known);
}
