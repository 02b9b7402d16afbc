//! Reads, out of a linked file, what the compiler said of blocks and records.
//!
//! The objects hold debug information that tells blocks
//! ([`backtrail_plan::block_lines`]); the linker relocated it. Here it becomes
//! the table that the file carries. A function that was linked several times is
//! there once: linkers keep the first, and what they do with debug information
//! of the others is to point it nowhere or to the one that was kept.
//!
//! The record's place is said relative to a register. That of the frame address
//! is found by the unwinder's own rule, as it is where the record is begun: the
//! register may change later, while arguments are passed, but not the distance.

mod tunable;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use backtrail_machine::Error;
use backtrail_plan::block_lines::{
    BEGIN, FRAME_LINE, PROBE, RECORD, RECORD_NAME, SECTION_PREFIX, piece_of,
};
use backtrail_plan::frames::{
    CodeKind, CodeRun, FrameTable, FunctionCode, RecordPlace, UnitFrames,
};
use backtrail_plan::tuning::TuneTable;
use backtrail_plan::{SwitchedFunction, UnitPlan};
use gimli::{
    AttributeValue, BaseAddresses, CfaRule, ColumnType, EndianSlice, LittleEndian, Operation,
    Reader as _, UnwindSection as _,
};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, elf};

use crate::coverage_area;

type Slice<'d> = EndianSlice<'d, LittleEndian>;
type Dwarf<'d> = gimli::Dwarf<Slice<'d>>;
type Unit<'d> = gimli::Unit<Slice<'d>>;
type Entry<'a, 'd> = gimli::DebuggingInformationEntry<Slice<'d>>;

/// The records of a unit, or of a variant of functions of one.
pub struct PlannedRecords {
    /// The unit.
    pub unit: [u8; 16],
    /// Which variant.
    pub variant: u32,
    /// What its records mean.
    pub meaning: Vec<u8>,
    /// The functions that are springboards.
    pub switched: Vec<SwitchedFunction>,
    /// The unit as people call it.
    pub name: String,
}

/// The tables of the linked file `bytes`: where functions and their records are,
/// and which can be switched. `planned` says what there is, in the order in which
/// units were linked, each before its variants.
pub fn read(bytes: &[u8], planned: Vec<PlannedRecords>) -> Result<(FrameTable, TuneTable), Error> {
    let file: ElfFile64<'_> = ElfFile64::parse(bytes)?;
    let section = |name: &str| -> Result<Cow<'_, [u8]>, Error> {
        match file.section_by_name(name) {
            Some(section) => Ok(section.uncompressed_data()?),
            None => Ok(Cow::Borrowed(&[])),
        }
    };
    let sections = gimli::DwarfSections::load(|id| {
        section(&id.name().replacen(".debug_", SECTION_PREFIX, 1))
    })?;
    let dwarf = sections.borrow(|data| EndianSlice::new(data, LittleEndian));
    let (eh_frame, debug_frame) = (section(".eh_frame")?, section(".debug_bt_frame")?);
    let address = |name: &str| file.section_by_name(name).map_or(0, |it| it.address());
    let unwinding = Unwinding {
        eh_frame: gimli::EhFrame::new(&eh_frame, LittleEndian),
        debug_frame: gimli::DebugFrame::new(&debug_frame, LittleEndian),
        bases: BaseAddresses::default()
            .set_eh_frame(address(".eh_frame"))
            .set_text(address(".text")),
    };
    let is_code = |flags: SectionFlags| match flags {
        SectionFlags::Elf { sh_flags, .. } => sh_flags.0 & elf::SHF_EXECINSTR.0 != 0,
        _ => false,
    };
    let code = file.sections().filter(|it| is_code(it.flags()));
    let code = code.map(|it| it.address()..it.address() + it.size()).collect();

    let mut reading = Reading { dwarf: &dwarf, unwinding, code, found: Vec::new() };
    let numbers: BTreeMap<String, u32> = planned
        .iter()
        .zip(0..)
        .map(|(it, number)| (UnitPlan::suffix(it.unit, it.variant), number))
        .collect();
    let corrupt = |error: gimli::Error| {
        Error::Corrupt(format!("what the compiler said of blocks cannot be read: {error}"))
    };
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().map_err(corrupt)? {
        let unit = dwarf.unit(header).map_err(corrupt)?;
        let name = unit.name.map(|name| name.to_string_lossy().into_owned());
        let Some(&number) = name.and_then(|name| numbers.get(&name)) else { continue };
        reading.unit(&unit, number).map_err(corrupt)?;
    }
    // A linker that was told to drop local symbols has dropped these as well;
    // then nothing is known.
    let own = |name: &str| name.starts_with("__backtrail_");
    let named = file.symbols().filter_map(|it| Some((it.name().ok()?, it.address())));
    let symbols: BTreeMap<&str, u64> = named.filter(|(name, _)| own(name)).collect();
    let address = |name: String| symbols.get(&name[..]).copied();
    let state = |unit| address(coverage_area::state_symbol(unit));
    let found = tunable::find(&planned, &mut reading.found, &file, &state);
    let with_place = |it: PlannedRecords| UnitFrames {
        covered: address(coverage_area::symbol(it.unit, it.variant)),
        unit: it.unit,
        variant: it.variant,
        meaning: it.meaning,
    };
    let units = planned.into_iter().map(with_place).collect();
    let code = without_overlaps(reading.found);
    let (tuned, table) = found;
    Ok((FrameTable { units, code, tuned, ..FrameTable::default() }, table))
}

/// The functions by address; of those that claim the same place, the first.
fn without_overlaps(mut found: Vec<FunctionCode>) -> Vec<FunctionCode> {
    let mut seen = BTreeSet::new();
    found.retain(|code| seen.insert(code.start));
    found.sort_by_key(|code| code.start);
    let mut end = 0;
    found.retain(|code| {
        let is_free = code.start >= end;
        end = end.max(code.start + code.bytes());
        is_free
    });
    found
}

/// Rules of unwinding.
struct Unwinding<'d> {
    eh_frame: gimli::EhFrame<Slice<'d>>,
    debug_frame: gimli::DebugFrame<Slice<'d>>,
    bases: BaseAddresses,
}

impl Unwinding<'_> {
    /// The register and the distance that give the frame address at an address.
    fn frame_address(&self, address: u64) -> Option<(u16, i64)> {
        let mut context = gimli::UnwindContext::new();
        let eh = self.eh_frame.unwind_info_for_address(
            &self.bases,
            &mut context,
            address,
            gimli::EhFrame::cie_from_offset,
        );
        if let Ok(row) = eh {
            return plain_rule(row.cfa());
        }
        let mut context = gimli::UnwindContext::new();
        let row = self.debug_frame.unwind_info_for_address(
            &self.bases,
            &mut context,
            address,
            gimli::DebugFrame::cie_from_offset,
        );
        plain_rule(row.ok()?.cfa())
    }
}

fn plain_rule<T: gimli::ReaderOffset>(rule: &CfaRule<T>) -> Option<(u16, i64)> {
    match rule {
        CfaRule::RegisterAndOffset { register, offset } => Some((register.0, *offset)),
        CfaRule::Expression(_) => None,
    }
}

struct Reading<'a, 'd> {
    dwarf: &'a Dwarf<'d>,
    unwinding: Unwinding<'d>,
    /// Where the file has code.
    code: Vec<std::ops::Range<u64>>,
    found: Vec<FunctionCode>,
}

/// A row of the line table: where it begins, and what it says.
struct Row {
    start: u64,
    line: u64,
    column: u64,
    ends: bool,
}

impl<'d> Reading<'_, 'd> {
    fn unit(&mut self, unit: &Unit<'d>, number: u32) -> Result<(), gimli::Error> {
        let rows = rows(unit)?;
        let mut entries = unit.entries();
        let mut function: Option<(u32, Vec<gimli::Range>, Option<Slice<'d>>)> = None;
        let mut place = None;
        while let Some(entry) = entries.next_dfs()? {
            match entry.tag() {
                gimli::DW_TAG_subprogram => {
                    if let Some((function, ranges, _)) = function.take() {
                        self.function(number, function, &ranges, place.take(), &rows);
                    }
                    function = self.begin(unit, entry)?;
                }
                gimli::DW_TAG_variable
                    if self.name(unit, entry)?.as_deref() == Some(RECORD_NAME) =>
                {
                    let base = function.as_ref().and_then(|(_, _, base)| *base);
                    place = location(unit, entry, base)?;
                }
                _ => {}
            }
        }
        if let Some((function, ranges, _)) = function {
            self.function(number, function, &ranges, place, &rows);
        }
        Ok(())
    }

    fn name(&self, unit: &Unit<'d>, entry: &Entry<'_, 'd>) -> Result<Option<String>, gimli::Error> {
        let Some(value) = entry.attr_value(gimli::DW_AT_name) else { return Ok(None) };
        let name = self.dwarf.attr_string(unit, value)?;
        Ok(Some(name.to_string_lossy().into_owned()))
    }

    /// A function's number, where it is, and its frame base.
    #[allow(clippy::type_complexity)]
    fn begin(
        &self,
        unit: &Unit<'d>,
        entry: &Entry<'_, 'd>,
    ) -> Result<Option<(u32, Vec<gimli::Range>, Option<Slice<'d>>)>, gimli::Error> {
        let Some(number) = self.name(unit, entry)?.and_then(|name| name.parse().ok()) else {
            return Ok(None);
        };
        let mut ranges = self.dwarf.die_ranges(unit, entry)?;
        let mut found = Vec::new();
        while let Some(range) = ranges.next()? {
            found.push(range);
        }
        let base = match entry.attr_value(gimli::DW_AT_frame_base) {
            Some(AttributeValue::Exprloc(expression)) => Some(expression.0),
            _ => None,
        };
        Ok(Some((number, found, base)))
    }

    fn function(
        &mut self,
        unit: u32,
        function: u32,
        ranges: &[gimli::Range],
        place: Option<Place>,
        rows: &[Row],
    ) {
        for range in ranges {
            let is_there = |code: &std::ops::Range<u64>| {
                code.start <= range.begin && range.end <= code.end && range.begin < range.end
            };
            if !self.code.iter().any(is_there) {
                continue;
            }
            let behind = rows.partition_point(|row| row.start <= range.begin);
            let first = behind.saturating_sub(1);
            let own = &rows[first..];
            let own = &own[..own.partition_point(|row| row.start < range.end)];
            let begun = own.iter().filter(|row| row.column == BEGIN.into()).map(|row| row.start);
            let begun = begun.max();
            let mut changed = own.iter().filter(|row| row.column == RECORD.into());
            let there = begun.or_else(|| changed.next().map(|row| row.start));
            let record = place.as_ref().and_then(|place| self.record(place, there));
            let runs = runs(own, range, begun.filter(|_| place.is_some()));
            let start = range.begin;
            self.found.push(FunctionCode { unit, function, start, record, runs });
        }
    }

    /// Where a record is that is there at an address.
    fn record(&self, place: &Place, begun: Option<u64>) -> Option<RecordPlace> {
        let (register, offset) = match *place {
            Place::FrameAddress(offset) => return Some(RecordPlace::FrameAddress(offset)),
            Place::Register(register, offset) => (register, offset),
        };
        let rule = begun.and_then(|address| self.unwinding.frame_address(address));
        Some(match rule {
            Some((base, distance)) if base == register => {
                RecordPlace::FrameAddress(offset - distance)
            }
            _ => RecordPlace::Register(register, offset),
        })
    }
}

/// The rows of a unit, by address.
fn rows(unit: &Unit<'_>) -> Result<Vec<Row>, gimli::Error> {
    let Some(program) = unit.line_program.clone() else { return Ok(Vec::new()) };
    let mut rows = program.rows();
    let mut found = Vec::new();
    while let Some((_, row)) = rows.next_row()? {
        let column = match row.column() {
            ColumnType::LeftEdge => 0,
            ColumnType::Column(column) => column.get(),
        };
        let line = row.line().map_or(0, |line| line.get());
        found.push(Row { start: row.address(), line, column, ends: row.end_sequence() });
    }
    // Of what begins at one address, the last counts; an end, before all else.
    found.sort_by_key(|row| (row.start, !row.ends));
    Ok(found)
}

/// What the code of a function is. All that comes before the record is begun is
/// code that makes the frame.
fn runs(rows: &[Row], range: &gimli::Range, begun: Option<u64>) -> Vec<CodeRun> {
    let mut runs: Vec<CodeRun> = Vec::new();
    let mut at = range.begin;
    let mut push = |until: u64, kind: CodeKind| {
        let bytes = until.saturating_sub(at).min(u32::MAX.into()) as u32;
        at = at.max(until);
        match runs.last_mut() {
            Some(last) if last.kind == kind => last.bytes += bytes,
            _ if bytes > 0 => runs.push(CodeRun { bytes, kind }),
            _ => {}
        }
    };
    let mut has_begun = false;
    for (index, row) in rows.iter().enumerate() {
        let until = rows.get(index + 1).map_or(range.end, |next| next.start).min(range.end);
        let kind = match piece_of(row.line) {
            _ if begun.is_some_and(|begun| row.start <= begun) => CodeKind::Frame,
            _ if row.ends || row.line == 0 => CodeKind::Unknown,
            // A frame that is made late tells nothing of the way there.
            _ if row.line == FRAME_LINE.into() && has_begun => CodeKind::Unknown,
            _ if row.line == FRAME_LINE.into() || row.column == BEGIN.into() => CodeKind::Frame,
            Some(piece) if [PROBE, RECORD].map(u64::from).contains(&row.column) => {
                CodeKind::Probe(piece)
            }
            Some(piece) => CodeKind::Piece(piece),
            None => CodeKind::Unknown,
        };
        has_begun |= kind != CodeKind::Frame && until > row.start;
        push(until, kind);
    }
    push(range.end, CodeKind::Unknown);
    runs
}

/// Where a variable is.
enum Place {
    FrameAddress(i64),
    Register(u16, i64),
}

fn location<'d>(
    unit: &Unit<'d>,
    entry: &Entry<'_, 'd>,
    base: Option<Slice<'d>>,
) -> Result<Option<Place>, gimli::Error> {
    let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(gimli::DW_AT_location) else {
        return Ok(None);
    };
    let parse = |bytes: Slice<'d>| operations(bytes, unit.encoding());
    Ok(match parse(expression.0)?[..] {
        [Operation::RegisterOffset { register, offset, .. }] => {
            Some(Place::Register(register.0, offset))
        }
        [Operation::FrameOffset { offset }] => match base.map(parse).transpose()?.as_deref() {
            Some([Operation::Register { register }]) => Some(Place::Register(register.0, offset)),
            Some([Operation::CallFrameCFA]) => Some(Place::FrameAddress(offset)),
            // Where the stack pointer moves while arguments are passed.
            Some(
                [Operation::CallFrameCFA, Operation::SignedConstant { value }, Operation::Plus],
            ) => Some(Place::FrameAddress(offset + value)),
            _ => None,
        },
        _ => None,
    })
}

/// All of an expression.
fn operations<'d>(
    mut bytes: Slice<'d>,
    encoding: gimli::Encoding,
) -> Result<Vec<Operation<Slice<'d>>>, gimli::Error> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        found.push(Operation::parse(&mut bytes, encoding)?);
    }
    Ok(found)
}
