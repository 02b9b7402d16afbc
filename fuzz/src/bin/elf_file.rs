//! ELF files. Everything that is asked of them has an answer, and an edit gives
//! a file in which exactly that changed.

#![no_main]

use backtrail_fuzz::fixtures;
use backtrail_machine::edit::{Edit, NewSection, edit};
use backtrail_machine::elf::Elf;
use libfuzzer_sys::fuzz_target;

/// A name that no input has.
const ADDED: &str = ".backtrail.added-by-the-target";

fuzz_target!(init: fixtures::write_if_asked(first_inputs), |data: &[u8]| {
    let Ok(elf) = Elf::parse(data) else { return };
    let _ = (elf.kind(), elf.build_id(), elf.needed(), elf.run_path(), elf.soname());
    elf.defined_symbols();
    let names = elf.section_names();
    for name in &names {
        let _ = elf.section(name);
    }
    let contents = b"what was added";
    let add = [NewSection { name: ADDED, data: contents }];
    let Ok(added) = edit(data, &Edit { add: &add, ..Edit::default() }) else { return };
    let elf = Elf::parse(&added).expect("an edited file is an ELF file");
    assert_eq!(elf.section(ADDED).ok().flatten().as_deref(), Some(&contents[..]));
    let Ok(removed) = edit(&added, &Edit { remove: &[ADDED], ..Edit::default() }) else {
        panic!("what was added cannot be removed")
    };
    let elf = Elf::parse(&removed).expect("an edited file is an ELF file");
    assert!(!elf.section_names().iter().any(|name| name == ADDED));
});

fn first_inputs(from: &fixtures::Fixtures) -> Vec<Vec<u8>> {
    // Programs that carry little: what they carry has a target of its own.
    ["plain", "plain.so", "plain.o", "stripped"].map(|name| from.read(name)).to_vec()
}
