//! Small sets of things that are few.

use std::fmt;
use std::marker::PhantomData;

/// Of what there are sets: few, each with a number and a name.
pub trait Member: Copy + PartialEq + 'static {
    /// All there are, in order.
    const ALL: &'static [Self];
    /// How it is written in the data.
    fn word(self) -> &'static str;
    /// Its place in [`Member::ALL`].
    fn number(self) -> u32;

    /// The one that is written so.
    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.word() == word)
    }
}

/// A set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Set<T> {
    bits: u32,
    of: PhantomData<T>,
}

impl<T: Member> Set<T> {
    /// Nothing.
    pub const NONE: Self = Self { bits: 0, of: PhantomData };

    /// Everything there is.
    pub fn all() -> Self {
        T::ALL.iter().copied().collect()
    }

    /// Whether this is in it.
    pub fn has(self, member: T) -> bool {
        self.bits & (1 << member.number()) != 0
    }

    /// Whether nothing is in it.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// What is in this or in the other.
    pub fn with(self, other: Self) -> Self {
        Self { bits: self.bits | other.bits, of: PhantomData }
    }

    /// What is in this and in the other.
    pub fn common(self, other: Self) -> Self {
        Self { bits: self.bits & other.bits, of: PhantomData }
    }

    /// What is in this and not in the other.
    pub fn without(self, other: Self) -> Self {
        Self { bits: self.bits & !other.bits, of: PhantomData }
    }

    /// What is in it, in order.
    pub fn iter(self) -> impl Iterator<Item = T> {
        T::ALL.iter().copied().filter(move |&it| self.has(it))
    }
}

impl<T: Member> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Self {
        let bits = members.into_iter().fold(0, |bits, it| bits | 1 << it.number());
        Self { bits, of: PhantomData }
    }
}

impl<T: Member> Default for Set<T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<T: Member> fmt::Display for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.iter().map(Member::word).collect();
        f.write_str(&words.join(","))
    }
}

impl<T: Member> fmt::Debug for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}
