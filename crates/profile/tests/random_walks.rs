//! Probes against the walk itself: random functions are walked at random, and
//! what the probes count must be the paths the walk is made of.
//!
//! The slow twin knows where paths end, and nothing of numbers, trees or
//! increments.

use std::collections::BTreeMap;

use backtrail_analysis::calls::{has_call_that_returns_twice, is_in_tail_position, traits_of};
use backtrail_graph::{Edge, Index};
use backtrail_ir::{Block, Func, Function, Inst, Op, Unit};
use backtrail_plan::{Action, LeftOut, Place, Probe};
use backtrail_profile::function_graph::Joint;
use backtrail_profile::model::{End, Start};
use backtrail_profile::path_plan::{DecodedPath, PathPlan};
use backtrail_testkit::random_unit::{self, Size};
use proptest::prelude::*;

const FIRST: u32 = 5;

/// One run of a function under both observers.
struct Walk<'a> {
    unit: &'a Unit,
    function: &'a Function,
    plan: &'a PathPlan,
    probes: &'a [Probe],
    rng: fastrand::Rng,
    /// What the probes know.
    sum: Option<i64>,
    counts: BTreeMap<u64, u64>,
    /// What the walk knows.
    path: DecodedPath,
    walked: BTreeMap<DecodedPath, u64>,
}

impl Walk<'_> {
    fn probe(&mut self, at: Place) {
        for probe in self.probes.iter().filter(|probe| probe.at == at) {
            match probe.action {
                Action::SetSum(sum) => self.sum = Some(sum),
                Action::AddSum(add) => {
                    let sum = self.sum.expect("the sum is set before it is added to");
                    self.sum = Some(sum.wrapping_add(add));
                }
                Action::CountSum(add) => {
                    let sum = self.sum.expect("the sum is set before it is counted");
                    let number = sum.wrapping_add(add).wrapping_sub(FIRST.into()) as u64;
                    assert!(number < self.plan.count(), "counter {number} is out of bounds");
                    *self.counts.entry(number).or_default() += 1;
                    // Stale from here on: nothing may use it.
                    self.sum = None;
                }
                other => unreachable!("{other:?} counts no paths"),
            }
        }
    }

    fn end(&mut self, ends: End, next: Start, block: Option<Block>) {
        let mut path = self.path.clone();
        path.ends = ends;
        *self.walked.entry(path).or_default() += 1;
        let blocks = block.iter().map(|block| block.position() as u32).collect();
        self.path = DecodedPath { starts: next, ends: End::Exit, blocks };
    }

    /// Walks one activation; it may be left anywhere.
    fn run(&mut self, steps: usize) {
        self.sum = None;
        self.path = DecodedPath { starts: Start::Entry, ends: End::Exit, blocks: vec![0] };
        self.probe(Place::Entry);
        let mut block = Block::new(0);
        let mut from = 0;
        let mut returned: Option<(Block, Inst)> = None;
        for _ in 0..steps {
            let data = &self.function.blocks[block];
            let insts: Vec<Inst> = data.insts().skip(from).collect();
            from = 0;
            for inst in insts {
                self.probe(Place::Before(inst));
                match &self.function.insts[inst].op {
                    Op::Call(call) => {
                        let traits = traits_of(self.unit, call);
                        let comes_back = has_call_that_returns_twice(self.unit, self.function);
                        if traits.no_return && !comes_back {
                            return self.end(End::Call, Start::Entry, None);
                        }
                        if is_in_tail_position(self.function, inst) {
                            return self.end(End::Exit, Start::Entry, None);
                        }
                        if traits.returns_twice {
                            self.end(End::CutWithin, Start::ReturnTwice, Some(block));
                            returned = Some((block, inst));
                        }
                        if traits.no_return {
                            // The path is lost, whether it comes back or not.
                            return;
                        }
                    }
                    Op::IndirectJump => self.end(End::CutWithin, Start::CutWithin, Some(block)),
                    _ => {}
                }
                if inst != data.terminator() {
                    self.probe(Place::After(inst));
                }
            }
            if data.successors.is_empty() {
                return self.end(End::Exit, Start::Entry, None);
            }
            // The second return: the path under way is lost.
            if let Some((where_to, call)) = returned
                && self.rng.u8(..8) == 0
            {
                self.sum = Some(0x5a5a_5a5a);
                self.probe(Place::After(call));
                block = where_to;
                let number = block.position() as u32;
                self.path = DecodedPath {
                    starts: Start::ReturnTwice,
                    ends: End::Exit,
                    blocks: vec![number],
                };
                from = call.position() + 1 - self.function.blocks[block].first as usize;
                continue;
            }
            let to = data.successors[self.rng.usize(..data.successors.len())];
            self.probe(Place::Edge { from: block, to });
            self.step(block, to);
            block = to;
        }
        // It is left here, unless nothing can keep it from returning.
        if self.plan.is_counted_early(block) {
            self.end(End::Exit, Start::Entry, None);
        }
    }

    fn step(&mut self, from: Block, to: Block) {
        let edge = self.edge(from, to);
        let number = to.position() as u32;
        if !self.plan.ends_path(edge) {
            self.path.blocks.push(number);
            return;
        }
        let is_cut = |edge: Edge| self.plan.cuts().contains(&(edge.position() as u32));
        let flow = &self.plan.graph().flow;
        let into = flow.in_edges(flow.target(edge)).to_vec();
        let is_head = into.iter().any(|&it| self.plan.ends_path(it) && !is_cut(it));
        let ends = if is_cut(edge) { End::Cut(number) } else { End::Loop(number) };
        self.end(ends, if is_head { Start::Loop } else { Start::Cut }, Some(to));
    }

    fn edge(&self, from: Block, to: Block) -> Edge {
        let graph = self.plan.graph();
        let joins = |edge: &Edge| {
            matches!(graph.joint(*edge), Joint::Edge | Joint::Computed)
                && graph.block(graph.flow.source(*edge)) == from
                && graph.block(graph.flow.target(*edge)) == to
        };
        graph.flow.edges().find(joins).expect("a step is along an edge")
    }
}

/// Walks `function` a few times; whether its paths could be counted.
fn check(unit: &Unit, function: Func, limit: u64, seed: u64) -> Result<(), LeftOut> {
    let plan = PathPlan::new(unit, function, limit, None)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let weights: Vec<u64> = if rng.bool() {
        plan.weights(unit, function, None)
    } else {
        (0..plan.graph().flow.edge_count()).map(|_| rng.u64(..1000)).collect()
    };
    let probes = plan.probes(&weights, FIRST)?;
    let mut walk = Walk {
        unit,
        function: &unit.functions[function],
        plan: &plan,
        probes: &probes,
        rng,
        sum: None,
        counts: BTreeMap::new(),
        path: DecodedPath { starts: Start::Entry, ends: End::Exit, blocks: vec![] },
        walked: BTreeMap::new(),
    };
    for _ in 0..20 {
        walk.run(60);
    }
    // What is decoded is decoded from the cuts alone.
    let again = PathPlan::with_cuts(unit, function, &plan.cuts()).expect("it could be planned");
    assert_eq!(again.count(), plan.count());
    // Paths between calls of one block that return twice look alike.
    let mut counted: BTreeMap<DecodedPath, u64> = BTreeMap::new();
    for (&number, &count) in &walk.counts {
        let path = again.decode(number).expect("what is counted has a number");
        let back = again.number(&path).and_then(|number| again.decode(number));
        assert_eq!(back.as_ref(), Some(&path));
        *counted.entry(path).or_default() += count;
    }
    assert_eq!(counted, walk.walked);
    assert_eq!(again.decode(again.count()), None);
    Ok(())
}

fn check_unit(unit: &Unit, limit: u64, seed: u64) -> usize {
    let functions = unit.functions.indices();
    functions.filter(|&function| check(unit, function, limit, seed).is_ok()).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_probes_count_is_what_was_walked(seed in any::<u64>(), bits in 1u32..12) {
        let unit = random_unit::unit(seed, Size { functions: 4, blocks: 12, insts: 3 });
        check_unit(&unit, 1 << bits, seed);
    }
}

#[test]
fn most_random_functions_can_be_counted() {
    let (mut counted, mut all) = (0, 0);
    for seed in 0..100 {
        let unit = random_unit::unit(seed, Size::SMALL);
        counted += check_unit(&unit, 1 << 12, seed);
        all += unit.functions.len();
    }
    assert!(counted * 2 > all, "{counted} of {all}");
}
