//! Traces of executables, put together from the stops of several runs, against
//! single steps.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use backtrail_graph::Index as _;
use backtrail_machine::code::Code;
use backtrail_machine::tracee::breakpoints::{Breakpoints, Stop};
use backtrail_machine::tracee::{Ended, Launch, Tracee, single_step};
use backtrail_trace::icfg::{Role, Routine};
use backtrail_trace::machine_graph::{MachineGraph, Recorded, Recorder};
use backtrail_trace::planning::{Options, Plan, Strategy, distribute};
use backtrail_trace::rebuild::{Ending, Event, Outcome, Rebuild, Tables};

/// Who takes a breakpoint.
#[derive(Debug, Clone, Copy)]
enum How {
    /// The tracer.
    Stops,
    /// A handler in the program.
    Handler,
}

struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    code: Code,
}

impl Program {
    fn new(path: &Path, arguments: &[&str]) -> Self {
        let path = path.canonicalize().unwrap();
        let code = Code::of_file(&path).unwrap();
        Self { path, arguments: arguments.iter().map(OsString::from).collect(), code }
    }

    fn start(&self) -> Tracee {
        let launch = Launch {
            executable: &self.path,
            name: OsStr::new(self.path.file_name().unwrap()),
            arguments: &self.arguments,
            without: &[],
            input: Some(File::open("/dev/null").unwrap()),
            output: Some(Stdio::null()),
            errors: None,
        };
        launch.start(&self.code).unwrap()
    }

    fn step(&self) -> (Vec<u32>, Ended) {
        let mut blocks = Vec::new();
        let ended = single_step::blocks(&mut self.start(), &self.code, |block| {
            blocks.push(block as u32);
            Ok(())
        });
        (blocks, ended.unwrap())
    }

    /// The blocks that a plan's runs tell, how the trace ended, and the stops of
    /// each run.
    fn trace(
        &self,
        graph: &MachineGraph,
        plan: &Plan,
        how: How,
    ) -> (Vec<u32>, Option<Outcome>, Vec<u64>) {
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
                    let last = blocks.iter().rev().take(8).map(|&it: &u32| {
                        let block = &self.code.blocks[it as usize];
                        format!("{:#x} {:?}", block.start, block.exit)
                    });
                    panic!("{error}\nbefore: {:#?}", last.collect::<Vec<_>>());
                }
            };
            if let Role::Block(block) = graph.icfg.nodes()[node].role {
                blocks.push(block);
            }
        }
        (blocks, rebuild.outcome(), stops)
    }
}

/// Runs of one plan after the other, against single steps.
fn check(program: &Program, plans: &[(usize, Strategy, Option<usize>)]) -> usize {
    let name = program.path.file_name().unwrap().to_string_lossy().into_owned();
    let graph = MachineGraph::new(&program.code).unwrap();
    let (expected, _) = program.step();
    let mut counts = vec![0u64; program.code.blocks.len()];
    expected.iter().for_each(|&block| counts[block as usize] += 1);
    // These look at their own memory map, in which a handler shows.
    let hows: &[How] = match &name[..] {
        "grep" | "diff" => &[How::Stops],
        _ => &[How::Stops, How::Handler],
    };
    for &(runs, strategy, limit) in plans {
        let costs = graph.costs(&program.code, &graph.guessed_weights(&program.code));
        let options = Options { runs, strategy, limit, trials: 0 };
        let plan = distribute(&graph.icfg, &costs, options).unwrap();
        for &how in hows {
            let (blocks, outcome, stops) = program.trace(&graph, &plan, how);
            println!(
                "{name}: {} blocks executed, {runs} runs, stops {stops:?}, {} computed jumps assumed \
             to be calls",
                expected.len(),
                program.code.open_jumps.len(),
            );
            let common =
                blocks.iter().zip(&expected).take_while(|(one, other)| one == other).count();
            assert_eq!(
                common,
                expected.len(),
                "{name}, {options:?}, {how:?}: the same up to there"
            );
            assert_eq!(blocks.len(), expected.len(), "{name}, {options:?}, {how:?}");
            assert_eq!(outcome, Some(Outcome::Whole), "{name}, {options:?}, {how:?}");
            for (profile, &stops) in plan.profiles.iter().zip(&stops) {
                let blocks = profile.places().iter().filter_map(|&place| graph.block_of(place));
                let predicted: u64 = blocks.map(|block| counts[block]).sum();
                assert_eq!(
                    stops, predicted,
                    "{name}, {options:?}, {how:?}: stops made and predicted"
                );
            }
        }
        if let Some(limit) = limit {
            let always = costs.forced().len();
            let most = plan.profiles.iter().map(|it| it.places().len()).max().unwrap();
            assert!(most <= limit + always, "{name}: {most} witnesses");
        }
    }
    expected.len()
}

fn compile(folder: &Path, compiler: &str, source: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machine/tests/code").join(source);
    let program = folder.join(format!("{compiler}{}", options.concat()));
    let mut command = Command::new(compiler);
    let done = command.args(options).arg(source).arg("-o").arg(&program).status();
    assert!(done.expect("the compiler is installed").success(), "{compiler} {options:?}");
    program
}

const ONE: (usize, Strategy, Option<usize>) = (1, Strategy::Fine, None);

/// A few, or with a variable set all of one to six runs, the strategies and limits.
fn plans() -> Vec<(usize, Strategy, Option<usize>)> {
    if std::env::var_os("BACKTRAIL_ALL_PLANS").is_none() {
        return vec![
            ONE,
            (2, Strategy::Function, None),
            (3, Strategy::Fine, None),
            (4, Strategy::Grouped, None),
            (2, Strategy::Fine, Some(6)),
        ];
    }
    let limits = [None, Some(6), Some(15), Some(40)];
    let all = (1..=6).flat_map(|runs| Strategy::ALL.map(|strategy| (runs, strategy)));
    all.flat_map(|(runs, strategy)| limits.map(|limit| (runs, strategy, limit))).collect()
}

#[test]
fn traces_of_what_gcc_and_clang_make_are_those_of_single_steps() {
    let folder = tempfile::tempdir().unwrap();
    let plans = plans();
    for compiler in ["gcc", "clang-19"] {
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            let kind = if level == "-O1" { "-no-pie" } else { "-pie" };
            let program = compile(folder.path(), compiler, "shapes.c", &[level, kind]);
            let blocks = check(&Program::new(&program, &["9"]), &plans);
            assert!(blocks > 300, "{compiler} {level}: {blocks}");
        }
    }
}

/// Their C library is traced with them.
#[test]
fn traces_of_what_is_linked_statically_are_those_of_single_steps() {
    let folder = tempfile::tempdir().unwrap();
    let is_all = std::env::var_os("BACKTRAIL_ALL_PLANS").is_some();
    let plans = [ONE, (2, Strategy::Function, None), (4, Strategy::Fine, None)];
    let plans = if is_all { &plans[..] } else { &plans[..1] };
    let kinds = [("clang-19", "-static-pie"), ("gcc", "-static")];
    for (compiler, kind) in if is_all { &kinds[..] } else { &kinds[..1] } {
        let program = compile(folder.path(), compiler, "shapes.c", &["-O2", kind]);
        let blocks = check(&Program::new(&program, &["9"]), plans);
        assert!(blocks > 1000, "{compiler} {kind}: {blocks}");
    }
}

#[test]
fn exceptions_land_in_the_right_frame() {
    let folder = tempfile::tempdir().unwrap();
    for (compiler, level) in [("g++", "-O0"), ("g++", "-O2"), ("clang++-19", "-O1")] {
        let program = compile(folder.path(), compiler, "throws.cc", &[level, "-s"]);
        check(&Program::new(&program, &[]), &[ONE, (3, Strategy::Fine, None)]);
    }
}

/// What Debian installs, stripped as it is. Commands, and over how many runs, can be
/// given in variables.
#[test]
fn traces_of_installed_programs_are_those_of_single_steps() {
    let commands = "true;ls /usr;sort /etc/group;sed -n s/a/b/p /etc/group;\
                    grep -n ro*t /etc/group;gzip --version;mawk {print($1)} /etc/group;\
                    find /etc/apt;xz --version;expr 3 + 4;date +%Y;diff /etc/group /etc/group";
    let commands = std::env::var("BACKTRAIL_STEPPED").unwrap_or_else(|_| commands.to_owned());
    let runs = std::env::var("BACKTRAIL_STEPPED_RUNS").unwrap_or_else(|_| "1".to_owned());
    let plans: Vec<_> =
        runs.split(',').map(|it| (it.parse().unwrap(), Strategy::Fine, None)).collect();
    for command in commands.split(';') {
        let mut words = command.split_whitespace();
        let path = Path::new("/usr/bin").join(words.next().unwrap());
        let arguments: Vec<&str> = words.collect();
        check(&Program::new(&path, &arguments), &plans);
    }
}
