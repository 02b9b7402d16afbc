//! What a thread did, block by block, from its log: [`Events`] with what they stand for.

use std::io::Read;

use backtrail_abi::UnitId;
use backtrail_abi::frames::{FRAMES, Word, address};
use backtrail_graph::Index;
use backtrail_ir::{Func, Inst};

use super::frames::{Activations, Placed};
use super::process::WORDS;
use super::{Event, Events, ProgramMap, Step, Summary};
use crate::Error;

/// What a thread did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It executed a block.
    Block {
        /// The place among the thread's blocks, from 0, lost ones counted.
        number: u64,
        /// The block.
        step: Step,
        /// Whose it is.
        of: Placed,
    },
    /// It executed a block of a unit that is not in the map: of a library that is missing.
    Unseen {
        /// The place among the thread's blocks.
        number: u64,
        /// The unit.
        unit: UnitId,
        /// The block, blocks of all functions of the unit counted through.
        block: u32,
    },
    /// An activation ended: it returned, was unwound through, or called what took its
    /// place.
    Ended(u64),
    /// An activation was left, and will not go on.
    Left(u64),
    /// An activation came to this call: one that does not return, may return twice, or is
    /// before a shared return.
    Comes(u64, Inst),
    /// A call of an activation that may return twice returned.
    Returned(u64, Inst),
}

/// The activations of a thread, from one log to the next that it goes on with.
#[derive(Debug, Default)]
pub struct LogFrames(Activations);

impl LogFrames {
    /// The activations that the one that runs will come back to, itself first.
    pub fn under_way(&self) -> Vec<u64> {
        self.0.under_way()
    }
}

/// The moments of a thread file, in order.
#[derive(Debug)]
pub struct Moments<'f, 'p, R> {
    map: &'p ProgramMap<'p>,
    frames: &'f mut Activations,
    events: Events<'p, R>,
    /// What was read and not dealt with.
    ahead: Option<Event>,
    /// What follows from what was.
    behind: Option<Moment>,
    blocks: u64,
}

impl<'f, 'p, R: Read> Moments<'f, 'p, R> {
    /// What these events say. The process has to be one of blocks
    /// ([`super::Process::of_blocks`]); `frames` are what there was before.
    pub fn new(map: &'p ProgramMap<'p>, events: Events<'p, R>, frames: &'f mut LogFrames) -> Self {
        Self { map, frames: &mut frames.0, events, ahead: None, behind: None, blocks: 0 }
    }

    /// What is known so far, of blocks; everything once the iterator gave `None`.
    pub fn summary(&self) -> Summary {
        Summary { events: self.blocks, ..self.events.summary() }
    }

    fn next_event(&mut self) -> Result<Option<Event>, Error> {
        match self.ahead.take() {
            Some(event) => Ok(Some(event)),
            None => self.events.next().transpose(),
        }
    }

    /// A part of where a frame is, if that is next.
    fn next_part(&mut self) -> Result<Option<u32>, Error> {
        self.ahead = self.next_event()?;
        match self.ahead.and_then(|event| word(&event)) {
            Some(Word::Frame(part)) => {
                self.ahead = None;
                Ok(Some(part))
            }
            _ => Ok(None),
        }
    }

    fn next_moment(&mut self) -> Result<Option<Moment>, Error> {
        if let Some(moment) = self.behind.take() {
            return Ok(Some(moment));
        }
        while let Some(event) = self.next_event()? {
            if event.unit != WORDS {
                return self.block(&event).map(Some);
            }
            let moment = match word(&event) {
                Some(Word::Resumes(upper)) => {
                    // Without it, a handler jumped before it was written.
                    if let Some(lower) = self.next_part()? {
                        self.frames.resume(address(upper, lower));
                    }
                    None
                }
                Some(Word::Ends) => self.frames.end().map(Moment::Ended),
                Some(Word::Comes(call)) => self.of_running(call, Moment::Comes),
                Some(Word::Returns(call)) => self.of_running(call, Moment::Returned),
                Some(Word::Nothing) => None,
                Some(Word::Frame(_)) | None => {
                    let (number, event) = (event.number, event.block | FRAMES);
                    return Err(Error::Event { number, event });
                }
            };
            if moment.is_some() {
                return Ok(moment);
            }
        }
        Ok(None)
    }

    fn of_running(&self, call: u32, what: impl Fn(u64, Inst) -> Moment) -> Option<Moment> {
        Some(what(self.frames.running()?, Inst::new(call as usize)))
    }

    fn block(&mut self, event: &Event) -> Result<Moment, Error> {
        let number = self.blocks + self.events.summary().lost;
        self.blocks += 1;
        if self.map.unit(event.unit).is_none() {
            return self.unseen(event, number);
        }
        let step = self.map.step(event)?;
        let function = (step.unit, step.func);
        let of = if step.block.position() == 0 {
            let upper = self.next_part()?;
            let lower = if upper.is_some() { self.next_part()? } else { None };
            let place = upper.zip(lower).map(|(upper, lower)| address(upper, lower));
            let (of, gone) = self.frames.begin(function, place);
            if let Some(gone) = gone {
                self.behind = Some(Moment::Block { number, step, of });
                return Ok(Moment::Left(gone));
            }
            of
        } else {
            self.frames.go(function)
        };
        Ok(Moment::Block { number, step, of })
    }
}

impl<R: Read> Moments<'_, '_, R> {
    /// A block of a unit whose functions are not known, which are taken for one: the log
    /// says where activations begin.
    fn unseen(&mut self, event: &Event, number: u64) -> Result<Moment, Error> {
        let Event { unit, block, .. } = *event;
        let function = (unit, Func::new(0));
        let unseen = Moment::Unseen { number, unit, block };
        let upper = self.next_part()?;
        let lower = if upper.is_some() { self.next_part()? } else { None };
        let Some((upper, lower)) = upper.zip(lower) else {
            self.frames.go(function);
            return Ok(unseen);
        };
        let (_, gone) = self.frames.begin(function, Some(address(upper, lower)));
        Ok(match gone {
            Some(gone) => {
                self.behind = Some(unseen);
                Moment::Left(gone)
            }
            None => unseen,
        })
    }
}

/// What an event says that is not a block.
fn word(event: &Event) -> Option<Word> {
    if event.unit == WORDS { Word::from_number(event.block | FRAMES) } else { None }
}

impl<R: Read> Iterator for Moments<'_, '_, R> {
    type Item = Result<Moment, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_moment().transpose()
    }
}
