//! Reading records: from a frame to the way that led there.
//!
//! Every step is checked: a sum must be one that a way to the block has, and an
//! entry one that its region has. What was read before something that cannot be
//! still stands.

use std::collections::BTreeMap;
use std::rc::Rc;

use backtrail_abi::{UnitId, record};
use backtrail_graph::Index;
use backtrail_ir::program::Surroundings;
use backtrail_ir::{Block, Callee, Func, Unit};
use backtrail_plan::frames::{CodeKind, FrameTable, FunctionCode, RecordPlace};
use backtrail_profile::function_graph::Piece;

use crate::covered::{Covered, CoveredMeaning};
use crate::placement::Wanted;
use crate::traced::{FunctionMeaning, Told, TracedPaths};
use crate::unit_plan::UnitMeaning;
use crate::{Error, Unread};

/// A frame as an unwinder finds it.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// The address of the instruction in the file: without the distance at which
    /// the module was loaded. Of an outer frame any address of the call, such as
    /// the return address less one.
    pub address: u64,
    /// Whether the instruction is a call under way: so for all frames but the
    /// innermost and those that a signal interrupted.
    pub is_call: bool,
    /// The canonical frame address.
    pub frame_address: u64,
    /// The value of a register in this frame, by DWARF number, if it is known.
    pub register: &'a dyn Fn(u16) -> Option<u64>,
    /// Reads memory; whether all of it is there.
    pub memory: &'a dyn Fn(u64, &mut [u8]) -> bool,
}

/// How sure something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It was so.
    Exact,
    /// It was so unless memory is damaged or the compiler merged code: the only
    /// possibility that fits.
    Inferred,
    /// It is not known.
    No,
}

/// A path that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OlderPath {
    /// Its blocks.
    pub blocks: Vec<Block>,
}

/// What is known of an activation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The unit of the function.
    pub unit: [u8; 16],
    /// The function.
    pub function: Func,
    /// The block that is being executed, if it is known.
    pub block: Option<Block>,
    /// The blocks of the path under way, oldest first. It ends with `block`,
    /// unless the path began within that block; then it may be empty.
    pub path: Vec<Block>,
    /// How sure `path` and `block` are.
    pub known: Known,
    /// The paths before it, newest first.
    pub older: Vec<OlderPath>,
    /// Whether there was something before the oldest path that is known.
    pub truncated: bool,
    /// Whether the function keeps a record at all.
    pub traced: bool,
    /// What is recorded of what it executed.
    pub covered: Wanted,
    /// What is odd, for people.
    pub note: Option<&'static str>,
}

/// The records of a module.
pub struct Frames {
    pub(crate) table: FrameTable,
    pub(crate) units: Vec<UnitState>,
}

pub(crate) struct UnitState {
    pub(crate) id: [u8; 16],
    pub(crate) model: Option<Rc<Unit>>,
    /// Which variant of the unit.
    variant: u32,
    meanings: BTreeMap<u32, FunctionMeaning>,
    pub(crate) covered: BTreeMap<u32, CoveredMeaning>,
    /// Where its bytes of coverage are in the file.
    pub(crate) bytes: Option<u64>,
}

impl Frames {
    /// Reads the contents of [`record::FRAMES_SECTION`]. `model` gives the model
    /// of a unit, which the executable carries.
    pub fn new(section: &[u8], model: &dyn Fn([u8; 16]) -> Option<Unit>) -> Result<Self, Error> {
        let table = FrameTable::from_bytes(section).ok_or(Error::DamagedTable)?;
        let mut units: Vec<UnitState> = Vec::new();
        for unit in &table.units {
            let meaning = UnitMeaning::from_bytes(&unit.meaning).ok_or(Error::DamagedTable)?;
            let same = units.last().filter(|it| it.id == unit.unit && unit.variant > 0);
            let model = match same {
                Some(same) => same.model.clone(),
                None => model(unit.unit).map(Rc::new),
            };
            units.push(UnitState {
                id: unit.unit,
                variant: unit.variant,
                model,
                meanings: meaning.traced.into_iter().map(|it| (it.function, it)).collect(),
                covered: meaning.covered.into_iter().map(|it| (it.function, it)).collect(),
                bytes: unit.covered,
            });
        }
        Ok(Self { table, units })
    }

    /// How many words the paths of a function take in its record.
    pub(crate) fn path_words(&self, unit: usize, function: u32) -> u32 {
        self.units[unit].meanings.get(&function).map_or(0, |it| it.words)
    }

    /// What else was linked into the module.
    pub fn surroundings(&self) -> &Surroundings {
        &self.table.surroundings
    }

    /// The models of all units, in the order in which they were linked, with
    /// their ids; `None` if one is missing.
    pub fn models(&self) -> Option<Vec<([u8; 16], &Unit)>> {
        let units = self.units.iter().filter(|unit| unit.variant == 0);
        units.map(|unit| Some((unit.id, &**unit.model.as_ref()?))).collect()
    }

    /// The model of a unit, if there is one.
    pub fn model(&self, unit: [u8; 16]) -> Option<&Unit> {
        self.units.iter().find(|it| it.id == unit)?.model.as_deref()
    }

    /// The unit and function that an address of the file is in.
    pub fn function(&self, address: u64) -> Option<([u8; 16], Func)> {
        let code = self.table.find(address)?;
        let unit = self.units.get(code.unit as usize)?;
        Some((unit.id, Func::new(code.function as usize)))
    }

    /// Says which way a frame came.
    pub fn recover(&self, frame: &Frame<'_>) -> Result<Recovered, Unread> {
        let code = self.table.find(frame.address).ok_or(Unread::NotOurs)?;
        let unit = self.units.get(code.unit as usize).ok_or(Unread::NotOurs)?;
        let model = unit.model.as_deref().ok_or(Unread::NoModel(UnitId(unit.id)))?;
        let damaged = || Unread::Damaged { unit: UnitId(unit.id), function: code.function };
        let function = Func::new(code.function as usize);
        let blocks = model.functions.get(function).ok_or_else(damaged)?.blocks.len();
        let kind = code.at(frame.address).unwrap_or(CodeKind::Unknown);
        let mut recovered = Recovered {
            unit: unit.id,
            function,
            block: None,
            path: Vec::new(),
            known: Known::No,
            older: Vec::new(),
            truncated: true,
            traced: false,
            covered: unit.covered.get(&code.function).map_or_else(Wanted::default, |it| it.wanted),
            note: None,
        };
        let covered = match unit.covered.get(&code.function) {
            Some(meaning) => Some(Covered::with_meaning(model, meaning).ok_or_else(damaged)?),
            None => None,
        };
        let Some(meaning) = unit.meanings.get(&code.function) else {
            // Pieces are points, or else blocks.
            if let CodeKind::Piece(piece) | CodeKind::Probe(piece) = kind {
                let block = match &covered {
                    Some(covered) => covered.block_of(piece),
                    None => Some(Block::new(piece as usize)),
                };
                recovered.block = block.filter(|it| it.position() < blocks);
            }
            return Ok(recovered);
        };
        let paths = TracedPaths::with_meaning(model, meaning).ok_or_else(damaged)?;
        let body = &model.functions[function];
        let number = |point: u32| match &covered {
            Some(covered) => covered.coarser(body, point, &paths.graph().splits()),
            None => Some(point),
        };
        let kind = match kind {
            CodeKind::Piece(it) => number(it).map_or(CodeKind::Unknown, CodeKind::Piece),
            CodeKind::Probe(it) => number(it).map_or(CodeKind::Unknown, CodeKind::Probe),
            other => other,
        };
        recovered.traced = true;
        let reading = Reading { frame, code, model, function, paths: &paths, meaning };
        reading.recover(kind, &mut recovered);
        Ok(recovered)
    }
}

/// One frame of a traced function.
struct Reading<'a> {
    frame: &'a Frame<'a>,
    code: &'a FunctionCode,
    model: &'a Unit,
    function: Func,
    paths: &'a TracedPaths,
    meaning: &'a FunctionMeaning,
}

impl Reading<'_> {
    fn recover(&self, kind: CodeKind, out: &mut Recovered) {
        if let CodeKind::Piece(piece) | CodeKind::Probe(piece) = kind {
            out.block = self.block_of(piece);
        }
        if kind == CodeKind::Frame {
            // The activation has hardly begun.
            out.block = Some(Block::new(0));
            out.path = vec![Block::new(0)];
            out.truncated = false;
            out.known = Known::Exact;
            return;
        }
        let Some(words) = self.read_record() else {
            out.note = Some("the memory of its frame is missing");
            return;
        };
        let Some(found) = self.find_way(kind, &words) else {
            out.note = Some(match kind {
                CodeKind::Unknown => "the compiler merged code of several blocks here",
                _ => "no way to this block has the sum in the frame",
            });
            return;
        };
        out.known = found.known;
        if out.block.is_none() || found.replaces_block {
            out.block = found.block.or(out.block);
        }
        let mut ways = found.told.ways.into_iter();
        out.path = ways.next().unwrap_or_default();
        out.older = ways.map(|blocks| OlderPath { blocks }).collect();
        out.truncated = !found.told.complete;
        if found.told.damaged {
            out.note = Some("what its record says of older paths cannot be");
        }
    }

    fn block_of(&self, piece: u32) -> Option<Block> {
        let pieces = &self.paths.graph().whole.pieces;
        pieces.get(Piece::new(piece as usize)).map(|data| data.block)
    }

    /// What a record with these words says at `piece`.
    fn way_at(&self, piece: Piece, words: &[u64], known: Known) -> Option<Found> {
        let told = self.paths.read(piece, words)?;
        let block = self.block_of_piece(piece);
        Some(Found { told, block, known, replaces_block: false })
    }

    /// The path under way.
    fn find_way(&self, kind: CodeKind, words: &[u64]) -> Option<Found> {
        let graph = self.paths.graph();
        match kind {
            CodeKind::Piece(piece) => {
                let piece = Piece::new(piece as usize);
                match graph.is_harmless(piece) {
                    false => self.way_at(piece, words, Known::Exact),
                    // The sum is that of a block before.
                    true => self.find_before(piece, words),
                }
            }
            CodeKind::Probe(piece) => {
                let from = Piece::new(piece as usize);
                // Words are shifted one after the other, the oldest first: how far that
                // has come is not known, so what is in the others does not count.
                let words = words.get(..1).unwrap_or(words);
                let at = |piece: Piece| {
                    let found = self.way_at(piece, words, Known::Inferred)?;
                    Some(Found { replaces_block: true, ..found })
                };
                if let Some(bits) = self.paths.shifts(from) {
                    // Whether it has been shifted yet is not known.
                    let &[word] = words else { return None };
                    let shifted = self.way_at(from, &[word << bits], Known::Inferred);
                    return match (at(from), shifted) {
                        (Some(as_it_is), None) => Some(as_it_is),
                        (None, shifted) => shifted,
                        (Some(_), Some(_)) => None,
                    };
                }
                at(from).or_else(|| graph.flow.successors(from).find_map(at))
            }
            CodeKind::Unknown => {
                let pieces = graph.whole.pieces.indices();
                let candidates = pieces.filter(|&it| !graph.is_harmless(it) && self.may_be_at(it));
                let mut ways = candidates.filter_map(|it| self.way_at(it, words, Known::Inferred));
                let found = ways.next()?;
                ways.next().is_none().then_some(found)
            }
            CodeKind::Frame => None,
        }
    }

    /// The way to a piece that was left out of the graph: through what leads to
    /// it, if that is only one piece with such a sum.
    fn find_before(&self, piece: Piece, words: &[u64]) -> Option<Found> {
        let graph = self.paths.graph();
        let mut found: Option<Found> = None;
        let mut pending = vec![vec![piece]];
        while let Some(tail) = pending.pop() {
            let last = *tail.last()?;
            for before in graph.before(last) {
                if graph.is_harmless(before) {
                    pending.push(tail.iter().copied().chain([before]).collect());
                    // Many ways through such blocks: it is not worth the search.
                    if pending.len() > 1000 {
                        return None;
                    }
                    continue;
                }
                let Some(mut way) = self.way_at(before, words, Known::Inferred) else { continue };
                if found.is_some() {
                    return None;
                }
                let tail = tail.iter().rev().filter_map(|&it| graph.entered(it));
                way.told.ways.first_mut()?.extend(tail);
                found = Some(Found { block: self.block_of_piece(piece), ..way });
            }
        }
        found
    }

    fn block_of_piece(&self, piece: Piece) -> Option<Block> {
        Some(self.paths.graph().whole.pieces.get(piece)?.block)
    }

    /// Whether the frame may be at this piece, by what is called in it.
    fn may_be_at(&self, piece: Piece) -> bool {
        let function = &self.model.functions[self.function];
        let block = self.paths.graph().whole.pieces[piece].block;
        let is_call = |inst| {
            let call = function.insts[inst].op.call();
            call.is_some_and(|call| !matches!(call.callee, Callee::Intrinsic(_)))
        };
        !self.frame.is_call || function.blocks[block].insts().any(is_call)
    }

    /// The words of the record.
    fn read_record(&self) -> Option<Vec<u64>> {
        if self.meaning.words == 0 {
            return Some(Vec::new());
        }
        let start = record_start(self.frame, self.code)?;
        let word = |number: u32| {
            let mut bytes = [0; record::WORD_BYTES as usize];
            let at = start.checked_add(u64::from(number) * record::WORD_BYTES)?;
            (self.frame.memory)(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
        };
        (0..self.meaning.words).map(word).collect()
    }
}

/// Where the record of a frame is.
pub(crate) fn record_start(frame: &Frame<'_>, code: &FunctionCode) -> Option<u64> {
    Some(match code.record? {
        RecordPlace::FrameAddress(offset) => frame.frame_address.wrapping_add_signed(offset),
        RecordPlace::Register(register, offset) => {
            (frame.register)(register)?.wrapping_add_signed(offset)
        }
    })
}

/// What was found, and how sure it is.
struct Found {
    told: Told,
    block: Option<Block>,
    known: Known,
    replaces_block: bool,
}
