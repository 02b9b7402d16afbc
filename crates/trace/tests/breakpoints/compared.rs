//! One executable, traced by plans and step by step.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use backtrail_graph::Index as _;
use backtrail_machine::code::{Code, Library};
use backtrail_machine::tracee::breakpoints::{Breakpoints, Stop};
use backtrail_machine::tracee::{Launch, Tracee, single_step};
use backtrail_trace::icfg::{Role, Routine};
use backtrail_trace::machine_graph::{MachineGraph, Recorded, Recorder};
use backtrail_trace::planning::{Options, Plan, Strategy, distribute};
use backtrail_trace::rebuild::{Ending, Event, Outcome, Rebuild, Tables};
use serde::Serialize;

/// Who takes a breakpoint.
#[derive(Debug, Clone, Copy)]
enum How {
    /// The tracer.
    Stops,
    /// A handler in the program.
    Handler,
}

/// How decisions are spread over runs, and the most breakpoints of a run.
pub type Spread = (usize, Strategy, Option<usize>);

/// More blocks than this are not traced twice in the same way.
const LARGE: usize = 1_000_000;

/// What was compared of one executable.
#[derive(Debug, Default, Serialize)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// The blocks of a run.
    pub blocks: usize,
    /// Those of libraries.
    pub in_libraries: usize,
    /// Computed jumps in it whose targets are assumed.
    pub unknown_jumps: usize,
    /// Traces, each put together from the runs of one plan.
    pub comparisons: usize,
    /// Those that are, block by block, what single steps tell, to the end.
    pub equal: usize,
    /// Runs of all plans.
    pub runs: usize,
    /// Those with as many stops as were predicted.
    pub as_predicted: usize,
    /// The stops of all runs.
    pub stops: u64,
    /// By number of runs: the stops of the worst, where decisions are spread one by
    /// one and without a limit.
    pub worst: BTreeMap<usize, u64>,
    /// What is wrong.
    #[serde(skip)]
    pub wrong: Vec<String>,
}

/// What the runs of a plan tell.
struct Traced {
    blocks: Vec<u32>,
    outcome: Result<Option<Outcome>, String>,
    /// By run.
    stops: Vec<u64>,
}

pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    code: Code,
}

impl Program {
    pub fn new(path: &Path, arguments: &[&str]) -> Self {
        let path = path.canonicalize().unwrap();
        let code = Code::of_file(&path).unwrap();
        Self { path, arguments: arguments.iter().map(OsString::from).collect(), code }
    }

    /// With the libraries whose names begin with one of these.
    pub fn with_libraries(path: &Path, arguments: &[&str], names: &[&str]) -> Self {
        let mut program = Self::new(path, arguments);
        let is_wanted = |path: &Path| {
            let name = path.file_name().unwrap().to_string_lossy();
            names.iter().any(|it| name.starts_with(it))
        };
        let loaded = program.start().libraries().unwrap().into_iter();
        let libraries: Vec<Library> =
            loaded.map(|it| Library { traced: is_wanted(&it.path), path: it.path }).collect();
        assert!(libraries.iter().any(|it| it.traced), "{libraries:?}");
        program.code = Code::with_libraries(&program.path, &libraries).unwrap();
        program
    }

    fn start(&self) -> Tracee {
        let launch = Launch {
            executable: &self.path,
            name: OsStr::new(self.path.file_name().unwrap()),
            arguments: &self.arguments,
            input: Some(File::open("/dev/null").unwrap()),
            output: Some(Stdio::null()),
            errors: None,
            prepare: None,
        };
        launch.start(&self.code).unwrap()
    }

    fn step(&self) -> Vec<u32> {
        let mut blocks = Vec::new();
        let ended = single_step::blocks(&mut self.start(), &self.code, |block| {
            blocks.push(block as u32);
            Ok(())
        });
        ended.unwrap();
        blocks
    }

    fn trace(&self, graph: &MachineGraph, plan: &Plan, how: How) -> Traced {
        let folder = tempfile::tempdir().unwrap();
        let mut traces = Vec::new();
        let mut stops = Vec::new();
        for profile in &plan.profiles {
            let recorder = Recorder::new(graph, &self.code, profile);
            let (blocks, is_landing) = (recorder.blocks().to_vec(), recorder.is_landing().to_vec());
            let breakpoints =
                Breakpoints { code: &self.code, blocks: &blocks, is_landing: &is_landing };
            let mut events: Vec<Event> = Vec::new();
            let mut ending = Ending::Cut;
            let mut visit = |thread: usize, stop: Stop<'_>| {
                assert_eq!(thread, 0, "one thread");
                match recorder.record(thread, &stop) {
                    Recorded::Nothing => {}
                    Recorded::Event(event) => events.push(event),
                    Recorded::End(event) => {
                        events.extend(event);
                        ending = Ending::Whole;
                    }
                }
                Ok(())
            };
            let mut tracee = self.start();
            let ran = match how {
                How::Stops => breakpoints.run(&mut tracee, &mut visit),
                How::Handler => breakpoints.run_in_process(&mut tracee, folder.path(), &mut visit),
            };
            stops.push(ran.unwrap().stops);
            traces.push((events.into_iter(), ending));
        }
        let tables = Tables::new(&graph.icfg, &plan.profiles).unwrap();
        let mut rebuild = Rebuild::new(&tables, Routine::new(self.code.entry), traces);
        let mut blocks = Vec::new();
        for node in &mut rebuild {
            let node = match node {
                Ok(node) => node,
                Err(error) => {
                    let outcome = Err(format!("{error}, after {}", self.last_of(&blocks)));
                    return Traced { blocks, outcome, stops };
                }
            };
            if let Role::Block(block) = graph.icfg.nodes()[node].role {
                blocks.push(block);
            }
        }
        Traced { blocks, outcome: Ok(rebuild.outcome()), stops }
    }

    fn last_of(&self, blocks: &[u32]) -> String {
        let last = blocks.iter().rev().take(4).map(|&it| {
            let block = &self.code.blocks[it as usize];
            format!("{} {:?}", self.code.shown(block.start), block.exit)
        });
        last.collect::<Vec<_>>().join(" after ")
    }

    /// Runs of one plan after the other, against single steps. `name` is what the
    /// row is called.
    pub fn compare(&self, name: &str, plans: &[Spread]) -> Row {
        let file = self.path.file_name().unwrap().to_string_lossy().into_owned();
        let graph = MachineGraph::new(&self.code).unwrap();
        let expected = self.step();
        let mut counts = vec![0u64; self.code.blocks.len()];
        expected.iter().for_each(|&block| counts[block as usize] += 1);
        let in_libraries =
            expected.iter().filter(|&&it| !self.code.modules[0].blocks.contains(&(it as usize)));
        let mut row = Row {
            name: name.to_owned(),
            in_libraries: in_libraries.count(),
            blocks: expected.len(),
            unknown_jumps: self.code.open_jumps.len(),
            ..Row::default()
        };
        // These look at their own memory map, in which a handler shows.
        let hows: &[How] = match &file[..] {
            "grep" | "diff" => &[How::Stops],
            _ if self.code.modules.len() > 1 => &[How::Stops],
            // With landings, both are the same.
            _ if expected.len() > LARGE && self.code.blocks.iter().any(|it| it.pad) => {
                &[How::Stops]
            }
            _ => &[How::Stops, How::Handler],
        };
        let costs = graph.costs(&self.code, &graph.guessed_weights(&self.code));
        for &(runs, strategy, limit) in plans {
            let options = Options { runs, strategy, limit, trials: 0 };
            let plan = distribute(&graph.icfg, &costs, options).unwrap();
            for &how in hows {
                let what = format!("{name}, {options:?}, {how:?}");
                let Traced { blocks, outcome, stops } = self.trace(&graph, &plan, how);
                row.comparisons += 1;
                if outcome == Ok(Some(Outcome::Whole)) && blocks == expected {
                    row.equal += 1;
                } else {
                    let common =
                        blocks.iter().zip(&expected).take_while(|(one, other)| one == other);
                    let (common, all) = (common.count(), expected.len());
                    row.wrong.push(format!("{what}: {common} of {all} the same, {outcome:?}"));
                }
                for (profile, &stops) in plan.profiles.iter().zip(&stops) {
                    let places = profile.places().iter();
                    let blocks = places.filter_map(|&place| graph.block_of(place));
                    let predicted: u64 = blocks.map(|block| counts[block]).sum();
                    row.runs += 1;
                    row.stops += stops;
                    if stops == predicted {
                        row.as_predicted += 1;
                    } else {
                        row.wrong.push(format!("{what}: {stops} stops, {predicted} predicted"));
                    }
                }
                if strategy == Strategy::Fine && limit.is_none() {
                    row.worst.insert(runs, stops.into_iter().max().unwrap());
                }
            }
            if let Some(limit) = limit {
                let always = costs.forced().len();
                let most = plan.profiles.iter().map(|it| it.places().len()).max().unwrap();
                assert!(most <= limit + always, "{name}: {most} witnesses");
            }
        }
        row
    }
}
