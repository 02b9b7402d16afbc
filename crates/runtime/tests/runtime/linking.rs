//! Every way a program and its libraries can be put together.

use std::ffi::OsStr;
use std::process::Command;

use crate::library::Library;
use crate::program::{Program, assert_same, check_status, compile, runtime_object, source};

/// Exports the instance of the executable, as variants are linked.
const EXPORTED: &str = "-Wl,--export-dynamic-symbol=__backtrail_*";

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

/// Checks two records of one process: the executable's and the library's events
/// apart, each in order.
fn check_apart(program: &Program) {
    let logs = program.logs();
    assert_eq!(logs.len(), 2);
    assert_eq!(logs[0].process.pid, logs[1].process.pid);
    let told = program.told();
    for (log, unit) in logs.iter().zip([1, 9]) {
        assert_eq!(log.process.incomplete, None);
        assert_eq!(log.process.forked_from, None);
        assert_eq!(log.threads.len(), told.len());
        for thread in &log.threads {
            let told = told[&(log.process.pid, thread.tid)].iter().copied();
            assert_same(&thread.events, &Vec::from_iter(told.filter(|event| event >> 24 == unit)));
        }
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
fn a_library_that_hides_its_instance_has_its_own_record() {
    for library in [Library::hidden("library"), Library::new("library", &["-Wl,-Bsymbolic"])] {
        let options = ["-O2", EXPORTED, &library.rpath(), &library.path()];
        let program = Program::with("uses_library", "clang-19", &options);
        program.run(&[], 0);
        check_apart(&program);
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
fn a_library_that_is_loaded_and_hides_its_instance() {
    // Its record goes on when it is loaded again, unless it was really unloaded:
    // then the second instance makes a third record.
    let library = Library::hidden("library");
    let program = Program::with("loads_library", "clang-19", &["-O2", EXPORTED]);
    program.run(&[&library.path()], 0);
    let logs = program.logs();
    assert_eq!(logs.len(), 3);
    let told = program.told().into_values().next().unwrap();
    let recorded = [1, 2].iter().flat_map(|&log| logs[log].only_thread().events.iter().copied());
    let of_library = told.iter().copied().filter(|event| event >> 24 == 9);
    assert_same(&Vec::from_iter(recorded), &Vec::from_iter(of_library));
    let of_program = told.iter().copied().filter(|event| event >> 24 == 1);
    assert_same(&logs[0].only_thread().events, &Vec::from_iter(of_program));
}
