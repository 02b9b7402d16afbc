//! What `backtrail autopsy --json --blocks` says cannot have run, against the log of
//! every block of the same crash.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::steps::{self, Told};
use super::verdict::Verdict;

/// Nothing that the log has of the first process, which is the one that crashes, may be
/// called impossible: what those did that it forked is not in its memory. Of functions of one name, which a
/// log does not tell apart, all would have to be.
pub fn compare(told: &Value, log: &Told) -> Verdict {
    if log.ended_by.is_none() {
        return Verdict::wrong("the log is of no crash", "no signal ended it");
    }
    if let Some(wrong) = steps::not_the_truth(log) {
        return wrong;
    }
    let Some(rows) = told["code"].as_array().filter(|it| !it.is_empty()) else {
        return Verdict::wrong("nothing is said of what can have run", told["remarks"].to_string());
    };
    // By name: of how many functions of it a block is called impossible.
    let mut functions: BTreeMap<&str, u64> = BTreeMap::new();
    let mut impossible: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut known: BTreeSet<(&str, &str)> = BTreeSet::new();
    for row in rows {
        let name = row["function"].as_str().unwrap_or_default();
        *functions.entry(name).or_default() += 1;
        for block in texts(&row["impossible"]) {
            *impossible.entry((name, block)).or_default() += 1;
            known.insert((name, block));
        }
        known.extend(texts(&row["possible"]).map(|block| (name, block)));
    }
    let names: BTreeSet<&str> = texts(&told["impossible"]["functions"]).collect();
    let lines: BTreeSet<&str> = texts(&told["impossible"]["lines"]).collect();
    let mut judged = 0;
    let crashed = log.threads.iter().filter(|it| it.id.0 == 0);
    for step in crashed.flat_map(|it| &it.steps) {
        let place = (&step.function[..], &step.block[..]);
        let count = functions.get(place.0).copied().unwrap_or_default();
        if known.contains(&place) {
            judged += 1;
        }
        if count > 0 && impossible.get(&place) == Some(&count) {
            let detail = format!("{} {}", place.0, place.1);
            return Verdict::wrong("a block that ran is said not to have run", detail);
        }
        if count == 1 && names.contains(place.0) {
            return Verdict::wrong("a function that ran is said not to have run", place.0);
        }
        if let Some(line) = step.line.as_deref().filter(|it| lines.contains(it)) {
            let line = line.rsplit('/').next().unwrap_or(line);
            return Verdict::wrong("a line that ran is said not to have run", line);
        }
    }
    match judged {
        0 => Verdict::wrong("nothing that ran is known to the autopsy", ""),
        _ => Verdict::Equal,
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::steps::{Step, Thread};
    use super::*;

    fn log() -> Told {
        let step = |function: &str, block: &str, line: &str| Step {
            depth: 1,
            function: function.into(),
            block: block.into(),
            line: Some(line.into()),
        };
        let steps = vec![
            step("main", "b0", "/d/a.c:1"),
            step("f", "b0", "/d/a.c:5"),
            step("f", "b2", "/d/a.c:7"),
            step("main", "b1", "/d/a.c:2"),
        ];
        let threads = vec![Thread { id: (0, 1, 0), unknown: None, steps }];
        Told { incomplete: None, ended_by: Some("SIGABRT".into()), threads }
    }

    fn row(name: &str, possible: &[&str], impossible: &[&str]) -> Value {
        json!({ "function": name, "unit": "a.c", "possible": possible, "impossible": impossible })
    }

    fn told(rows: &[Value]) -> Value {
        let impossible = json!({ "functions": ["g"], "lines": ["/d/a.c:9"] });
        json!({ "code": rows, "impossible": impossible, "remarks": [] })
    }

    #[test]
    fn every_planted_fault_is_found() {
        let main = row("main", &["b0", "b1"], &["b2"]);
        let f = row("f", &["b0", "b2"], &["b1"]);
        let right = told(&[main.clone(), f.clone(), row("g", &[], &["b0"])]);
        assert_eq!(compare(&right, &log()), Verdict::Equal);
        for wrong in [row("f", &["b0"], &["b1", "b2"]), row("f", &["b2"], &["b0"])] {
            assert!(compare(&told(&[main.clone(), wrong]), &log()).is_wrong());
        }
        let mut named = right.clone();
        named["impossible"]["functions"] = json!(["f"]);
        assert!(compare(&named, &log()).is_wrong());
        let mut lined = right.clone();
        lined["impossible"]["lines"] = json!(["/d/a.c:7"]);
        assert!(compare(&lined, &log()).is_wrong());
        // One of two functions of a name may have run, but not neither.
        let other = row("f", &[], &["b0", "b2"]);
        assert_eq!(compare(&told(&[main.clone(), f, other.clone()]), &log()), Verdict::Equal);
        assert!(compare(&told(&[main, other.clone(), other]), &log()).is_wrong());
    }

    #[test]
    fn only_the_process_that_crashes_is_judged() {
        let right = told(&[row("main", &["b0", "b1"], &[]), row("f", &["b0", "b2"], &["b1"])]);
        let mut forks = log();
        let mut child = forks.threads[0].clone();
        child.id.0 = 1;
        child.steps[2].block = "b1".into();
        forks.threads.push(child.clone());
        assert_eq!(compare(&right, &forks), Verdict::Equal);
        child.id = (0, 2, 0);
        forks.threads.push(child);
        assert!(compare(&right, &forks).is_wrong());
    }

    #[test]
    fn nothing_is_not_equal_to_nothing() {
        assert!(compare(&told(&[]), &log()).is_wrong());
        assert!(compare(&json!({}), &log()).is_wrong());
        let elsewhere = told(&[row("h", &["b0"], &[])]);
        assert!(compare(&elsewhere, &log()).is_wrong());
        let right = told(&[row("main", &["b0", "b1"], &[])]);
        let mut no_crash = log();
        no_crash.ended_by = None;
        assert!(compare(&right, &no_crash).is_wrong());
        let mut empty = log();
        empty.threads[0].steps.clear();
        assert!(compare(&right, &empty).is_wrong());
    }
}
