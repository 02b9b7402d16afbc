//! Maps from LLVM's objects, which are known by their address.
//!
//! Lowering asks such a map several times per instruction, so the hash is one
//! multiplication. Nothing depends on the order within these maps.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map from identities.
pub type ById<T> = HashMap<usize, T, BuildHasherDefault<IdHasher>>;

/// A set of identities.
pub type Ids = HashSet<usize, BuildHasherDefault<IdHasher>>;

/// Hashes one address.
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, id: usize) {
        // Addresses differ in their middle bits; the table looks at the lowest
        // and the highest ones.
        let product = (self.0 ^ id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}
