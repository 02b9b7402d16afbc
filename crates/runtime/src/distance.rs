//! How far from a module's area the copies of it are.
//!
//! A thread's copies of all areas are at one distance from the originals, which
//! is the base of its `%gs` segment. So a distance is good if it leads from
//! *every* area to memory that is free, now and for libraries that are loaded
//! later. Programs keep together: an executable with its heap, libraries with
//! what is mapped, within far less than a tebibyte each. Whole tebibytes
//! downwards therefore lead into empty land for position-independent programs,
//! which are at 0x55… and 0x7f…; finer steps follow when there are many threads,
//! and upward ones for executables at fixed low addresses (and for valgrind,
//! which puts everything low). Downwards is possible only where programs may set
//! the base by an instruction; without, programs whose libraries count find
//! little room upwards, and some of their threads may have to share.
//!
//! Each distance is tried once: whoever gives one up never gets it back, so that
//! trying costs constant time per thread, however many there are.

const TEBI: u64 = 1 << 40;
const GIBI: u64 = 1 << 30;

/// The lowest address to use, above what `vm.mmap_min_addr` can be.
const LOWEST: u64 = 1 << 20;

/// Behind the highest address to use.
const HIGHEST: u64 = (1 << 47) - (1 << 20);

/// One sequence of distances: multiples of a step, in one direction, without
/// those of a coarser one.
struct Stage {
    upwards: bool,
    step: u64,
    coarser: Option<u64>,
}

const STAGES: [Stage; 8] = [
    Stage { upwards: false, step: TEBI, coarser: None },
    Stage { upwards: false, step: 64 * GIBI, coarser: Some(TEBI) },
    Stage { upwards: true, step: TEBI, coarser: None },
    Stage { upwards: true, step: 64 * GIBI, coarser: Some(TEBI) },
    Stage { upwards: false, step: 4 * GIBI, coarser: Some(64 * GIBI) },
    Stage { upwards: true, step: 4 * GIBI, coarser: Some(64 * GIBI) },
    Stage { upwards: true, step: GIBI / 4, coarser: Some(4 * GIBI) },
    Stage { upwards: true, step: GIBI / 64, coarser: Some(GIBI / 4) },
];

/// Where areas are, and how distances may lead away from there.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) low: usize,
    pub(crate) high: usize,
    pub(crate) downwards: bool,
}

/// The next distance that keeps everything within the address space, and what
/// to go on from afterwards. `from` is 0 at first.
pub(crate) fn next(mut from: u64, range: Range) -> Option<(isize, u64)> {
    let (low, high) = (range.low as u64, range.high as u64);
    loop {
        let (number, multiple) = ((from >> 32) as usize, (from & 0xffff_ffff) + 1);
        let stage = STAGES.get(number)?;
        let distance = stage.step.checked_mul(multiple).filter(|&distance| {
            if stage.upwards {
                high.checked_add(distance).is_some_and(|end| end <= HIGHEST)
            } else {
                range.downwards && low.checked_sub(distance).is_some_and(|start| start >= LOWEST)
            }
        });
        match distance {
            None => from = ((number + 1) as u64) << 32,
            Some(distance) => {
                from += 1;
                if stage.coarser.is_none_or(|coarser| !distance.is_multiple_of(coarser)) {
                    let distance = distance as isize;
                    return Some((if stage.upwards { distance } else { -distance }, from));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn all(low: usize, high: usize, downwards: bool) -> Vec<isize> {
        let mut from = 0;
        std::iter::from_fn(|| {
            let (distance, after) = next(from, Range { low, high, downwards })?;
            from = after;
            Some(distance)
        })
        .take(100_000)
        .collect()
    }

    #[test]
    fn no_distance_comes_twice_or_leads_out_of_the_address_space() {
        for (low, high) in [
            (0x5555_5555_4000, 0x7fff_f7fc_0000),
            (0x7f00_0000_0000, 0x7f00_0100_0000),
            (0x40_1000, 0x40_9000),
            (0x40_1000, 0x7fff_f7fc_0000),
            (0x10_8000, 0x500_0000),
        ] {
            let all = all(low, high, true);
            assert!(!all.is_empty());
            let different: HashSet<_> = all.iter().copied().collect();
            assert_eq!(different.len(), all.len());
            for distance in all {
                assert_ne!(distance, 0);
                assert!(low.wrapping_add_signed(distance) as u64 >= LOWEST);
                assert!(high.wrapping_add_signed(distance) as u64 <= HIGHEST);
            }
        }
    }

    #[test]
    fn the_first_ones_are_far_away() {
        let usual = all(0x5555_5555_4000, 0x7fff_f7fc_0000, true);
        assert_eq!(usual[..2], [-(TEBI as isize), -2 * TEBI as isize]);
        assert!(usual.len() > 1000);
        assert!(
            all(0x5555_5555_4000, 0x5555_5555_8000, false).iter().all(|&distance| distance > 0)
        );
        let fixed = all(0x40_1000, 0x40_9000, true);
        assert_eq!(fixed[0], TEBI as isize);
        assert_eq!(all(0x40_1000, HIGHEST as usize, true), []);
    }
}
