//! The registrations in a mapped process file, and the modules between them.
//!
//! A process reads its own, and copies what it inherited of its parent's, which stays
//! mapped for that.

use core::ptr;
use core::sync::atomic::Ordering;

use backtrail_abi::log::{Descriptor as Unit, FIRST_BASE, ProcessHeader, Registration};
use backtrail_abi::modules::ModuleRow;

use crate::process::Kept;

/// The registrations in a mapped process file.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) count: u32,
    pub(crate) next: u32,
}

impl Table {
    /// The table that is mapped now.
    pub(crate) fn kept(kept: &Kept) -> Self {
        let numbers = kept.numbers.load(Ordering::Acquire);
        Self {
            address: kept.table.load(Ordering::Acquire),
            bytes: kept.table_bytes.load(Ordering::Acquire),
            count: (numbers >> 32) as u32,
            next: (numbers as u32).max(FIRST_BASE),
        }
    }

    /// Makes a mapping the one that is kept. Whoever forks in between inherits
    /// a length that is never more than what is mapped.
    pub(crate) fn keep(kept: &Kept, address: usize, bytes: usize) {
        kept.table_bytes.store(0, Ordering::Release);
        kept.table.store(address, Ordering::Release);
        kept.table_bytes.store(bytes, Ordering::Release);
    }

    pub(crate) fn capacity(&self) -> u32 {
        let room = self.bytes.saturating_sub(ProcessHeader::BYTES);
        (room / Registration::BYTES) as u32
    }

    pub(crate) fn entry(&self, index: u32) -> *mut Registration {
        let offset = ProcessHeader::BYTES + index as usize * Registration::BYTES;
        ptr::with_exposed_provenance_mut(self.address + offset)
    }

    /// The base of a unit that was registered by another descriptor.
    pub(crate) fn find(&self, unit: &Unit) -> Option<u32> {
        let mut index = 0;
        while index < self.count {
            // SAFETY: entries below the count were written.
            let entry = unsafe { self.entry(index).read() };
            let module = ModuleRow::of(&entry);
            if module.is_none() && entry.unit == unit.unit && entry.blocks == unit.blocks {
                return Some(entry.base);
            }
            index += module.map_or(1, ModuleRow::rows);
        }
        None
    }
}
