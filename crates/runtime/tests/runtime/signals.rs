//! Events in signal handlers, jumps out of them, and sudden death.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::{Program, assert_same};

#[test]
fn a_storm_of_signals_loses_nothing() {
    let program = Program::new("storm");
    program.run(&["12"], 0);
    let told = program.told();
    let logs = program.logs();
    assert_eq!((logs.len(), told.len()), (12, 12));
    let mut handled = 0;
    for log in logs {
        let thread = log.only_thread();
        let counts = &told[&(log.process.pid, thread.tid)];
        assert_eq!((log.process.incomplete, thread.summary.lost), (None, 0));
        for (unit, &count) in (1..).zip(counts) {
            let of_unit = thread.events.iter().copied().filter(|event| event >> 24 == unit);
            let of_unit: Vec<_> = of_unit.map(|event| event & 0xff_ffff).collect();
            assert_same(&of_unit, &Vec::from_iter(0..count));
        }
        handled += counts[1];
    }
    assert!(handled > 1000, "the handler hardly ran");
}

/// Runs `step.c` and compares, with the interrupted event left out. Gives how
/// often it was found, how often it was lost, and how often it never began.
fn interrupt_at_each_instruction(mode: &str) -> (u64, u64, u64) {
    const INTERRUPTED: u32 = 1 << 24 | 999;
    let program = Program::with("step", "clang-19", &["-O2", "-g0"]);
    let output = program.run(&[mode], 0);
    let trials: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(trials > 80, "only {trials} trials");
    let told = program.told();
    let (mut found, mut lost, mut never) = (0, 0, 0);
    for log in program.logs() {
        let thread = log.only_thread();
        assert_eq!(log.process.incomplete, None);
        let (interrupted, others): (Vec<u32>, Vec<u32>) =
            thread.events.iter().partition(|&&event| event == INTERRUPTED);
        let told = &told[&(log.process.pid, thread.tid)];
        let without = told.iter().copied().filter(|&event| event != INTERRUPTED);
        assert_same(&others, &Vec::from_iter(without));
        // Block 999 is also among the events before, if there are so many.
        let before = told.iter().filter(|&&event| event == INTERRUPTED).count();
        let events = (interrupted.len() - before) as u64;
        assert!(events + thread.summary.lost <= 1);
        found += events;
        lost += thread.summary.lost;
        never += 1 - events - thread.summary.lost;
    }
    (found, lost, never)
}

#[test]
fn a_signal_at_any_instruction_loses_nothing() {
    let (found, lost, never) = interrupt_at_each_instruction("return");
    assert!(found > 100);
    assert_eq!((lost, never), (0, 0));
}

#[test]
fn a_jump_at_any_instruction_is_counted() {
    let (_, lost, never) = interrupt_at_each_instruction("jump");
    assert!(lost > 20, "no jump between taking a slot and filling it");
    assert!(never > 20, "no jump before taking a slot");
}

#[test]
fn a_backtrace_at_any_instruction_finds_the_caller() {
    let (found, lost, never) = interrupt_at_each_instruction("backtrace");
    assert!(found > 20);
    assert_eq!((lost, never), (0, 0));
}

#[test]
fn jumps_out_of_handlers() {
    let program = Program::new("jumps");
    program.run(&[], 0);
    let told = program.told().into_values().next().unwrap();
    let logs = program.logs();
    let thread = logs[0].only_thread();
    assert_eq!(logs[0].process.incomplete, None);
    assert!(thread.events.is_sorted_by(|left, right| left < right));
    assert!(told.iter().all(|event| thread.events.binary_search(event).is_ok()));
    assert!(thread.summary.lost <= 1000);
    assert!(thread.events.len() - told.len() <= 1000);
}

#[test]
fn kill_loses_nothing_that_was_logged() {
    let program = Program::new("endless");
    for round in 0..12u64 {
        let mut child = program.command().stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let until = Instant::now() + Duration::from_micros(500 + round * round * 700);
        let mut word = [0; 8];
        // Not before it has logged anything, however late it is.
        let mut logged = loop {
            output.read_exact(&mut word).unwrap();
            if Instant::now() >= until {
                break u64::from_le_bytes(word);
            }
        };
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).unwrap();
        if let Some(last) = rest.as_chunks::<8>().0.last() {
            logged = u64::from_le_bytes(*last);
        }
        let logs = program.logs();
        assert_eq!(logs.len(), 1);
        for thread in &logs[0].threads {
            let truth = (0u64..).map(|i| 1 << 24 | (i * 7919 % 100_003) as u32);
            let truth: Vec<_> = truth.take(thread.events.len()).collect();
            assert_same(&thread.events, &truth);
            assert_eq!(thread.summary.lost, 0);
            if thread.tid == logs[0].process.pid {
                let recorded = thread.events.len() as u64;
                assert!(recorded >= logged, "{logged} logged, {recorded} recorded");
            }
        }
        std::fs::remove_dir_all(program.records()).unwrap();
    }
}

#[test]
fn the_stack_of_a_small_signal_stack_is_enough() {
    let program = Program::new("stack");
    let output = program.run(&[], 0);
    let used: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(used > 0);
    assert!(used < 1024, "{used} bytes of stack");
}
