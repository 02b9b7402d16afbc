//! Where there is code, and how many bytes of it are before an address.
//!
//! Ranges may overlap in files that nobody should believe. Then an address is looked for
//! in the last one that begins before it, and nowhere else: so each byte of code has one
//! number, and there are no more of them than bytes between the first and the last.

use std::ops::Range;

/// Ranges of addresses, none reaching into the next, and how many bytes are before each.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    spans: Vec<(Range<u64>, usize)>,
}

impl Spans {
    /// Of ranges by where they begin.
    pub fn new(ranges: &[Range<u64>]) -> Self {
        let ends = ranges.iter().skip(1).map(|next| next.start).chain([u64::MAX]);
        let mut bytes = 0;
        let cut = ranges.iter().zip(ends).map(|(range, end)| range.start..range.end.min(end));
        let counted = cut.map(|range| {
            let before = bytes;
            bytes += range.end.saturating_sub(range.start) as usize;
            (range, before)
        });
        Self { spans: counted.collect() }
    }

    /// How many bytes are before an address, if it is in a range.
    pub fn position(&self, address: u64) -> Option<usize> {
        let behind = self.spans.partition_point(|(range, _)| range.start <= address);
        let (range, before) = self.spans[..behind].last()?;
        (address < range.end).then(|| before + (address - range.start) as usize)
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        let last = self.spans.last();
        last.map_or(0, |(range, before)| before + range.end.saturating_sub(range.start) as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_address_is_in_the_last_range_that_begins_before_it_or_in_none() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..2000 {
            let count = random.usize(0..5);
            let mut range = |_| {
                let start = random.u64(0..60);
                start..start + random.u64(0..20)
            };
            let mut ranges: Vec<Range<u64>> = (0..count).map(&mut range).collect();
            ranges.sort_by_key(|range| range.start);
            let spans = Spans::new(&ranges);
            let mut found = BTreeSet::new();
            for address in 0..90 {
                let last = ranges.iter().rfind(|range| range.start <= address);
                let position = spans.position(address);
                assert_eq!(position.is_some(), last.is_some_and(|it| it.contains(&address)));
                assert!(position.is_none_or(|it| it < spans.len() && found.insert(it)));
            }
            assert_eq!(found.len(), spans.len());
        }
    }
}
