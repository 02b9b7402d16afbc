//! The traced graph of a program, from its units.

mod random_icfg;

use backtrail_analysis::CallTargets;
use backtrail_graph::Index;
use backtrail_ir::{Func, Unit};
use backtrail_testkit::{joined, random_unit};
use backtrail_trace::distribution::Costs;
use backtrail_trace::icfg::from_program::{Begin, ProgramGraph};
use backtrail_trace::icfg::{Node, Role, WayKind};
use backtrail_trace::planning::{Options, Strategy, distribute};
use backtrail_trace::rebuild::Tables;
use fastrand::Rng;
use random_icfg::{check_rebuilt, graph_count, random_execution};

const UNIT: &str = r#"
unit "demo.c"
s0 = function f0 "main" external
s1 = declare "printf" external variadic
s2 = declare "qsort" external
s3 = function f1 "compare" internal
s4 = declare "setjmp" external returns_twice
s5 = declare "longjmp" external no_return
s6 = declare "mystery" external
s7 = function f2 "again" internal

function f0 s0 parameters 0 {
b0:
  i0 = call s1 (1)
  i1 = call s2 (0, 0, 0, s3)
  i2 = call s4 (opaque)
  i3 = compare (i2, 0)
  i4 branch (i3) -> b1, b2
b1:
  i5 = call s7 (1)
  i6 return (0)
b2:
  i7 = call s6 ()
  i8 return (1)
}

function f1 s3 parameters 2 {
b0:
  i0 return (p0)
}

function f2 s7 parameters 1 {
b0:
  i0 = compare (p0, 0)
  i1 branch (i0) -> b1, b2
b1:
  i2 = call s7 may_tail (p0)
  i3 return (i2)
b2:
  i4 = call s5 no_return (opaque, 1)
  i5 unreachable
}
"#;

/// The ways of each node, in words.
fn describe(graph: &ProgramGraph) -> Vec<String> {
    let icfg = &graph.icfg;
    let name = |node: Node| match graph.begins[node] {
        Begin::Block(block) => format!("{}.{block}", icfg.nodes()[node].routine),
        Begin::After(inst) => format!("{}.after {inst}", icfg.nodes()[node].routine),
        Begin::Unseen(None) => format!("start {node}"),
        Begin::Unseen(Some(inst)) => format!("{}.in {inst}", icfg.nodes()[node].routine),
    };
    icfg.nodes()
        .indices()
        .map(|node| {
            let ways = icfg.ways_of(node).map(|way| match icfg.ways()[way].kind {
                WayKind::Step(to) => name(to),
                WayKind::Call { callee, back } => format!("call {callee} then {}", name(back)),
                WayKind::Tail(callee) => format!("tail {callee}"),
                other => format!("{other:?}").to_lowercase(),
            });
            let ways: Vec<String> = ways.collect();
            let landing = if icfg.nodes()[node].landing { " (landing)" } else { "" };
            format!("{}{landing}: {}", name(node), ways.join(", "))
        })
        .collect()
}

#[test]
fn calls_split_blocks_where_they_matter() {
    let unit = backtrail_ir::text::parse(UNIT).unwrap();
    let program = joined([&unit]);
    let graph = ProgramGraph::new(&program).unwrap();
    assert_eq!(
        describe(&graph),
        [
            "start n0: call r1 then start n1",
            "start n1: end",
            "r1.b0: r1.in i1",
            "r1.b1: call r3 then r1.after i5",
            "r1.b2: r1.in i7",
            "r1.after i1: r1.after i2",
            "r1.in i1: r1.after i1, call r2 then r1.in i1",
            "r1.after i2 (landing): r1.b1, r1.b2",
            "r1.after i5: return",
            "r1.after i7: return",
            "r1.in i7: r1.after i7, call r2 then r1.in i7, leave, end",
            "r2.b0: return",
            "r3.b0: r3.b1, r3.b2",
            "r3.b1: tail r3",
            "r3.b2: r3.in i4",
            "r3.after i4: ",
            "r3.in i4: leave",
        ]
    );
    let blocks = graph.icfg.nodes().values().filter(|it| matches!(it.role, Role::Block(_)));
    assert_eq!(blocks.count(), graph.blocks.len());
}

/// A random unit whose first function is `main`.
fn unit_with_main(seed: u64) -> Option<Unit> {
    let size = random_unit::Size { functions: 5, blocks: 6, insts: 3 };
    let mut unit = random_unit::unit(seed, size);
    let function = unit.functions.get(Func::new(0))?;
    let symbol = function.symbol;
    unit.functions[Func::new(0)].traits.naked = false;
    let symbol = &mut unit.symbols[symbol];
    symbol.name = "main".into();
    symbol.linkage = backtrail_ir::Linkage::External;
    symbol.comdat = None;
    Some(unit)
}

#[test]
fn executions_of_random_programs_are_rebuilt() {
    let (mut programs, mut rebuilt, mut nodes) = (0, 0u64, 0);
    for seed in 0..graph_count(300) {
        let Some(unit) = unit_with_main(seed) else { continue };
        let program = joined([&unit]);
        // A resolver hides what it does.
        if CallTargets::new(&program).main().is_none() {
            continue;
        }
        let Ok(graph) = ProgramGraph::new(&program) else { continue };
        let icfg = &graph.icfg;
        let mut rng = Rng::with_seed(seed);
        let weights = (0..icfg.place_count()).map(|_| 1u64 << rng.u32(0..8)).collect();
        let costs = match seed % 2 {
            0 => Costs::edges(icfg, weights),
            _ => Costs::nodes(icfg, weights),
        };
        let (runs, strategy) = (rng.usize(1..=4), Strategy::ALL[rng.usize(0..3)]);
        let options = Options { runs, strategy, limit: None, trials: 0 };
        let plan = distribute(icfg, &costs, options).unwrap_or_else(|error| {
            panic!("seed {seed}: {error}\n{}", describe(&graph).join("\n"))
        });
        let tables = Tables::new(icfg, &plan.profiles).unwrap();
        programs += 1;
        nodes += icfg.nodes().len();
        for _ in 0..20 {
            if let Some(execution) = random_execution(icfg, &mut rng, 150) {
                check_rebuilt(&tables, icfg, &plan.profiles, &execution);
                rebuilt += 1;
            }
        }
    }
    println!("{programs} programs, {nodes} nodes, {rebuilt} executions rebuilt");
    assert!(programs > 10 && rebuilt > programs, "{programs} programs, {rebuilt} executions");
}
