//! Random profiles, with what was executed to get them.
//!
//! A program is a number of random graphs with source lines; a run walks them
//! block by block, writes down every block and edge, and apart from that cuts
//! the walk into paths as an instrumented program would: at retreating edges,
//! at edges and within blocks chosen to be cut, and at some ends of a walk.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_profile::model::{
    Block, Decision, Edge, End, Function, Instrumented, Location, Path, PathTotal, Profile, Start,
};
use fastrand::Rng;

use crate::random_graph::{self, SHAPES};

/// What a run did in one function, counted block by block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executed {
    /// Executions of each block.
    pub blocks: Vec<u64>,
    /// Executions of each edge that was taken.
    pub edges: BTreeMap<(u32, u32), u64>,
    /// Every block in order; each activation ends with `None`.
    pub walk: Vec<Option<u32>>,
}

/// A program that has not run: about `functions` functions of about `blocks`
/// blocks. It depends on the seed and the sizes alone.
pub fn program(seed: u64, functions: usize, blocks: usize) -> Profile {
    let mut rng = Rng::with_seed(seed);
    let rng = &mut rng;
    let mut profile = Profile {
        program: format!("program{seed}"),
        build_id: format!("{:040x}", u128::from(seed) + 1),
        layout: (u128::from(seed) << 64 | (functions * 1000 + blocks) as u128).to_le_bytes(),
        files: (0..rng.usize(1..4)).map(|file| format!("src/file{file}.c")).collect(),
        processes: 0,
        ..Profile::default()
    };
    for number in 0..functions {
        let function = function(rng, &mut profile, number, blocks);
        profile.functions.push(function);
    }
    profile
}

fn function(rng: &mut Rng, profile: &mut Profile, number: usize, blocks: usize) -> Function {
    let shape = SHAPES[rng.usize(0..SHAPES.len())];
    let budget = rng.usize(1..=blocks);
    let (blocks, edges) = random_graph::edges(rng, shape, budget);
    let name = format!("function{number}");
    let file = rng.u32(0..profile.files.len() as u32);
    let first = 1 + 100 * number as u32;
    let mut locate = |line, inlined_at: Option<u32>| {
        let scope = if inlined_at.is_some() { "inlined".to_owned() } else { name.clone() };
        profile.locations.push(Location {
            file,
            line,
            column: 0,
            scope,
            scope_line: 0,
            inlined_at,
        });
        profile.locations.len() as u32 - 1
    };
    let location = locate(first, None);
    let lines = |block: usize| {
        let mut locations = Vec::new();
        for _ in 0..rng.usize(0..3) {
            let line = first + rng.u32(0..2 + block as u32);
            let own = locate(line, None);
            locations.push(if rng.u8(0..8) == 0 { locate(50, Some(own)) } else { own });
        }
        Block { locations }
    };
    let blocks: Vec<Block> = (0..blocks).map(lines).collect();
    let pairs: BTreeSet<(u32, u32)> =
        edges.iter().map(|&(from, to)| (from as u32, to as u32)).collect();
    let edges: Vec<Edge> = pairs
        .iter()
        .map(|&(from, to)| {
            let others: Vec<u32> =
                pairs.iter().filter(|pair| pair.0 == from).map(|pair| pair.1).collect();
            let decision = match others.len() {
                1 => Decision::Always,
                2 if to == others[0] => Decision::True,
                2 => Decision::False,
                _ => Decision::Cases { values: vec![i64::from(to)], default: to == others[0] },
            };
            Edge { from, to, decision }
        })
        .collect();
    let instrumented = match rng.u8(0..12) {
        0 => Instrumented::No("it is not here".to_owned()),
        1..4 => Instrumented::Cut,
        _ => Instrumented::Whole,
    };
    Function {
        name,
        unit: profile.files[file as usize].clone(),
        location: Some(location),
        acyclic_paths: PathTotal { count: 1 << rng.u8(0..100), exact: rng.bool() },
        instrumented,
        entries: 0,
        inherited: 0,
        unfinished: 0,
        edges_exact: true,
        blocks,
        edges,
        paths: Vec::new(),
    }
}

/// `program` after a run, and what it did, function by function.
pub fn run(program: &Profile, seed: u64) -> (Profile, Vec<Executed>) {
    let mut rng = Rng::with_seed(seed);
    let mut profile = program.clone();
    profile.processes += 1;
    let executed = profile.functions.iter_mut().map(|function| walk(&mut rng, function)).collect();
    (profile, executed)
}

fn walk(rng: &mut Rng, function: &mut Function) -> Executed {
    let mut executed = Executed { blocks: vec![0; function.blocks.len()], ..Executed::default() };
    if !function.is_instrumented() {
        return executed;
    }
    let retreating = retreating_edges(function);
    let cut = function.instrumented == Instrumented::Cut;
    let is_cut = |from: u32, to: u32| cut && (from * 7 + to * 3).is_multiple_of(5);
    let is_cut_within = |block: u32| cut && block % 4 == 3;
    let mut paths: BTreeMap<u64, Path> = BTreeMap::new();
    let mut count = |starts, ends, blocks: &mut Vec<u32>| {
        let blocks = std::mem::take(blocks);
        let id = number(starts, ends, &blocks);
        paths.entry(id).or_insert(Path { id, count: 0, starts, ends, blocks }).count += 1;
    };
    for _ in 0..rng.usize(0..12) {
        function.entries += 1;
        let mut left = rng.usize(1..60);
        let (mut starts, mut blocks, mut block) = (Start::Entry, Vec::new(), 0u32);
        loop {
            executed.blocks[block as usize] += 1;
            executed.walk.push(Some(block));
            blocks.push(block);
            if is_cut_within(block) {
                count(starts, End::CutWithin, &mut blocks);
                (starts, blocks) = (Start::CutWithin, vec![block]);
            }
            let next: Vec<u32> =
                function.edges.iter().filter(|edge| edge.from == block).map(|e| e.to).collect();
            left -= 1;
            if next.is_empty() || (left == 0 && rng.bool()) {
                let ends = if next.is_empty() { End::Exit } else { End::Call };
                count(starts, ends, &mut blocks);
                break;
            }
            if left == 0 {
                // The rest of the program went away.
                function.unfinished += 1;
                function.edges_exact = false;
                break;
            }
            let to = next[rng.usize(0..next.len())];
            *executed.edges.entry((block, to)).or_default() += 1;
            if retreating.contains(&(block, to)) {
                count(starts, End::Loop(to), &mut blocks);
                starts = Start::Loop;
            } else if is_cut(block, to) {
                count(starts, End::Cut(to), &mut blocks);
                starts = Start::Cut;
            }
            block = to;
        }
        executed.walk.push(None);
    }
    function.paths = paths.into_values().collect();
    executed
}

/// A path's number: a hash, so that it is the same in every run.
fn number(starts: Start, ends: End, blocks: &[u32]) -> u64 {
    let text = format!("{starts:?} {ends:?} {blocks:?}");
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The edges a depth-first search finds to lead back.
fn retreating_edges(function: &Function) -> BTreeSet<(u32, u32)> {
    let next = |block: u32| -> Vec<u32> {
        function.edges.iter().filter(|edge| edge.from == block).map(|edge| edge.to).collect()
    };
    let mut found = BTreeSet::new();
    let mut open = vec![(0u32, next(0))];
    let mut seen = BTreeSet::from([0]);
    while let Some((block, rest)) = open.last_mut() {
        let block = *block;
        match rest.pop() {
            None => drop(open.pop()),
            Some(to) if open.iter().any(|&(on, _)| on == to) => drop(found.insert((block, to))),
            Some(to) => {
                if seen.insert(to) {
                    open.push((to, next(to)));
                }
            }
        }
    }
    found
}
