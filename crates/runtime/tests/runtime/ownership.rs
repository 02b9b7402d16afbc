//! Records are their owner's alone, and what somebody else put in their place is left
//! as it is. The program is never disturbed.

use std::fs::{self, File};
use std::os::unix::fs::{self as unix, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use backtrail_abi::log::{Incomplete, SEGMENT};
use backtrail_collect::records::Records;

use crate::packing::Bursts;
use crate::program::{Program, check_status, read_logs};

/// A user who is neither root nor us.
const SOMEBODY: u32 = 65534;

/// Only root can give files away. Others take the place of somebody else themselves:
/// that they are the same user helps them more than it hinders.
fn give_away(path: &Path) {
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        unix::lchown(path, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn only(folder: &Path, prefix: &str) -> PathBuf {
    let found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = found
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix))
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn nobody_else_can_reach_a_record() {
    for name in ["sequence", "count_exec"] {
        let program = Program::new(name);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(&program.executable);
        command.args(if name == "sequence" { ["1000"] } else { ["exec"] });
        command.current_dir(program.folder.path());
        command.env("BACKTRAIL_DIR", "above/records").env("TRUTH", program.truth());
        assert!(command.output().unwrap().status.code().is_some());
        let root = program.folder.path().join("above/records");
        assert_eq!((mode(root.parent().unwrap()), mode(&root)), (0o777, 0o700), "{name}");
        let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
        let folders: Vec<PathBuf> = folders.collect();
        assert!(!folders.is_empty());
        for folder in folders {
            assert_eq!(mode(&folder), 0o700);
            for file in fs::read_dir(folder).unwrap() {
                assert_eq!(mode(&file.unwrap().path()), 0o600);
            }
        }
    }
}

#[test]
fn whoever_starts_a_privileged_program_does_not_choose_what_it_makes() {
    // Others have no rights to give.
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    for (name, argument) in [("sequence", "1000"), ("count_exec", "exec")] {
        let program = Program::new(name).where_all_may_go();
        let folder = program.folder.path();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        let records = |mode: u32, folder: &str| {
            fs::set_permissions(&program.executable, fs::Permissions::from_mode(mode)).unwrap();
            let mut command = std::process::Command::new("sh");
            command.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(&program.executable);
            command.arg(argument).uid(SOMEBODY).gid(SOMEBODY);
            command.current_dir(program.folder.path()).env("BACKTRAIL_DIR", folder);
            command.env("TRUTH", program.truth());
            assert!(command.output().unwrap().status.code().is_some());
            program.folder.path().join("above").exists()
        };
        // Where the user may not make anything, the program could.
        assert!(!records(0o4755, "above/records"), "{name}");
        assert!(!records(0o755, "above/records"), "{name}");
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!records(0o4755, "above/records"), "{name}");
        assert!(records(0o755, "above/records"), "{name}");
    }
}

/// What can be done to a record, in the folder for records, whose other users may
/// rename what is there.
fn replace(what: &str, folder: &Path) -> (PathBuf, Option<PathBuf>) {
    let thread = only(folder, "thread-");
    let moved = folder.with_file_name("moved");
    let length = fs::metadata(&thread).unwrap().len();
    let fake = |path: &Path| {
        File::create(path).unwrap().set_len(length).unwrap();
        give_away(path);
    };
    match what {
        "folder" => {
            fs::rename(folder, &moved).unwrap();
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
            give_away(folder);
            fake(&thread);
            (moved, Some(thread))
        }
        "link to a folder" => {
            fs::rename(folder, &moved).unwrap();
            let other = folder.with_file_name("other");
            fs::create_dir(&other).unwrap();
            unix::symlink(&other, folder).unwrap();
            let file = other.join(thread.file_name().unwrap());
            fake(&file);
            (moved, Some(file))
        }
        "file" => {
            // Still there, so that its number is not given to the other.
            fs::rename(&thread, folder.join("kept")).unwrap();
            fake(&thread);
            (folder.to_owned(), Some(thread))
        }
        "link to a file" => {
            fs::rename(&thread, folder.join("kept")).unwrap();
            let other = folder.join("other");
            fake(&other);
            unix::symlink(&other, &thread).unwrap();
            (folder.to_owned(), Some(other))
        }
        "longer" => {
            File::options().write(true).open(&thread).unwrap().set_len(length + 1).unwrap();
            (folder.to_owned(), None)
        }
        _ => unreachable!(),
    }
}

#[test]
fn what_was_put_in_the_place_of_a_record_is_left_alone() {
    for what in ["folder", "link to a folder", "file", "link to a file", "longer"] {
        let mut bursts = Bursts::start(&[]);
        bursts.burst();
        let folder = only(&bursts.program.records(), "");
        let (record, fake) = replace(what, &folder);
        // Its file grows from 1 MiB on.
        (0..8).for_each(|_| bursts.burst());
        let program = bursts.end();
        let header = fs::read(record.join("process")).unwrap();
        let process = backtrail_trace::block_log::Process::read(&header).unwrap();
        let gap = process.incomplete.unwrap_or_else(|| panic!("{what}: labelled"));
        // A link is not opened at all.
        let whys = if what.starts_with("link") {
            [Some(Incomplete::Create), Some(Incomplete::Changed)]
        } else {
            [Some(Incomplete::Changed); 2]
        };
        assert!(whys.contains(&gap.why), "{what}: {gap}");
        if let Some(fake) = fake {
            let bytes = fs::read(&fake).unwrap();
            assert!(bytes.iter().all(|&byte| byte == 0), "{what}: written to");
            assert!((bytes.len() as u64) < 8 * SEGMENT, "{what}: extended");
        }
        drop(program);
    }
}

/// Runs a program that says nothing of where records go.
fn run_by_default(program: &Program) {
    let mut command = program.command();
    command.env_remove("BACKTRAIL_DIR").arg("100000");
    let output = command.output().unwrap();
    check_status(&output, 42);
    assert_eq!((&*output.stdout, &*output.stderr), (&b""[..], &b""[..]));
}

#[test]
fn a_folder_that_is_there_already() {
    let program = Program::new("sequence");
    let default = program.folder.path().join("backtrail-records");
    let elsewhere = program.folder.path().join("elsewhere");
    let set = |mode| {
        fs::set_permissions(&default, fs::Permissions::from_mode(mode)).unwrap();
    };
    let is_empty = |folder: &Path| fs::read_dir(folder).unwrap().next().is_none();
    fs::create_dir(&default).unwrap();
    set(0o777);
    run_by_default(&program);
    assert!(is_empty(&default), "everybody can write there");
    give_away(&default);
    // Where nobody could be given anything, it is as it was.
    run_by_default(&program);
    assert!(is_empty(&default), "it is somebody else's");
    if fs::metadata(&default).unwrap().uid() == SOMEBODY {
        set(0o755);
        run_by_default(&program);
        assert!(is_empty(&default), "it is somebody else's");
        // Who names it means it.
        let mut command = program.command();
        check_status(&command.env("BACKTRAIL_DIR", &default).arg("1000").output().unwrap(), 42);
        assert_eq!(read_logs(&default).len(), 1);
    }
    fs::remove_dir_all(&default).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    unix::symlink(&elsewhere, &default).unwrap();
    run_by_default(&program);
    assert!(is_empty(&elsewhere), "links are not followed");
    fs::remove_file(&default).unwrap();
    for mode in [0o700, 0o755, 0o775, 0o1777] {
        fs::create_dir(&default).unwrap();
        set(mode);
        run_by_default(&program);
        assert_eq!(read_logs(&default).len(), 1, "{mode:o}");
        fs::remove_dir_all(&default).unwrap();
    }
}

#[test]
fn a_bound_is_a_size_or_nothing_is_recorded() {
    for name in ["sequence", "count_exec"] {
        let program = Program::new(name);
        let (argument, status) = if name == "sequence" { ("100000", 42) } else { ("vfork", 5) };
        let run = |bound: &str| {
            program.clear();
            let output = program.command().env("BACKTRAIL_DISK", bound).arg(argument).output();
            check_status(&output.unwrap(), status);
            let records = Records::read(&program.records()).unwrap();
            let record = &records.processes[0];
            let header = fs::read(record.process_file()).unwrap();
            let process = backtrail_trace::block_log::Process::read(&header).unwrap();
            let files = record.threads.len() + record.counts.len();
            (process.incomplete.map(|gap| gap.why.unwrap()), files)
        };
        for none in ["", "1G", "700k", "600000"] {
            assert_eq!(run(none), (None, 1), "{name}: {none:?}");
        }
        for no_size in ["abc", "-1", "100x", "1 M", "99999999999999999999"] {
            assert_eq!(run(no_size), (Some(Incomplete::NoSize), 0), "{name}: {no_size:?}");
        }
        assert_eq!(run("0"), (Some(Incomplete::Bound), 0), "{name}");
        assert_eq!(run("4095"), (Some(Incomplete::Bound), 0), "{name}");
    }
}
