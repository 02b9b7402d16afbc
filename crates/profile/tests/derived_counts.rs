//! Counts derived from paths are those of the walk itself.

use std::collections::BTreeMap;

use backtrail_profile::derived::{Counts, Line, blocks_of_lines, compute_function_lines};
use backtrail_profile::model::{Function, Profile};
use backtrail_testkit::random_profile::{Executed, program, run};

#[test]
fn blocks_and_edges_are_those_that_were_executed() {
    let (mut exact, mut inexact) = (0, 0);
    for seed in 0..2_000 {
        let (profile, executed) = run(&program(seed, 4, 12), seed);
        for (function, executed) in profile.functions.iter().zip(&executed) {
            let counts = Counts::of(function);
            let edges = function
                .edges
                .iter()
                .map(|edge| executed.edges.get(&(edge.from, edge.to)).copied().unwrap_or_default());
            let edges: Vec<u64> = edges.collect();
            assert_eq!(counts.exact, function.edges_exact);
            if counts.exact {
                assert_eq!(counts.blocks, executed.blocks, "{seed} {}", function.name);
                assert_eq!(counts.edges, edges, "{seed} {}", function.name);
                exact += 1;
            } else {
                let missing =
                    counts.blocks.iter().zip(&executed.blocks).all(|(have, had)| have <= had);
                assert!(missing, "{seed} {}", function.name);
                inexact += 1;
            }
        }
    }
    assert!(exact > 2_000 && inexact > 300, "{exact} {inexact}");
}

/// Counts a line by walking: once whenever control comes to one of its blocks
/// from a block that is none of them, and once whenever it comes back to a
/// block without having left them.
fn walk_line(executed: &Executed, blocks: &[u32]) -> u64 {
    let mut count = 0;
    let mut seen: Vec<u32> = Vec::new();
    for block in &executed.walk {
        match block.filter(|block| blocks.contains(block)) {
            None => seen.clear(),
            Some(block) => {
                if let Some(place) = seen.iter().position(|&other| other == block) {
                    seen.truncate(place);
                    count += 1;
                } else if seen.is_empty() {
                    count += 1;
                }
                seen.push(block);
            }
        }
    }
    count
}

/// Whether the blocks form no cycles but loops of one block, once `left_out` is
/// gone.
fn is_acyclic(function: &Function, blocks: &[u32], left_out: Option<u32>) -> bool {
    let mut rest: Vec<u32> =
        blocks.iter().copied().filter(|&block| Some(block) != left_out).collect();
    let leads_on = |block: u32, rest: &[u32]| {
        let mut leaving = function.edges.iter().filter(|edge| edge.from == block);
        leaving.any(|edge| edge.to != block && rest.contains(&edge.to))
    };
    while let Some(place) = rest.iter().position(|&block| !leads_on(block, &rest)) {
        rest.remove(place);
    }
    rest.is_empty()
}

#[test]
fn lines_are_executed_whenever_control_comes_to_them() {
    let (mut compared, mut looping) = (0, 0);
    for seed in 0..2_000 {
        let (profile, executed) = run(&program(seed, 4, 12), seed);
        for (function, executed) in profile.functions.iter().zip(&executed) {
            if !function.edges_exact {
                continue;
            }
            let counts = Counts::of(function);
            let lines = compute_function_lines(&profile, function, &counts);
            for (line, blocks) in blocks_of_lines(&profile, function) {
                let (walked, shown) = (walk_line(executed, &blocks), lines[&line]);
                if is_acyclic(function, &blocks, None) {
                    assert_eq!(shown, walked, "{seed} {} {line:?}", function.name);
                    compared += 1;
                } else if blocks.iter().any(|&one| is_acyclic(function, &blocks, Some(one))) {
                    // Cycles that share a block can be taken apart in one way
                    // only; but a cycle of the flow can be of parts that were
                    // gone at different times.
                    assert!(shown >= walked, "{seed} {} {line:?}", function.name);
                    looping += usize::from(shown == walked && walked > 0);
                }
            }
        }
    }
    assert!(compared > 10_000 && looping > 100, "{compared} {looping}");
}

#[test]
fn the_line_of_an_inlined_call_is_executed_with_it() {
    let mut found = 0;
    for seed in 0..50 {
        let (profile, _) = run(&program(seed, 4, 12), seed);
        for function in &profile.functions {
            let counts = Counts::of(function);
            let lines = compute_function_lines(&profile, function, &counts);
            for (number, block) in function.blocks.iter().enumerate() {
                let calls = block.locations.iter().filter_map(|&at| call_line(&profile, at));
                for call in calls {
                    assert!((lines[&call] > 0) >= (counts.blocks[number] > 0), "{seed}");
                    found += 1;
                }
            }
        }
    }
    assert!(found > 20, "{found}");
}

fn call_line(profile: &Profile, location: u32) -> Option<Line> {
    let call = &profile.locations[profile.locations[location as usize].inlined_at? as usize];
    Some(Line { file: call.file, line: call.line })
}

#[test]
fn one_line_with_a_loop_counts_its_rounds() {
    // A self loop on a line of its own: entered 3 times, 10 rounds more.
    let (mut profile, _) = run(&program(1, 1, 1), 1);
    let function = &mut profile.functions[0];
    function.edges = vec![edge(0, 0)];
    function.blocks.truncate(1);
    function.blocks[0].locations = vec![0];
    let counts = Counts { blocks: vec![13], edges: vec![10], exact: true };
    let function = &profile.functions[0];
    let lines: BTreeMap<Line, u64> = compute_function_lines(&profile, function, &counts);
    assert_eq!(lines.values().copied().collect::<Vec<_>>(), [13]);
}

fn edge(from: u32, to: u32) -> backtrail_profile::model::Edge {
    backtrail_profile::model::Edge {
        from,
        to,
        decision: backtrail_profile::model::Decision::Always,
    }
}
