//! Files of counters: as they are (0), or fields and counters in a file of
//! whole pages (1). All ways to look at a counter agree with the bytes.

#![no_main]

use backtrail_abi::counts::{CountsHeader, PAGE_BYTES};
use backtrail_collect::counts::CountsFile;
use backtrail_fuzz::{choose, chosen, fixtures};
use libfuzzer_sys::fuzz_target;

const PAGE: usize = PAGE_BYTES as usize;

fuzz_target!(init: fixtures::write_if_asked(first_inputs), |data: &[u8]| {
    let Some((form, rest)) = choose(data, 2) else { return };
    let bytes = if form == 0 { rest.to_vec() } else { in_pages(rest) };
    let Ok(file) = CountsFile::decode(&bytes) else { return };
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let expected: Vec<(u64, u64)> = (PAGE..bytes.len())
        .step_by(8)
        .map(|at| (at as u64, word(at)))
        .filter(|(_, count)| *count != 0)
        .collect();
    assert_eq!(file.nonzero().collect::<Vec<_>>(), expected);
    for &(at, count) in &expected {
        assert_eq!(file.counter(at), Some(count));
    }
    let words = ((bytes.len() - PAGE) / 8) as u64;
    let all = file.counters(PAGE_BYTES, words).expect("the area has so many");
    assert_eq!(all.filter(|count| *count != 0).count(), expected.len());
    assert!(file.counters(PAGE_BYTES, words + 1).is_none());
    // The header, written again.
    let header = [file.module().to_le_bytes(), file.copy().to_le_bytes()].concat();
    assert_eq!(bytes[12..20], header[..]);
    assert_eq!(bytes[24..40], file.layout());
    // Any prefix is refused: the file was cut.
    assert!(CountsFile::decode(&bytes[..bytes.len() - 1]).is_err());
});

/// A header's fields and counters, each at the start of pages of their own.
fn in_pages(input: &[u8]) -> Vec<u8> {
    let (fields, counters) = input.split_at(input.len().min(CountsHeader::BYTES));
    let mut bytes = fields.to_vec();
    bytes.resize(PAGE, 0);
    bytes.extend_from_slice(counters);
    bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
    bytes
}

fn first_inputs(from: &fixtures::Fixtures) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for file in from.all("records-profile", "counts-") {
        let counters = &file[PAGE..];
        let used = counters.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        inputs.push(chosen(1, &[&file[..CountsHeader::BYTES], &counters[..used]].concat()));
        inputs.push(chosen(0, &file));
    }
    let mut small = inputs[1][1..][..2 * PAGE].to_vec();
    small[40..48].copy_from_slice(&(2 * PAGE_BYTES).to_le_bytes());
    inputs.push(chosen(0, &small));
    inputs.push(chosen(1, &[&small[..CountsHeader::BYTES], &[1, 0, 0, 0, 0, 0, 0, 0, 2]].concat()));
    inputs
}
