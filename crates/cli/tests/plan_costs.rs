//! `backtrail plan`: costs that are computed are those that are paid, and the
//! document keeps to its schema.

mod profile_program;

use std::path::Path;

use profile_program::{Program, fixture};
use serde_json::Value;

fn plans(program: &Program, words: &[&str]) -> Value {
    let words = [&["plan", "--weights", "one", "--json"], words, &["./program"]].concat();
    let document: Value = serde_json::from_str(&program.backtrail(&words)).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/plan-1.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = schema.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    document
}

#[test]
fn the_document_says_what_each_strategy_costs() {
    let program = Program::c(&fixture("words.c"), &["-O2"]);
    program.backtrail(&["profile", "-o", "one", "./program", "--", "9"]);
    let document = plans(&program, &["--copies", "1,3"]);
    let all = document["plans"].as_array().unwrap();
    assert_eq!(all.len(), 8);
    for plan in all {
        let hits: Vec<u64> =
            plan["hits"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).collect();
        let copies = plan["copies"].as_u64().unwrap();
        assert_eq!(hits.len() as u64, copies);
        assert_eq!(plan["hits_worst"].as_u64(), hits.iter().max().copied());
        let [saved, bound] = ["vs_sbl", "bound"].map(|key| plan[key].as_f64().unwrap());
        assert!(saved <= bound + 1e-9, "{plan}");
        if copies == 1 || plan["strategy"] == "sbl" {
            assert_eq!(saved, 0.0, "{plan}");
        }
    }
    // Whole functions are spread: nothing is counted twice.
    let total = |strategy: &str| -> u64 {
        let is_it = |plan: &&Value| plan["strategy"] == strategy && plan["copies"] == 3;
        let plan = all.iter().find(is_it).unwrap();
        plan["hits"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).sum()
    };
    assert_eq!(total("sbl"), total("pbl"));
    assert!(total("sbl") > 100);
}

#[test]
fn a_function_is_explained_or_it_is_said_that_there_is_none() {
    let program = Program::c(&fixture("words.c"), &["-O2"]);
    program.backtrail(&["profile", "-o", "one", "./program", "--", "9"]);
    let document = plans(&program, &["--copies", "2", "--explain", "main"]);
    let explained = document["explained"].as_array().unwrap();
    assert_eq!(explained.len(), 4);
    for one in explained {
        assert_eq!(one["name"], "main");
        assert!(!one["parts"].as_array().unwrap().is_empty(), "{one}");
    }
    let words = ["plan", "--weights", "one", "--explain", "nobody", "./program"];
    let (code, message) = program.refused(&words);
    assert_eq!(code, 2, "{message}");
    assert!(
        message.contains("no function of program that is counted is called nobody"),
        "{message}"
    );
    let text = program.backtrail(&["plan", "--weights", "one", "--copies", "2", "./program"]);
    assert!(text.contains("adaptive") && text.contains("bound"), "{text}");
}
