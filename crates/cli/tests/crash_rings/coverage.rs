//! What bytes and marks of a core tell, against the log of the same crash.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_build::carry::Carried;
use backtrail_crash::evidence::{
    Activation, Coverage, Evidence, Position, Seen, Stack, StackFrame,
};
use backtrail_crash::{Frame, Frames};
use backtrail_graph::Index as _;
use backtrail_ir::Unit;
use backtrail_machine::backtrace::Backtrace;
use backtrail_machine::modules::Options;
use backtrail_machine::process::Process;
use backtrail_machine::unwind;

use crate::crash::{Crash, Logged};

/// How much was told.
#[derive(Debug, Default, Clone, Copy)]
pub struct Told {
    /// Blocks of functions that were executed, and said to be.
    pub yes: usize,
    /// Blocks that were not.
    pub no: usize,
    /// Those of which nothing is known.
    pub unknown: usize,
    /// The same of live activations.
    pub own_yes: usize,
    /// Not executed by them.
    pub own_no: usize,
    /// Not known.
    pub own_unknown: usize,
}

/// What the core of `program` tells.
fn examine(crash: &Crash, program: &str, words: &[&str]) -> (Evidence, Frames) {
    let core = crash.core_of(&crash.path(program), words);
    let process = Process::of_core(&core, &Options::default()).unwrap();
    std::fs::remove_file(&core).unwrap();
    let carried = Carried::read(&crash.path(program)).unwrap();
    let model =
        |id: [u8; 16]| carried.units.iter().find(|it| it.meta.id == id)?.model().ok().flatten();
    let frames = Frames::new(carried.frames.as_deref().unwrap(), &model).unwrap();
    assert!(frames.has_coverage());
    let bias = process.main().unwrap().bias;
    let backtraces: Vec<Backtrace> = process
        .notes
        .threads
        .iter()
        .map(|it| Backtrace::compute(&process, &it.registers))
        .collect();
    let mut evidence = Evidence::default();
    let mut asked = BTreeMap::new();
    let memory = |at: u64, bytes: &mut [u8]| process.memory.read(at, bytes).is_ok();
    let registers: Vec<Vec<_>> = backtraces
        .iter()
        .map(|it| it.frames.iter().map(|frame| |number| frame.registers.get(number)).collect())
        .collect();
    for (thread, backtrace) in backtraces.iter().enumerate() {
        let mut stack = Stack::default();
        for (place, frame) in backtrace.frames.iter().enumerate() {
            let address = frame.instruction().wrapping_sub(bias);
            let found = frames.function(address).zip(frame.end);
            stack.frames.push(match found {
                None => StackFrame::Unseen,
                Some((function, end)) => {
                    asked.insert(
                        (thread, place),
                        Frame {
                            address,
                            is_call: !frame.interrupted,
                            frame_address: end,
                            register: &registers[thread][place],
                            memory: &memory,
                        },
                    );
                    StackFrame::Known(Activation {
                        function,
                        at: None,
                        position: Position::Within,
                        suffix: Vec::new(),
                        complete: false,
                        coverage: Coverage::default(),
                    })
                }
            });
        }
        let whole = matches!(backtrace.end, unwind::End::Outermost | unwind::End::Left);
        stack.complete = whole && backtrace.gap.is_none();
        evidence.threads.push(stack);
    }
    let bytes = |at: u64, bytes: &mut [u8]| memory(at.wrapping_add(bias), bytes);
    frames.add_coverage(&mut evidence, &asked, &bytes);
    (evidence, frames)
}

fn name(unit: &Unit, function: backtrail_ir::Func) -> &str {
    &unit.symbols[unit.functions[function].symbol].name
}

/// Lets both variants die and checks that nothing is told that was not so.
#[track_caller]
pub fn check(crash: &Crash, program: &str, words: &[&str]) -> Told {
    let (evidence, frames) = examine(crash, program, words);
    let events = crash.events(words);
    let mut executed: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (_, name, block) in &events {
        executed.entry(name).or_default().insert(*block);
    }
    let mut told = Told::default();
    for ((unit, function), found) in &evidence.functions {
        let unit = frames.model(*unit).unwrap();
        let body = &unit.functions[*function];
        let name = name(unit, *function);
        let none = BTreeSet::new();
        let executed = executed.get(name).unwrap_or(&none);
        for block in body.blocks.indices() {
            let was = executed.contains(&block.position());
            let seen = found.coverage.block(block);
            let wrong = if was { Seen::No } else { Seen::Yes };
            assert_ne!(seen, wrong, "{words:?}: {name} {block}");
            match seen {
                Seen::Yes => told.yes += 1,
                Seen::No => told.no += 1,
                Seen::Unknown => told.unknown += 1,
            }
            for inst in body.blocks[block].insts() {
                let made = found.coverage.call(inst);
                assert!(was || made != Seen::Yes, "{words:?}: {name} {block} {inst}");
            }
        }
        let entered = !executed.is_empty();
        assert_ne!(found.entered, if entered { Seen::No } else { Seen::Yes }, "{name}");
    }
    let logs = Crash::log(&events);
    for stack in &evidence.threads {
        let live: Vec<&Activation> = stack
            .frames
            .iter()
            .filter_map(|frame| match frame {
                StackFrame::Known(activation) => Some(activation),
                StackFrame::Unseen => None,
            })
            .collect();
        let of = |activation: &Activation| {
            let unit = frames.model(activation.function.0).unwrap();
            name(unit, activation.function.1).to_owned()
        };
        let fits = live.is_empty() || logs.iter().any(|log| is_told(&live, &of, log));
        assert!(fits, "{words:?}: no log is like this: {live:#?}\n{logs:#?}");
        for seen in live.iter().flat_map(|it| it.coverage.blocks.values()) {
            match seen {
                Seen::Yes => told.own_yes += 1,
                Seen::No => told.own_no += 1,
                Seen::Unknown => told.own_unknown += 1,
            }
        }
    }
    told
}

/// Whether activations, innermost first, did what a log's did.
fn is_told(live: &[&Activation], name: &dyn Fn(&Activation) -> String, log: &[Logged]) -> bool {
    let mut possible = vec![false; live.len() + 1];
    possible[0] = true;
    for logged in log {
        for count in (1..=live.len()).rev() {
            let activation = live[live.len() - count];
            let is_so = activation.coverage.blocks.iter().all(|(block, seen)| {
                match logged.blocks.contains(&block.position()) {
                    true => *seen != Seen::No,
                    false => *seen != Seen::Yes,
                }
            });
            let agrees = is_so && name(activation) == logged.name;
            possible[count] |= possible[count - 1] && agrees;
        }
    }
    possible[live.len()]
}
