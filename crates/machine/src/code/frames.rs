//! What unwind tables tell about code: where functions, or parts of them, begin
//! and end, how high the stack is, and where exceptions land.
//!
//! The table of call sites that an entry of `.eh_frame` refers to is that of the
//! Itanium C++ ABI ("Exception Handling Tables", section 2.5 of its companion
//! document), which C++, Rust and others share.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, FrameDescriptionEntry, Pointer, UnwindContext,
    UnwindSection as _,
};

use super::loaded::Loaded;
use crate::image::{Image, Slice, slice};

/// A stretch of code with unwind information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrameRange {
    pub start: u64,
    pub end: u64,
    pub sites: Vec<CallSite>,
    /// How high the stack is, from these addresses on.
    heights: Vec<(u64, Height)>,
}

impl FrameRange {
    /// How high the stack is before the instruction at an address.
    pub fn height(&self, address: u64) -> Option<Height> {
        let after = self.heights.partition_point(|it| it.0 <= address);
        self.heights[..after].last().map(|it| it.1)
    }
}

/// How high the stack is: where the caller's frame ends, from what a register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Height {
    register: gimli::Register,
    offset: i64,
}

impl Height {
    /// Where nothing but the return address is on the caller's frame.
    pub const OF_CALLER: Self = Self { register: gimli::X86_64::RSP, offset: 8 };
}

/// Calls between two addresses land at a third when they throw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallSite {
    pub start: u64,
    pub end: u64,
    pub pad: u64,
}

/// All of them, by address. Those behind damage are lost.
pub(crate) fn read(image: &Image, loaded: &Loaded) -> Vec<FrameRange> {
    let [frames, text, got] = image.sections([".eh_frame", ".text", ".got"]);
    let Some(frames) = frames.or_else(|| image.unwind_segment().map(|(_, frames)| frames)) else {
        return Vec::new();
    };
    let address =
        |section: &Option<crate::image::Section>| section.as_ref().map_or(0, |it| it.address);
    let bases = BaseAddresses::default()
        .set_eh_frame(frames.address)
        .set_text(address(&text))
        .set_got(address(&got));
    let section = EhFrame::from(slice(frames.bytes));
    let (mut found, mut context) = (Vec::new(), UnwindContext::new());
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let (start, end) = (fde.initial_address(), fde.end_address());
        if start == 0 || end <= start || !loaded.is_code(start) {
            continue;
        }
        let table = match fde.lsda() {
            Some(Pointer::Direct(address)) => Some(address),
            Some(Pointer::Indirect(slot)) => loaded.pointer(slot),
            None => None,
        };
        let sites = table.and_then(|table| call_sites(loaded.bytes(table), start));
        let sites = sites.unwrap_or_default();
        let heights = heights(&section, &bases, &mut context, &fde).unwrap_or_default();
        found.push(FrameRange { start, end, sites, heights });
    }
    found.sort_by_key(|range| (range.start, range.end));
    found.dedup_by_key(|range| range.start);
    found
}

/// Nothing if an expression tells one of them, or if there is damage.
fn heights(
    section: &EhFrame<Slice>,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
    fde: &FrameDescriptionEntry<Slice>,
) -> Option<Vec<(u64, Height)>> {
    let (mut found, mut rows) = (Vec::new(), fde.rows(section, bases, context).ok()?);
    while let Some(row) = rows.next_row().ok()? {
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
        found.push((row.start_address(), Height { register, offset }));
    }
    found.dedup_by_key(|it| it.1);
    Some(found)
}

/// The encodings of numbers in the table, of those that are in use.
const ULEB128: u8 = 1;
const UDATA4: u8 = 3;
const OMITTED: u8 = 0xff;

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn uleb(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn number(&mut self, encoding: u8) -> Option<u64> {
        match encoding & 0x0f {
            ULEB128 => self.uleb(),
            UDATA4 => {
                let (bytes, rest) = self.0.split_at_checked(4)?;
                self.0 = rest;
                Some(u64::from(u32::from_le_bytes(bytes.try_into().ok()?)))
            }
            _ => None,
        }
    }
}

fn call_sites(table: &[u8], function: u64) -> Option<Vec<CallSite>> {
    let mut reader = Reader(table);
    // Where landing pads are counted from: compilers leave it out.
    if reader.byte()? != OMITTED {
        return None;
    }
    if reader.byte()? != OMITTED {
        reader.uleb()?;
    }
    let encoding = reader.byte()?;
    let length = usize::try_from(reader.uleb()?).ok()?;
    let mut reader = Reader(reader.0.get(..length)?);
    let mut sites = Vec::new();
    while !reader.0.is_empty() {
        let start = function.wrapping_add(reader.number(encoding)?);
        let end = start.wrapping_add(reader.number(encoding)?);
        let pad = reader.number(encoding)?;
        reader.uleb()?;
        if pad != 0 {
            sites.push(CallSite { start, end, pad: function.wrapping_add(pad) });
        }
    }
    Some(sites)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_call_sites_is_read_and_a_cut_one_is_not() {
        let table = [0xff, 0xff, 1, 8, 4, 5, 0x80, 1, 1, 12, 3, 0, 0];
        let sites = call_sites(&table[..12], 0x1000);
        assert_eq!(sites, None);
        let table = [0xff, 0xff, 1, 9, 4, 5, 0x80, 1, 1, 12, 3, 0, 0];
        let sites = call_sites(&table, 0x1000).unwrap();
        assert_eq!(sites, [CallSite { start: 0x1004, end: 0x1009, pad: 0x1080 }]);
        for cut in 0..table.len() {
            assert_eq!(call_sites(&table[..cut], 0x1000), None);
        }
    }
}
