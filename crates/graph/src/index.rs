//! Dense typed indices, and maps keyed by them.
//!
//! An index into a list is a type of its own, so that a block cannot be taken
//! for a function; it prints with a prefix (`b3`), so that dumps, tests and
//! messages share one vocabulary.

use std::fmt;
use std::marker::PhantomData;
use std::ops;

use serde::{Deserialize, Serialize};

/// A dense index, created with [`define_index!`](crate::define_index).
pub trait Index: Copy + Eq + Ord + fmt::Display + fmt::Debug {
    /// The index for position `position`.
    fn new(position: usize) -> Self;
    /// The position this index stands for.
    fn position(self) -> usize;
}

/// Defines a dense index type that prints as `PREFIX` and its number.
#[macro_export]
macro_rules! define_index {
    ($(#[$meta:meta])* $name:ident, $prefix:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name(u32);

        impl $crate::Index for $name {
            fn new(position: usize) -> Self {
                Self(u32::try_from(position).expect("an index fits in 32 bits"))
            }
            fn position(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

/// A list whose positions are indices of one type.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexMap<I, T> {
    items: Vec<T>,
    #[serde(skip)]
    index: PhantomData<I>,
}

impl<I: Index, T> IndexMap<I, T> {
    /// An empty list.
    pub fn new() -> Self {
        Self { items: Vec::new(), index: PhantomData }
    }

    /// Adds an item and returns its index.
    pub fn push(&mut self, item: T) -> I {
        let index = self.next_index();
        self.items.push(item);
        index
    }

    /// The index the next pushed item will get.
    pub fn next_index(&self) -> I {
        I::new(self.items.len())
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item at `index`, if there is one.
    pub fn get(&self, index: I) -> Option<&T> {
        self.items.get(index.position())
    }

    /// All indices, in order.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// All items with their indices, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(position, item)| (I::new(position), item))
    }

    /// All items, in order.
    pub fn values(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }
}

impl<I: Index, T> Default for IndexMap<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Index, T> FromIterator<T> for IndexMap<I, T> {
    fn from_iter<Iter: IntoIterator<Item = T>>(items: Iter) -> Self {
        Self { items: items.into_iter().collect(), index: PhantomData }
    }
}

impl<I: Index, T> IntoIterator for IndexMap<I, T> {
    type Item = (I, T);
    type IntoIter =
        std::iter::Map<std::iter::Enumerate<std::vec::IntoIter<T>>, fn((usize, T)) -> (I, T)>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter().enumerate().map(|(position, item)| (I::new(position), item))
    }
}

impl<I: Index, T> ops::Index<I> for IndexMap<I, T> {
    type Output = T;
    fn index(&self, index: I) -> &T {
        &self.items[index.position()]
    }
}

impl<I: Index, T> ops::IndexMut<I> for IndexMap<I, T> {
    fn index_mut(&mut self, index: I) -> &mut T {
        &mut self.items[index.position()]
    }
}

impl<I: Index, T: fmt::Debug> fmt::Debug for IndexMap<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
