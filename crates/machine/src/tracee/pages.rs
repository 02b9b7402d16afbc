//! Memory of a program that is changed at many places: read once and written once for
//! each page, where one place after another would be a system call or two for each.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::Tracee;
use crate::Error;

/// What is mapped is so by pages of this size, or larger ones.
const PAGE: u64 = 4096;

/// The pages that were asked for.
#[derive(Default)]
pub(super) struct Pages {
    /// By address: what is there, and whether that was changed.
    pages: BTreeMap<u64, (Vec<u8>, bool)>,
}

impl Pages {
    fn byte(&mut self, tracee: &Tracee, address: u64) -> Result<(&mut u8, &mut bool), Error> {
        let start = address & !(PAGE - 1);
        let (bytes, is_changed) = match self.pages.entry(start) {
            Entry::Occupied(page) => page.into_mut(),
            Entry::Vacant(page) => {
                let mut bytes = vec![0; PAGE as usize];
                tracee.read(start, &mut bytes)?;
                page.insert((bytes, false))
            }
        };
        Ok((&mut bytes[(address - start) as usize], is_changed))
    }

    /// Reads what was there before changes, and what was put since.
    pub fn read(&mut self, tracee: &Tracee, address: u64, into: &mut [u8]) -> Result<(), Error> {
        for (address, into) in (address..).zip(into) {
            *into = *self.byte(tracee, address)?.0;
        }
        Ok(())
    }

    /// Puts a byte, once all is written.
    pub fn put(&mut self, tracee: &Tracee, address: u64, byte: u8) -> Result<(), Error> {
        let (place, is_changed) = self.byte(tracee, address)?;
        (*place, *is_changed) = (byte, true);
        Ok(())
    }

    /// Writes what was put.
    pub fn write(&self, tracee: &Tracee) -> Result<(), Error> {
        let mut changed = self.pages.iter().filter(|(_, (_, is_changed))| *is_changed);
        changed.try_for_each(|(&start, (bytes, _))| tracee.write(start, bytes))
    }
}
