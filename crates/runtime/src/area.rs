//! One module's area in one copy: where it is and what it is backed by.
//!
//! An area begins as memory that reads zero: the module's own, or memory mapped
//! where nothing was. When a thread first runs a function of the module that
//! checks, its counters become those of a file ([`Area::open`]); what early code
//! has counted by then moves along. Until that check nobody but early code
//! counts there, on the same thread or before there are others, so nothing can
//! be counted between looking and mapping. If no file can be made, the area
//! stays what it is: the program goes on, and the record says why it lacks
//! something.
//!
//! The owner's page is private memory that a fork's child finds wiped, so that
//! the child's next check fails.

use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use backtrail_abi::VERSION;
use backtrail_abi::counts::{COUNTS_FILE_PREFIX, COUNTS_MAGIC, CountsHeader};
use backtrail_abi::log::Incomplete;

use crate::file::{Failure, Request};
use crate::name::Text;
use crate::registry::{Entry, Registry, ThreadCopy};
use crate::sys::{self, Descriptor, Error, PAGE, Path};

const NAME_BYTES: usize = 40;

/// A module's area in a copy.
pub(crate) struct Area<'a> {
    registry: &'static Registry,
    index: usize,
    entry: &'a Entry,
    number: usize,
    copy: &'a ThreadCopy,
}

impl<'a> Area<'a> {
    pub(crate) fn new(
        registry: &'static Registry,
        (index, entry): (usize, &'a Entry),
        (number, copy): (usize, &'a ThreadCopy),
    ) -> Self {
        Self { registry, index, entry, number, copy }
    }

    fn start(&self) -> usize {
        self.entry.area().wrapping_add(self.copy.distance())
    }

    fn counters(&self) -> usize {
        self.start() + PAGE
    }

    fn counter_bytes(&self) -> usize {
        self.entry.bytes().saturating_sub(PAGE)
    }

    fn is_original(&self) -> bool {
        self.number == 0
    }

    /// Maps the area at `distance`, where nothing may be mapped yet.
    pub(crate) fn reserve(&self, distance: usize) -> Result<(), Error> {
        let (start, bytes) = (self.entry.area().wrapping_add(distance), self.entry.bytes());
        sys::map_where_free(start, bytes)?;
        self.copy.present.set(self.index);
        Ok(())
    }

    /// Maps at least the page that a check looks at, which then fails.
    pub(crate) fn reserve_owner(&self, distance: usize) {
        if sys::map_where_free(self.entry.area().wrapping_add(distance), PAGE).is_ok() {
            self.copy.owned.set(self.index);
        }
    }

    /// Makes the next check of the thread fail.
    pub(crate) fn disown(&self) {
        if self.copy.owned.has(self.index) {
            self.owner().store(0, Ordering::Release);
        }
    }

    /// The word a check looks at.
    fn owner(&self) -> &AtomicUsize {
        // SAFETY: the first word of an area, which the caller knows to be mapped.
        unsafe { &*ptr::with_exposed_provenance(self.start()) }
    }

    /// Unmaps the area at `distance` if it is there. Nobody may use it any more.
    pub(crate) fn release(&self, distance: usize) {
        let start = self.entry.area().wrapping_add(distance);
        self.copy.filed.clear(self.index);
        let owned = self.copy.owned.clear(self.index);
        if self.copy.present.clear(self.index) {
            // SAFETY: we mapped it there, and the caller vouches for its users.
            unsafe { sys::unmap(start, self.entry.bytes()) };
        } else if owned {
            // SAFETY: as above, with only this page mapped.
            unsafe { sys::unmap(start, PAGE) };
        }
    }

    /// Makes the area read zero, whatever it is backed by. Gives whether that
    /// was a file.
    pub(crate) fn reset(&self) -> bool {
        let filed = self.copy.filed.clear(self.index);
        if self.is_original() || self.copy.present.has(self.index) {
            // SAFETY: these pages are counters only.
            let _ = unsafe { sys::map_zeros_over(self.counters(), self.counter_bytes()) };
        }
        filed
    }

    /// Gives the area to the thread, backed by a file if one can be made.
    pub(crate) fn open(&self, thread: usize) {
        self.back();
        self.owner().store(thread, Ordering::Release);
    }

    /// Backs the area by a file if one can be made.
    pub(crate) fn back(&self) {
        if !self.copy.filed.has(self.index)
            && let Err(failure) = self.own_page().and_then(|()| self.make_file())
        {
            self.registry.note(failure);
        }
    }

    /// Makes sure that the owner's page is one that is wiped on fork.
    fn own_page(&self) -> Result<(), Failure> {
        if self.copy.owned.has(self.index) {
            return Ok(());
        }
        // SAFETY: the page holds the owner only, which is written afterwards.
        unsafe { sys::map_zeros_over(self.start(), PAGE) }
            .and_then(|()| sys::wipe_on_fork(self.start(), PAGE))
            .map_err(|error| Failure::new(Incomplete::Map, error))?;
        self.copy.owned.set(self.index);
        Ok(())
    }

    /// Makes the file, or opens that of the module before it was unloaded; moves
    /// into it what was counted, and maps it.
    fn make_file(&self) -> Result<(), Failure> {
        let control = self.registry.record()?;
        let mut buffer = [0; NAME_BYTES];
        let mut text = Text::after(&mut buffer, 0);
        text.push(COUNTS_FILE_PREFIX.as_bytes()).push_decimal(self.entry.number());
        text.push_byte(b'-').push_decimal(self.number as u32).push_byte(0);
        let name = text
            .length()
            .and_then(|length| buffer.get(..length))
            .and_then(Path::new)
            .ok_or(Failure::new(Incomplete::Create, sys::ENAMETOOLONG))?;
        let to = self.entry.bytes() as u64;
        let folder = control.folder()?;
        let again = self.copy.made.has(self.index);
        let from = if again { to } else { 0 };
        let inode = &AtomicU64::new(0);
        let request = Request { folder, name, inode, from, to, mapped_from: PAGE as u64 };
        if !again {
            control.take_space(to)?;
        }
        request.extend(|file| {
            if again {
                let saved = sys::map_file(file, PAGE as u64, self.counter_bytes())?;
                let added = self.save(|page| self.add_page(page, saved));
                // SAFETY: mapped here, for this purpose.
                unsafe { sys::unmap(saved, self.counter_bytes()) };
                added?;
            } else {
                self.save(|page| self.write_page(page, file))?;
                self.write_header(file)?;
                self.copy.made.set(self.index);
            }
            // A child must never find a file where the table has none.
            self.copy.filed.set(self.index);
            // SAFETY: these pages are counters only, and they are saved.
            let mapped = unsafe {
                sys::map_file_over(self.counters(), file, PAGE as u64, self.counter_bytes())
            };
            if mapped.is_err() {
                // The kernel may have unmapped what was there before it failed.
                self.reset();
            }
            mapped
        })
    }

    fn write_header(&self, file: Descriptor) -> Result<(), Error> {
        let [low, high] = &self.entry.layout;
        let mut layout = [0; 16];
        for (half, word) in layout.as_chunks_mut::<8>().0.iter_mut().zip([low, high]) {
            *half = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        let header = CountsHeader {
            magic: COUNTS_MAGIC,
            version: VERSION,
            module: self.entry.number(),
            copy: self.number as u32,
            reserved: 0,
            layout,
            bytes: self.entry.bytes() as u64,
        };
        // SAFETY: plain numbers without padding.
        let bytes = unsafe { &*(&raw const header).cast::<[u8; CountsHeader::BYTES]>() };
        write_all(file, bytes, 0)
    }

    /// Saves the pages early code has counted in. Pages that nobody has touched
    /// are not in memory, and looking at them would put them there.
    fn save(&self, mut save_page: impl FnMut(usize) -> Result<(), Error>) -> Result<(), Error> {
        let pages = self.counter_bytes() / PAGE;
        // SAFETY: areas are opened under the lock, and nothing called here
        // needs the room.
        let scratch = unsafe { self.registry.scratch() };
        let mut first = 0;
        while first < pages {
            match sys::resident(self.counters() + first * PAGE, pages - first, scratch) {
                Ok(resident) => {
                    for (page, resident) in resident.iter().enumerate() {
                        if resident & 1 != 0 {
                            save_page(first + page)?;
                        }
                    }
                    first += resident.len();
                }
                Err(_) => {
                    save_page(first)?;
                    first += 1;
                }
            }
        }
        Ok(())
    }

    /// The counters of a page, which nobody writes to.
    fn page(&self, page: usize) -> &[u64; PAGE / 8] {
        // SAFETY: a page of the area.
        unsafe { &*ptr::with_exposed_provenance(self.counters() + page * PAGE) }
    }

    /// Writes a page to its place in a new file.
    fn write_page(&self, page: usize, file: Descriptor) -> Result<(), Error> {
        let words = self.page(page);
        if words.iter().fold(0, |all, word| all | word) == 0 {
            return Ok(());
        }
        // SAFETY: the same page as bytes.
        let bytes = unsafe { &*words.as_ptr().cast::<[u8; PAGE]>() };
        write_all(file, bytes, (PAGE + page * PAGE) as u64)
    }

    /// Adds a page to what is in the file, whose counters are mapped at `saved`.
    fn add_page(&self, page: usize, saved: usize) -> Result<(), Error> {
        for (index, count) in self.page(page).iter().enumerate().filter(|(_, count)| **count != 0) {
            let place = saved + page * PAGE + index * 8;
            // SAFETY: a counter in the mapping, which nobody else uses.
            unsafe { &*ptr::with_exposed_provenance::<AtomicU64>(place) }
                .fetch_add(*count, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Writes into space that is allocated.
fn write_all(file: Descriptor, mut bytes: &[u8], mut offset: u64) -> Result<(), Error> {
    while !bytes.is_empty() {
        match sys::write_at(file, bytes, offset) {
            Ok(0) => return Err(sys::EIO),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64;
            }
            Err(sys::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

const _: () = assert!(CountsHeader::BYTES.is_multiple_of(size_of::<AtomicU64>()));
