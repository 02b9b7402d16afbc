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
    /// By address.
    pages: BTreeMap<u64, Page>,
}

struct Page {
    bytes: Vec<u8>,
    is_changed: bool,
}

impl Pages {
    /// The page that an address is in, and where in it.
    fn page(&mut self, tracee: &Tracee, address: u64) -> Result<(&mut Page, usize), Error> {
        let start = address & !(PAGE - 1);
        let page = match self.pages.entry(start) {
            Entry::Occupied(page) => page.into_mut(),
            Entry::Vacant(page) => {
                let mut bytes = vec![0; PAGE as usize];
                tracee.read(start, &mut bytes)?;
                page.insert(Page { bytes, is_changed: false })
            }
        };
        Ok((page, (address - start) as usize))
    }

    /// Reads what was there, and what was put since.
    pub fn read(&mut self, tracee: &Tracee, address: u64, into: &mut [u8]) -> Result<(), Error> {
        let mut done = 0;
        while done < into.len() {
            let (page, at) = self.page(tracee, address + done as u64)?;
            let length = (into.len() - done).min(page.bytes.len() - at);
            into[done..done + length].copy_from_slice(&page.bytes[at..at + length]);
            done += length;
        }
        Ok(())
    }

    /// Puts a byte, once all is written.
    pub fn put(&mut self, tracee: &Tracee, address: u64, byte: u8) -> Result<(), Error> {
        let (page, at) = self.page(tracee, address)?;
        (page.bytes[at], page.is_changed) = (byte, true);
        Ok(())
    }

    /// Writes what was put.
    pub fn write(&self, tracee: &Tracee) -> Result<(), Error> {
        let mut changed = self.pages.iter().filter(|(_, page)| page.is_changed);
        changed.try_for_each(|(&start, page)| tracee.write(start, &page.bytes))
    }
}
