//! Which activation each block of a log is of, as the log says it
//! ([`backtrail_abi::frames`]).
//!
//! What is kept for a thread is what the runtime keeps: which activation runs, by where
//! its frame is, and for each that has not ended, who was running when it began. Nothing
//! is worked out from the program.
//!
//! An activation that was left is forgotten when another one's frame is where its own
//! was; until then it may go on, as coroutines do that change the stack. A frame that the
//! log did not see begin is one of which it knows nothing but that it is there: it was
//! begun by another thread, or by a parent that forked without the C library.
//!
//! *Depth* is what a reader of a trace sees, for whom frames are a stack: a block is at
//! the depth of its activation if that is on the stack, and those above it have gone.
//! Otherwise, the activation begins behind the innermost of its callers that is there:
//! so a coroutine that goes on seems to be entered once more.

use std::collections::HashMap;

use backtrail_abi::UnitId;
use backtrail_ir::Func;

/// An activation that has not ended.
#[derive(Debug, Clone, Copy)]
struct Live {
    number: u64,
    /// Who was running when it began: where, and its number.
    caller: (u64, u64),
    /// Nothing until a block of one is met whose beginning is not in the log.
    of: Option<(UnitId, Func)>,
}

/// A block's activation, and where that is among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Activations are numbered in the order in which they are met, from 1.
    pub activation: u64,
    /// How many frames there are, its own included.
    pub depth: u32,
    /// Whether this frame was not there before.
    pub enters: bool,
}

/// The activations of a thread.
#[derive(Debug, Default)]
pub(super) struct Activations {
    /// By where their frames are.
    live: HashMap<u64, Live>,
    /// Where the frame of the one is that runs; 0: none does.
    running: u64,
    count: u64,
    /// Those that a reader sees, by number.
    stack: Vec<u64>,
}

/// No process has a frame there: the place of one that the log does not tell.
const NOWHERE: u64 = 1 << 63;

impl Activations {
    /// One begins, whose frame is there if that is known. Tells which one will not go on
    /// for that.
    pub fn begin(&mut self, of: (UnitId, Func), place: Option<u64>) -> (Placed, Option<u64>) {
        let place = place.unwrap_or(NOWHERE | self.count);
        let gone = self.live.remove(&place);
        let mut caller = (self.running, self.number_at(self.running));
        if let Some(gone) = gone
            && self.running == place
        {
            caller = gone.caller;
        }
        let number = self.add(place, caller, Some(of));
        self.running = place;
        (self.place(number), gone.map(|it| it.number))
    }

    /// The one goes on whose frame is there.
    pub fn resume(&mut self, place: u64) {
        self.running = place;
        if !self.live.contains_key(&place) {
            self.add(place, (0, 0), None);
        }
    }

    /// The running one ends; which it was, if the log knows it.
    pub fn end(&mut self) -> Option<u64> {
        let ended = self.live.remove(&self.running);
        self.running = ended.map_or(0, |it| it.caller.0);
        Some(ended?.number)
    }

    /// The one that runs.
    pub fn running(&self) -> Option<u64> {
        Some(self.live.get(&self.running)?.number)
    }

    /// The one that runs, and those that it will come back to.
    pub fn under_way(&self) -> Vec<u64> {
        self.callers(self.running).map(|(_, live)| live.number).collect()
    }

    /// A block of this function is executed, which is not its first.
    pub fn go(&mut self, of: (UnitId, Func)) -> Placed {
        let running = self.live.get_mut(&self.running);
        let running = running.map(|it| (*it.of.get_or_insert(of), it.number));
        let number = match running {
            Some((running, number)) if running == of => number,
            _ => match self.innermost(of) {
                Some(found) => found,
                None => {
                    let (place, caller) = (NOWHERE | self.count, self.running);
                    let number = self.add(place, (caller, self.number_at(caller)), Some(of));
                    self.running = place;
                    number
                }
            },
        };
        self.place(number)
    }

    fn add(&mut self, place: u64, caller: (u64, u64), of: Option<(UnitId, Func)>) -> u64 {
        self.count += 1;
        self.live.insert(place, Live { number: self.count, caller, of });
        self.count
    }

    fn number_at(&self, place: u64) -> u64 {
        self.live.get(&place).map_or(0, |it| it.number)
    }

    /// From an activation to its callers, as far as they have not ended.
    fn callers(&self, place: u64) -> impl Iterator<Item = (u64, &Live)> {
        let mut next = (place, self.number_at(place));
        std::iter::from_fn(move || {
            let (place, number) = next;
            let live = self.live.get(&place).filter(|it| it.number == number)?;
            next = live.caller;
            Some((place, live))
        })
    }

    /// Where words are missing, a block may be of a caller of the one that should run.
    fn innermost(&mut self, of: (UnitId, Func)) -> Option<u64> {
        let mut callers = self.callers(self.running);
        let (place, number) =
            callers.find(|(_, it)| it.of == Some(of)).map(|(place, it)| (place, it.number))?;
        drop(callers);
        self.running = place;
        Some(number)
    }

    /// Where a reader sees a block of the running activation, whose number that is.
    fn place(&mut self, number: u64) -> Placed {
        let found = self.stack.iter().rposition(|it| *it == number);
        let enters = found.is_none();
        match found {
            Some(at) => self.stack.truncate(at + 1),
            None => {
                let mut callers = self.callers(self.running).skip(1);
                // A caller that has not executed anything that is logged is not there.
                let below = callers
                    .find_map(|(_, caller)| self.stack.iter().rposition(|it| *it == caller.number));
                drop(callers);
                self.stack.truncate(below.map_or(0, |at| at + 1));
                self.stack.push(number);
            }
        }
        Placed { activation: number, depth: self.stack.len() as u32, enters }
    }
}

#[cfg(test)]
mod tests {
    use backtrail_graph::Index;

    use super::*;

    const UNIT: UnitId = UnitId([1; 16]);

    fn function(number: usize) -> (UnitId, Func) {
        (UNIT, Func::new(number))
    }

    fn seen(placed: Placed) -> (u64, u32, bool) {
        (placed.activation, placed.depth, placed.enters)
    }

    #[test]
    fn calls_and_returns_are_a_stack() {
        let mut frames = Activations::default();
        assert_eq!(seen(frames.begin(function(0), Some(0x900)).0), (1, 1, true));
        assert_eq!(seen(frames.begin(function(1), Some(0x800)).0), (2, 2, true));
        assert_eq!(seen(frames.begin(function(1), Some(0x700)).0), (3, 3, true));
        assert_eq!(frames.end(), Some(3));
        assert_eq!(seen(frames.go(function(1))), (2, 2, false));
        assert_eq!(frames.end(), Some(2));
        // Where the first one was, and in the same block of its caller.
        assert_eq!(seen(frames.begin(function(2), Some(0x800)).0), (4, 2, true));
        assert_eq!((frames.end(), frames.end(), frames.end()), (Some(4), Some(1), None));
        assert_eq!(seen(frames.begin(function(3), Some(0x900)).0), (5, 1, true));
    }

    #[test]
    fn what_a_jump_leaves_is_gone_when_its_place_is_taken() {
        let mut frames = Activations::default();
        frames.begin(function(0), Some(0x900));
        frames.begin(function(1), Some(0x800));
        frames.begin(function(2), Some(0x700));
        frames.resume(0x900);
        assert_eq!(seen(frames.go(function(0))), (1, 1, false));
        let (placed, gone) = frames.begin(function(3), Some(0x800));
        assert_eq!((seen(placed), gone), ((4, 2, true), Some(2)));
        assert_eq!(frames.end(), Some(4));
        assert_eq!(frames.running(), Some(1));
    }

    #[test]
    fn coroutines_go_on_where_they_were() {
        let mut frames = Activations::default();
        frames.begin(function(0), Some(0x900));
        assert_eq!(seen(frames.begin(function(1), Some(0x10)).0), (2, 2, true));
        frames.resume(0x900);
        assert_eq!(seen(frames.begin(function(1), Some(0x20)).0), (3, 2, true));
        frames.resume(0x10);
        assert_eq!(seen(frames.go(function(1))), (2, 2, true));
        assert_eq!(seen(frames.begin(function(2), Some(0x08)).0), (4, 3, true));
        frames.resume(0x20);
        assert_eq!(seen(frames.go(function(1))), (3, 2, true));
        frames.resume(0x08);
        assert_eq!(seen(frames.go(function(2))), (4, 2, true));
        assert_eq!(frames.end(), Some(4));
        assert_eq!(seen(frames.go(function(1))), (2, 2, true));
    }

    #[test]
    fn frames_that_were_not_seen_to_begin_are_there() {
        let mut frames = Activations::default();
        assert_eq!(seen(frames.go(function(1))), (1, 1, true));
        assert_eq!(seen(frames.go(function(1))), (1, 1, false));
        assert_eq!((frames.end(), frames.end()), (Some(1), None));
        frames.resume(0x50);
        assert_eq!(seen(frames.go(function(0))), (2, 1, true));
        // Two that have been where the other one was do not call each other.
        frames.begin(function(2), Some(0x40));
        frames.resume(0x50);
        assert_eq!(seen(frames.go(function(0))), (2, 1, false));
    }
}
