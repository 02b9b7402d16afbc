//! A unit with the block log plan behaves as before and logs what it executes.
//!
//! The log is checked against the model by a walk that knows nothing of plans:
//! each block but an entry follows a block of the same activation that lists it
//! as a successor, where returns, `longjmp` and exceptions end activations.

use std::path::PathBuf;
use std::process::{Command, Output};

use backtrail_graph::Index;
use backtrail_ir::{Block, Func, Unit};
use backtrail_plan::worker::{Output as Written, Request};
use backtrail_plan::{UnitPlan, block_log};

use crate::toolchain::{Workshop, compiler, lower, request, run, serve_done, source};

const UNIT: [u8; 16] = [0xa1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf2];

struct Logged {
    workshop: Workshop,
    unit: Unit,
    plan: UnitPlan,
    log: Vec<u32>,
}

fn execute(program: &PathBuf, log: &PathBuf) -> Output {
    Command::new(program).env("LOG", log).output().expect("the program starts")
}

/// Runs a fixture with and without the log.
fn run_logged(fixture: &str, flags: &[&str]) -> Logged {
    let workshop = Workshop::new();
    let plain = workshop.object(fixture, flags);
    let expected = execute(&workshop.link(fixture, &[&plain], flags), &workshop.path("none"));
    assert!(!expected.stdout.is_empty());

    let bitcode = workshop.bitcode(fixture, flags);
    let unit = lower(&bitcode);
    let plan = block_log::plan(&unit, UNIT);
    let changed = workshop.path("changed.bc");
    let output = Some(Written::Bitcode(changed.clone()));
    serve_done(&Request { plan: Some(plan.clone()), output, ..request(&bitcode) });
    let object = workshop.generate(fixture, &changed, flags);
    let runtime = workshop.path("runtime.o");
    run(compiler("log_runtime.c")
        .args(["-O1", "-c", "-o"])
        .arg(&runtime)
        .arg(source("log_runtime.c")));
    let program = workshop.link(fixture, &[&object, &runtime], flags);
    let log_file = workshop.path("log");
    let found = execute(&program, &log_file);
    assert_eq!(found, expected, "{fixture} {flags:?}");

    let log = std::fs::read_to_string(log_file).expect("the runtime wrote it");
    let mut lines = log.lines();
    let header = format!("unit a1f2 {}", plan.blocks);
    assert_eq!(lines.next(), Some(header.as_str()), "the descriptor arrived");
    let log = lines.map(|it| it.parse().expect("a number")).collect();
    Logged { workshop, unit, plan, log }
}

impl Logged {
    fn events(&self) -> Vec<(Func, Block)> {
        let firsts: Vec<_> = block_log::first_blocks(&self.unit).collect();
        let event = |number: &u32| {
            let position = firsts.partition_point(|(_, first)| first <= number) - 1;
            let (function, first) = firsts[position];
            (function, Block::new((number - first) as usize))
        };
        self.log.iter().map(event).collect()
    }

    /// Checks the log against the control flow of the model.
    fn walk(&self) {
        let left_out: Vec<_> = self.plan.left_out.iter().map(|(function, _)| *function).collect();
        let mut active: Vec<(Func, Block)> = Vec::new();
        for (function, block) in self.events() {
            assert!(!left_out.contains(&function));
            if block.position() == 0 {
                active.push((function, block));
                continue;
            }
            let blocks = &self.unit.functions[function].blocks;
            let follows = |(of, at): &(Func, Block)| {
                *of == function && blocks[*at].successors.contains(&block)
            };
            while active.last().is_some_and(|it| !follows(it)) {
                active.pop();
            }
            let last = active.last_mut();
            let last = last.unwrap_or_else(|| panic!("nothing leads to {block} of {function}"));
            *last = (function, block);
        }
    }

    fn count(&self, name: &str, block: usize) -> usize {
        let named =
            |function: Func| self.unit.symbols[self.unit.functions[function].symbol].name == name;
        self.events().iter().filter(|(it, at)| named(*it) && at.position() == block).count()
    }
}

#[test]
fn c_programs_log_what_they_execute() {
    for flags in [&["-O0"][..], &["-O2"], &["-O2", "-g", "-fPIC"], &["-O3", "-fno-plt"]] {
        let logged = run_logged("control.c", flags);
        logged.walk();
        assert_eq!(logged.count("main", 0), 1, "{flags:?}");
        assert_eq!(logged.count("switches", 0), 3, "{flags:?}");
        assert_eq!(logged.count("deep", 0), 6, "{flags:?}");
        assert_eq!(logged.count("pure", 0), 1, "{flags:?}");
        assert_eq!(logged.plan.left_out.len(), 1, "the naked function");
        if flags == ["-O0"] {
            assert_eq!(logged.count("counted", 0), 1001);
        }
        drop(logged.workshop);
    }
}

#[test]
fn cxx_programs_log_what_they_execute() {
    for flags in [&["-O0"][..], &["-O2"], &["-O2", "-g", "-fPIC"]] {
        let flags = [flags, &["-std=c++20"]].concat();
        let logged = run_logged("objects.cpp", &flags);
        logged.walk();
        assert_eq!(logged.count("_Z7unwindsi", 0), 4, "{flags:?}");
        run_logged("coroutine.cpp", &flags).walk();
    }
}

#[test]
fn sanitized_programs_log_what_they_execute() {
    run_logged("control.c", &["-O1", "-g", "-fsanitize=undefined"]).walk();
    run_logged("objects.cpp", &["-O1", "-fsanitize=address"]).walk();
}

#[test]
fn strict_floating_point_is_kept() {
    run_logged("control.c", &["-O2", "-ffp-model=strict"]).walk();
}

/// What a pure function's attributes claim is no longer true of it.
#[test]
fn probed_functions_are_no_longer_pure() {
    let workshop = Workshop::new();
    let flags = ["-O2"];
    let purity = |path: &std::path::Path| {
        let text = workshop.path("pure.ll");
        run(Command::new("clang-19")
            .args(["-O2", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm", "-o"])
            .args([&text, &path.to_owned()]));
        let text = std::fs::read_to_string(text).expect("the compiler wrote it");
        let line = text.lines().find(|it| it.starts_with("define") && it.contains("@pure("));
        let number = line.and_then(|it| it.split('#').nth(1)).expect("attributes");
        let number = number.split(' ').next().expect("a number");
        let group = format!("attributes #{number} = ");
        text.lines().find(|it| it.starts_with(&group)).expect("a group").contains("memory(none)")
    };
    let bitcode = workshop.bitcode("control.c", &flags);
    assert!(purity(&bitcode));
    let changed = workshop.path("changed.bc");
    let plan = Some(block_log::plan(&lower(&bitcode), UNIT));
    let output = Some(Written::Bitcode(changed.clone()));
    serve_done(&Request { plan, output, ..request(&bitcode) });
    assert!(!purity(&changed));
}
