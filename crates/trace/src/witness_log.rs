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
use backtrail_graph::Index;

use crate::Error;
use crate::block_log::Events;
use crate::distribution::Witness;
use crate::probes::{Meaning, UnitMeaning};
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

/// The witnesses of a thread's log.
pub struct WitnessEvents<'p, R> {
    events: Events<'p, R>,
    units: &'p BTreeMap<UnitId, UnitMeaning>,
    /// The unit of the last event.
    current: Option<(UnitId, &'p UnitMeaning)>,
    trouble: Trouble,
    ended: bool,
}

impl<'p, R: Read> WitnessEvents<'p, R> {
    /// Reads a log with these meanings of numbers.
    pub fn new(events: Events<'p, R>, units: &'p BTreeMap<UnitId, UnitMeaning>) -> Self {
        Self { events, units, current: None, trouble: Trouble::default(), ended: false }
    }

    /// Will know what was wrong.
    pub fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }

    fn meaning(&mut self) -> Option<Result<Meaning, Error>> {
        let event = match self.events.next()? {
            Ok(event) => event,
            Err(error) => return Some(Err(error)),
        };
        if self.events.summary().lost > 0 {
            return Some(Err(Error::LostEvents));
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
        Some(Ok(unit.of(event.block)))
    }

    fn next_event(&mut self) -> Option<Result<Event, Error>> {
        let witness = match self.meaning()? {
            Ok(Meaning::Witness(witness)) => return Some(Ok(Event { witness, depth: 0 })),
            Ok(Meaning::Landing(witness)) => witness,
            Ok(Meaning::Depth(_)) => return Some(Err(Error::LostEvents)),
            Err(error) => return Some(Err(error)),
        };
        match self.meaning()? {
            Ok(Meaning::Depth(depth)) => Some(Ok(Event { witness, depth })),
            Ok(_) => Some(Err(Error::LostEvents)),
            Err(error) => Some(Err(error)),
        }
    }
}

impl<R: Read> Iterator for WitnessEvents<'_, R> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
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

/// The first and the last witness of a log, if it has any.
pub fn first_and_last<R: Read>(events: WitnessEvents<'_, R>) -> Option<(Witness, Witness, u64)> {
    let (mut first, mut last, mut count) = (None, Witness::new(0), 0);
    for event in events {
        first.get_or_insert(event.witness);
        last = event.witness;
        count += 1;
    }
    Some((first?, last, count))
}
