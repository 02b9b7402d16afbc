//! Sets of numbers, most of which are small.
//!
//! A set is a list of words of 64 bits that are not zero, by increasing place: what
//! can be seen next at one place of a program is few of all its witnesses, and
//! they are often next to each other. So a set costs what is in it, and a program
//! of a hundred thousand places does not need a square of that.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Numbers from 64 times the first on, as bits.
pub(crate) type Word = (u32, u64);

/// Sets, by number.
#[derive(Debug, Clone)]
pub(crate) struct BitRows {
    rows: Vec<Vec<Word>>,
}

impl BitRows {
    /// `rows` empty sets.
    pub fn new(rows: usize) -> Self {
        Self { rows: vec![Vec::new(); rows] }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn row(&self, row: usize) -> &[Word] {
        &self.rows[row]
    }

    pub fn row_mut(&mut self, row: usize) -> &mut Vec<Word> {
        &mut self.rows[row]
    }
}

/// Sets, by number, that do not change any more: those that are equal are kept once.
#[derive(Debug, Clone)]
pub(crate) struct FixedRows {
    /// By row: which of the sets.
    sets: Vec<u32>,
    /// By set: where its words end.
    ends: Vec<usize>,
    words: Vec<Word>,
}

impl FixedRows {
    pub fn new(rows: BitRows) -> Self {
        let mut fixed = Self { sets: Vec::new(), ends: Vec::new(), words: Vec::new() };
        // The latest set of each digest, and by set the one before of the same digest.
        let mut latest: HashMap<u64, u32, BuildHasherDefault<Digest>> = HashMap::default();
        let mut earlier: Vec<u32> = Vec::new();
        let mut sets = Vec::with_capacity(rows.len());
        for row in rows.rows {
            let latest = latest.entry(digest(&row)).or_insert(NONE);
            let mut set = *latest;
            while set != NONE && fixed.set(set) != row {
                set = earlier[set as usize];
            }
            if set == NONE {
                set = fixed.ends.len() as u32;
                earlier.push(std::mem::replace(latest, set));
                fixed.words.extend_from_slice(&row);
                fixed.ends.push(fixed.words.len());
            }
            sets.push(set);
        }
        Self { sets, ..fixed }
    }

    pub fn len(&self) -> usize {
        self.sets.len()
    }

    pub fn row(&self, row: usize) -> &[Word] {
        self.set(self.sets[row])
    }

    fn set(&self, set: u32) -> &[Word] {
        let set = set as usize;
        let start = set.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.words[start..self.ends[set]]
    }
}

const NONE: u32 = u32::MAX;

/// A number that sets which are equal have in common, and few others.
fn digest(set: &[Word]) -> u64 {
    // 2^64 divided by the golden ratio: each bit goes up into many.
    let mix =
        |sum: u64, part: u64| (sum.rotate_left(29) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    set.iter().fold(0, |sum, &(place, bits)| mix(mix(sum, place.into()), bits))
}

/// A hash of what is one.
#[derive(Debug, Default)]
struct Digest(u64);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, digest: u64) {
        self.0 = digest ^ digest >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn split(bit: usize) -> Word {
    ((bit / 64) as u32, 1 << (bit % 64))
}

pub(crate) fn insert(set: &mut Vec<Word>, bit: usize) {
    let (place, mask) = split(bit);
    match set.binary_search_by_key(&place, |word| word.0) {
        Ok(at) => set[at].1 |= mask,
        Err(at) => set.insert(at, (place, mask)),
    }
}

pub(crate) fn remove(set: &mut Vec<Word>, bit: usize) {
    let (place, mask) = split(bit);
    if let Ok(at) = set.binary_search_by_key(&place, |word| word.0) {
        set[at].1 &= !mask;
        if set[at].1 == 0 {
            set.remove(at);
        }
    }
}

pub(crate) fn contains(set: &[Word], bit: usize) -> bool {
    let (place, mask) = split(bit);
    // Most sets have one word or two.
    match set {
        [] => false,
        [word] => word.0 == place && word.1 & mask != 0,
        _ => {
            let found = set.binary_search_by_key(&place, |word| word.0);
            found.is_ok_and(|at| set[at].1 & mask != 0)
        }
    }
}

/// Adds `other` to `set`; whether that changed it.
pub(crate) fn unite(set: &mut Vec<Word>, other: &[Word]) -> bool {
    if other.is_empty() || std::ptr::eq(set.as_slice(), other) {
        return false;
    }
    if set.is_empty() {
        set.extend_from_slice(other);
        return true;
    }
    // Words that are there get more bits; how many are missing?
    let (mut at, mut missing, mut changed) = (0, 0, false);
    for &(place, bits) in other {
        while at < set.len() && set[at].0 < place {
            at += 1;
        }
        match set.get_mut(at) {
            Some(word) if word.0 == place => {
                changed |= bits & !word.1 != 0;
                word.1 |= bits;
            }
            _ => missing += 1,
        }
    }
    if missing == 0 {
        return changed;
    }
    // From the end on, so that nothing is overwritten that is still needed.
    let (mut from, mut more) = (set.len(), other.len());
    set.resize(set.len() + missing, (0, 0));
    let mut to = set.len();
    while more > 0 {
        let word = other[more - 1];
        let order = match from {
            0 => Ordering::Less,
            _ => set[from - 1].0.cmp(&word.0),
        };
        to -= 1;
        match order {
            Ordering::Less => {
                set[to] = word;
                more -= 1;
            }
            Ordering::Equal => {
                set[to] = set[from - 1];
                from -= 1;
                more -= 1;
            }
            Ordering::Greater => {
                set[to] = set[from - 1];
                from -= 1;
            }
        }
    }
    true
}

/// Whether `agrees` holds for the bits that both sets have in each word.
fn all_shared(one: &[Word], other: &[Word], agrees: impl Fn(u32, u64) -> bool) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    // A short set against a long one: look each word up.
    if short.len() * 8 < long.len() {
        return short.iter().all(|&(place, bits)| {
            match long.binary_search_by_key(&place, |word| word.0) {
                Ok(at) => agrees(place, bits & long[at].1),
                Err(_) => true,
            }
        });
    }
    let (mut a, mut b) = (0, 0);
    while let (Some(&(left, bits)), Some(&(right, others))) = (one.get(a), other.get(b)) {
        match left.cmp(&right) {
            Ordering::Less => a += 1,
            Ordering::Greater => b += 1,
            Ordering::Equal => {
                if !agrees(left, bits & others) {
                    return false;
                }
                a += 1;
                b += 1;
            }
        }
    }
    true
}

pub(crate) fn are_disjoint(one: &[Word], other: &[Word]) -> bool {
    all_shared(one, other, |_, shared| shared == 0)
}

/// Whether two sets share nothing but perhaps `bit`.
pub(crate) fn share_at_most(one: &[Word], other: &[Word], bit: usize) -> bool {
    let (place, mask) = split(bit);
    all_shared(one, other, |at, shared| {
        let allowed = if at == place { mask } else { 0 };
        shared & !allowed == 0
    })
}

pub(crate) fn count(set: &[Word]) -> usize {
    set.iter().map(|(_, bits)| bits.count_ones() as usize).sum()
}

pub(crate) fn ones(set: &[Word]) -> impl Iterator<Item = usize> + '_ {
    set.iter().flat_map(|&(place, bits)| {
        let mut rest = bits;
        std::iter::from_fn(move || {
            let bit = rest.trailing_zeros() as usize;
            (rest != 0).then(|| {
                rest &= rest - 1;
                place as usize * 64 + bit
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn sets_are_as_those_of_a_tree() {
        let mut random = fastrand::Rng::with_seed(8);
        for round in 0..3000 {
            let range = [70, 400, 5000][round % 3];
            let mut make = |most: usize| -> BTreeSet<usize> {
                (0..random.usize(0..most)).map(|_| random.usize(0..range)).collect()
            };
            let (one, other) = (make(40), make(if round % 2 == 0 { 5 } else { 200 }));
            let of = |numbers: &BTreeSet<usize>| {
                let mut set = Vec::new();
                numbers.iter().rev().for_each(|&bit| insert(&mut set, bit));
                set
            };
            let (mut a, b) = (of(&one), of(&other));
            assert!(ones(&a).eq(one.iter().copied()));
            assert_eq!(count(&b), other.len());
            assert_eq!(are_disjoint(&a, &b), one.is_disjoint(&other));
            let shared: Vec<usize> = one.intersection(&other).copied().collect();
            for bit in [0, range - 1, shared.first().copied().unwrap_or(3)] {
                assert_eq!(share_at_most(&a, &b, bit), shared.iter().all(|&it| it == bit));
                assert_eq!(contains(&a, bit), one.contains(&bit));
            }
            let mut rows = BitRows::new(4);
            for (row, set) in [(0, &a), (2, &b), (3, &a)] {
                rows.row_mut(row).clone_from(set);
            }
            let fixed = FixedRows::new(rows);
            assert_eq!([0, 1, 2, 3].map(|row| fixed.row(row)), [&a[..], &[], &b, &a]);
            assert_eq!(unite(&mut a, &b), !other.is_subset(&one));
            let mut all: BTreeSet<usize> = &one | &other;
            assert!(ones(&a).eq(all.iter().copied()));
            assert!(a.windows(2).all(|pair| pair[0].0 < pair[1].0));
            for bit in other {
                remove(&mut a, bit);
                all.remove(&bit);
                assert!(ones(&a).eq(all.iter().copied()));
            }
        }
    }
}
