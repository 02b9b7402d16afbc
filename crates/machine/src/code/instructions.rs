//! Where instructions were found to begin, by byte of the code.
//!
//! Large programs have millions of instructions, and whoever follows them asks of nearly
//! every address whether one begins there or is passed there. So each byte of code has a
//! place of its own in tables, instead of each instruction one in a tree: five bytes for
//! each byte of code, and no search.

use super::spans::Spans;

/// The longest instruction there is.
const LONGEST: u64 = 15;

/// How long the instruction is that begins here; 0 if none was decoded.
const LENGTH: u8 = 0x0f;
/// A block begins here.
const LEADER: u8 = 0x10;
/// A block begins here, and was not decoded yet.
const WAITING: u8 = 0x20;

/// An instruction that was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Where it ends.
    pub next: u64,
    /// The run that decoded it.
    pub run: usize,
}

/// All instructions that were decoded.
pub(crate) struct Instructions<'a> {
    code: &'a Spans,
    /// By byte of code.
    marks: Vec<u8>,
    /// By byte of code where an instruction begins: its run.
    runs: Vec<u32>,
}

impl<'a> Instructions<'a> {
    /// None yet.
    pub fn new(code: &'a Spans) -> Self {
        Self { code, marks: vec![0; code.len()], runs: vec![0; code.len()] }
    }

    fn mark(&self, address: u64) -> u8 {
        self.code.position(address).map_or(0, |at| self.marks[at])
    }

    /// Sets a mark; whether it was not set.
    fn put(&mut self, address: u64, mark: u8) -> bool {
        let Some(at) = self.code.position(address) else { return false };
        let is_new = self.marks[at] & mark == 0;
        self.marks[at] |= mark;
        is_new
    }

    /// The instruction that begins at an address, if one was decoded there.
    pub fn get(&self, address: u64) -> Option<Decoded> {
        let at = self.code.position(address)?;
        let length = self.marks[at] & LENGTH;
        let (next, run) = (address + u64::from(length), self.runs[at] as usize);
        (length > 0).then_some(Decoded { next, run })
    }

    /// Whether an instruction was decoded at an address.
    pub fn contains(&self, address: u64) -> bool {
        self.mark(address) & LENGTH > 0
    }

    /// Notes an instruction in the code, which is at most [`LONGEST`] bytes long.
    pub fn insert(&mut self, address: u64, decoded: Decoded) {
        if let Some(at) = self.code.position(address) {
            self.marks[at] |= (decoded.next - address) as u8 & LENGTH;
            self.runs[at] = decoded.run as u32;
        }
    }

    /// The instructions before an address that may reach it, the last one first: how far
    /// before, and how long they are.
    fn before(&self, address: u64) -> impl Iterator<Item = (u64, u64)> {
        (1..=LONGEST).filter_map(move |distance| {
            let length = self.mark(address.checked_sub(distance)?) & LENGTH;
            (length > 0).then_some((distance, length.into()))
        })
    }

    /// The instructions behind which an address is.
    pub fn ending_at(&self, address: u64) -> impl Iterator<Item = u64> {
        let ending = self.before(address).filter(|(distance, length)| distance == length);
        ending.map(move |(distance, _)| address - distance)
    }

    /// Whether an address is within the instruction before it, and not the start of one.
    pub fn is_inside_one(&self, address: u64) -> bool {
        let before = self.before(address).next();
        before.is_some_and(|(distance, length)| distance < length) && !self.contains(address)
    }

    /// Whether an address is within any instruction that begins before it.
    pub fn is_passed(&self, address: u64) -> bool {
        self.before(address).any(|(distance, length)| distance < length)
    }

    /// Notes that a block begins at an address of the code and waits to be decoded;
    /// whether that is new.
    pub fn lead(&mut self, address: u64) -> bool {
        let is_new = self.put(address, LEADER);
        if is_new {
            self.put(address, WAITING);
        }
        is_new
    }

    /// Whether a block begins at an address.
    pub fn is_leader(&self, address: u64) -> bool {
        self.mark(address) & LEADER > 0
    }

    /// Notes that a block waits no longer.
    pub fn take(&mut self, address: u64) {
        if let Some(at) = self.code.position(address) {
            self.marks[at] &= !WAITING;
        }
    }

    /// Whether a block waits to be decoded.
    pub fn is_waiting(&self, address: u64) -> bool {
        self.mark(address) & WAITING > 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn instructions_are_found_as_in_a_tree() {
        let mut random = fastrand::Rng::with_seed(6);
        for _ in 0..500 {
            let spans = Spans::new(&[10..60, 60..70, 90..120]);
            let mut found = Instructions::new(&spans);
            let mut tree = BTreeMap::new();
            for run in 0..random.usize(0..30) {
                let address = random.u64(0..130);
                if spans.position(address).is_none() || tree.contains_key(&address) {
                    continue;
                }
                let decoded = Decoded { next: address + random.u64(1..=LONGEST), run };
                tree.insert(address, decoded);
                found.insert(address, decoded);
            }
            for address in 0..140 {
                assert_eq!(found.get(address), tree.get(&address).copied());
                assert_eq!(found.contains(address), tree.contains_key(&address));
                let before = || tree.range(..address).rev();
                let is_passed = before().any(|(_, decoded)| address < decoded.next);
                assert_eq!(found.is_passed(address), is_passed);
                let is_inside = before().next().is_some_and(|(_, it)| address < it.next);
                let is_inside = is_inside && !tree.contains_key(&address);
                assert_eq!(found.is_inside_one(address), is_inside);
                let ending = before().filter(|(_, decoded)| decoded.next == address);
                assert!(found.ending_at(address).eq(ending.map(|it| *it.0)));
            }
        }
    }

    #[test]
    fn a_block_begins_once_and_waits_until_it_is_taken() {
        let spans = Spans::new(std::slice::from_ref(&(10..20)));
        let mut found = Instructions::new(&spans);
        assert!(found.lead(12) && !found.lead(12) && !found.lead(20));
        assert!(found.is_leader(12) && found.is_waiting(12) && !found.contains(12));
        found.insert(12, Decoded { next: 14, run: 3 });
        found.take(12);
        assert!(found.is_leader(12) && !found.is_waiting(12) && found.contains(12));
        assert!(!found.is_leader(11) && !found.is_leader(20));
    }
}
