//! `backtrail plan`: what counting with several copies would cost.

use std::io::Write as _;
use std::time::Instant;

use backtrail_build::carry::Carried;
use backtrail_build::variant::{build_id_text, modules_to_plan};
use backtrail_graph::Index as _;
use backtrail_profile::partition::bound::Bound;
use backtrail_profile::partition::cost::{Cost, Executed, Run, cost_of, saved};
use backtrail_profile::partition::interest::Interest;
use backtrail_profile::partition::{CountedFunction, Partition, ProgramPaths, Strategy};
use backtrail_report::plan::{Document, Explained, Part, Plan, text};

use crate::args;
use crate::json::write_document;
use crate::named::Named;
use crate::path_counting::{PathCounting, read_profile_of};
use crate::progress::Phase;
use crate::stdout;
use crate::style::{demangle, terminal};

/// Runs the verb.
pub fn run(args: &args::plan::Plan, quiet: bool) -> anyhow::Result<u8> {
    let planning = Phase::begin("planning", quiet);
    let carried = Carried::read(&args.program)?;
    let explained = args.explain.as_ref().map(Named::by);
    let weights = read_profile_of(&args.weights, &carried)?;
    let on = args.on.as_deref().map(|path| read_profile_of(path, &carried)).transpose()?;
    let run = Run::of(on.as_ref().unwrap_or(&weights));
    let counting = PathCounting::of_profile((!args.guessed).then_some(&weights));
    let modules = modules_to_plan(&carried)?;
    let start = Instant::now();
    let program = counting.program(&modules);
    let found = start.elapsed().as_secs_f64();
    if let Some(named) = &explained {
        let whole = format!("{} that is counted", weights.program);
        named.check(whole, program.functions().iter().map(|it| it.name()))?;
    }
    let mut document = Document {
        schema: "backtrail.plan/1",
        program: weights.program.clone(),
        build_id: match &carried.build_id[..] {
            [] => String::new(),
            bytes => build_id_text(bytes),
        },
        functions: program.functions().len(),
        exact: run.is_exact(),
        weights: if args.guessed { "guessed" } else { "profile" },
        plans: Vec::new(),
        explained: Vec::new(),
    };
    let bound = Bound::new(&program, &run);
    let all = Cost::of(&program, &Partition::new(&program, Strategy::Sbl, 1), &run);
    for &copies in &args.copies {
        let copies = usize::from(copies);
        let pbl = Cost::of(&program, &Partition::new(&program, Strategy::Pbl, copies), &run);
        for strategy in Strategy::ALL {
            let start = Instant::now();
            let partition = Partition::new(&program, strategy, copies);
            let seconds = found + start.elapsed().as_secs_f64();
            let cost = Cost::of(&program, &partition, &run);
            let labels = partition.labels(&program);
            document.plans.push(Plan {
                strategy: strategy.name(),
                copies,
                probes: cost.copies.iter().map(|copy| copy.probes).collect(),
                hits: cost.copies.iter().map(|copy| copy.hits).collect(),
                hits_worst: cost.worst_hits(),
                hits_with_counts_worst: cost.worst_hits_with_updates(),
                bound: bound.saving(copies),
                vs_sbl: saved(all.worst_hits(), cost.worst_hits()),
                vs_sbl_with_counts: saved(
                    all.worst_hits_with_updates(),
                    cost.worst_hits_with_updates(),
                ),
                vs_sbl_unfolded: saved(all.worst_hits_unfolded(), cost.worst_hits_unfolded()),
                vs_pbl: saved(pbl.worst_hits(), cost.worst_hits()),
                labels: labels.iter().map(|copy| copy.labels).sum(),
                moved: labels.iter().map(|copy| copy.moved).sum(),
                split: count_split(&program, &partition),
                made_whole: partition.made_whole(),
                seconds,
            });
            if let Some(wanted) = &explained {
                document.explained.extend(explain(&program, &partition, &run, wanted));
            }
        }
    }
    drop(planning);
    let mut out = stdout::open(stdout::form(args.json));
    if args.json {
        write_document(&mut out, &document)?;
    } else {
        out.write_all(text(&document, terminal()).as_bytes())?;
    }
    out.flush()?;
    Ok(0)
}

/// The functions of which more than one copy counts a part.
fn count_split(program: &ProgramPaths<'_>, partition: &Partition) -> usize {
    let is_split = |function: &&CountedFunction<'_>| {
        let shares = partition.shares(function.unit_id, function.function);
        shares.is_some_and(|shares| shares.interests.iter().flatten().count() > 1)
    };
    program.functions().iter().filter(is_split).count()
}

/// Who counts what of the functions that are wanted.
fn explain(
    program: &ProgramPaths<'_>,
    partition: &Partition,
    run: &Run,
    wanted: &Named,
) -> Vec<Explained> {
    let mut explained = Vec::new();
    let nothing = Executed::default();
    for function in program.functions() {
        let demangled = demangle(function.name());
        if !wanted.has(function.name()) {
            continue;
        }
        let Some(shares) = partition.shares(function.unit_id, function.function) else { continue };
        let executed = run.executed(function).unwrap_or(&nothing);
        let parts = shares.interests.iter().enumerate().filter_map(|(copy, interest)| {
            let interest = interest.as_ref()?;
            let cost = cost_of(function, interest, executed);
            Some(Part {
                copy: copy + 1,
                paths: count_paths(function, interest).to_string(),
                probes: cost.probes,
                hits: cost.hits,
                updates: cost.updates,
            })
        });
        explained.push(Explained {
            strategy: partition.strategy().name(),
            copies: partition.copies(),
            name: function.name().to_owned(),
            demangled,
            unit: function.unit.name.clone(),
            paths: function.plan().count().to_string(),
            call_sites: function.call_sites,
            parts: parts.collect(),
        });
    }
    explained
}

/// How many paths are of interest.
fn count_paths(function: &CountedFunction<'_>, interest: &Interest) -> u64 {
    let (dag, graph) = (function.dag(), function.dag().graph());
    let mut counts = vec![0u64; graph.node_count()];
    counts[dag.exit().position()] = 1;
    for &node in dag.reverse_topological().iter().skip(1) {
        let edges = graph.out_edges(node).iter().filter(|&&edge| interest.contains_edge(edge));
        let ways = edges.map(|&edge| counts[graph.target(edge).position()]);
        counts[node.position()] = ways.fold(0, u64::saturating_add);
    }
    counts[dag.entry().position()]
}
