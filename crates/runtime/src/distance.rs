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
//! Libraries that are loaded later are mapped below the dynamic linker, which
//! came first. So upward distances are first those that leave room for anything
//! below it, and only then, as there may be none such, greater ones.
//!
//! Each distance is tried once: whoever gives one up never gets it back, so that
//! trying costs constant time per thread, however many there are.

const TEBI: u64 = 1 << 40;
const GIBI: u64 = 1 << 30;

/// The lowest address to use, above what `vm.mmap_min_addr` can be.
const LOWEST: u64 = 1 << 20;

/// One sequence of distances: multiples of a step, in one direction, without
/// those of a coarser one.
struct Stage {
    direction: Direction,
    step: u64,
    coarser: Option<u64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Down,
    /// With room for libraries that are loaded later.
    Up,
    /// Without.
    FarUp,
}

const fn stage(direction: Direction, step: u64, coarser: Option<u64>) -> Stage {
    Stage { direction, step, coarser }
}

const STAGES: [Stage; 11] = [
    stage(Direction::Down, TEBI, None),
    stage(Direction::Down, 64 * GIBI, Some(TEBI)),
    stage(Direction::Up, TEBI, None),
    stage(Direction::Up, 64 * GIBI, Some(TEBI)),
    stage(Direction::Down, 4 * GIBI, Some(64 * GIBI)),
    stage(Direction::Up, 4 * GIBI, Some(64 * GIBI)),
    stage(Direction::Up, GIBI / 4, Some(4 * GIBI)),
    stage(Direction::Up, GIBI / 64, Some(GIBI / 4)),
    stage(Direction::Up, GIBI / 1024, Some(GIBI / 64)),
    stage(Direction::FarUp, TEBI, None),
    stage(Direction::FarUp, 64 * GIBI, Some(TEBI)),
];

/// Where areas are, and how distances may lead away from there.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) low: usize,
    pub(crate) high: usize,
    /// Behind where libraries are mapped; 0 if there are none.
    pub(crate) libraries: usize,
    /// Behind the highest address to use: above it is the stack, which grows
    /// down.
    pub(crate) highest: usize,
    /// Whether bases can be negative.
    pub(crate) downwards: bool,
}

/// The next distance that keeps everything within the address space, and what
/// to go on from afterwards. `from` is 0 at first.
pub(crate) fn next(mut from: u64, range: Range) -> Option<(isize, u64)> {
    let (low, high, libraries) = (range.low as u64, range.high as u64, range.libraries as u64);
    loop {
        let (number, multiple) = ((from >> 32) as usize, (from & 0xffff_ffff) + 1);
        let stage = STAGES.get(number)?;
        let fits = |end: u64, distance| {
            end.checked_add(distance).is_some_and(|end| end <= range.highest as u64)
        };
        let distance = stage.step.checked_mul(multiple).filter(|&distance| match stage.direction {
            Direction::Down => {
                range.downwards && low.checked_sub(distance).is_some_and(|start| start >= LOWEST)
            }
            Direction::Up => fits(high.max(libraries), distance),
            Direction::FarUp => fits(high, distance),
        });
        match distance {
            None => from = ((number + 1) as u64) << 32,
            Some(distance) => {
                from += 1;
                let again = stage.coarser.is_some_and(|coarser| distance.is_multiple_of(coarser))
                    || (stage.direction == Direction::FarUp && fits(high.max(libraries), distance));
                if !again {
                    let down = stage.direction == Direction::Down;
                    let distance = distance as isize;
                    return Some((if down { -distance } else { distance }, from));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn all(range: Range) -> Vec<isize> {
        let mut from = 0;
        std::iter::from_fn(|| {
            let (distance, after) = next(from, range)?;
            from = after;
            Some(distance)
        })
        .take(1_000_000)
        .collect()
    }

    const LIBRARIES: usize = 0x7f80_0000_0000;
    const HIGHEST: usize = 0x7fff_f000_0000;

    #[test]
    fn no_distance_comes_twice_or_leads_out_of_the_address_space() {
        for (low, high) in [
            (0x5555_5555_4000, 0x7fff_a7fc_0000),
            (0x7f00_0000_0000, 0x7f00_0100_0000),
            (0x40_1000, 0x40_9000),
            (0x40_1000, 0x7fff_a7fc_0000),
            (0x10_8000, 0x500_0000),
        ] {
            for (libraries, downwards) in
                [(0, true), (0, false), (LIBRARIES, true), (LIBRARIES, false)]
            {
                let all = all(Range { low, high, libraries, highest: HIGHEST, downwards });
                assert!(!all.is_empty());
                let different: HashSet<_> = all.iter().copied().collect();
                assert_eq!(different.len(), all.len());
                for distance in all {
                    assert_ne!(distance, 0);
                    assert!(distance > 0 || downwards);
                    assert!(low.wrapping_add_signed(distance) as u64 >= LOWEST);
                    assert!(high.wrapping_add_signed(distance) <= HIGHEST);
                }
            }
        }
    }

    #[test]
    fn the_first_ones_are_far_away() {
        let range = Range {
            low: 0x5555_5555_4000,
            high: 0x7fff_a7fc_0000,
            libraries: 0,
            highest: HIGHEST,
            downwards: true,
        };
        let usual = all(range);
        assert_eq!(usual[..2], [-(TEBI as isize), -2 * TEBI as isize]);
        assert!(usual.len() > 1000);
        let fixed = Range { low: 0x40_1000, high: 0x40_9000, ..range };
        assert_eq!(all(fixed)[0], TEBI as isize);
        assert_eq!(all(Range { high: HIGHEST, ..fixed }), []);
    }

    #[test]
    fn upwards_there_is_room_for_libraries_first() {
        let range = Range {
            low: 0x40_1000,
            high: 0x40_9000,
            libraries: LIBRARIES,
            highest: HIGHEST,
            downwards: true,
        };
        let distances = all(range);
        let with_room = |distance: &isize| LIBRARIES as isize + *distance <= HIGHEST as isize;
        let count = distances.iter().take_while(|distance| with_room(distance)).count();
        assert!(count > 1000);
        assert!(!distances[count..].iter().any(with_room));
        assert!(distances.len() > count);
    }
}
