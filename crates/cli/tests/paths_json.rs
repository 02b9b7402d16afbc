//! `backtrail paths --json` keeps to its schema and says what the profile says.

use std::path::Path;
use std::process::Command;

use backtrail_profile::file::write_profile;
use backtrail_profile::model::Profile;
use backtrail_testkit::random_profile::{program, run};
use backtrail_testkit::sample_profile;
use serde_json::{Value, json};

fn schema() -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/paths-1.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn document(profile: &Profile, words: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p"), write_profile(profile).unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_backtrail"));
    command.args(["paths", "p", "--json"]).args(words).current_dir(folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_document_keeps_to_the_schema() {
    let schema = schema();
    for seed in 0..20 {
        let mut profile = run(&program(seed, 6, 12), seed).0;
        if seed % 2 == 0 {
            profile.incomplete = vec!["a kill".to_owned(), "a full disk".to_owned()];
            profile.build_id.clear();
        }
        let document = document(&profile, &[]);
        let errors: Vec<_> = schema.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{seed}: {errors:#?}");
        assert_eq!(document["functions"].as_array().unwrap().len(), profile.functions.len());
        let incomplete = if seed % 2 == 0 { json!("a kill; a full disk") } else { Value::Null };
        assert_eq!(document["incomplete"], incomplete);
    }
}

#[test]
fn the_sample_says_what_was_counted() {
    let document = document(&sample_profile::other_profile("scan.c"), &["--function", "scan"]);
    assert!(schema().is_valid(&document));
    let functions = document["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 1);
    let scan = &functions[0];
    assert_eq!(scan["id"], "scan.c#scan");
    assert_eq!((&scan["file"], &scan["line"]), (&json!("scan.c"), &json!(9)));
    assert_eq!((&scan["entries"], &scan["unfinished"]), (&json!(100_001), &json!(1)));
    assert_eq!(scan["edges_exact"], json!(false));
    assert_eq!(scan["partial"], json!([]));
    assert_eq!(
        scan["paths"][2],
        json!({
            "id": "6", "count": 800_000, "starts": "loop", "within": false, "ends": "loop",
            "next": "b1", "blocks": ["b1", "b2", "b3", "b5", "b8"],
            "decisions": ["true", "case 97", "false", "", ""],
            "lines": ["scan.c:11", "scan.c:12", "scan.c:4", "scan.c:6", "scan.c:13", "scan.c:11"],
            "own_lines":
                ["scan.c:11", "scan.c:12", "scan.c:4", "scan.c:6", "scan.c:13", "scan.c:11"],
        })
    );
    let edge =
        json!({ "from": "b2", "to": "b6", "decision": "case 98", "count": 400_000, "ran": true });
    assert!(scan["edges"].as_array().unwrap().contains(&edge), "{}", scan["edges"]);
    assert_eq!((&scan["ran"], &scan["activations_exact"]), (&json!("yes"), &json!(true)));

    // The schema is strict enough to notice something.
    for (pointer, value) in [
        ("/functions/0/acyclic_paths", json!(10)),
        ("/functions/0/paths/0/starts", json!("middle")),
        ("/functions/0/paths/0/count", json!(0)),
        ("/functions/0/edges/0/from", json!(0)),
        ("/functions/0/edges/0/ran", json!(1)),
        ("/functions/0/ran", json!("maybe")),
        ("/incomplete", json!(false)),
    ] {
        let mut broken = document.clone();
        *broken.pointer_mut(pointer).unwrap() = value;
        assert!(!schema().is_valid(&broken), "{pointer}");
    }
}
