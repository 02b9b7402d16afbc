//! An ELF file whose table of names cannot be one is not edited: what was added
//! would be found under no name, or under several.

use backtrail_machine::edit::{Edit, NewSection, edit};

/// This test's own executable, and where the header of its names is.
fn program() -> (Vec<u8>, usize) {
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    let names = u16::from_le_bytes(bytes[0x3e..0x40].try_into().unwrap());
    (bytes, headers + 64 * usize::from(names))
}

fn add(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let add = [NewSection { name: ".more", data: b"more" }];
    edit(bytes, &Edit { add: &add, ..Edit::default() }).map_err(|error| error.to_string())
}

#[test]
fn names_that_are_no_table_of_strings_are_refused() {
    let (bytes, names) = program();
    assert!(add(&bytes).is_ok());
    let refused = Err("damaged ELF file: the names of its sections are no table of strings".into());
    let mut other_kind = bytes.clone();
    other_kind[names + 4] = 0;
    assert_eq!(add(&other_kind), refused);
    let mut empty = bytes.clone();
    empty[names + 32..names + 40].fill(0);
    assert_eq!(add(&empty), refused);
    let mut unended = bytes.clone();
    unended[names + 32] -= 1;
    assert_eq!(add(&unended), refused);
}
