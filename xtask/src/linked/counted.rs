//! What `backtrail paths --json` tells of profiles, against what a log gives, against
//! the log itself, and against another profile.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::steps::Told;
use super::verdict::Verdict;

/// What is compared of a function, besides its paths.
const FIELDS: [&str; 4] = ["entries", "inherited", "unfinished", "edges_exact"];

/// Compares a profile with what walking over a log of every block gives, path by path.
/// The function `faulted`, in which the program died, is left out: how often it was
/// entered follows from paths, if nothing that it calls can end it, and the last has no
/// end (`docs/profiling.md`).
pub fn compare_with_walk(counted: &Value, walked: &Value, faulted: Option<&str>) -> Verdict {
    compare(counted, walked, faulted, "counts differ from the log's")
}

/// Compares the profile that several copies made with that of one run.
pub fn compare_copies(several: &Value, one: &Value, faulted: Option<&str>) -> Verdict {
    compare(several, one, faulted, "copies count something else than one run")
}

fn compare(counted: &Value, truth: &Value, faulted: Option<&str>, what: &str) -> Verdict {
    if executions(counted) == 0 && executions(truth) == 0 {
        return Verdict::wrong("nothing was counted", "no path of any function");
    }
    if !counted["incomplete"].is_null() {
        return Verdict::Labelled { why: counted["incomplete"].to_string() };
    }
    let (one, other) = (by_id(counted), by_id(truth));
    let mut less = truth["incomplete"].as_str().map(|why| format!("the log: {why}"));
    let ids: BTreeSet<&str> = one.keys().chain(other.keys()).copied().collect();
    for id in ids {
        let of = |functions: &BTreeMap<&str, &Value>| functions.get(id).copied().cloned();
        let (one, other) = (of(&one).unwrap_or_default(), of(&other).unwrap_or_default());
        // Activations that a fork's child inherited and did not end are in no counter.
        let is_told = one["activations_exact"] == Value::Bool(false);
        let fields = if is_told { &FIELDS[..1] } else { &FIELDS[..] };
        let same = || essence(&one, fields) == essence(&other, fields);
        let name = if one.is_null() { &other["name"] } else { &one["name"] };
        if faulted.is_some_and(|it| name.as_str() == Some(it)) || same() {
            continue;
        }
        // What a log that is not complete has less of is not known.
        if less.is_some() && is_part(&other, &one) {
            continue;
        }
        if let Some(why) = one["instrumented"].as_str().and_then(|it| it.strip_prefix("no: ")) {
            less = Some(format!("not counted: {why}"));
            continue;
        }
        let cut =
            |of: &Value| essence(of, fields).to_string().chars().take(300).collect::<String>();
        return Verdict::wrong(what, format!("{id}: {}, and not {}", cut(&one), cut(&other)));
    }
    match less {
        Some(why) => Verdict::Labelled { why },
        None => Verdict::Equal,
    }
}

fn by_id(document: &Value) -> BTreeMap<&str, &Value> {
    let functions = document["functions"].as_array().map(Vec::as_slice).unwrap_or_default();
    functions.iter().filter_map(|it| Some((it["id"].as_str()?, it))).collect()
}

/// What is to be the same of a function: nothing, if it did not run. How far paths got
/// that did not end is known to a log alone.
fn essence(function: &Value, fields: &[&str]) -> Value {
    let count = |field: &str| function[field].as_u64().unwrap_or_default();
    let paths = function["paths"].as_array().cloned().unwrap_or_default();
    let has_run = !paths.is_empty() || fields.iter().any(|field| count(field) > 0);
    if !has_run {
        return Value::Null;
    }
    let mut essence = serde_json::Map::new();
    for &field in fields.iter().chain(&["paths"]) {
        essence.insert(field.to_owned(), function[field].clone());
    }
    essence.into()
}

/// Whether a function has no more entries than another, and of no path more.
fn is_part(part: &Value, whole: &Value) -> bool {
    let count = |of: &Value, field: &str| of[field].as_u64().unwrap_or_default();
    let paths = |of: &Value| of["paths"].as_array().cloned().unwrap_or_default();
    let in_whole = |path: &Value| {
        let same = paths(whole).into_iter().find(|it| it["id"] == path["id"]);
        same.is_some_and(|it| count(path, "count") <= count(&it, "count"))
    };
    count(part, "entries") <= count(whole, "entries") && paths(part).iter().all(in_whole)
}

/// Compares how often functions were entered with how often the log has their first
/// blocks, to which nothing leads back. Functions of one name are added up: a log does
/// not tell them apart.
pub fn compare_entries(counted: &Value, log: &Told, faulted: Option<&str>) -> Verdict {
    let mut entries: BTreeMap<&str, u64> = BTreeMap::new();
    let mut left_out: BTreeSet<&str> = faulted.into_iter().collect();
    let functions = counted["functions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for function in functions {
        let Some(name) = function["name"].as_str() else { continue };
        // That these are not counted is said, and is a label of the profile.
        if function["instrumented"].as_str().is_none_or(|it| it.starts_with("no:")) {
            left_out.insert(name);
        }
        *entries.entry(name).or_default() += function["entries"].as_u64().unwrap_or_default();
    }
    if entries.values().all(|it| *it == 0) {
        return Verdict::wrong("nothing was counted", "no function was entered");
    }
    let mut logged: BTreeMap<&str, u64> = BTreeMap::new();
    for step in log.steps().filter(|it| it.block == "b0") {
        *logged.entry(&step.function).or_default() += 1;
    }
    let names: Vec<&str> = entries.keys().chain(logged.keys()).copied().collect();
    for name in names.into_iter().filter(|it| !left_out.contains(it)) {
        let of = |counts: &BTreeMap<&str, u64>| counts.get(name).copied().unwrap_or_default();
        if of(&entries) != of(&logged) {
            let detail =
                format!("{name} is entered {} times, and not {}", of(&entries), of(&logged));
            return Verdict::wrong("entries differ from the log's", detail);
        }
    }
    Verdict::Equal
}

/// How many paths were counted.
fn executions(document: &Value) -> u64 {
    let functions = document["functions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let paths = functions.iter().filter_map(|it| it["paths"].as_array()).flatten();
    let entries = functions.iter().filter_map(|it| it["entries"].as_u64());
    paths.filter_map(|it| it["count"].as_u64()).sum::<u64>() + entries.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::steps::{Step, Thread};
    use super::*;

    fn document(entries: u64, count: u64) -> Value {
        json!({
            "incomplete": null,
            "functions": [{
                "id": "a.c#f", "name": "f", "instrumented": "whole", "entries": entries,
                "inherited": 0, "unfinished": 0, "edges_exact": true, "partial": [],
                "paths": [{ "id": "0", "count": count, "blocks": ["b0"] }],
            }],
        })
    }

    fn log(entries: usize) -> Told {
        let step =
            |block: &str| Step { depth: 1, function: "f".into(), block: block.into(), line: None };
        let steps = (0..entries).flat_map(|_| [step("b0"), step("b1")]).collect();
        let threads = vec![Thread { id: (0, 1, 0), unknown: None, steps }];
        Told { incomplete: None, ended_by: None, threads }
    }

    #[test]
    fn every_planted_fault_is_found() {
        for compare in [compare_with_walk, compare_copies] {
            assert_eq!(compare(&document(3, 3), &document(3, 3), None), Verdict::Equal);
            assert!(compare(&document(3, 3), &document(3, 4), None).is_wrong());
            assert!(compare(&document(2, 3), &document(3, 3), None).is_wrong());
            assert!(compare(&json!({ "functions": [] }), &document(3, 3), None).is_wrong());
            assert!(compare(&document(3, 3), &json!({ "functions": [] }), None).is_wrong());
            let mut other = document(3, 3);
            other["functions"][0]["paths"][0]["blocks"] = json!(["b0", "b1"]);
            assert!(compare(&document(3, 3), &other, None).is_wrong());
            other = document(3, 3);
            other["functions"][0]["id"] = json!("b.c#f");
            assert!(compare(&document(3, 3), &other, None).is_wrong());
            // But for what a fault left.
            assert_eq!(compare(&document(2, 3), &document(3, 3), Some("f")), Verdict::Equal);
            assert!(compare(&document(2, 3), &document(3, 3), Some("g")).is_wrong());
        }
        assert_eq!(compare_entries(&document(3, 3), &log(3), None), Verdict::Equal);
        assert!(compare_entries(&document(3, 3), &log(2), None).is_wrong());
        assert!(compare_entries(&document(2, 3), &log(3), None).is_wrong());
        assert_eq!(compare_entries(&document(2, 3), &log(3), Some("f")), Verdict::Equal);
        let mut renamed = document(3, 3);
        renamed["functions"][0]["name"] = json!("g");
        assert!(compare_entries(&renamed, &log(3), None).is_wrong());
    }

    #[test]
    fn what_is_not_known_is_labelled_and_no_more_than_that() {
        let labelled = |it: Verdict| matches!(it, Verdict::Labelled { .. });
        let mut cut = document(2, 2);
        cut["incomplete"] = json!("the disk was full");
        assert!(labelled(compare_with_walk(&cut, &document(3, 3), None)));
        assert!(labelled(compare_with_walk(&document(3, 3), &cut, None)));
        assert!(compare_with_walk(&document(1, 1), &cut, None).is_wrong());
        let mut not = document(0, 0);
        not["functions"][0]["instrumented"] = json!("no: not planned");
        not["functions"][0]["paths"] = json!([]);
        assert!(labelled(compare_with_walk(&not, &document(3, 3), None)));
        // What did not run may be missing.
        let mut both = document(3, 3);
        let mut idle = not["functions"][0].clone();
        idle["id"] = json!("a.c#idle");
        both["functions"].as_array_mut().unwrap().push(idle);
        assert_eq!(compare_copies(&document(3, 3), &both, None), Verdict::Equal);
    }

    #[test]
    fn nothing_is_not_equal_to_nothing() {
        let mut nothing = document(0, 0);
        nothing["functions"][0]["paths"] = json!([]);
        assert!(compare_with_walk(&nothing, &nothing, None).is_wrong());
        assert!(compare_copies(&nothing, &nothing, None).is_wrong());
        assert!(compare_entries(&nothing, &log(0), None).is_wrong());
        let none = json!({ "functions": [] });
        assert!(compare_with_walk(&none, &none, None).is_wrong());
    }
}
