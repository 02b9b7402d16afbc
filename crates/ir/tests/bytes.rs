//! Encoding: round trips, and bytes that are not what was written.

use backtrail_ir::encode::{MAGIC, VERSION, from_bytes, to_bytes};
use backtrail_ir::verify::verify;
use backtrail_ir::{Error, Index, Unit};
use backtrail_testkit::random_unit::{Size, large_unit, unit};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_units_verify_and_come_back(seed: u64) {
        let unit = unit(seed, Size::SMALL);
        prop_assert_eq!(verify(&unit), Ok(()));
        prop_assert!(from_bytes(&to_bytes(&unit)) == Ok(unit));
    }

    /// An error or a unit that verifies, and that itself comes back.
    #[test]
    fn flipped_bytes_never_give_a_bad_unit(seed: u64, flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4)) {
        let mut bytes = to_bytes(&unit(seed, Size::SMALL));
        for (at, mask) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= mask;
        }
        if let Ok(unit) = from_bytes(&bytes) {
            prop_assert_eq!(verify(&unit), Ok(()));
            prop_assert!(from_bytes(&to_bytes(&unit)) == Ok(unit));
        }
    }

    #[test]
    fn any_bytes_are_safe_to_read(form in 0u8..3, body in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.push(form);
        bytes.extend(body);
        if let Ok(unit) = from_bytes(&bytes) {
            prop_assert_eq!(verify(&unit), Ok(()));
        }
    }
}

#[test]
fn every_prefix_is_refused() {
    for seed in 0..20 {
        let bytes = to_bytes(&unit(seed, Size::SMALL));
        for length in 0..bytes.len() {
            let read = from_bytes(&bytes[..length]);
            assert_eq!(read, Err(Error::Truncated), "seed {seed}, {length} of {}", bytes.len());
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(from_bytes(&longer), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn other_files_and_versions_are_refused_by_name() {
    assert_eq!(from_bytes(b"\x7fELF\x02\x01\x01\0\0\0\0\0"), Err(Error::NotAUnit));
    let mut bytes = to_bytes(&Unit::default());
    assert_eq!(from_bytes(&bytes), Ok(Unit::default()));
    bytes[MAGIC.len()] += 1;
    let error = from_bytes(&bytes).unwrap_err();
    assert_eq!(error, Error::Version { found: VERSION + 1, readable: VERSION });
    assert!(error.to_string().contains(&format!("reads version {VERSION}")), "{error}");
}

/// A length that promises more than there is must not be believed.
#[test]
fn huge_lengths_fail_at_once() {
    let bytes = to_bytes(&Unit::default());
    let start = MAGIC.len() + 4;
    for at in start..bytes.len() {
        for huge in [&[0xff; 4][..], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff; 9]] {
            let mut bytes = bytes[..at].to_vec();
            bytes.extend(huge);
            bytes.extend([1; 40]);
            assert!(from_bytes(&bytes).is_err());
        }
    }
}

#[test]
fn a_unit_that_does_not_verify_tells_its_mistake_when_read() {
    let mut bad = (0..).map(|seed| unit(seed, Size::SMALL)).find(|it| !it.functions.is_empty());
    let bad = bad.as_mut().unwrap();
    bad.functions[Index::new(0)].symbol = Index::new(1_000);
    let why = verify(bad).unwrap_err();
    let bytes = to_bytes(bad);
    assert_eq!(from_bytes(&bytes), Err(why));
    for length in 0..bytes.len() {
        assert_eq!(from_bytes(&bytes[..length]), Err(Error::Truncated));
    }
}

#[test]
fn a_large_unit_comes_back() {
    let unit = large_unit(7);
    let insts: usize = unit.functions.values().map(|function| function.insts.len()).sum();
    assert!(insts > 100_000, "{insts}");
    assert!(from_bytes(&to_bytes(&unit)) == Ok(unit));
}
