//! Every way a program and its libraries can be put together.

use std::ffi::OsStr;
use std::process::Command;

use crate::library::Library;
use crate::program::{Program, check_status, compile, runtime_object, source};

/// Exports what there is of the executable.
const EXPORTED: &str = "-Wl,--export-dynamic";

#[test]
fn executables_of_all_kinds() {
    let kinds: [&[&str]; 9] = [
        &["-O2", "-static"],
        &["-O2", "-static-pie", "-fPIE"],
        &["-O2", "-pie", "-fPIE"],
        &["-O0", "-no-pie", "-fno-pie"],
        &["-O1", "-pie", "-fPIE", "-Wl,--gc-sections,-z,now,-z,relro"],
        &["-O2", "-mcmodel=medium", EXPORTED],
        &["-O2", "-fcf-protection=full", "-fstack-protector-all", "-fsanitize=undefined"],
        &["-O1", "-fsanitize=address", "-g"],
        &["-O2", "-pg"],
    ];
    for compiler in ["clang-19", "gcc"] {
        for kind in kinds {
            let program = Program::with("threads", compiler, kind);
            program.run(&["3", "3000"], 0);
            assert_eq!(program.check()[0].threads.len(), 4, "{compiler} {kind:?}");
        }
    }
    for linker in ["lld-19", "gold", "bfd"] {
        for kind in ["-static", "-pie", "-no-pie"] {
            let options = ["-fPIE", "-O2", kind, &format!("-fuse-ld={linker}")];
            let program = Program::with("sequence", "clang-19", &options);
            program.run(&["3000"], 42);
            program.check();
        }
    }
}

#[test]
fn c_plus_plus() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("sequence.o");
    let object = object.to_str().unwrap();
    let source = source("sequence.c");
    compile("clang++-19", ["-x", "c++", "-O2", "-c", source.to_str().unwrap(), "-o", object]);
    let program = Program::with("exec", "clang++-19", &["-Dmain=unused", "-xnone", object]);
    program.run(&["3000"], 42);
    program.check();
}

#[test]
fn before_main_and_after_it() {
    let kinds: [&[&str]; 4] = [
        &["-DPREINIT", "-static"],
        &["-DPREINIT", "-static-pie", "-fPIE"],
        &["-DPREINIT"],
        &["-O2", "-no-pie", "-DPREINIT"],
    ];
    for kind in kinds {
        let program = Program::with("early", "clang-19", kind);
        program.run(&[], 0);
        assert_eq!(program.check()[0].only_thread().events.len(), 4, "{kind:?}");
    }
}

#[test]
fn a_rust_program() {
    let program = Program::new("sequence");
    let executable = program.folder.path().join("rust");
    for kind in ["-Ccodegen-units=4", "-Ctarget-feature=+crt-static", "-Crelocation-model=static"] {
        let mut link = std::ffi::OsString::from("link-arg=");
        link.push(runtime_object());
        let rustc = std::env::var("RUSTC").unwrap_or("rustc".into());
        let source = source("program.rs");
        compile(
            &rustc,
            [
                OsStr::new("--edition=2024"),
                OsStr::new("-O"),
                OsStr::new(kind),
                OsStr::new("-C"),
                &link,
                OsStr::new("-o"),
                executable.as_os_str(),
                source.as_os_str(),
            ],
        );
        let mut command = Command::new(&executable);
        let output = command.env("BACKTRAIL_DIR", program.records()).output().unwrap();
        check_status(&output, 3);
        assert!(String::from_utf8_lossy(&output.stderr).contains("caught"));
        let logs = program.logs();
        let mut lengths: Vec<_> =
            logs[0].threads.iter().map(|thread| thread.events.len()).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, [1, 2, 3, 1001], "{kind}");
        std::fs::remove_dir_all(program.records()).unwrap();
    }
}

#[test]
fn an_executable_and_a_library_share_one_record() {
    let library = Library::new("library", &[]);
    let options = ["-O2", EXPORTED, &library.rpath(), &library.path()];
    let program = Program::with("uses_library", "clang-19", &options);
    program.run(&[], 0);
    assert_eq!(program.check().len(), 1);
}

#[test]
fn a_library_alone_has_a_record() {
    let library = Library::new("library", &[]);
    let options = ["-O2", "-DQUIET", &library.rpath(), &library.path()];
    let program = Program::without_runtime("uses_library", "clang-19", &options);
    program.run(&[], 0);
    assert_eq!(program.check().len(), 1);
}

#[test]
fn a_library_shares_the_record_however_it_is_linked() {
    let hidden = Library::hidden("library", &[]);
    let symbolic = Library::new("library", &["-Wl,-Bsymbolic"]);
    for library in [hidden, symbolic] {
        let options = ["-O2", &library.rpath(), &library.path()];
        let program = Program::with("uses_library", "clang-19", &options);
        program.run(&[], 0);
        assert_eq!(program.check().len(), 1);
    }
}

#[test]
fn a_library_that_is_loaded_later() {
    let library = Library::new("library", &[]);
    let program = Program::with("loads_library", "clang-19", &["-O2", EXPORTED]);
    program.run(&[&library.path()], 0);
    let logs = program.check();
    assert_eq!(logs.len(), 1);
    assert_eq!(logs[0].process.ranges().len(), 2, "loaded twice, registered once");
}

#[test]
fn a_library_that_is_unloaded_and_loaded_again() {
    // Once it was hidden, the second time it has another instance.
    let library = Library::hidden("library", &[]);
    let ours = Program::with("loads_library", "clang-19", &["-O2"]);
    let foreign = Program::without_runtime("loads_library", "clang-19", &["-O2", "-DQUIET"]);
    for program in [ours, foreign] {
        program.run(&[&library.path()], 0);
        assert_eq!(program.check().len(), 1);
    }
}

#[test]
fn libraries_that_see_nothing_of_each_other() {
    let library = |options: &[&str]| {
        let (shown, hidden) =
            (Library::new("library", options), Library::hidden("library", options));
        [shown, hidden]
    };
    let first = library(&[]);
    let second = library(&["-DNUMBER=10", "-Wl,-soname,second.so"]);
    let ours = Program::with("loads_two", "clang-19", &["-O2"]);
    let foreign = Program::without_runtime("loads_two", "clang-19", &["-O2", "-DQUIET"]);
    for program in [ours, foreign] {
        for (first, second) in first.iter().zip(&second) {
            program.clear();
            program.run(&[&first.path(), &second.path()], 0);
            let logs = program.check();
            // Each child but the last runs its threads before it forks.
            assert_eq!(logs.iter().map(|log| log.threads.len()).collect::<Vec<_>>(), [41; 4]);
        }
    }
}
