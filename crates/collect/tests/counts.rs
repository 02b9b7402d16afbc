//! Files of counters: whole ones are read, all others say what is wrong.

use std::fs;
use std::path::Path;

use backtrail_collect::Error;
use backtrail_collect::counts::CountsFile;
use backtrail_collect::records::{CountsPath, Records};

const PAGE: usize = 4096;

/// A file of `pages` pages, whose counters are given by their place.
fn counts_file(module: u32, copy: u32, pages: usize, counters: &[(usize, u64)]) -> Vec<u8> {
    let mut bytes = b"BTCNTS\x01\n".to_vec();
    for number in [backtrail_abi::VERSION, module, copy, 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(*b"the layout of it");
    bytes.extend(((pages * PAGE) as u64).to_le_bytes());
    bytes.resize(pages * PAGE, 0);
    for (place, count) in counters {
        bytes[*place..*place + 8].copy_from_slice(&count.to_le_bytes());
    }
    bytes
}

#[test]
fn counters_are_where_they_are_in_the_area() {
    let last = 3 * PAGE - 8;
    let bytes = counts_file(3, 7, 3, &[(PAGE, 5), (PAGE + 16, u64::MAX), (last, 1)]);
    let file = CountsFile::decode(&bytes).unwrap();
    assert_eq!((file.module(), file.copy()), (3, 7));
    assert_eq!(file.layout(), *b"the layout of it");
    let all: Vec<_> = file.nonzero().collect();
    assert_eq!(all, [(4096, 5), (4096 + 16, u64::MAX), (last as u64, 1)]);
    assert_eq!(file.counter(4096), Some(5));
    assert_eq!(file.counter(4104), Some(0));
    assert_eq!(file.counter(last as u64), Some(1));
    for outside in [0, 8, 4088, last as u64 + 1, 3 * 4096, u64::MAX] {
        assert_eq!(file.counter(outside), None, "{outside}");
    }
    let some: Vec<_> = file.counters(4096, 3).unwrap().collect();
    assert_eq!(some, [5, 0, u64::MAX]);
    assert_eq!(file.counters(4096, 1024).unwrap().filter(|count| *count != 0).count(), 3);
    for (offset, count) in [(4096, 1025), (0, 1), (8192, u64::MAX), (u64::MAX, 1), (8192, 1 << 61)]
    {
        assert!(file.counters(offset, count).is_none(), "{offset}, {count}");
    }
}

#[test]
fn every_prefix_is_refused() {
    let bytes = counts_file(0, 0, 3, &[(PAGE, 5)]);
    for length in 0..bytes.len() {
        match CountsFile::decode(&bytes[..length]).unwrap_err() {
            Error::NoCounts => assert_eq!(length, 0),
            Error::CutCounts { found, expected } => {
                assert_eq!(found, length as u64);
                assert!(expected > found);
            }
            other => panic!("{length} bytes: {other}"),
        }
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(matches!(CountsFile::decode(&longer), Err(Error::CutCounts { .. })));
}

#[test]
fn every_changed_byte_of_a_header_is_refused_or_seen() {
    let bytes = counts_file(1, 2, 2, &[]);
    let whole = CountsFile::decode(&bytes).unwrap();
    let fields = |file: &CountsFile| (file.module(), file.copy(), file.layout());
    for place in 0..48 {
        for flipped in [1, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[place] ^= flipped;
            match CountsFile::decode(&changed) {
                Err(_) => {}
                // Bytes 20 to 23 mean nothing yet.
                Ok(file) => assert!(fields(&file) != fields(&whole) || (20..24).contains(&place)),
            }
        }
    }
    let refused = |bytes: &[u8]| CountsFile::decode(bytes).unwrap_err();
    assert!(matches!(refused(&[0; 8192]), Error::NoCounts));
    assert!(matches!(refused(&[b'x'; 8192]), Error::NotCounts));
    let mut version = bytes.clone();
    version[8] = 9;
    assert!(matches!(
        refused(&version),
        Error::CountsVersion { found: 9, known: backtrail_abi::VERSION }
    ));
    for claimed in [0u64, 4096, 8191, 12_289, u64::MAX] {
        let mut length = bytes.clone();
        length[40..48].copy_from_slice(&claimed.to_le_bytes());
        assert!(matches!(refused(&length), Error::CorruptCounts { bytes } if bytes == claimed));
    }
}

fn write(dir: &Path, name: &str, bytes: &[u8]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_process_lists_its_files_and_names_those_that_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut process = b"BTPROC\x01\n".to_vec();
    for number in [backtrail_abi::VERSION, 10, 1, 0, 0, 0, 0, 0] {
        process.extend(number.to_le_bytes());
    }
    process.resize(8192, 0);
    write(dir, "10-00000000000000fe/process", &process);
    for (module, copy) in [(0, 10), (0, 9), (2, 0)] {
        let bytes = counts_file(module, copy, 2, &[]);
        write(dir, &format!("10-00000000000000fe/counts-{module}-{copy}"), &bytes);
    }
    write(dir, "10-00000000000000fe/counts-1-0", &counts_file(0, 1, 2, &[]));
    write(dir, "10-00000000000000fe/counts-3-0", &counts_file(3, 0, 2, &[])[..5000]);
    write(dir, "10-00000000000000fe/counts-4-0", b"");
    write(dir, "10-00000000000000fe/counts-5-0", &[b'x'; 100]);
    write(dir, "10-00000000000000fe/counts-6", b"");
    write(dir, "10-00000000000000fe/counts--1-0", b"");

    let records = Records::read(dir).unwrap();
    let folder = dir.join("10-00000000000000fe");
    let listed = |module, copy| {
        let path = folder.join(format!("counts-{module}-{copy}"));
        CountsPath { module, copy, path }
    };
    assert_eq!(records.processes[0].counts, [listed(0, 9), listed(0, 10), listed(2, 0)]);
    let foreign: Vec<_> = records
        .foreign
        .iter()
        .map(|foreign| {
            let name = foreign.path.strip_prefix(&folder).unwrap().to_str().unwrap();
            (name, foreign.why.as_str())
        })
        .collect();
    assert_eq!(
        foreign,
        [
            ("counts--1-0", "not the file of a thread or of counters"),
            ("counts-1-0", "it holds the counts of module 0, copy 1: it was renamed"),
            (
                "counts-3-0",
                "it has 5000 bytes where 8192 were written: it was cut or changed, and cannot be used"
            ),
            (
                "counts-4-0",
                "it holds no counts: its process was stopped, or could go no further, before it counted"
            ),
            ("counts-5-0", "it is not a file of counters"),
            ("counts-6", "not the file of a thread or of counters"),
        ]
    );
}
