//! What is called impossible never happened: random programs, executed at random,
//! stopped anywhere.

mod execution;
mod random_program;

use backtrail_crash::active::{Active, Code};
use backtrail_crash::evidence::Evidence;
use backtrail_graph::Index as _;
use backtrail_ir::{Block, Unit};
use fastrand::Rng;

use execution::{Execution, Truth};
use random_program::{RandomProgram, Size, UNIT};

/// Says what is wrong with `active`, if something is.
fn contradiction(code: &Code, active: &Active, truth: &Truth) -> Option<String> {
    let body = |function| code.body((UNIT, function)).unwrap();
    for &(function, block) in &truth.blocks {
        if !active.block(body(function), block) {
            return Some(format!("{function} {block} was executed"));
        }
    }
    for &(function, from, to) in &truth.edges {
        let flow = code.flow(body(function));
        let mut edges = flow.out_edges(from).iter();
        let edge = *edges.find(|&&edge| flow.target(edge) == to).unwrap();
        if !active.edge(body(function), edge) {
            return Some(format!("{function} {from} -> {to} was taken"));
        }
    }
    for &(function, call) in &truth.calls {
        if !active.calls(code, body(function)).any(|it| it == call) {
            return Some(format!("{function} {call} was called"));
        }
    }
    for (body, (_, function)) in code.functions() {
        for block in code.flow(body).nodes() {
            if active.executed(body, block) && !truth.blocks.contains(&(function, block)) {
                return Some(format!("{function} {block} was not executed"));
            }
        }
    }
    None
}

/// Blocks, edges and calls.
fn size_of(code: &Code, active: &Active) -> usize {
    let of = |body| {
        let flow = code.flow(body);
        let blocks = flow.nodes().filter(|&block| active.block(body, block)).count();
        let edges = flow.edges().filter(|&edge| active.edge(body, edge)).count();
        blocks + edges + active.calls(code, body).count()
    };
    code.functions().map(|(body, _)| of(body)).sum()
}

fn describe(unit: &Unit, evidence: &Evidence) -> String {
    let mut text = backtrail_ir::text::print(unit);
    let id = format!("{UNIT:?}, ");
    for (function, found) in &evidence.functions {
        text += &format!("{function:?}: {found:?}\n").replace(&id, "");
    }
    for thread in &evidence.threads {
        text += "thread\n";
        for frame in &thread.frames {
            text += &format!("  {frame:?}\n").replace(&id, "");
        }
    }
    text
}

/// Odds for what is told, of 8: that a function was entered, of blocks and calls
/// of functions, of those of activations, of paths.
const ODDS: [[u8; 4]; 7] = [
    [0, 0, 0, 0],
    [8, 0, 0, 0],
    [0, 8, 0, 0],
    [0, 0, 8, 0],
    [0, 0, 0, 8],
    [8, 8, 8, 8],
    [4, 4, 4, 4],
];

#[test]
fn nothing_that_was_executed_is_called_impossible() {
    let amount = std::env::var("BACKTRAIL_EXECUTIONS").ok();
    let amount = amount.map_or(4000, |it| it.parse().expect("BACKTRAIL_EXECUTIONS is a number"));
    let seed = std::env::var("BACKTRAIL_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    let mut left = [[0u64; 2]; ODDS.len()];
    let (mut stopped, mut left_alone) = (0, 0);
    let mut number = seed * 1_000_000_000u64;
    while stopped < amount {
        number += 1;
        let mut rng = Rng::with_seed(number);
        let size = Size {
            functions: 1 + number as usize % 5,
            blocks: 6,
            calls: number as usize % 3,
            unseen: !number.is_multiple_of(7),
        };
        let program = RandomProgram::new(&mut rng, size);
        let code = program.code();
        let unreachable = code.unreachable();
        for _ in 0..4 {
            let mut run = Execution::new(&program.unit);
            let steps = rng.usize(0..80);
            if !run.run(&mut rng, steps) {
                continue;
            }
            stopped += 1;
            let odds = ODDS[rng.usize(0..ODDS.len())];
            let evidence = run.evidence(&mut rng, odds);
            let active = Active::compute(&code, &evidence);
            let whole =
                !evidence.threads_missing && evidence.threads.iter().all(|thread| thread.complete);
            for (body, id) in code.functions().filter(|(_, id)| unreachable.contains(id)) {
                let ran = run.truth.blocks.iter().any(|(function, _)| *function == id.1);
                assert!(!(ran || whole && active.function(body)), "seed {number}: {id:?}");
                left_alone += 1;
            }
            assert!(active.contradictions(&code, &evidence).is_empty(), "seed {number}");
            if let Some(what) = contradiction(&code, &active, &run.truth) {
                panic!("seed {number}: {what}\n{}", describe(&program.unit, &evidence));
            }
            let least = Active::compute(&code, &evidence.stacks_only());
            let (now, before) = (active.size(), least.size());
            assert!(now.nodes <= before.nodes && now.edges <= before.edges, "seed {number}");
            let ran = run.truth.blocks.len() + run.truth.edges.len() + run.truth.calls.len();
            let excess = |active: &Active| (size_of(&code, active) - ran) as u64;
            let place = ODDS.iter().position(|it| *it == odds).unwrap();
            left[place][0] += excess(&least);
            left[place][1] += excess(&active);
        }
    }
    // Otherwise the test proves nothing.
    println!("{left:?} {left_alone}");
    assert!(left_alone * 100 > amount, "{left_alone}");
    assert!(left[5][1] * 10 < left[5][0] * 2, "{left:?}");
}

/// Of small programs so many executions are tried that hardly one that agrees
/// with a core is missed: little else may be called possible.
#[test]
fn little_is_possible_that_never_happens() {
    let mut sizes = [[0usize; 2]; ODDS.len()];
    for number in 0..700 {
        let mut rng = Rng::with_seed(number);
        let size = Size { functions: 2, blocks: 4, calls: 1, unseen: false };
        let program = RandomProgram::new(&mut rng, size);
        let code = program.code();
        let mut run = Execution::new(&program.unit);
        let steps = rng.usize(1..9);
        if !run.run(&mut rng, steps) {
            continue;
        }
        let place = number as usize % ODDS.len();
        let evidence = run.evidence(&mut rng, ODDS[place]);
        let mut possible = run.truth.clone();
        for _ in 0..400 {
            let mut other = Execution::new(&program.unit);
            for _ in 0..14 {
                if other.agrees(&evidence) {
                    possible.blocks.extend(&other.truth.blocks);
                    possible.edges.extend(&other.truth.edges);
                    possible.calls.extend(&other.truth.calls);
                }
                if !other.run(&mut rng, 1) {
                    break;
                }
            }
        }
        let active = Active::compute(&code, &evidence);
        assert_eq!(contradiction(&code, &active, &possible), None, "seed {number}");
        sizes[place][0] += possible.blocks.len() + possible.edges.len() + possible.calls.len();
        sizes[place][1] += size_of(&code, &active);
    }
    println!("{sizes:?}");
    let [possible, active] = [0, 1].map(|side| sizes.iter().map(|it| it[side]).sum::<usize>());
    assert!(active * 100 <= possible * 106, "{sizes:?}");
}

#[test]
fn a_block_on_no_way_with_another_is_impossible() {
    // An entry that branches to either of two blocks that meet again.
    let text = "unit \"a.c\"\ns0 = function f0 \"main\" external\n\
        function f0 s0 parameters 0 {\nb0:\n  i0 branch (0) -> b1, b2\nb1:\n  i1 jump -> b3\n\
        b2:\n  i2 jump -> b3\nb3:\n  i3 return ()\n}\n";
    let unit = backtrail_ir::text::parse(text).unwrap();
    let program = RandomProgram { unit };
    let code = program.code();
    let mut rng = Rng::with_seed(3);
    let mut run = Execution::new(&program.unit);
    run.run(&mut rng, 2);
    let took = |block: usize| run.truth.blocks.iter().any(|it| it.1 == Block::new(block));
    assert!(took(3), "{:?}", run.truth);
    let (yes, no) = if took(1) { (1, 2) } else { (2, 1) };
    let evidence = run.evidence(&mut rng, [0, 0, 0, 0]);
    let active = |evidence: &Evidence| {
        let active = Active::compute(&code, evidence);
        let body = code.functions().next().unwrap().0;
        (active.block(body, Block::new(yes)), active.block(body, Block::new(no)))
    };
    assert_eq!(active(&evidence), (true, true));
    let mut known = evidence;
    let backtrail_crash::evidence::StackFrame::Known(main) = &mut known.threads[0].frames[0] else {
        panic!("main is known")
    };
    main.coverage.blocks = (0..4)
        .map(|it| match it == yes {
            true => backtrail_crash::evidence::Seen::Yes,
            false => backtrail_crash::evidence::Seen::Unknown,
        })
        .collect();
    assert_eq!(active(&known), (true, false));
}
