//! The frames of a thread, as many as anyone will look at.
//!
//! A stack that overflowed has hundreds of thousands of frames that are all
//! the same. The newest and the oldest are kept whole; of those between, their
//! number, and whether they repeat.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use crate::process::Process;
use crate::registers::Registers;
use crate::unwind::{End, Frame, walk};

/// How many of the newest frames are kept.
pub const NEWEST: usize = 512;
/// How many of the oldest.
pub const OLDEST: usize = 128;
/// The longest cycle of calls that is looked for.
const LONGEST_CYCLE: usize = 32;

/// The frames of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backtrace {
    /// The frames, innermost first.
    pub frames: Vec<Frame>,
    /// The frames that are left out.
    pub gap: Option<Gap>,
    /// Why there are no more.
    pub end: End,
}

/// Frames that are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Behind how many of those that are kept.
    pub behind: usize,
    /// How many they are.
    pub count: usize,
    /// If they repeat those before them: how many before.
    pub cycle: Option<usize>,
    /// The instructions they were at, and how often each is there.
    pub instructions: BTreeMap<u64, usize>,
}

impl Backtrace {
    /// Walks a thread's stack.
    pub fn compute(process: &Process, registers: &Registers) -> Self {
        let mut frames = Vec::new();
        let mut oldest: VecDeque<Frame> = VecDeque::new();
        let mut instructions = Vec::new();
        let end = walk(process, registers, |frame| {
            instructions.push(frame.instruction());
            if frames.len() < NEWEST {
                frames.push(frame);
            } else {
                if oldest.len() == OLDEST {
                    oldest.pop_front();
                }
                oldest.push_back(frame);
            }
            ControlFlow::Continue(())
        });
        let count = instructions.len() - frames.len() - oldest.len();
        let behind = frames.len();
        let gap = (count > 0).then(|| {
            let left_out = behind..behind + count;
            let mut times = BTreeMap::new();
            for &address in &instructions[left_out.clone()] {
                *times.entry(address).or_default() += 1;
            }
            Gap { behind, count, cycle: cycle(&instructions, left_out), instructions: times }
        });
        frames.extend(oldest);
        Self { frames, gap, end }
    }
}

/// The shortest cycle that a part of some numbers goes on with.
fn cycle(numbers: &[u64], part: std::ops::Range<usize>) -> Option<usize> {
    (1..=LONGEST_CYCLE.min(part.start))
        .find(|&length| part.clone().all(|place| numbers[place] == numbers[place - length]))
}

#[cfg(test)]
mod tests {
    use super::cycle;

    #[test]
    fn the_shortest_cycle_is_found() {
        let numbers = [9, 1, 2, 1, 2, 1, 2, 1, 2, 7];
        assert_eq!(cycle(&numbers, 3..9), Some(2));
        assert_eq!(cycle(&numbers, 3..10), None);
        assert_eq!(cycle(&[1; 50], 10..40), Some(1));
        assert_eq!(cycle(&[1; 50], 0..50), None);
    }
}
