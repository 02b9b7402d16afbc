//! Comparing two path profiles of one process, both as `backtrail paths --json`
//! prints them: one from counters, one worked out from a block log.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a comparison found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Functions that ran.
    pub ran: usize,
    /// Those that differ, a sentence each that begins with the function's name.
    pub different: Vec<String>,
    /// Functions that are counted whole, cut, and not at all.
    pub ways: (usize, usize, usize),
}

/// Compares what was counted with what was logged.
pub fn compare(counted: &Value, logged: &Value) -> Compared {
    let mut compared = Compared::default();
    let (ours, theirs) = (functions(counted), functions(logged));
    for (id, function) in &ours {
        match function["instrumented"].as_str().unwrap_or_default() {
            "whole" => compared.ways.0 += 1,
            "cut" => compared.ways.1 += 1,
            _ => compared.ways.2 += 1,
        }
        let Some(other) = theirs.get(id) else {
            compared.different.push(format!("{}: it is not in the log", name(function)));
            continue;
        };
        let same = paths(function) == paths(other)
            && ["entries", "unfinished"].iter().all(|key| function[key] == other[key]);
        // What a fork inherited is in the log of its parent, or in no counter.
        let inherited = function["inherited"].as_u64().unwrap_or(0) > 0
            || function["activations_exact"] == Value::Bool(false);
        if !paths(function).is_empty() || !paths(other).is_empty() {
            compared.ran += 1;
            if !same && !inherited {
                compared.different.push(explain(function, other));
            }
        }
    }
    compared
}

fn explain(ours: &Value, theirs: &Value) -> String {
    let (a, b) = (paths(ours), paths(theirs));
    let ids = a.keys().chain(b.keys());
    let first = ids.filter(|id| a.get(*id) != b.get(*id)).min();
    let count = |all: &BTreeMap<String, u64>, id: &str| all.get(id).copied().unwrap_or(0);
    let path = match first {
        Some(id) => format!("path {id} {} times, logged {}", count(&a, id), count(&b, id)),
        None => "the same paths".to_owned(),
    };
    format!(
        "{}: {path}; entries {} and {}, unfinished {} and {}",
        name(ours),
        ours["entries"],
        theirs["entries"],
        ours["unfinished"],
        theirs["unfinished"]
    )
}

fn name(function: &Value) -> &str {
    function["name"].as_str().unwrap_or("?")
}

fn functions(profile: &Value) -> BTreeMap<String, &Value> {
    let all = profile["functions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let id = |function: &Value| function["id"].as_str().unwrap_or_default().to_owned();
    all.iter().map(|function| (id(function), function)).collect()
}

fn paths(function: &Value) -> BTreeMap<String, u64> {
    let all = function["paths"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pair = |path: &Value| Some((path["id"].as_str()?.to_owned(), path["count"].as_u64()?));
    all.iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn profile(count: u64, entries: u64) -> Value {
        json!({ "functions": [
            { "id": "u#f", "name": "f", "instrumented": "whole", "entries": entries,
              "inherited": 0, "unfinished": 0, "paths": [{ "id": "3", "count": count }] },
            { "id": "u#g", "name": "g", "instrumented": "no: naked", "entries": 0,
              "inherited": 0, "unfinished": 0, "paths": [] },
        ] })
    }

    #[test]
    fn a_difference_is_named() {
        let same = compare(&profile(7, 7), &profile(7, 7));
        assert_eq!(same, Compared { ran: 1, different: vec![], ways: (1, 0, 1) });
        let other = compare(&profile(7, 7), &profile(6, 7));
        assert_eq!(
            other.different,
            ["f: path 3 7 times, logged 6; entries 7 and 7, unfinished 0 and 0"]
        );
        assert_eq!(compare(&profile(7, 7), &profile(7, 8)).different.len(), 1);
        assert_eq!(compare(&profile(7, 7), &json!({})).different.len(), 2);
    }
}
