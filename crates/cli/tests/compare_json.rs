//! `backtrail paths --compare --json` keeps to its schema and says what changed.

use std::path::Path;
use std::process::Command;

use backtrail_profile::file::write_profile;
use backtrail_profile::model::Profile;
use backtrail_testkit::random_profile::{program, run};
use backtrail_testkit::sample_profile::{other_profile, profile};
use serde_json::{Value, json};

fn schema() -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/compare-1.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

/// The status and the document, which keeps to the schema.
fn compared(before: &Profile, after: &Profile, words: &[&str]) -> (Option<i32>, Value) {
    let folder = tempfile::tempdir().unwrap();
    for (name, profile) in [("a", before), ("b", after)] {
        std::fs::write(folder.path().join(name), write_profile(profile).unwrap()).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_backtrail"));
    command.args(["paths", "--compare", "a", "b", "--json"]).args(words);
    let output = command.current_dir(folder.path()).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = serde_json::from_slice(&output.stdout).unwrap();
    let errors: Vec<_> = schema().iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?} in {document:#}");
    (output.status.code(), document)
}

#[test]
fn every_document_keeps_to_the_schema() {
    let mut changed = 0;
    for seed in 0..10 {
        let program = program(seed, 6, 12);
        let (before, mut after) = (run(&program, seed).0, run(&program, seed + 100).0);
        if seed % 2 == 0 {
            after.incomplete = vec!["a kill".to_owned(), "a full disk".to_owned()];
            after.build_id.clear();
            after.layout = *b"some other build";
        }
        let (code, document) = compared(&before, &after, &[]);
        assert_eq!((code, &document["limit"]), (Some(0), &Value::Null));
        let by = if seed % 2 == 0 { "lines" } else { "id" };
        assert_eq!(document["matched_by"], by);
        changed += document["functions"].as_array().unwrap().len();
    }
    assert!(changed > 10, "{changed}");
}

#[test]
fn the_sample_says_what_changed() {
    let (before, after) = (profile("scan.c"), other_profile("scan.c"));
    let (code, document) = compared(&before, &after, &["--fail-over", "18"]);
    assert_eq!(code, Some(1));
    assert_eq!(document["before"]["build_id"], "5ca0");
    let functions = document["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 1);
    let scan = &functions[0];
    assert_eq!((&scan["id"], &scan["finding"]), (&json!("scan.c#scan"), &json!(true)));
    assert_eq!(scan["executions"], json!({ "before": 1_600_000, "after": 1_900_000 }));
    assert_eq!((&scan["executions_percent"], &scan["edges_exact"]), (&json!(18.75), &json!(false)));
    let path = &scan["paths"][0];
    assert_eq!(path["counts"], json!({ "before": 100_000, "after": 400_000 }));
    assert_eq!(path["ids"]["before"], path["ids"]["after"]);
    assert_eq!(path["lines"][0], "scan.c:11");
    assert_eq!(document["limit"]["findings"], 1);

    let (code, document) = compared(&before, &before, &["--fail-over", "0"]);
    assert_eq!((code, &document["functions"]), (Some(0), &json!([])));
    assert_eq!(document["unchanged"], 2);

    // The schema is strict enough to notice something.
    let mut broken = document.clone();
    broken["before"]["executions"] = Value::from("many");
    assert!(!schema().is_valid(&broken));
}
