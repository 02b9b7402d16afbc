//! The functions of a module that can be switched, and how.
//!
//! Written into a variant ([`backtrail_abi::tune::SECTION`]) by whoever links it,
//! read by whoever switches it. Addresses are those of the file.

use serde::{Deserialize, Serialize};

/// The functions of a module that can be switched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuneTable {
    /// By address.
    pub functions: Vec<TunableFunction>,
}

/// A function that can be switched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunableFunction {
    /// Its linkage name.
    pub name: String,
    /// The unit it is of, as people call it.
    pub unit: String,
    /// Where the distance of its jump is.
    pub distance: u64,
    /// Where the byte is that says which variant is on.
    pub state: u64,
    /// Its variants; the first is on in what was derived.
    pub variants: Vec<Variant>,
}

/// A variant of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// What it records, as people write it.
    pub scheme: String,
    /// Where it is.
    pub start: u64,
}

impl TunableFunction {
    /// The variant that a jump over this distance leads to.
    pub fn reached(&self, distance: i32) -> Option<usize> {
        let end = self.distance.wrapping_add(4).wrapping_add_signed(distance.into());
        self.variants.iter().position(|it| it.start == end)
    }

    /// The distance of the jump to a variant, if it is not too far.
    pub fn distance_to(&self, variant: usize) -> Option<i32> {
        let start = self.variants.get(variant)?.start;
        i32::try_from(start.wrapping_sub(self.distance.wrapping_add(4)).cast_signed()).ok()
    }
}

impl TuneTable {
    /// The table as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("serialising into memory does not fail")
    }

    /// The inverse of [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_lead_to_variants() {
        let variant = |start| Variant { scheme: "cc".to_owned(), start };
        let function = TunableFunction {
            name: "f".to_owned(),
            unit: "f.c".to_owned(),
            distance: 0x1001,
            state: 0,
            variants: vec![variant(0x1005), variant(0x500), variant(u64::MAX)],
        };
        assert_eq!(function.distance_to(0), Some(0));
        let back = function.distance_to(1).unwrap();
        assert_eq!((back, function.reached(back)), (0x500 - 0x1005, Some(1)));
        assert_eq!(function.reached(1), None);
        assert_eq!(function.distance_to(3), None);
    }
}
