//! Partial traces out of logs: what probes logged, as witnesses.
//!
//! The log is a block log ([`crate::block_log`]) whose numbers mean witnesses
//! ([`crate::probes`]). What is wrong with it ends the trace, as if it had been
//! cut there, and is kept for whoever asks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::rc::Rc;

use backtrail_abi::UnitId;

use crate::Error;
use crate::block_log::Events;
use crate::distribution::Witness;
use crate::probes::{COUNTS, Meaning, PathWitnesses, UnitMeaning};
use crate::rebuild::Event;

/// Why a partial trace ended before its log did.
#[derive(Debug, Clone, Default)]
pub struct Trouble(Rc<RefCell<Option<Error>>>);

impl Trouble {
    /// What was wrong, if something was.
    pub fn take(&self) -> Option<Error> {
        self.0.borrow_mut().take()
    }
}

/// The rest of a path: the next position and where it ends; behind that come
/// iterations, from and to these positions, and at last what follows them.
#[derive(Debug, Clone, Copy, Default)]
struct PathRest {
    at: u32,
    end: u32,
    iteration: (u32, u32),
    iterations: u64,
    last: (u32, u32),
}

impl PathRest {
    fn new(PathWitnesses([begin, first, iteration, last]): PathWitnesses, iterations: u64) -> Self {
        let (at, end) = (begin, first);
        Self { at, end, iteration: (first, iteration), iterations, last: (iteration, last) }
    }

    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.at == self.end {
            if self.iterations > 0 {
                self.iterations -= 1;
                (self.at, self.end) = self.iteration;
            } else if self.last.0 < self.last.1 {
                (self.at, self.end) = std::mem::take(&mut self.last);
            } else {
                return None;
            }
        }
        self.at += 1;
        Some(self.at - 1)
    }
}

/// The witnesses of a thread's log.
pub struct WitnessEvents<'p, R> {
    events: Events<'p, R>,
    units: &'p BTreeMap<UnitId, UnitMeaning>,
    /// The unit of the last event.
    current: Option<(UnitId, &'p UnitMeaning)>,
    /// What is left of the path of the last event, in that unit.
    path: PathRest,
    /// The count before the next path, and how many bits of it are known.
    count: Option<(u64, u32)>,
    trouble: Trouble,
    ended: bool,
}

impl<'p, R: Read> WitnessEvents<'p, R> {
    /// Reads a log with these meanings of numbers.
    pub fn new(events: Events<'p, R>, units: &'p BTreeMap<UnitId, UnitMeaning>) -> Self {
        Self {
            events,
            units,
            current: None,
            path: PathRest::default(),
            count: None,
            trouble: Trouble::default(),
            ended: false,
        }
    }

    /// Will know what was wrong.
    pub fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }

    fn meaning(&mut self) -> Option<Result<Meaning, Error>> {
        loop {
            let event = match self.events.next()? {
                Ok(event) => event,
                Err(error) => return Some(Err(error)),
            };
            if self.events.summary().lost > 0 {
                return Some(Err(Error::LostEvents));
            }
            if event.unit == COUNTS {
                let (count, bits) = self.count.unwrap_or((0, 0));
                let digit = u64::from(event.block).checked_shl(bits).unwrap_or(0);
                self.count = Some((count | digit, bits + 31));
                continue;
            }
            let unit = match self.current {
                Some((id, unit)) if id == event.unit => unit,
                _ => {
                    let Some(unit) = self.units.get(&event.unit) else {
                        return Some(Err(Error::MissingUnit(event.unit)));
                    };
                    self.current = Some((event.unit, unit));
                    unit
                }
            };
            let meaning = unit.of(event.block);
            // A count belongs to a path with a loop on it.
            let may_count = match meaning {
                Meaning::Path(PathWitnesses([_, first, iteration, _])) => first < iteration,
                _ => false,
            };
            if self.count.is_some() && !may_count {
                return Some(Err(Error::LostEvents));
            }
            return Some(Ok(meaning));
        }
    }

    fn next_event(&mut self) -> Option<Result<Event, Error>> {
        let witness = loop {
            match self.meaning()? {
                Ok(Meaning::Witness(witness)) => return Some(Ok(Event { witness, depth: 0 })),
                Ok(Meaning::Path(path)) => {
                    self.path = PathRest::new(path, self.count.take().map_or(0, |it| it.0));
                    if let Some(event) = self.next_on_path() {
                        return Some(Ok(event));
                    }
                }
                Ok(Meaning::Interrupt(routine)) => return Some(Ok(Event::interrupt(routine))),
                Ok(Meaning::Impossible(routine)) => {
                    return Some(Err(Error::Impossible(routine)));
                }
                Ok(Meaning::Landing(witness)) => break witness,
                Ok(Meaning::Depth(_)) => return Some(Err(Error::LostEvents)),
                Err(error) => return Some(Err(error)),
            }
        };
        match self.meaning()? {
            Ok(Meaning::Depth(depth)) => Some(Ok(Event { witness, depth })),
            Ok(_) => Some(Err(Error::LostEvents)),
            Err(error) => Some(Err(error)),
        }
    }

    /// The next witness on the path of the last event.
    #[inline]
    fn next_on_path(&mut self) -> Option<Event> {
        let at = self.path.next()?;
        let witness = self.current?.1.on_path(at);
        Some(Event { witness, depth: 0 })
    }
}

impl<R: Read> Iterator for WitnessEvents<'_, R> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.next_on_path() {
            return Some(event);
        }
        if self.ended {
            return None;
        }
        match self.next_event() {
            Some(Ok(event)) => Some(event),
            Some(Err(error)) => {
                *self.trouble.0.borrow_mut() = Some(error);
                self.ended = true;
                None
            }
            None => {
                self.ended = true;
                None
            }
        }
    }
}

/// The first witness of a log, if it has any, and how many there are.
pub fn first_and_count<R: Read>(events: WitnessEvents<'_, R>) -> Option<(Witness, u64)> {
    let mut witnesses = events.filter(|event| event.interrupted_by().is_none());
    let first = witnesses.next()?.witness;
    Some((first, 1 + witnesses.count() as u64))
}
