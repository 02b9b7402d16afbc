//! Unwind tables: how to get from a place in a function to its caller.
//!
//! `.eh_frame`, found through its sorted header where there is one, and
//! `.debug_frame`. A [`Rule`] is a row of such a table, in the form in which
//! it is applied to many frames: a program that overflowed its stack has a
//! million frames and three rules, so rules are kept by address.
//!
//! (DWARF 5, section 6.4; System V ABI, AMD64 supplement, section 4.2.4.)

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use gimli::{
    BaseAddresses, CfaRule, EhFrameHdr, ParsedEhFrameHdr, Register, RegisterRule, UnwindContext,
    UnwindSection, UnwindTableRow,
};

use crate::image::{Image, Section, Slice, slice};
use crate::registers::{COUNT, RIP};

/// How a caller's registers follow from a frame's.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Where the frame ends: the stack pointer before the call.
    pub cfa: Value,
    /// The caller's registers, by number.
    pub registers: [Saved; COUNT],
    /// Whether this is no function but what a signal returns through: the frame
    /// behind it was interrupted, not calling.
    pub signal: bool,
}

/// Where the end of a frame is.
#[derive(Debug)]
pub(crate) enum Value {
    /// So far from a register.
    Register(u16, i64),
    /// What an expression says.
    Expression(gimli::Expression<Slice>),
}

/// What became of a register.
#[derive(Debug)]
pub(crate) enum Saved {
    /// Nothing is said.
    Unspecified,
    /// It is lost; for the return address: there is no caller.
    Undefined,
    /// It still has its value.
    Same,
    /// It is in memory, so far from the end of the frame.
    At(i64),
    /// It is so far from the end of the frame.
    Offset(i64),
    /// It is in another register.
    In(u16),
    /// It is in memory, where an expression says.
    AtExpression(gimli::Expression<Slice>),
    /// It is what an expression says.
    Expression(gimli::Expression<Slice>),
}

/// The unwind tables of one file.
pub(crate) struct Tables {
    bases: BaseAddresses,
    /// Where `.eh_frame` begins.
    start: u64,
    frames: Option<gimli::EhFrame<Slice>>,
    header: Option<ParsedEhFrameHdr<Slice>>,
    debug: Option<gimli::DebugFrame<Slice>>,
    /// Where entries are, by their first address, for tables without a header.
    places: Places,
    rules: RefCell<HashMap<u64, Option<Rc<Rule>>>>,
}

#[derive(Default)]
struct Places {
    frames: BTreeMap<u64, (u64, usize)>,
    debug: BTreeMap<u64, (u64, usize)>,
}

impl Tables {
    /// The tables of a file, and those of its debug information.
    pub fn new(image: &Image, debug: Option<&Image>) -> Self {
        let [header, frames, text, got, own_debug] =
            image.sections([".eh_frame_hdr", ".eh_frame", ".text", ".got", ".debug_frame"]);
        let (header, frames) = match (header, frames) {
            (header, Some(frames)) => (header, Some(frames)),
            _ => image.unwind_segment().map_or((None, None), |(h, f)| (Some(h), Some(f))),
        };
        let other_debug = || debug.and_then(|debug| debug.sections([".debug_frame"])[0].take());
        let debug = own_debug.or_else(other_debug);
        let address = |section: &Option<Section>| section.as_ref().map_or(0, |it| it.address);
        let start = address(&frames);
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(address(&header))
            .set_eh_frame(address(&frames))
            .set_text(address(&text))
            .set_got(address(&got));
        let header = header.and_then(|header| {
            let header = EhFrameHdr::from(slice(header.bytes)).parse(&bases, 8).ok()?;
            header.table().is_some().then_some(header)
        });
        let frames = frames.map(|frames| gimli::EhFrame::from(slice(frames.bytes)));
        let debug = debug.map(|debug| gimli::DebugFrame::from(slice(debug.bytes)));
        let mut places = Places::default();
        if let (Some(frames), None) = (&frames, &header) {
            places.frames = list(frames, &bases);
        }
        if let Some(debug) = &debug {
            places.debug = list(debug, &bases);
        }
        Self { bases, start, frames, header, debug, places, rules: RefCell::default() }
    }

    /// The rule for an address, if there is one.
    pub fn rule(&self, address: u64) -> Option<Rc<Rule>> {
        if let Some(rule) = self.rules.borrow().get(&address) {
            return rule.clone();
        }
        let rule = self.find(address).map(Rc::new);
        self.rules.borrow_mut().insert(address, rule.clone());
        rule
    }

    fn find(&self, address: u64) -> Option<Rule> {
        self.find_in_frames(address).or_else(|| {
            let debug = self.debug.as_ref()?;
            let offset = entry_of(&self.places.debug, address)?;
            let fde = debug
                .fde_from_offset(&self.bases, offset.into(), gimli::DebugFrame::cie_from_offset)
                .ok()?;
            row(debug, &self.bases, &fde, address)
        })
    }

    fn find_in_frames(&self, address: u64) -> Option<Rule> {
        let frames = self.frames.as_ref()?;
        let get = gimli::EhFrame::cie_from_offset;
        let offset = match &self.header {
            Some(header) => {
                let entry = header.table()?.lookup(address, &self.bases).ok()?.direct().ok()?;
                // Not by `pointer_to_offset`, which takes the header's word for
                // where the section begins.
                usize::try_from(entry.checked_sub(self.start)?).ok()?
            }
            None => entry_of(&self.places.frames, address)?,
        };
        let fde = frames.fde_from_offset(&self.bases, offset.into(), get).ok()?;
        // The header names the nearest, whether or not it covers the address.
        if !fde.contains(address) {
            return None;
        }
        row(frames, &self.bases, &fde, address)
    }
}

/// The entry that covers an address.
fn entry_of(places: &BTreeMap<u64, (u64, usize)>, address: u64) -> Option<usize> {
    let (_, &(end, offset)) = places.range(..=address).next_back()?;
    (address < end).then_some(offset)
}

/// All entries of a table; those behind damage are lost.
fn list<S>(section: &S, bases: &BaseAddresses) -> BTreeMap<u64, (u64, usize)>
where
    S: UnwindSection<Slice>,
    S::Offset: gimli::UnwindOffset<usize>,
{
    let mut places = BTreeMap::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        if let gimli::CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(S::cie_from_offset)
            && fde.len() > 0
        {
            places.insert(fde.initial_address(), (fde.end_address(), fde.offset()));
        }
    }
    places
}

fn row<S>(
    section: &S,
    bases: &BaseAddresses,
    fde: &gimli::FrameDescriptionEntry<Slice>,
    address: u64,
) -> Option<Rule>
where
    S: UnwindSection<Slice>,
{
    let mut context = UnwindContext::new();
    let row: &UnwindTableRow<usize> =
        fde.unwind_info_for_address(section, bases, &mut context, address).ok()?;
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Value::Register(register.0, *offset),
        CfaRule::Expression(expression) => Value::Expression(expression.get(section).ok()?),
    };
    let mut registers = [const { Saved::Unspecified }; COUNT];
    for (Register(number), rule) in row.registers() {
        // The column of the return address is the program counter's on x86-64.
        let own = if *number == fde.cie().return_address_register().0 { RIP } else { *number };
        let Some(slot) = registers.get_mut(usize::from(own)) else { continue };
        *slot = match rule {
            RegisterRule::Undefined => Saved::Undefined,
            RegisterRule::SameValue => Saved::Same,
            RegisterRule::Offset(offset) => Saved::At(*offset),
            RegisterRule::ValOffset(offset) => Saved::Offset(*offset),
            RegisterRule::Register(Register(other)) => Saved::In(*other),
            RegisterRule::Expression(at) => Saved::AtExpression(at.get(section).ok()?),
            RegisterRule::ValExpression(value) => Saved::Expression(value.get(section).ok()?),
            RegisterRule::Constant(_) | RegisterRule::Architectural => Saved::Undefined,
        };
    }
    Some(Rule { cfa, registers, signal: fde.is_signal_trampoline() })
}
