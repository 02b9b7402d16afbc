//! A chunk: some steps of a thread, compressed, readable without the others.
//!
//! What follows a step depends most of all on where it was: a *context* is the
//! place of the innermost frame and, when something it called has returned, who
//! that was. In a context one of few *moves* follows: to another place of the
//! frame, into a new frame, or out of some frames, where the context is then the
//! caller's. A chunk begins with the frames at its start and, for each context
//! that occurs in it, its moves, the most frequent first. Where a context has one
//! move, nothing more is written. Where it has several, the number of the move is
//! coded with probabilities learnt from the last decisions, as a branch predictor
//! would ([`super::range_coder`]).
//!
//! ```text
//! raw length of the table  u32
//! length of the table      u32
//! table                    zstd: frames, contexts, moves, as varints
//! decisions                range coded
//! ```

use std::collections::HashMap;

use backtrail_foreign::packed::{pack, unpack_exactly};

use super::range_coder::{Decoder, Encoder, Model};
use super::{Step, corrupt};
use crate::Error;

/// Steps of a chunk, but the last of a thread has fewer.
pub const CHUNK_STEPS: usize = 1 << 20;

/// The largest table, decompressed.
const TABLE_LIMIT: usize = 1 << 30;

/// No place.
pub const NOWHERE: u32 = u32::MAX;

/// An activation under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// Where it is.
    pub place: u32,
    /// Who has returned to it there, by its first place; or [`NOWHERE`].
    pub returned: u32,
}

/// What can follow in a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Move {
    /// To a place of the frame.
    Step(u32),
    /// Into a new frame.
    Enter(u32),
    /// Out of so many frames, at least one.
    Leave(u32),
}

/// The frames of a thread, as steps change them.
#[derive(Debug, Clone, Default)]
pub struct Frames {
    /// The activations, the outermost first.
    pub frames: Vec<Frame>,
    /// The first place of each.
    firsts: Vec<u32>,
}

impl Frames {
    fn apply(&mut self, what: Move) {
        match what {
            Move::Step(place) => {
                let top = Frame { place, returned: NOWHERE };
                match self.frames.last_mut() {
                    Some(last) => *last = top,
                    None => {
                        self.frames.push(top);
                        self.firsts.push(place);
                    }
                }
            }
            Move::Enter(place) => {
                self.frames.push(Frame { place, returned: NOWHERE });
                self.firsts.push(place);
            }
            Move::Leave(count) => {
                let left = self.frames.len().saturating_sub(count as usize);
                let callee = self.firsts.get(left).copied().unwrap_or(NOWHERE);
                self.frames.truncate(left);
                self.firsts.truncate(left);
                if let Some(last) = self.frames.last_mut() {
                    last.returned = callee;
                }
            }
        }
    }

    /// The moves that a step is: out of frames, perhaps, and then to its place.
    fn moves(&self, step: Step) -> (Option<Move>, Move) {
        let height = self.frames.len() as u32;
        let below = if step.enters { step.depth.saturating_sub(1) } else { step.depth.max(1) };
        let leave = height.saturating_sub(below);
        let last = if step.enters { Move::Enter(step.place) } else { Move::Step(step.place) };
        ((leave > 0).then_some(Move::Leave(leave)), last)
    }

    /// Goes on by a step.
    pub fn go(&mut self, step: Step) {
        let (leave, last) = self.moves(step);
        leave.into_iter().for_each(|it| self.apply(it));
        self.apply(last);
    }

    fn context(&self) -> Frame {
        self.frames.last().copied().unwrap_or(Frame { place: NOWHERE, returned: NOWHERE })
    }
}

/// The moves of a context.
#[derive(Debug, Clone, Default)]
struct Choices {
    moves: Vec<Move>,
}

/// What decisions are predicted from.
struct Predictor {
    plain: Vec<Model>,
    by_history: Vec<Model>,
    history: u32,
}

const PLAIN_BITS: u32 = 16;
const HISTORY_BITS: u32 = 18;

/// Bits that are coded one after the other before the rest is coded as a number.
const UNARY: u32 = 6;

fn slot(context: u32, node: u32, history: u32, bits: u32) -> usize {
    let key = (u64::from(context) << 32) ^ (u64::from(history) << 8) ^ u64::from(node);
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (64 - bits)) as usize
}

impl Predictor {
    fn new() -> Self {
        Self {
            plain: vec![Model::NEW; 1 << PLAIN_BITS],
            by_history: vec![Model::NEW; 1 << HISTORY_BITS],
            history: 0,
        }
    }

    /// Codes one bit: `code` is told the probability and says what the bit is.
    #[inline]
    fn bit(&mut self, context: u32, node: u32, mut code: impl FnMut(u32) -> bool) -> bool {
        let plain = &mut self.plain[slot(context, node, 0, PLAIN_BITS)];
        let special = &mut self.by_history[slot(context, node, self.history, HISTORY_BITS)];
        let probability = match special.corrections() {
            0 => plain.probability(),
            1 => (plain.probability() + special.probability()) / 2,
            2 => (plain.probability() + 7 * special.probability()) / 8,
            _ => special.probability(),
        };
        let bit = code(probability);
        plain.learn(bit);
        special.learn(bit);
        bit
    }

    /// Codes which of `count` moves of a context follows. `code` is told which
    /// number a bit is about, in the sense that its answer is whether the number
    /// is that (the first ones) or has this bit set.
    fn choose(
        &mut self,
        context: u32,
        count: u32,
        mut code: impl FnMut(Question, u32) -> bool,
    ) -> u32 {
        let mut chosen = None;
        for number in 0..(count - 1).min(UNARY) {
            if self.bit(context, number, |p| code(Question::Is(number), p)) {
                chosen = Some(number);
                break;
            }
        }
        let chosen = match chosen {
            Some(number) => number,
            None if count - 1 <= UNARY => count - 1,
            None => {
                let rest = count - UNARY;
                let bits = u32::BITS - (rest - 1).leading_zeros();
                let mut number = 0;
                for bit in (0..bits).rev() {
                    let node = 0x80 | (1 << (bits - 1 - bit) | number) << 8;
                    let set = self.bit(context, node, |p| code(Question::Has(bit), p));
                    number = number << 1 | u32::from(set);
                }
                // Nobody wrote a larger one.
                UNARY + number.min(rest - 1)
            }
        };
        self.history = (self.history << 2 | chosen.min(3)) & 0x00ff_ffff;
        chosen
    }
}

/// What is asked of the number of a move.
#[derive(Clone, Copy)]
enum Question {
    /// Whether it is this one.
    Is(u32),
    /// Whether, less the first ones, it has this bit.
    Has(u32),
}

/// Encodes steps, of a thread that has these frames before the first.
pub fn encode(start: &Frames, steps: &[Step]) -> Vec<u8> {
    let mut frames = start.clone();
    let mut numbers: HashMap<Frame, u32> = HashMap::new();
    let mut counts: Vec<(Frame, Vec<(Move, u64)>)> = Vec::new();
    // By decision: the context, and which of its moves as they were met.
    let mut decisions: Vec<(u32, u32)> = Vec::with_capacity(steps.len());
    for &step in steps {
        let (leave, last) = frames.moves(step);
        for what in leave.into_iter().chain([last]) {
            let context = frames.context();
            let number = *numbers.entry(context).or_insert_with(|| {
                counts.push((context, Vec::new()));
                counts.len() as u32 - 1
            });
            let moves = &mut counts[number as usize].1;
            let at = match moves.iter().position(|(it, _)| *it == what) {
                Some(at) => at,
                None => {
                    moves.push((what, 0));
                    moves.len() - 1
                }
            };
            moves[at].1 += 1;
            decisions.push((number, at as u32));
            frames.apply(what);
        }
    }
    // The most frequent first; and from as they were met to as they are written.
    let mut order: Vec<Vec<u32>> = Vec::with_capacity(counts.len());
    let mut table = Vec::new();
    write_frames(&mut table, start);
    write_varint(&mut table, counts.len() as u64);
    for (context, moves) in &counts {
        let mut sorted: Vec<usize> = (0..moves.len()).collect();
        sorted.sort_by_key(|&at| (std::cmp::Reverse(moves[at].1), at));
        let mut rank = vec![0; moves.len()];
        write_varint(&mut table, u64::from(context.place.wrapping_add(1)));
        write_varint(&mut table, u64::from(context.returned.wrapping_add(1)));
        write_varint(&mut table, moves.len() as u64);
        for (number, &at) in sorted.iter().enumerate() {
            rank[at] = number as u32;
            let (kind, value) = match moves[at].0 {
                Move::Step(place) => (0, place),
                Move::Enter(place) => (1, place),
                Move::Leave(count) => (2, count),
            };
            write_varint(&mut table, u64::from(value) * 3 + kind);
        }
        order.push(rank);
    }
    let mut predictor = Predictor::new();
    let mut encoder = Encoder::new();
    for (context, at) in decisions {
        let rank = &order[context as usize];
        if rank.len() < 2 {
            continue;
        }
        let wanted = rank[at as usize];
        predictor.choose(context, rank.len() as u32, |question, probability| {
            let bit = match question {
                Question::Is(number) => wanted == number,
                Question::Has(bit) => (wanted - UNARY) >> bit & 1 == 1,
            };
            encoder.encode(bit, probability);
            bit
        });
    }
    let packed = pack(&table, 3);
    let mut bytes = (table.len() as u32).to_le_bytes().to_vec();
    bytes.extend((packed.len() as u32).to_le_bytes());
    bytes.extend(packed);
    bytes.extend(encoder.finish());
    bytes
}

/// Decodes a chunk of so many steps; gives each, and the frames behind it.
pub struct Steps<'a> {
    frames: Frames,
    left: u64,
    contexts: HashMap<Frame, u32>,
    choices: Vec<Choices>,
    predictor: Predictor,
    decoder: Decoder<'a>,
}

impl<'a> Steps<'a> {
    /// Reads the table.
    pub fn new(bytes: &'a [u8], steps: u64) -> Result<Self, Error> {
        let cut = || corrupt("a chunk is cut");
        let (raw, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let (raw, length) = (u32::from_le_bytes(*raw) as usize, u32::from_le_bytes(*length));
        let (packed, decisions) = rest.split_at_checked(length as usize).ok_or_else(cut)?;
        if raw > TABLE_LIMIT {
            return Err(corrupt("the table of a chunk is too large"));
        }
        let table = unpack_exactly(packed, raw as u64)
            .map_err(|_| corrupt("the table of a chunk cannot be decompressed"))?;
        let mut table = &table[..];
        let frames = read_frames(&mut table)?;
        let (mut contexts, mut choices) = (HashMap::new(), Vec::new());
        for number in 0..read_varint(&mut table)? {
            let place = read_number(&mut table)?.wrapping_sub(1);
            let returned = read_number(&mut table)?.wrapping_sub(1);
            let mut moves = Vec::new();
            for _ in 0..read_varint(&mut table)? {
                let word = read_varint(&mut table)?;
                let value = u32::try_from(word / 3).map_err(|_| corrupt("a place is too large"))?;
                moves.push(match word % 3 {
                    0 => Move::Step(value),
                    1 => Move::Enter(value),
                    _ => Move::Leave(value),
                });
            }
            if moves.is_empty() || moves.len() > 1 << 30 {
                return Err(corrupt("a context has no moves"));
            }
            contexts.insert(Frame { place, returned }, number as u32);
            choices.push(Choices { moves });
        }
        let decoder = Decoder::new(decisions);
        Ok(Self { frames, left: steps, contexts, choices, predictor: Predictor::new(), decoder })
    }

    /// The frames at this moment, the outermost first.
    pub fn frames(&self) -> &[Frame] {
        &self.frames.frames
    }

    fn next_step(&mut self) -> Result<Step, Error> {
        loop {
            let context = self.frames.context();
            let number = self.contexts.get(&context).copied();
            let number = number.ok_or_else(|| corrupt("a place is not in the table"))?;
            let moves = &self.choices[number as usize].moves;
            let chosen = match moves.len() {
                1 => 0,
                count => self.predictor.choose(number, count as u32, |_, probability| {
                    self.decoder.decode(probability)
                }),
            };
            let what = moves[chosen as usize];
            if let Move::Leave(count) = what
                && (count == 0 || count as usize > self.frames.frames.len())
            {
                return Err(corrupt("frames are left that are not there"));
            }
            self.frames.apply(what);
            let depth = self.frames.frames.len() as u32;
            match what {
                Move::Step(place) => return Ok(Step { place, depth, enters: false }),
                Move::Enter(place) => return Ok(Step { place, depth, enters: true }),
                Move::Leave(_) => {}
            }
        }
    }
}

impl Iterator for Steps<'_> {
    type Item = Result<Step, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let step = self.next_step();
        if step.is_err() {
            self.left = 0;
        }
        Some(step)
    }
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Result<u64, Error> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or_else(|| corrupt("a table is cut"))?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(corrupt("a number is too long"))
}

fn read_number(bytes: &mut &[u8]) -> Result<u32, Error> {
    u32::try_from(read_varint(bytes)?).map_err(|_| corrupt("a number is too large"))
}

fn write_frames(out: &mut Vec<u8>, frames: &Frames) {
    write_varint(out, frames.frames.len() as u64);
    for (frame, first) in frames.frames.iter().zip(&frames.firsts) {
        for number in [frame.place, frame.returned, *first] {
            write_varint(out, u64::from(number.wrapping_add(1)));
        }
    }
}

fn read_frames(bytes: &mut &[u8]) -> Result<Frames, Error> {
    let mut frames = Frames::default();
    for _ in 0..read_varint(bytes)? {
        let [place, returned, first] =
            [read_number(bytes)?, read_number(bytes)?, read_number(bytes)?]
                .map(|it| it.wrapping_sub(1));
        frames.frames.push(Frame { place, returned });
        frames.firsts.push(first);
    }
    Ok(frames)
}
