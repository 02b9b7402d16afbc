//! From the stops of a run to a partial trace.
//!
//! A handler of a signal that arrived during a call which may call back is such a
//! callback. Where else it arrived, that it runs and that it returns are events of their
//! own ([`crate::rebuild`]).

use backtrail_graph::Index as _;
use backtrail_machine::code::Code;
use backtrail_machine::tracee::breakpoints::Stop;

use super::MachineGraph;
use crate::distribution::{Profile, Witness};
use crate::icfg::Routine;
use crate::rebuild::Event;

/// What a stop tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// Nothing.
    Nothing,
    /// A witness was passed.
    Event(Event),
    /// The thread ended, and it is known where: at this witness, or where it began.
    End(Option<Event>),
}

/// Translates the stops of one run, whose witnesses are a profile.
#[derive(Debug, Clone)]
pub struct Recorder<'a> {
    graph: &'a MachineGraph,
    code: &'a Code,
    profile: &'a Profile,
    /// The blocks to stop at.
    blocks: Vec<usize>,
    is_landing: Vec<bool>,
    /// By breakpoint: its witness.
    witnesses: Vec<Witness>,
}

impl<'a> Recorder<'a> {
    /// For one run.
    pub fn new(graph: &'a MachineGraph, code: &'a Code, profile: &'a Profile) -> Self {
        let mut recorder = Self {
            graph,
            code,
            profile,
            blocks: Vec::new(),
            is_landing: Vec::new(),
            witnesses: Vec::new(),
        };
        for &place in profile.places() {
            if let (Some(block), Some(witness)) = (graph.block_of(place), profile.witness(place)) {
                let node = graph.nodes[block];
                recorder.blocks.push(block);
                recorder.is_landing.push(graph.icfg.nodes()[node].landing);
                recorder.witnesses.push(witness);
            }
        }
        recorder
    }

    /// The blocks to stop at, by the number of the breakpoint.
    pub fn blocks(&self) -> &[usize] {
        &self.blocks
    }

    /// By breakpoint: whether frames are wanted.
    pub fn is_landing(&self) -> &[bool] {
        &self.is_landing
    }

    /// What a stop of a thread tells.
    #[inline]
    pub fn record(&self, thread: usize, stop: &Stop<'_>) -> Recorded {
        match *stop {
            Stop::At(number) => {
                Recorded::Event(Event { witness: self.witnesses[number], depth: 0 })
            }
            Stop::Landing { number, frames, .. } => Recorded::Event(Event {
                witness: self.witnesses[number],
                depth: self.depth(frames),
            }),
            Stop::Handles { number, within, frames, .. } => {
                let calls =
                    frames.first().and_then(|it| self.code.block_around(it.wrapping_sub(1)));
                let is_callback = !within && calls.is_some_and(|it| self.graph.may_call_back(it));
                match self.graph.is_interruptible && !is_callback {
                    true => Recorded::Event(Event::interrupt(Routine::new(
                        self.code.blocks[self.blocks[number]].routine,
                    ))),
                    false => Recorded::Nothing,
                }
            }
            Stop::Resumes(_) => Recorded::Event(Event::resume()),
            Stop::Begins(_) => Recorded::Nothing,
            // Back with who started the thread.
            Stop::Ending([]) if thread != 0 => Recorded::End(None),
            Stop::Ending(frames) => match self.end(frames) {
                Some(event) => Recorded::End(Some(event)),
                None => Recorded::Nothing,
            },
        }
    }

    /// How many frames of routines with landings are below the innermost.
    fn depth(&self, frames: &[u64]) -> u32 {
        let has_landings = |(number, &address): (usize, &u64)| {
            // What called is before the address it returns to.
            let address = if number == 0 { address } else { address.wrapping_sub(1) };
            let block = self.code.block_around(address);
            block.is_some_and(|it| self.graph.has_landings(self.code.blocks[it].routine))
        };
        let count = frames.iter().enumerate().filter(|&it| has_landings(it)).count();
        count.saturating_sub(1) as u32
    }

    fn end(&self, frames: &[u64]) -> Option<Event> {
        let called = self.code.block_around(frames.first()?.wrapping_sub(1))?;
        let way = self.graph.end_of(called)?;
        let witness = self.profile.witness(self.graph.icfg.place_of_way(way))?;
        Some(Event { witness, depth: 0 })
    }
}
