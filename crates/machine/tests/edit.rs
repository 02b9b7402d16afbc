//! Sections added to and taken from real files: they still link, run and strip.

use std::path::Path;
use std::process::Command;

use backtrail_machine::edit::{Edit, NewSection, edit};
use backtrail_machine::elf::{Elf, Kind};

const SOURCE: &str = r#"
#include <stdio.h>
int twice(int x) { return 2 * x; }
__attribute__((weak)) int once(int x) { return x; }
int main(void) { printf("%d\n", twice(20) + once(2)); return 0; }
"#;

const NAME: &str = ".backtrail.test";
const DATA: &[u8] = b"thirteen byte";

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the command starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn compile(folder: &Path, name: &str, options: &[&str]) -> Vec<u8> {
    let source = folder.join("a.c");
    std::fs::write(&source, SOURCE).unwrap();
    run(Command::new("clang-19").args(options).arg("-o").arg(folder.join(name)).arg(&source));
    std::fs::read(folder.join(name)).unwrap()
}

fn add(bytes: &[u8]) -> Vec<u8> {
    edit(bytes, &Edit { add: &[NewSection { name: NAME, data: DATA }], ..Edit::default() }).unwrap()
}

fn contents(bytes: &[u8]) -> Option<Vec<u8>> {
    Elf::parse(bytes).unwrap().section(NAME).unwrap()
}

/// Where the headers of a file's sections begin.
fn section_headers(bytes: &[u8]) -> usize {
    u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize
}

fn write_program(path: &Path, bytes: &[u8]) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_object_with_a_section_links_archives_and_concatenates() {
    let folder = tempfile::tempdir().unwrap();
    for options in [&["-c"][..], &["-c", "-O2", "-g", "-ffunction-sections"]] {
        let object = folder.path().join("a.o");
        let bytes = add(&compile(folder.path(), "a.o", options));
        assert_eq!(contents(&bytes).as_deref(), Some(DATA));
        std::fs::write(&object, &bytes).unwrap();

        let merged = folder.path().join("merged.o");
        run(Command::new("ld").arg("-r").arg("-o").arg(&merged).arg(&object));
        assert_eq!(contents(&std::fs::read(&merged).unwrap()).as_deref(), Some(DATA));

        for (linker, gc) in [("bfd", false), ("bfd", true), ("lld", true)] {
            let program = folder.path().join("a");
            let mut command = Command::new("clang-19");
            command.arg(format!("-fuse-ld={linker}")).arg("-o").arg(&program).arg(&object);
            command.args(gc.then_some("-Wl,--gc-sections"));
            run(&mut command);
            assert_eq!(run(&mut Command::new(&program)), "42\n");
            assert_eq!(contents(&std::fs::read(&program).unwrap()).as_deref(), Some(DATA));
        }
    }
}

#[test]
fn an_executable_with_a_section_runs_and_survives_strip() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("b");
    for options in
        [&["-O2"][..], &["-no-pie"], &["-static"], &["-static-pie"], &["-g", "-fuse-ld=lld"]]
    {
        let bytes = add(&compile(folder.path(), "a", options));
        write_program(&program, &bytes);
        assert_eq!(run(&mut Command::new(&program)), "42\n", "{options:?}");
        let kind = Elf::parse(&bytes).unwrap().kind().unwrap();
        let fixed = options == ["-no-pie"] || options == ["-static"];
        let expected = if fixed { Kind::Executable } else { Kind::PositionIndependentExecutable };
        assert_eq!(kind, expected, "{options:?}");

        run(Command::new("readelf").args(["-W", "-S", "-l"]).arg(&program));
        run(Command::new("strip").arg(&program));
        assert_eq!(run(&mut Command::new(&program)), "42\n", "{options:?}");
        assert_eq!(contents(&std::fs::read(&program).unwrap()).as_deref(), Some(DATA));
    }
}

#[test]
fn removing_gives_the_bytes_back() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("b");
    let plain = compile(folder.path(), "a", &["-O2", "-g"]);
    let large = vec![7; 100_000];
    let grown =
        edit(&plain, &Edit { add: &[NewSection { name: NAME, data: &large }], ..Edit::default() })
            .unwrap();
    let shrunk = edit(&grown, &Edit { remove: &[NAME], ..Edit::default() }).unwrap();
    assert!(contents(&shrunk).is_none());
    assert!(shrunk.len() < plain.len() + 1000, "{} against {}", shrunk.len(), plain.len());
    write_program(&program, &shrunk);
    assert_eq!(run(&mut Command::new(&program)), "42\n");
    let debug = |bytes: &[u8]| Elf::parse(bytes).unwrap().section(".debug_info").unwrap();
    assert_eq!(debug(&plain), debug(&shrunk));

    // Editing twice in a row does not grow the file.
    let add = [NewSection { name: NAME, data: DATA }];
    let again = Edit { remove: &[NAME], add: &add, ..Edit::default() };
    let once = edit(&grown, &again).unwrap();
    let twice = edit(&once, &again).unwrap();
    assert!(twice.len() < once.len() + 200, "{} against {}", twice.len(), once.len());
}

#[test]
fn a_damaged_file_is_an_error_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let whole = compile(folder.path(), "a.o", &["-c"]);
    let add = [NewSection { name: NAME, data: DATA }];
    let changes = Edit { remove: &[".text"], add: &add, ..Edit::default() };
    for end in 0..whole.len() {
        let _ = edit(&whole[..end], &changes);
    }
    // The headers are where a flipped bit can do harm.
    let headers = u64::from_le_bytes(whole[0x28..0x30].try_into().unwrap()) as usize;
    for at in (0..64).chain(headers..whole.len()) {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let _ = edit(&bytes, &changes);
        }
    }
    assert!(edit(b"#!/bin/sh\n", &changes).is_err());
}

#[test]
fn program_headers_beyond_all_addresses_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = compile(folder.path(), "b", &[]);
    // How many there are is said in the first section: none.
    bytes[0x38..0x3a].copy_from_slice(&[0xff; 2]);
    for start in [u64::MAX, u64::MAX - 8, u64::MAX - 40] {
        bytes[0x20..0x28].copy_from_slice(&start.to_le_bytes());
        assert!(Elf::parse(&bytes).is_ok());
        let added = NewSection { name: NAME, data: DATA };
        assert!(edit(&bytes, &Edit { add: &[added], ..Edit::default() }).is_err());
    }
}

#[test]
fn a_section_that_is_none_stays_if_another_refers_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = compile(folder.path(), "a.o", &["-c"]);
    let headers = section_headers(&bytes);
    let count = u16::from_le_bytes([bytes[0x3c], bytes[0x3d]]);
    assert_eq!(headers + usize::from(count) * 64, bytes.len(), "the headers come last");
    // One more, and relocations that are for it.
    bytes.extend([0; 64]);
    bytes[0x3c..0x3e].copy_from_slice(&(count + 1).to_le_bytes());
    let mut each = (0..usize::from(count)).map(|number| headers + number * 64);
    let relocations = each.find(|&at| bytes[at + 4] == 4).expect("there are some");
    bytes[relocations + 44..][..4].copy_from_slice(&u32::from(count).to_le_bytes());
    let added = add(&bytes);
    assert_eq!(contents(&added).as_deref(), Some(DATA));
    let removed = edit(&added, &Edit { remove: &[NAME], ..Edit::default() }).unwrap();
    for (bytes, wanted) in [(&added, count + 2), (&removed, count + 1)] {
        assert!(Elf::parse(bytes).is_ok());
        assert_eq!(u16::from_le_bytes([bytes[0x3c], bytes[0x3d]]), wanted);
    }
}

#[test]
fn a_name_outside_the_table_of_names_does_not_become_that_of_a_new_section() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = compile(folder.path(), "a.o", &["-c"]);
    let headers = section_headers(&bytes);
    let names = u16::from_le_bytes([bytes[0x3e], bytes[0x3f]]);
    let size = bytes[headers + usize::from(names) * 64 + 32..][..4].to_vec();
    let second = headers + 2 * 64;
    bytes[second..second + 4].copy_from_slice(&size);
    let added = NewSection { name: NAME, data: DATA };
    let error = edit(&bytes, &Edit { add: &[added], ..Edit::default() }).unwrap_err();
    assert!(error.to_string().contains("the name of a section is not in"), "{error}");
}

#[test]
fn an_object_tells_its_symbols_and_a_library_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let object = compile(folder.path(), "a.o", &["-c"]);
    let symbols = Elf::parse(&object).unwrap().defined_symbols();
    let symbols: Vec<_> =
        symbols.iter().map(|symbol| (symbol.name.as_str(), symbol.weak)).collect();
    assert_eq!(symbols, [("main", false), ("once", true), ("twice", false)]);

    let library = compile(
        folder.path(),
        "liba.so",
        &[
            "-shared",
            "-fPIC",
            "-Wl,-soname,liba.so.1",
            "-Wl,-rpath,$ORIGIN/x:/y",
            "-lm",
            "-Wl,--no-as-needed",
        ],
    );
    let elf = Elf::parse(&library).unwrap();
    assert_eq!(elf.kind().unwrap(), Kind::SharedLibrary);
    assert_eq!(elf.soname().as_deref(), Some("liba.so.1"));
    assert_eq!(elf.run_path(), ["$ORIGIN/x", "/y"]);
    assert!(elf.needed().iter().any(|name| name.starts_with("libc.so")));
    assert!(elf.build_id().unwrap().is_some());
}
