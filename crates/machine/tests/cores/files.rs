//! The files around a core: compressed cores, gcore's, executables that are
//! missing or of another build, separate debug information.

use std::path::{Path, PathBuf};
use std::process::Command;

use backtrail_machine::Error;
use backtrail_machine::backtrace::Backtrace;
use backtrail_machine::modules::Options;
use backtrail_machine::process::Process;
use backtrail_machine::unwind::FoundBy;

use crate::gdb::{self, Tally};
use crate::{LIMIT, process};
use backtrail_testkit::cores::{compile, core_beside, gcore_of, run, stripped};

fn segfault(folder: &Path) -> (PathBuf, PathBuf) {
    let program = compile("clang-19", &["-O2"], "crashes.c", folder);
    let core = core_beside(&program, &["segfault"], "segfault");
    (program, core)
}

fn names(process: &Process) -> Vec<String> {
    let backtrace = Backtrace::compute(process, &process.notes.threads[0].registers);
    let own = gdb::ours(process, &backtrace);
    own.into_iter().map(|(frame, _)| frame.function.unwrap_or_default()).collect()
}

#[test]
fn compressed_cores_are_the_same_cores() {
    let folder = tempfile::tempdir().unwrap();
    let (program, core) = segfault(folder.path());
    let expected = names(&process(&core, &program));
    assert_eq!(expected[0], "peek");
    let bytes = std::fs::read(&core).unwrap();
    let zstd = zstd::encode_all(&bytes[..], 3).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    std::io::Write::write_all(&mut lz4, &bytes).unwrap();
    let lz4 = lz4.finish().unwrap();
    for (name, compressed) in [("zst", &zstd), ("lz4", &lz4)] {
        let path = folder.path().join(format!("core.{name}"));
        std::fs::write(&path, compressed).unwrap();
        let whole = process(&path, &program);
        assert_eq!((names(&whole), whole.remarks.len()), (expected.clone(), 0), "{name}");
        // What could be expanded of it is a truncated core.
        for part in [1, 3, 5, 7] {
            std::fs::write(&path, &compressed[..compressed.len() * part / 8]).unwrap();
            match Process::of_core(&path, &Options::default()) {
                Ok(process) => assert!(process.remarks[0].contains("ends early"), "{name} {part}"),
                Err(error) => assert!(error.to_string().contains("core.")),
            }
        }
    }
}

#[test]
fn line_tables_alone_have_names_with_their_scopes() {
    let folder = tempfile::tempdir().unwrap();
    for options in [["-O2", "-g"], ["-O2", "-gline-tables-only"]] {
        let program = compile("clang++-19", &options, "terminate.cc", folder.path());
        let core = core_beside(&program, &[], "terminate");
        let process = process(&core, &program);
        let names = names(&process);
        let count = names.iter().filter(|name| *name == "deep::refuse").count();
        assert_eq!(count, 3, "{options:?}: {names:?}");
        assert!(names.iter().any(|name| name == "main"), "{options:?}: {names:?}");
    }
}

#[test]
fn the_core_that_gcore_writes_agrees_with_gdb() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("gcc", &["-O2"], "crashes.c", folder.path());
    let mut tally = Tally::default();
    for way in ["segfault", "threads"] {
        let core = folder.path().join(format!("{way}.gcore"));
        gcore_of(Command::new(&program).arg(way), &core);
        let answers = gdb::ask(&program, std::slice::from_ref(&core), LIMIT);
        gdb::compare(&process(&core, &program), &answers[0], LIMIT, way, &mut tally);
    }
    assert_eq!((tally.cores, tally.threads), (2, 5));
}

#[test]
fn without_its_executable_a_core_still_tells_of_the_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("clang-19", &["-O0"], "crashes.c", folder.path());
    let core = core_beside(&program, &["abort"], "abort");
    std::fs::remove_file(&program).unwrap();
    let process = Process::of_core(&core, &Options::default()).unwrap();
    let main = process.main().unwrap();
    assert!(main.image.is_none() && main.build_id.is_some());
    assert!(main.remark.as_deref().unwrap_or_default().contains("No such file"));
    let backtrace = Backtrace::compute(&process, &process.notes.threads[0].registers);
    let frames = &backtrace.frames;
    let in_main = |frame: &&backtrail_machine::unwind::Frame| {
        process.modules.index(frame.instruction()) == process.modules.main
    };
    // Compiled without optimisation, so with frame pointers.
    let own: Vec<_> = frames.iter().filter(in_main).map(|frame| frame.found_by).collect();
    assert_eq!(own[0], FoundBy::UnwindTables, "{backtrace:#?}");
    assert_eq!(own[1..5], [FoundBy::FramePointer; 4], "{backtrace:#?}");
}

#[test]
fn an_executable_of_another_build_is_refused_and_both_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (program, core) = segfault(folder.path());
    let other = tempfile::tempdir().unwrap();
    let wrong = compile("clang-19", &["-O1"], "crashes.c", other.path());
    let options = Options { executable: Some(wrong.clone()), ..Options::default() };
    let id = |path: &Path| {
        let notes = run(Command::new("readelf").arg("-n").arg(path));
        let line = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
        line.unwrap().to_owned()
    };
    let error = Process::of_core(&core, &options).err().unwrap();
    let text = error.to_string();
    assert!(matches!(error, Error::OtherBuild { .. }), "{text}");
    assert!(text.contains(&id(&program)) && text.contains(&id(&wrong)), "{text}");
    // One that took the place of the right one is not used.
    let expected = id(&program);
    std::fs::rename(&wrong, &program).unwrap();
    let process = Process::of_core(&core, &Options::default()).unwrap();
    let main = process.main().unwrap();
    let remark = main.remark.as_deref().unwrap_or_default();
    assert!(main.image.is_none() && remark.contains(&expected), "{remark}");
    assert!(remark.contains("is of another build"), "{remark}");
}

#[test]
fn separate_debug_information_is_found_by_build_id_and_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (program, core) = segfault(folder.path());
    let truth = names(&process(&core, &program));
    let debug = folder.path().join("program.debug");
    let objcopy = |words: &[&str], files: &[&Path]| {
        run(Command::new("objcopy").args(words).args(files));
    };
    objcopy(&["--only-keep-debug", "--compress-debug-sections=zlib"], &[&program, &debug]);
    let bare = stripped(&program);
    assert_ne!(names(&process(&core, &bare)), truth);
    // By build id, in a folder that is given.
    let with_id = process(&core, &bare);
    let id = with_id.main().unwrap().build_id.clone().unwrap();
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let store = folder.path().join("store");
    let place = store.join(".build-id").join(&id[..2]);
    std::fs::create_dir_all(&place).unwrap();
    std::fs::copy(&debug, place.join(format!("{}.debug", &id[2..]))).unwrap();
    let options = Options {
        executable: Some(bare.clone()),
        debug_folders: vec![store],
        ..Options::default()
    };
    assert_eq!(names(&Process::of_core(&core, &options).unwrap()), truth);
    // By the link's name, beside the executable.
    let linked = folder.path().join("linked");
    let link = format!("--add-gnu-debuglink={}", debug.display());
    objcopy(&[&link], &[&bare, &linked]);
    assert_eq!(names(&process(&core, &linked)), truth);
    // Of another build: not used.
    let other = tempfile::tempdir().unwrap();
    let wrong = compile("clang-19", &["-O1"], "crashes.c", other.path());
    objcopy(&["--only-keep-debug"], &[&wrong, &debug]);
    assert_ne!(names(&process(&core, &linked)), truth);
}

#[test]
fn a_live_process_is_looked_at_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("gcc", &["-O2"], "crashes.c", folder.path());
    let mut child = Command::new(&program)
        .arg("wait")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut first = [0; 6];
    std::io::Read::read_exact(&mut output, &mut first).unwrap();
    assert_eq!(&first, b"ready\n");
    // What gcore writes of it has a signal that stops it.
    let core = folder.path().join("live");
    run(Command::new("gcore").arg("-o").arg(&core).arg(child.id().to_string()));
    let core = core.with_extension(child.id().to_string());
    assert_eq!(process(&core, &program).signal(), None);
    for _ in 0..3 {
        let process = Process::of_pid(child.id(), &Options::default()).unwrap_or_else(|error| {
            panic!("{error}");
        });
        assert!(process.is_live() && process.signal().is_none());
        let names = names(&process);
        let own: Vec<_> =
            names.iter().filter(|name| *name == "linger" || *name == "main").collect();
        assert_eq!(own, ["linger", "linger", "linger", "main"], "{names:?}");
        assert_eq!(names.last().unwrap(), "_start");
    }
    drop(child.stdin.take());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut output, &mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(rest, "3\n");
    let gone = Process::of_pid(child.id(), &Options::default()).err().unwrap();
    assert!(gone.to_string().contains("no such process"), "{gone}");
}

/// How many modules are of a file of this name.
fn copies(process: &Process, name: &str) -> usize {
    let modules = process.modules.list.iter();
    modules.filter(|it| Path::new(&it.path).file_name().is_some_and(|it| it == name)).count()
}

#[test]
fn a_file_is_one_module_whatever_linker_put_its_segments_into_one_page() {
    for linker in ["bfd", "gold", "lld"] {
        let folder = tempfile::tempdir().unwrap();
        let option = format!("-fuse-ld={linker}");
        let program = compile("clang-19", &["-O1", &option], "loads.c", folder.path());
        for words in [&[][..], &["data"], &["twice"]] {
            let core = core_beside(&program, words, "loads");
            let process = process(&core, &program);
            let what = format!("{linker} {words:?}");
            assert_eq!(copies(&process, "program"), 1, "{what}");
            let libraries = if words == ["twice"] { 2 } else { 1 };
            assert_eq!(copies(&process, "libc.so.6"), libraries, "{what}");
            let thread = &process.notes.threads[0];
            let backtrace = Backtrace::compute(&process, &thread.registers);
            let found: Vec<FoundBy> = backtrace.frames.iter().map(|it| it.found_by).collect();
            assert!(found[1..].iter().all(|it| *it == FoundBy::UnwindTables), "{what}: {found:?}");
            let names = names(&process);
            assert_eq!(names.first().map(|it| &**it), Some("fail"), "{what}");
            assert_eq!(names.last().map(|it| &**it), Some("_start"), "{what}");
        }
    }
}
