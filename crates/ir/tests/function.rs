//! What functions tell of themselves: control flow and acyclic paths.

use std::collections::BTreeSet;

use backtrail_graph::{DepthFirst, Digraph, Index};
use backtrail_ir::{Block, Func, Unit, text};
use backtrail_testkit::random_unit::{Size, unit};
use backtrail_testkit::slow_graph;
use proptest::prelude::*;

/// A unit with one function of these blocks.
fn parse(blocks: &str) -> Unit {
    let head = "unit \"\" s0 = function f0 \"f\" external function f0 s0 parameters 1 {";
    text::parse(&format!("{head} {blocks} }}")).unwrap()
}

#[track_caller]
fn check(blocks: &str, edges: &[&str], paths: &str) {
    let unit = parse(blocks);
    let function = &unit.functions[Func::new(0)];
    let graph = function.control_flow();
    let edge = |edge| format!("{}->{}", graph.source(edge), graph.target(edge));
    assert_eq!(graph.edges().map(edge).collect::<Vec<_>>(), edges);
    assert_eq!(function.acyclic_paths().to_string(), paths);
}

#[test]
fn straight_code_is_one_path() {
    check("b0: i0 return", &[], "1");
    check("b0: i0 jump -> b1  b1: i1 unreachable", &["b0->b1"], "1");
}

#[test]
fn cases_with_one_target_are_one_edge() {
    check(
        "b0: i0 switch (p0) -> b1, 1: b2, 2: b2, 3: b1  b1: i1 return  b2: i2 return",
        &["b0->b1", "b0->b2"],
        "2",
    );
    check("b0: i0 branch (p0) -> b1, b1  b1: i1 return", &["b0->b1"], "1");
}

#[test]
fn a_loop_is_entered_or_begun_and_left_or_ended() {
    // Enter or begin at b1; then leave over b2, or end at the bottom.
    check(
        "b0: i0 jump -> b1  b1: i1 branch (p0) -> b1, b2  b2: i2 return",
        &["b0->b1", "b1->b1", "b1->b2"],
        "4",
    );
}

#[test]
fn code_out_of_reach_has_no_path() {
    check(
        "b0: i0 return  b1: i1 branch (p0) -> b0, b2  b2: i2 jump -> b1",
        &["b1->b0", "b1->b2", "b2->b1"],
        "1",
    );
}

#[test]
fn an_endless_loop_has_paths_too() {
    check("b0: i0 jump -> b0", &["b0->b0"], "2");
    check("b0: i0 indirect_jump (p0)", &[], "1");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

    #[test]
    fn paths_are_the_pieces_of_runs(seed: u64) {
        let unit = unit(seed, Size { functions: 3, blocks: 8, insts: 1 });
        for (func, function) in unit.functions.iter() {
            let mut edges: Vec<(Block, Block)> = Vec::new();
            for (from, data) in function.blocks.iter() {
                for &to in &data.successors {
                    if !edges.contains(&(from, to)) {
                        edges.push((from, to));
                    }
                }
            }
            let graph = Digraph::new(function.blocks.len(), edges);
            prop_assert_eq!(&graph, &function.control_flow());
            if function.acyclic_paths().is_at_most(2_000) {
                let first = Block::new(0);
                let back: BTreeSet<_> = DepthFirst::new(&graph, first).retreating_edges().collect();
                let pieces = slow_graph::walked_pieces(&graph, first, &back).len();
                prop_assert_eq!(function.acyclic_paths().to_string(), pieces.to_string(), "{}", func);
            }
        }
    }
}
