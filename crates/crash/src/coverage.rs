//! Reading coverage: from the bytes of a module and the marks of its frames to
//! what was executed.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_abi::record::WORD_BYTES;
use backtrail_graph::Index;
use backtrail_ir::Func;
use backtrail_plan::frames::CodeKind;

use crate::covered::Covered;
use crate::evidence::{Evidence, FunctionEvidence, StackFrame};
use crate::frames::record_start;
use crate::points::{Point, Points};
use crate::walks::{Bits, Live, reached_anywhere};
use crate::{Frame, Frames};

/// A frame of a thread: the thread's place in [`Evidence::threads`], and the
/// frame's in its stack.
pub type FramePlace = (usize, usize);

impl Frames {
    /// Whether some function has coverage.
    pub fn has_coverage(&self) -> bool {
        self.units.iter().any(|unit| !unit.covered.is_empty())
    }

    /// Adds to `evidence`, whose stacks are there, what was executed of the
    /// functions of this module: by each of the activations `frames`, and by all.
    /// `bytes` reads memory at addresses of the file; whether all of it is there.
    ///
    /// Activations of this module that are in `evidence` and not in `frames` are
    /// taken as unknown, and so is what only they could tell.
    pub fn add_coverage(
        &self,
        evidence: &mut Evidence,
        frames: &BTreeMap<FramePlace, Frame<'_>>,
        bytes: &dyn Fn(u64, &mut [u8]) -> bool,
    ) {
        let mut alive: BTreeMap<([u8; 16], Func), Vec<FramePlace>> = BTreeMap::new();
        for (thread, stack) in evidence.threads.iter().enumerate() {
            for (place, frame) in stack.frames.iter().enumerate() {
                if let StackFrame::Known(activation) = frame {
                    alive.entry(activation.function).or_default().push((thread, place));
                }
            }
        }
        // Their frames were not kept.
        let folded = evidence.threads.iter().flat_map(|stack| &stack.folded);
        let folded: BTreeSet<_> = folded.map(|activation| activation.function).collect();
        let found_all =
            !evidence.threads_missing && evidence.threads.iter().all(|stack| stack.complete);
        let off = self.off(bytes);
        for (number, unit) in self.units.iter().enumerate() {
            let Some(model) = &unit.model else { continue };
            for (function, meaning) in &unit.covered {
                if off.contains(&(number as u32, *function)) {
                    continue;
                }
                // What is damaged tells nothing.
                let Some(covered) = Covered::with_meaning(model, meaning) else { continue };
                let mut content = vec![0; covered.bytes() as usize];
                let is_read = unit.bytes.is_some_and(|start| {
                    bytes(start.wrapping_add(meaning.first_byte.into()), &mut content)
                });
                let anywhere = covered.bytes_to_bits(is_read.then_some(&content[..]));
                let id = (unit.id, Func::new(*function as usize));
                let places = alive.get(&id).map_or(&[][..], |it| &it[..]);
                let mut live = Vec::new();
                for place in places {
                    let Some(frame) = frames.get(place) else { continue };
                    let reading = Reading { frames: self, covered: &covered, unit: number };
                    let found = reading.live(frame, *function, &anywhere);
                    let stack = &mut evidence.threads[place.0];
                    if let StackFrame::Known(activation) = &mut stack.frames[place.1] {
                        activation.coverage = covered.coverage(&found.reached);
                    }
                    live.push(found);
                }
                let all = found_all && live.len() == places.len() && !folded.contains(&id);
                let reached = reached_anywhere(covered.points(), &anywhere, &live, all);
                let entered = reached.first().copied().unwrap_or_default();
                let coverage = covered.coverage(&reached);
                evidence.functions.insert(id, FunctionEvidence { entered, coverage });
            }
        }
    }
}

impl Frames {
    /// The variants of functions, by place of the unit and number, that were not on,
    /// or of which that is not known: their bytes tell nothing.
    fn off(&self, bytes: &dyn Fn(u64, &mut [u8]) -> bool) -> BTreeSet<(u32, u32)> {
        let mut off = BTreeSet::new();
        // Of some the linker kept no code, or made one of several: what is on is not
        // known.
        for (place, unit) in self.table.units.iter().zip(0u32..) {
            let covered = self.units[unit as usize].covered.keys();
            off.extend(covered.filter(|_| place.variant > 0).map(|function| (unit, *function)));
        }
        for function in &self.table.tuned {
            let mut state = [0];
            if !bytes(function.state, &mut state) {
                continue;
            }
            if let Some(on) = function.variants.get(usize::from(state[0])) {
                off.remove(&(*on, function.function));
            }
        }
        off
    }
}

struct Reading<'a> {
    frames: &'a Frames,
    covered: &'a Covered,
    unit: usize,
}

impl Reading<'_> {
    fn live(&self, frame: &Frame<'_>, function: u32, anywhere: &Bits) -> Live {
        let points = self.covered.points();
        let code = self.frames.table.find(frame.address);
        let code = code.filter(|it| it.unit as usize == self.unit && it.function == function);
        let kind = code.and_then(|code| code.at(frame.address)).unwrap_or(CodeKind::Unknown);
        let at = self.possible(frame, function, kind);
        // Before its marks are cleared, a frame holds what was there before.
        let marks = code.filter(|_| kind != CodeKind::Frame).and_then(|code| {
            let start = record_start(frame, code)?;
            let words = self.frames.path_words(self.unit, function);
            let mut marks = vec![0; self.covered.mark_words() as usize * WORD_BYTES as usize];
            let start = start.checked_add(u64::from(words) * WORD_BYTES)?;
            (frame.memory)(start, &mut marks).then_some(marks)
        });
        let here = self.covered.marks_to_bits(marks.as_deref());
        Live::new(points, at, anywhere, &here)
    }

    /// The points at which a frame may be.
    fn possible(&self, frame: &Frame<'_>, function: u32, kind: CodeKind) -> Vec<Point> {
        let points = self.covered.points();
        let with_next = |point: Point| {
            let next = points.flow.successors(point);
            std::iter::once(point).chain(next).collect()
        };
        let known = |number: u32| {
            let point = Point::new(number as usize);
            points.data.get(point).map(|_| point)
        };
        let found = match kind {
            CodeKind::Frame => Some(with_next(points.entry())),
            CodeKind::Probe(piece) => known(piece).map(with_next),
            CodeKind::Piece(piece) => known(piece).map(|point| {
                let block = points.data[point].block;
                let model = self.frames.units[self.unit].model.as_deref();
                let body = model.and_then(|it| it.functions.get(Func::new(function as usize)));
                // A call under way is that call; what failed may have been moved.
                let moved = body.is_some_and(|body| Points::has_division(body, block));
                match !frame.is_call && moved {
                    true => points.of_block(block).collect(),
                    false => vec![point],
                }
            }),
            CodeKind::Unknown => None,
        };
        found.unwrap_or_else(|| points.data.indices().collect())
    }
}
