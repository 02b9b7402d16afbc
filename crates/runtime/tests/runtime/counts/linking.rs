//! Every way a program that counts and its libraries can be put together.

use super::{check, read};
use crate::library::Library;
use crate::program::Program;

/// Exports the instance of the executable, as variants are linked.
const EXPORTED: &str = "-Wl,--export-dynamic";

#[test]
fn executables_of_all_kinds() {
    let kinds: [&[&str]; 9] = [
        &["-O2", "-static"],
        &["-O2", "-static-pie", "-fPIE"],
        &["-O2", "-pie", "-fPIE"],
        &["-O0", "-no-pie", "-fno-pie"],
        &["-O1", "-pie", "-fPIE", "-Wl,--gc-sections,-z,now,-z,relro"],
        &["-O2", "-DPAGES=3000", EXPORTED],
        &["-O2", "-fcf-protection=full", "-fstack-protector-all", "-fsanitize=undefined"],
        &["-O1", "-fsanitize=address", "-g"],
        &["-O2", "-pg"],
    ];
    for compiler in ["clang-19", "gcc"] {
        for kind in kinds {
            let program = Program::with("count_threads", compiler, kind);
            program.run(&["3", "30000"], 0);
            assert_eq!(check(&program)[0].files, 4, "{compiler} {kind:?}");
        }
    }
    for linker in ["lld-19", "gold", "bfd"] {
        for kind in ["-static", "-pie", "-no-pie"] {
            let options = ["-fPIE", "-O2", kind, &format!("-fuse-ld={linker}")];
            let program = Program::with("count_threads", "clang-19", &options);
            program.run(&["3", "30000"], 0);
            assert_eq!(check(&program)[0].files, 4, "{linker} {kind}");
        }
    }
}

#[test]
fn before_main_and_after_it() {
    for kind in [&["-O2"][..], &["-static"], &["-static-pie", "-fPIE"], &["-O2", "-no-pie"]] {
        let program = Program::with("count_early", "clang-19", kind);
        program.run(&[], 0);
        check(&program);
    }
}

#[test]
fn under_valgrind() {
    for kind in [&["-O2"][..], &["-O2", "-no-pie", "-fno-pie"], &["-O2", "-static"]] {
        let program = Program::with("count_threads", "clang-19", kind);
        let mut command = std::process::Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command.arg(&program.executable).args(["2", "1000"]);
        command.env("BACKTRAIL_DIR", program.records()).env("TRUTH", program.truth());
        crate::program::check_status(&command.output().unwrap(), 0);
        assert_eq!(check(&program)[0].files, 3, "{kind:?}");
    }
}

#[test]
fn an_executable_and_a_library_share_one_record() {
    for library in [
        Library::new("count_library", &[]),
        Library::hidden("count_library", &[]),
        Library::new("count_library", &["-Wl,-Bsymbolic"]),
    ] {
        for kind in ["-pie", "-no-pie"] {
            let options = ["-O2", kind, EXPORTED, &library.rpath(), &library.path()];
            let program = Program::with("count_uses_library", "clang-19", &options);
            program.run(&[], 0);
            let all = check(&program);
            assert_eq!(all.len(), 2, "a process and its child");
            assert_eq!(all[0].counts[&2], [(2, 28_000)].into());
            assert_eq!(all[1].counts[&2], [(2, 7000)].into());
            assert_eq!((all[0].files, all[1].files), (8, 2));
        }
    }
}

#[test]
fn a_library_alone_has_a_record() {
    let library = Library::new("count_library", &["-DCONSTRUCTOR"]);
    let options = ["-O2", "-DLIBRARY", "-DQUIET", &library.rpath(), &library.path()];
    let program = Program::without_runtime("count_uses_library", "clang-19", &options);
    program.run(&[], 0);
    let all = read(&program);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].counts[&2], [(2, 28_000), (500, 3), (501, 2)].into());
    assert_eq!(all[1].counts[&2], [(2, 7000)].into());
}

#[test]
fn a_library_that_is_loaded_while_threads_run() {
    let libraries = [
        Library::new("count_library", &[]),
        Library::new("count_library", &["-DCONSTRUCTOR"]),
        Library::hidden("count_library", &[]),
    ];
    for library in libraries {
        for (kind, arguments) in [
            ("-pie", &[library.path().as_str()][..]),
            ("-pie", &[&library.path(), "thread"]),
            ("-no-pie", &[&library.path()]),
            ("-no-pie", &[&library.path(), "thread"]),
        ] {
            let options = ["-O2", kind, EXPORTED];
            let program = Program::with("count_loads_library", "clang-19", &options);
            program.run(arguments, 0);
            let all = check(&program);
            assert_eq!(all.len(), 2, "a process and its child");
            let counts = &all[0].counts[&2];
            assert_eq!(counts[&2], 3 * 4 * 7000);
            assert_eq!(counts.get(&500).is_some(), counts.get(&501).is_some());
            assert!(counts.get(&500).is_none_or(|count| *count == 9));
            assert!(counts.get(&501).is_none_or(|count| *count == 6));
            assert_eq!(all[0].files, 4 + 4, "each time in the same files");
        }
    }
}

#[test]
fn a_library_whose_place_is_taken() {
    let library = Library::new("count_library", &[]);
    for kind in ["-pie", "-no-pie"] {
        let options = ["-O2", kind, EXPORTED];
        let program = Program::with("count_torn", "clang-19", &options);
        program.run(&[&library.path()], 0);
        let all = check(&program);
        assert_eq!(all[0].counts[&2], [(2, 28_000)].into());
        // Three threads have had two copies, and a dead one has left one.
        assert!((7 + 4..=8 + 4).contains(&all[0].files), "{} files", all[0].files);
    }
}
