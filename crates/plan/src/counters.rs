//! Where the counters of a module are, and what they count.
//!
//! Written into a variant ([`backtrail_abi::counts::LAYOUT_SECTION`]) by whoever
//! links it, read by whoever decodes its records. What a unit's counters mean is
//! the business of the scheme that planned them: here it is bytes.

use serde::{Deserialize, Serialize};

/// The counters of a module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Bytes of the area.
    pub bytes: u64,
    /// The units that have counters, by increasing place.
    pub units: Vec<UnitCounters>,
}

/// The counters of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitCounters {
    /// The unit.
    pub unit: [u8; 16],
    /// Where its counters begin, in bytes from the start of the area.
    pub offset: u64,
    /// How many there are.
    pub counters: u32,
    /// What they count, in the terms of the scheme.
    pub meaning: Vec<u8>,
}

impl Layout {
    /// Lays out the counters of units, given by id, number and meaning: the
    /// owner's page first, then the order of entries, then unit after unit.
    pub fn new(units: impl IntoIterator<Item = ([u8; 16], u32, Vec<u8>)>) -> Self {
        let page = backtrail_abi::counts::PAGE_BYTES;
        let mut next = backtrail_abi::counts::FIRST_COUNTER;
        let mut laid_out = Vec::new();
        for (unit, counters, meaning) in units {
            laid_out.push(UnitCounters { unit, offset: next, counters, meaning });
            next += u64::from(counters) * 8;
        }
        let bytes = next.next_multiple_of(page).max(2 * page);
        Self { bytes, units: laid_out }
    }
}
