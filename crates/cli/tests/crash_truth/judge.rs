//! What an autopsy tells, against the log of every block of the same crash.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

/// What a core told.
#[derive(Debug, Default, Clone)]
pub struct Judged {
    /// Frames of functions that keep records.
    pub frames: usize,
    /// Those of which nothing is known but the function.
    pub unresolved: usize,
    /// How many blocks are known of each.
    pub lengths: Vec<usize>,
    /// Frames whose known blocks are not how the log of their activation ends.
    pub unequal: Vec<String>,
    /// What was executed and is called impossible.
    pub impossible: Vec<String>,
    /// Edges that can have been taken, by the stack alone and by all that is known.
    pub edges: (u64, u64),
}

/// An activation, as the log tells it.
#[derive(Debug)]
struct Logged {
    name: String,
    blocks: Vec<u32>,
}

/// The first line of the log.
#[derive(Deserialize)]
struct Header {
    processes: Vec<Process>,
}

#[derive(Deserialize)]
struct Process {
    process: u64,
    forked_from: Option<u64>,
}

impl Header {
    /// The process that died: the first one, since what it forks goes on.
    fn first(&self) -> u64 {
        let firsts: Vec<_> = self.processes.iter().filter(|it| it.forked_from.is_none()).collect();
        let [first] = firsts[..] else { panic!("{} processes were started", firsts.len()) };
        first.process
    }
}

/// A further line of the log.
#[derive(Deserialize)]
struct Event<'a> {
    process: u64,
    thread: Option<u64>,
    #[serde(borrow)]
    function: Option<std::borrow::Cow<'a, str>>,
    block: Option<&'a str>,
}

/// The function of a frame, its known blocks, and whether these are all.
type Told = (String, Vec<u32>, bool);

/// The edges of each function. Of functions with the same name it has those of all,
/// and they are not judged.
struct Code {
    edges: BTreeMap<String, BTreeSet<(u32, u32)>>,
    several: BTreeSet<String>,
}

/// The number of a block, which is written `b` and the number.
fn number(block: &str) -> u32 {
    block.strip_prefix('b').and_then(|it| it.parse().ok()).expect("a block is b and a number")
}

fn pairs(list: &Value) -> impl Iterator<Item = (u32, u32)> {
    let ends = |edge: &Value| [0, 1].map(|end| number(edge[end].as_str().unwrap())).into();
    list.as_array().unwrap().iter().map(ends)
}

impl Code {
    fn new(rows: &[Value]) -> Self {
        let mut code = Self { edges: BTreeMap::new(), several: BTreeSet::new() };
        for row in rows {
            let name = row["function"].as_str().unwrap().to_owned();
            if code.edges.contains_key(&name) {
                code.several.insert(name.clone());
            }
            let edges = code.edges.entry(name).or_default();
            edges.extend(pairs(&row["possible_edges"]).chain(pairs(&row["impossible_edges"])));
        }
        code
    }

    /// The activation that goes on with a block, and whether it does so from the block
    /// that it was in last: the last one of the function that can, because it has
    /// not come to its end. If there is none, something returned twice.
    fn goes_on(&self, stack: &[Logged], name: &str, block: u32) -> Option<(usize, bool)> {
        let leads = |from: &u32| {
            let edges = self.edges.get(name);
            edges.is_none_or(|edges| edges.contains(&(*from, block)))
        };
        let own = |it: &Logged, last: bool| {
            it.name == name
                && match last {
                    true => it.blocks.last().is_some_and(leads),
                    false => it.blocks.iter().any(leads),
                }
        };
        let found = |last: bool| Some((stack.iter().rposition(|it| own(it, last))?, last));
        found(true).or_else(|| found(false))
    }
}

/// Compares an autopsy with the log of the same crash.
pub fn compare(told: &Value, log: &str) -> Judged {
    let mut judged = Judged::default();
    let rows = told["code"].as_array().expect("what can have run is told");
    let code = Code::new(rows);
    let mut executed: BTreeSet<(String, u32)> = BTreeSet::new();
    let mut taken: BTreeSet<(String, u32, u32)> = BTreeSet::new();
    let mut threads: BTreeMap<u64, Vec<Logged>> = BTreeMap::new();
    let mut lines = log.lines();
    let header: Header = serde_json::from_str(lines.next().expect("a log has a header")).unwrap();
    let process = header.first();
    for line in lines {
        let event: Event = serde_json::from_str(line).unwrap();
        let (Some(thread), Some(name), Some(block)) = (event.thread, event.function, event.block)
        else {
            continue;
        };
        if event.process != process {
            continue;
        }
        let block = number(block);
        executed.insert((name.clone().into_owned(), block));
        let stack = threads.entry(thread).or_default();
        // Nothing leads back to where a function begins.
        if block == 0 {
            stack.push(Logged { name: name.into_owned(), blocks: vec![block] });
            continue;
        }
        let Some((own, is_edge)) = code.goes_on(stack, &name, block) else {
            if !code.several.contains(&*name) {
                judged.unequal.push(format!("the log goes on in {name} b{block} from nowhere"));
            }
            continue;
        };
        stack.truncate(own + 1);
        let last = *stack[own].blocks.last().unwrap();
        if is_edge {
            taken.insert((name.into_owned(), last, block));
        }
        stack[own].blocks.push(block);
    }
    judge_frames(told, &code, &threads, &mut judged);
    for row in rows {
        let name = row["function"].as_str().unwrap();
        if code.several.contains(name) {
            continue;
        }
        for block in row["impossible"].as_array().unwrap() {
            let block = number(block.as_str().unwrap());
            if executed.contains(&(name.to_owned(), block)) {
                judged.impossible.push(format!("{name} b{block} ran and is called impossible"));
            }
        }
        for (from, to) in pairs(&row["impossible_edges"]) {
            if taken.contains(&(name.to_owned(), from, to)) {
                let what = format!("{name} b{from} -> b{to} was taken and is called impossible");
                judged.impossible.push(what);
            }
        }
    }
    let edges = &told["active"]["edges"];
    judged.edges = (edges["stack_only"].as_u64().unwrap(), edges["now"].as_u64().unwrap());
    judged
}

/// The blocks of a frame that are known, oldest first.
fn blocks_of(frame: &Value) -> Vec<u32> {
    let mut blocks = Vec::new();
    for older in frame["older"].as_array().unwrap().iter().rev() {
        for _ in 0..older["times"].as_u64().unwrap() {
            let own = older["blocks"].as_array().unwrap().iter();
            blocks.extend(own.map(|block| number(block.as_str().unwrap())));
        }
    }
    // A block has a row for each of its lines, and is on a path once.
    let mut path: Vec<u32> = Vec::new();
    for row in frame["path"].as_array().unwrap() {
        let block = number(row["block"].as_str().unwrap());
        if path.last().is_none_or(|last| *last != block) {
            path.push(block);
        }
    }
    blocks.extend(path);
    blocks
}

fn judge_frames(
    told: &Value,
    code: &Code,
    threads: &BTreeMap<u64, Vec<Logged>>,
    judged: &mut Judged,
) {
    for thread in told["threads"].as_array().unwrap() {
        let known: Vec<Told> = thread["frames"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|frame| frame["scheme"].as_str().is_some_and(|it| it.contains("pt")))
            .map(|frame| {
                let complete = frame["truncated"] == false && frame["note"].is_null();
                (frame["function"].as_str().unwrap().to_owned(), blocks_of(frame), complete)
            })
            .filter(|told| !code.several.contains(&told.0))
            .collect();
        judged.frames += known.len();
        judged.unresolved += known.iter().filter(|it| it.1.is_empty()).count();
        judged.lengths.extend(known.iter().map(|it| it.1.len()));
        // Which log is its own is not told by number. How deep a stack is when it
        // overflows, and at which instruction, depends on how large frames are: then
        // each is judged by itself, and the innermost may have come less far.
        let is_whole = thread["left_out"].is_null();
        let agreeing = |log: &[Logged]| match is_whole {
            true => aligned(&known, log),
            false => {
                let less_far = |(place, told): (usize, &Told), log: &Logged| {
                    place == 0 && told.0 == log.name && log.blocks.starts_with(&told.1)
                };
                let fits = |it: &(usize, &Told)| {
                    log.iter().any(|log| agrees(it.1, log) || less_far(*it, log))
                };
                known.iter().enumerate().filter(fits).count()
            }
        };
        let best = threads.values().map(|log| agreeing(log)).max().unwrap_or(0);
        if best < known.len() {
            let wrong = known.len() - 1 - best;
            let (name, blocks, complete) = &known[wrong];
            let logs = threads.values().flatten().filter(|it| it.name == *name);
            let logs: Vec<_> = logs.map(|it| tail(&it.blocks, blocks.len() + 5)).collect();
            judged.unequal.push(format!(
                "no log ends like frame {wrong} of {}: {name} {blocks:?} (all: {complete}), but {logs:?}",
                known.len()
            ));
        }
    }
}

fn tail(blocks: &[u32], count: usize) -> &[u32] {
    &blocks[blocks.len().saturating_sub(count)..]
}

/// Whether what is known of a frame is how an activation's blocks end.
fn agrees((name, blocks, complete): &Told, activation: &Logged) -> bool {
    *name == activation.name
        && match complete {
            true => activation.blocks == *blocks || blocks.is_empty(),
            false => activation.blocks.ends_with(blocks),
        }
}

/// How many of the frames, outermost first, are what a log's activations say, in
/// order.
fn aligned(known: &[Told], log: &[Logged]) -> usize {
    let mut possible = vec![false; known.len() + 1];
    possible[0] = true;
    for activation in log {
        for count in (1..=known.len()).rev() {
            let agrees = agrees(&known[known.len() - count], activation);
            possible[count] |= possible[count - 1] && agrees;
        }
    }
    possible.iter().rposition(|it| *it).unwrap_or(0)
}
