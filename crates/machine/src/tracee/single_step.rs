//! Which blocks a program passes, one instruction after another.
//!
//! The slow and obvious twin of everything that observes less. Instructions of the
//! executable, and of libraries that are seen, are stepped through one by one;
//! elsewhere the program runs freely until it comes back, which it can only where a call returns, at a function whose
//! address is known to others, or where an exception lands: breakpoints are there.
//!
//! What was executed is compared with what was found in the file: an instruction
//! that is in no block is an error.

use std::collections::HashMap;

use nix::libc;

use super::children::{self, Change};
use super::launch::BREAKPOINT;
use super::sys::{self, Status};
use super::threads::Threads;
use super::{Ended, Tracee};
use crate::Error;
use crate::code::{Code, Exit};

/// An address that is in no code.
const NOWHERE: u64 = u64::MAX;

/// Runs to the end and gives each block that begins to `visit`, in order.
pub fn blocks(
    tracee: &mut Tracee,
    code: &Code,
    mut visit: impl FnMut(usize) -> Result<(), Error>,
) -> Result<Ended, Error> {
    let bytes = put_breakpoints(tracee, code)?;
    let mut threads = Threads::new(tracee.pid);
    let mut deliver: Option<i32> = None;
    let mut at = super::sys::program_counter(tracee.pid).map_err(|error| tracee.failed(error))?;
    let mut current = None;
    loop {
        let seen = tracee.layout.place(at);
        let is_stub = seen.is_some_and(|place| code.is_stub(place));
        let inside = seen.filter(|_| !is_stub);
        if let Some(place) = inside {
            let begun = code.block_at(place);
            if let Some(block) = begun {
                current = Some(block);
                visit(block)?;
            }
            let is_known = begun.is_some()
                || current.is_some_and(|it| {
                    let block = &code.blocks[it];
                    block.start <= place && place < block.end
                });
            if !is_known {
                let place = code.shown(place);
                return Err(tracee.wrong(format!("{place} was executed and is in no block")));
            }
        }
        // A breakpoint that is there for the way back is no instruction to step.
        let hidden = bytes.get(&at).copied().filter(|_| inside.is_some());
        if let Some(byte) = hidden {
            tracee.write(at, &[byte])?;
        }
        let outside = seen.is_none();
        let moved = if outside {
            sys::go_on(tracee.pid, deliver.take())
        } else {
            sys::step(tracee.pid, deliver.take())
        };
        moved.map_err(|error| tracee.failed(error))?;
        match tracee.wait()? {
            Status::Stopped(_, libc::SIGTRAP) => {}
            Status::Stopped(_, signal) => deliver = Some(signal),
            Status::Exited(_, status) => {
                tracee.is_gone = true;
                return Ok(Ended::Exited(status));
            }
            Status::Killed(_, signal) => {
                tracee.is_gone = true;
                return Ok(Ended::Killed(signal));
            }
            Status::Event(_, event) => {
                let pid = tracee.pid;
                match children::on_event(tracee, &mut threads, pid, event, &bytes)? {
                    Change::Replaced => return children::see_out(tracee),
                    // Breakpoints are taken out to be passed, which others would miss.
                    Change::Thread(_) => {
                        return Err(Error::Threads { path: tracee.executable().to_owned() });
                    }
                    Change::Ending => {
                        at = NOWHERE;
                        continue;
                    }
                    Change::None | Change::Process => {}
                }
            }
        }
        let Ok(counter) = super::sys::program_counter(tracee.pid) else { continue };
        if hidden.is_some() {
            tracee.write(at, &[BREAKPOINT])?;
        }
        let before = at;
        at = counter;
        if deliver.is_none() && outside && bytes.contains_key(&at.wrapping_sub(1)) {
            at -= 1;
            super::sys::set_program_counter(tracee.pid, at)
                .map_err(|error| tracee.failed(error))?;
        } else if at == before {
            // A repeated instruction, or a signal before it: the block goes on.
            current =
                current.or_else(|| tracee.layout.place(at).and_then(|it| code.block_around(it)));
        }
    }
}

/// Breakpoints where the program can come back from elsewhere, by address.
fn put_breakpoints(tracee: &Tracee, code: &Code) -> Result<HashMap<u64, u8>, Error> {
    let mut places = Vec::new();
    for block in &code.blocks {
        if let Exit::Call(_, Some(back)) = block.exit {
            places.push(code.blocks[back].start);
        }
        if block.pad {
            places.push(block.start);
        }
    }
    let taken = code.routines.iter().filter(|routine| routine.taken);
    places.extend(taken.map(|routine| code.blocks[routine.head].start));
    let mut bytes = HashMap::new();
    for place in places {
        let address = tracee.layout.address(place);
        if let std::collections::hash_map::Entry::Vacant(entry) = bytes.entry(address) {
            entry.insert(tracee.put_breakpoint(address)?);
        }
    }
    Ok(bytes)
}
