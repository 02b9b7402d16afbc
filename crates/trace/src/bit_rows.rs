//! Sets of small numbers, one per row, in one allocation.

/// Rows of bits.
#[derive(Debug, Clone)]
pub(crate) struct BitRows {
    words: usize,
    bits: Vec<u64>,
}

impl BitRows {
    /// `rows` empty sets of numbers below `universe`.
    pub fn new(rows: usize, universe: usize) -> Self {
        let words = universe.div_ceil(64).max(1);
        Self { words, bits: vec![0; rows * words] }
    }

    pub fn words(&self) -> usize {
        self.words
    }

    pub fn row(&self, row: usize) -> &[u64] {
        &self.bits[row * self.words..][..self.words]
    }

    pub fn row_mut(&mut self, row: usize) -> &mut [u64] {
        &mut self.bits[row * self.words..][..self.words]
    }
}

pub(crate) fn insert(set: &mut [u64], bit: usize) {
    set[bit / 64] |= 1 << (bit % 64);
}

pub(crate) fn remove(set: &mut [u64], bit: usize) {
    set[bit / 64] &= !(1 << (bit % 64));
}

pub(crate) fn contains(set: &[u64], bit: usize) -> bool {
    set.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
}

/// Adds `other` to `set`; whether that changed it.
pub(crate) fn unite(set: &mut [u64], other: &[u64]) -> bool {
    let mut changed = false;
    for (word, &more) in set.iter_mut().zip(other) {
        changed |= more & !*word != 0;
        *word |= more;
    }
    changed
}

pub(crate) fn are_disjoint(one: &[u64], other: &[u64]) -> bool {
    one.iter().zip(other).all(|(one, other)| one & other == 0)
}

/// Whether two sets share nothing but perhaps `bit`.
pub(crate) fn share_at_most(one: &[u64], other: &[u64], bit: usize) -> bool {
    one.iter().zip(other).enumerate().all(|(number, (one, other))| {
        let allowed = if bit / 64 == number { 1 << (bit % 64) } else { 0 };
        one & other & !allowed == 0
    })
}

pub(crate) fn ones(set: &[u64]) -> impl Iterator<Item = usize> + '_ {
    set.iter().enumerate().flat_map(|(number, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = rest.trailing_zeros() as usize;
            (rest != 0).then(|| {
                rest &= rest - 1;
                number * 64 + bit
            })
        })
    })
}
