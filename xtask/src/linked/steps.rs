//! What `backtrail show --json` tells of a trace, against the log of every block.

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::verdict::Verdict;

/// A trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Why something is missing, if it is.
    pub incomplete: Option<String>,
    /// The signal that ended the program.
    pub ended_by: Option<String>,
    /// Threads, process by process.
    pub threads: Vec<Thread>,
}

/// A thread of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its process, counted from the first, its number there, and its module: what the
    /// executable and its libraries did is told one after another.
    pub id: (usize, u64, usize),
    /// Why it is not known what followed.
    pub unknown: Option<String>,
    /// What it executed.
    pub steps: Vec<Step>,
}

/// An executed block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub depth: u64,
    pub function: String,
    pub block: String,
    pub line: Option<String>,
}

impl Step {
    fn is_same_block(&self, other: &Step) -> bool {
        (&self.function, &self.block, &self.line) == (&other.function, &other.block, &other.line)
    }

    /// Its source file, or its function where it has no line.
    fn source(&self) -> &str {
        let file = self.line.as_deref().and_then(|it| it.rsplit_once(':'));
        file.map_or(&self.function, |it| it.0)
    }

    fn shown(&self) -> String {
        format!("{} {}", self.function, self.block)
    }
}

#[derive(Deserialize)]
struct Header {
    schema: String,
    incomplete: Option<String>,
    ended_by: Option<String>,
    threads: Vec<HeaderThread>,
}

#[derive(Deserialize)]
struct HeaderThread {
    process: u64,
    thread: u64,
    blocks: usize,
    unknown: Option<String>,
}

#[derive(Deserialize)]
struct Line {
    process: u64,
    thread: u64,
    depth: u64,
    function: String,
    block: String,
    line: Option<String>,
}

impl Told {
    /// Reads what `show --json` printed. Processes have other numbers each time, and are
    /// counted.
    pub fn read(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let header: Header = serde_json::from_str(lines.next().context("nothing is shown")?)?;
        if header.schema != "backtrail.show/1" {
            bail!("it has the schema {}", header.schema);
        }
        let mut processes = Vec::new();
        let mut count = |process: u64| {
            processes.iter().position(|it| *it == process).unwrap_or_else(|| {
                processes.push(process);
                processes.len() - 1
            })
        };
        let mut threads: Vec<Thread> = Vec::new();
        for listed in &header.threads {
            let (process, number) = (count(listed.process), listed.thread);
            let is_same = |it: &&Thread| (it.id.0, it.id.1) == (process, number);
            let module = threads.iter().filter(is_same).count();
            let mut steps = Vec::new();
            for line in lines.by_ref().take(listed.blocks) {
                let line: Line = serde_json::from_str(line)?;
                if (count(line.process), line.thread) != (process, number) {
                    bail!("a thread is said to have {} blocks, and has others", listed.blocks);
                }
                let (function, block) = (line.function, line.block);
                steps.push(Step { depth: line.depth, function, block, line: line.line });
            }
            if steps.len() != listed.blocks {
                bail!("a thread is said to have {} blocks, and has less", listed.blocks);
            }
            let unknown = listed.unknown.clone();
            threads.push(Thread { id: (process, number, module), unknown, steps });
        }
        if lines.next().is_some() {
            bail!("a block is of no thread");
        }
        Ok(Self { incomplete: header.incomplete, ended_by: header.ended_by, threads })
    }

    /// All that was executed.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.threads.iter().flat_map(|it| &it.steps)
    }

    fn label(&self) -> Option<&str> {
        let unknown = self.threads.iter().find_map(|it| it.unknown.as_deref());
        self.incomplete.as_deref().or(unknown)
    }
}

/// Why a log cannot be what others are compared with.
pub fn not_the_truth(log: &Told) -> Option<Verdict> {
    if log.steps().next().is_none() {
        return Some(Verdict::wrong("the log is empty", "it has no block"));
    }
    // A program that died was stopped somewhere.
    match log.label() {
        Some(label) if log.ended_by.is_none() => {
            Some(Verdict::wrong("the log is not complete", label))
        }
        _ => None,
    }
}

/// Compares a trace with the log.
pub fn compare(told: &Told, log: &Told) -> Verdict {
    if let Some(wrong) = not_the_truth(log) {
        return wrong;
    }
    if told.ended_by != log.ended_by {
        let detail = format!("by {:?}, and not by {:?}", told.ended_by, log.ended_by);
        return Verdict::wrong("the trace ends by another signal", detail);
    }
    let ids = |of: &Told| {
        let ids = of.threads.iter().map(|it| (it.id.0, it.id.1));
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    if ids(told) != ids(log) {
        // What is missing may be all that a process did.
        let is_part = ids(told).is_subset(&ids(log));
        if let Some(label) = told.incomplete.as_deref().filter(|_| is_part) {
            return Verdict::Labelled { why: label.to_owned() };
        }
        let detail = format!("{:?}, and not {:?}", ids(told), ids(log));
        return Verdict::wrong("the trace has other threads", detail);
    }
    let mut less = None;
    for id in ids(log) {
        let of = |from: &Told| {
            let threads = from.threads.iter().filter(|it| (it.id.0, it.id.1) == id);
            threads.cloned().collect::<Vec<_>>()
        };
        let (mut one, other) = (of(told), of(log));
        let are_whole = one.len() == 1 && other.len() == 1;
        if !are_whole {
            one = match by_module(&one, &other) {
                Ok(one) => one,
                Err(step) => {
                    let detail = format!("{} is of no module of the log", step.shown());
                    return Verdict::wrong("another way", detail);
                }
            };
        }
        for (one, other) in one.iter().zip(&other) {
            let label = one.unknown.as_ref().or(told.incomplete.as_ref());
            let label = label.map(String::as_str);
            match compare_threads(one, other, label, log.ended_by.is_some(), are_whole) {
                Verdict::Equal => {}
                Verdict::Labelled { why } => less = Some(why),
                other => return other,
            }
        }
    }
    match less {
        Some(why) => Verdict::Labelled { why },
        None => Verdict::Equal,
    }
}

/// A thread of a trace in parts, as its log is in parts. A log has what each module did,
/// the executable and the program's own libraries, one after another, and frames of the
/// module alone; a trace has all in its order. Modules are told apart by source files.
fn by_module(told: &[Thread], log: &[Thread]) -> std::result::Result<Vec<Thread>, Step> {
    let unknown = told.iter().find_map(|it| it.unknown.clone());
    let empty = |it: &Thread| Thread { id: it.id, unknown: unknown.clone(), steps: Vec::new() };
    let mut parts: Vec<Thread> = log.iter().map(empty).collect();
    for step in told.iter().flat_map(|it| &it.steps) {
        let module =
            log.iter().position(|it| it.steps.iter().any(|it| it.source() == step.source()));
        match module {
            Some(module) => parts[module].steps.push(step.clone()),
            None => return Err(step.clone()),
        }
    }
    Ok(parts)
}

fn compare_threads(
    told: &Thread,
    log: &Thread,
    label: Option<&str>,
    is_ended: bool,
    with_depth: bool,
) -> Verdict {
    let (one, other) = (&told.steps, &log.steps);
    let of = |it: &Thread| format!("process {}, thread {}, module {}", it.id.0, it.id.1, it.id.2);
    if let Some(at) = one.iter().zip(other).position(|(one, other)| !one.is_same_block(other)) {
        let detail = format!(
            "{}, block {at} of {}: {}, and not {}",
            of(told),
            other.len(),
            one[at].shown(),
            other[at].shown()
        );
        return Verdict::wrong("another way", detail);
    }
    let other_depth = |(one, other): (&Step, &Step)| with_depth && one.depth != other.depth;
    if let Some(at) = one.iter().zip(other).position(other_depth) {
        let detail = format!(
            "{}, block {at} of {}: {} at depth {}, and not {}",
            of(told),
            other.len(),
            one[at].shown(),
            one[at].depth,
            other[at].depth
        );
        return Verdict::wrong("other frames", detail);
    }
    match (one.len().cmp(&other.len()), label) {
        (std::cmp::Ordering::Equal, _) => Verdict::Equal,
        (std::cmp::Ordering::Less, Some(why)) => Verdict::Labelled { why: why.to_owned() },
        // Blocks that follow for certain may not have been come to by what was stopped.
        (std::cmp::Ordering::Greater, Some(why)) if is_ended => {
            Verdict::Labelled { why: why.to_owned() }
        }
        _ => {
            let detail = format!("{}: {} blocks, and not {}", of(told), one.len(), other.len());
            Verdict::wrong("blocks are missing or too many", detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(process: u64, unknown: &str, steps: &[(u64, &str, &str)]) -> String {
        let mut text = format!(
            "{{\"schema\":\"backtrail.show/1\",\"program\":\"p\",\"build_id\":\"1\",\"incomplete\":null,\
             \"ended_by\":null,\"threads\":[{{\"process\":{process},\"thread\":1,\"blocks\":{},\
             \"unknown\":{unknown}}}]}}\n",
            steps.len()
        );
        for (depth, function, block) in steps {
            text.push_str(&format!(
                "{{\"process\":{process},\"thread\":1,\"event\":0,\"depth\":{depth},\
                 \"function\":\"{function}\",\"block\":\"{block}\",\"line\":null}}\n"
            ));
        }
        text
    }

    const STEPS: [(u64, &str, &str); 4] =
        [(1, "main", "b0"), (2, "f", "b0"), (2, "f", "b2"), (1, "main", "b1")];

    fn told(unknown: &str, steps: &[(u64, &str, &str)]) -> Told {
        Told::read(&shown(7, unknown, steps)).unwrap()
    }

    fn what(told: &Told, log: &Told) -> String {
        match compare(told, log) {
            Verdict::Wrong { what, .. } => what,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_is_equal_is_and_processes_have_other_numbers() {
        let log = told("null", &STEPS);
        let other = Told::read(&shown(99, "null", &STEPS)).unwrap();
        assert_eq!(compare(&other, &log), Verdict::Equal);
    }

    #[test]
    fn every_planted_fault_is_found() {
        let log = told("null", &STEPS);
        for at in 0..STEPS.len() {
            let mut steps = STEPS.to_vec();
            steps[at].1 = "g";
            assert_eq!(what(&told("null", &steps), &log), "another way");
            steps[at] = (STEPS[at].0, STEPS[at].1, "b9");
            assert_eq!(what(&told("null", &steps), &log), "another way");
            steps[at] = (5, STEPS[at].1, STEPS[at].2);
            assert_eq!(what(&told("null", &steps), &log), "other frames");
            // One is missing, one is too much, all behind it are missing.
            steps.remove(at);
            assert!(compare(&told("null", &steps), &log).is_wrong());
            let mut steps = STEPS.to_vec();
            steps.insert(at, STEPS[at]);
            assert!(compare(&told("null", &steps), &log).is_wrong());
            let less = &STEPS[..at];
            assert_eq!(what(&told("null", less), &log), "blocks are missing or too many");
            // But with a label, it is not wrong; another way with a label is.
            let labelled = compare(&told("\"because\"", less), &log);
            assert_eq!(labelled, Verdict::Labelled { why: "because".into() });
            let mut steps = STEPS[..=at].to_vec();
            steps[at].2 = "b9";
            assert_eq!(what(&told("\"because\"", &steps), &log), "another way");
        }
        let mut swapped = STEPS.to_vec();
        swapped.swap(1, 2);
        assert_eq!(what(&told("null", &swapped), &log), "another way");
    }

    #[test]
    fn threads_signals_and_more_than_ran_are_compared() {
        let log = told("null", &STEPS);
        let mut other = log.clone();
        other.ended_by = Some("SIGSEGV".into());
        assert_eq!(what(&other, &log), "the trace ends by another signal");
        let mut other = log.clone();
        other.threads.push(Thread { id: (1, 1, 0), unknown: None, steps: Vec::new() });
        assert_eq!(what(&other, &log), "the trace has other threads");
        assert_eq!(what(&log, &other), "the trace has other threads");
        let mut labelled = log.clone();
        labelled.incomplete = Some("a process is missing".into());
        assert!(matches!(compare(&labelled, &other), Verdict::Labelled { .. }));
        // A label does not allow for more than ran, unless it was stopped.
        let longer = [&STEPS[..], &[(1, "main", "b2")]].concat();
        let mut longer = told("\"because\"", &longer);
        assert!(compare(&longer, &log).is_wrong());
        let mut log = log;
        log.ended_by = Some("SIGABRT".into());
        longer.ended_by = Some("SIGABRT".into());
        assert!(matches!(compare(&longer, &log), Verdict::Labelled { .. }));
    }

    #[test]
    fn what_a_log_has_by_module_is_compared_by_module() {
        let step = |file: &str, function: &str, depth: u64| Step {
            depth,
            function: function.into(),
            block: "b0".into(),
            line: Some(format!("/d/{file}:3")),
        };
        let thread = |module: usize, steps: &[Step]| Thread {
            id: (0, 1, module),
            unknown: None,
            steps: steps.to_vec(),
        };
        let all = |threads: Vec<Thread>| Told { incomplete: None, ended_by: None, threads };
        let (main, f, lib) = (step("a.c", "main", 1), step("a.c", "f", 2), step("l.c", "lib", 1));
        let log = all(vec![
            thread(0, &[main.clone(), f.clone(), main.clone()]),
            thread(1, &[lib.clone(), lib.clone()]),
        ]);
        let deep = step("l.c", "lib", 2);
        let told = |steps: &[&Step]| {
            all(vec![thread(0, &steps.iter().map(|it| (*it).clone()).collect::<Vec<_>>())])
        };
        assert_eq!(compare(&told(&[&main, &deep, &f, &deep, &main]), &log), Verdict::Equal);
        assert_eq!(compare(&log, &log), Verdict::Equal);
        for wrong in [
            told(&[&main, &deep, &f, &main]),
            told(&[&main, &deep, &main, &deep, &f]),
            told(&[&main, &f, &main]),
            told(&[&main, &deep, &f, &deep, &main, &step("o.c", "other", 1)]),
        ] {
            assert!(compare(&wrong, &log).is_wrong());
        }
    }

    #[test]
    fn nothing_is_not_equal_to_nothing() {
        let empty = told("null", &[]);
        assert_eq!(what(&empty, &empty), "the log is empty");
        assert!(Told::read("").is_err());
        let cut: String =
            shown(7, "null", &STEPS).lines().take(3).map(|it| format!("{it}\n")).collect();
        assert!(Told::read(&cut).is_err());
        let labelled = told("\"the disk was full\"", &STEPS);
        assert_eq!(what(&labelled, &labelled), "the log is not complete");
    }
}
