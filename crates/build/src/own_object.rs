//! Whether an object is still what its units were compiled to, and nothing else.
//!
//! Objects may be merged (`ld -r`) or changed (`objcopy`) before they are linked. A variant
//! links the objects of the units again, one after another, in place of such an object: that
//! is the same only if the object has what they have, and no more. What it defines for
//! others tells most of that. Code and data that define nothing for others (a table that is
//! found by the name of its section, a constructor) are told by the sizes of sections: those
//! of one name are put one behind another, each where its alignment wants it.

use std::collections::BTreeMap;

use backtrail_machine::elf::Elf;

use crate::carry::unit::{OwnSection, UnitRecord};

/// The sections by which an object is known.
pub fn sections(elf: &Elf<'_>) -> Vec<OwnSection> {
    elf.linked_sections().into_iter().map(|it| (it.name, it.size, it.align.max(1))).collect()
}

/// Whether an object is that of its units, which are in the order they were merged in.
pub fn is_of(elf: &Elf<'_>, units: &[UnitRecord]) -> bool {
    let mut own: Vec<_> = units.iter().flat_map(|unit| unit.meta.symbols.clone()).collect();
    own.sort();
    own.dedup();
    let defined: Vec<_> =
        elf.defined_symbols().into_iter().map(|symbol| (symbol.name, symbol.weak)).collect();
    let of_units = units.iter().flat_map(|unit| &unit.meta.sections);
    own == defined && are_put_together(of_units, &sections(elf))
}

/// What the sections of one name take: as they are, and one behind another.
#[derive(Debug, Default, Clone, Copy)]
struct Sizes {
    sum: u64,
    end: u64,
}

fn are_put_together<'a>(
    parts: impl Iterator<Item = &'a OwnSection>,
    whole: &'a [OwnSection],
) -> bool {
    let [parts, whole] = [by_name(parts), by_name(whole.iter())];
    // A linker that merges may also leave sections apart.
    let fits = |(part, whole): (&Sizes, &Sizes)| (part.sum..=part.end).contains(&whole.sum);
    parts.keys().eq(whole.keys()) && parts.values().zip(whole.values()).all(fits)
}

fn by_name<'a>(sections: impl Iterator<Item = &'a OwnSection>) -> BTreeMap<&'a str, Sizes> {
    let mut all: BTreeMap<&str, Sizes> = BTreeMap::new();
    for (name, size, align) in sections {
        let sizes = all.entry(name).or_default();
        sizes.sum = sizes.sum.saturating_add(*size);
        let start = sizes.end.checked_next_multiple_of(*align).unwrap_or(u64::MAX);
        sizes.end = start.saturating_add(*size);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are(parts: &[(&str, u64, u64)], whole: &[(&str, u64, u64)]) -> bool {
        let owned = |all: &[(&str, u64, u64)]| -> Vec<OwnSection> {
            all.iter().map(|&(name, size, align)| (name.to_owned(), size, align)).collect()
        };
        are_put_together(owned(parts).iter(), &owned(whole))
    }

    #[test]
    fn what_is_behind_one_another_is_padded_and_nothing_else() {
        let parts = [(".text", 5, 16), ("set", 8, 8), (".text", 7, 16)];
        assert!(are(&parts, &[(".text", 23, 16), ("set", 8, 8)]));
        // Left apart.
        assert!(are(&parts, &[("set", 8, 8), (".text", 5, 16), (".text", 7, 16)]));
        // Something else is in it, or is missing.
        assert!(!are(&parts, &[(".text", 24, 16), ("set", 8, 8)]));
        assert!(!are(&parts, &[(".text", 23, 16), ("set", 16, 8)]));
        assert!(!are(&parts, &[(".text", 11, 16), ("set", 8, 8)]));
        assert!(!are(&parts, &[(".text", 23, 16)]));
        assert!(!are(&parts, &[(".text", 23, 16), ("set", 8, 8), (".data", 1, 1)]));
    }

    #[test]
    fn any_order_of_objects_is_somebodys() {
        assert!(are(&[], &[]));
        assert!(are(&[(".data", u64::MAX, 8), (".data", 1, 8)], &[(".data", u64::MAX, 8)]));
    }
}
