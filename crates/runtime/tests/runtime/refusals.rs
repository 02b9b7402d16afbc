//! Programs and machines that make it hard to write anything.
//!
//! The program is never disturbed; the record is whole, or a prefix that says
//! what it lacks.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use backtrail_abi::log::Incomplete;
use backtrail_collect::records::Records;

use crate::program::{Program, check_status, read_logs};

#[test]
fn closed_descriptors_and_another_folder() {
    let program = Program::new("closes_all");
    for first in ["0", "1", "1000", "2000"] {
        for what in ["c", "d", "e", "cde", "n"] {
            program.run(&[first, what], 17);
        }
    }
    assert_eq!(program.check().len(), 20);
}

#[test]
fn a_relative_folder_is_where_the_program_started() {
    let program = Program::new("closes_all");
    for folder in ["deep/er/records", "./deep//er/records/"] {
        let mut command = program.command();
        let output = command.env("BACKTRAIL_DIR", folder).args(["500", "de"]).output().unwrap();
        check_status(&output, 17);
    }
    assert_eq!(read_logs(&program.folder.path().join("deep/er/records")).len(), 2);
    let mut command = program.command();
    command.env_remove("BACKTRAIL_DIR").args(["500", "d"]);
    check_status(&command.output().unwrap(), 17);
    command.env("BACKTRAIL_DIR", "");
    check_status(&command.output().unwrap(), 17);
    assert_eq!(read_logs(&program.folder.path().join("backtrail-records")).len(), 2);
}

#[test]
fn no_folder_can_be_made() {
    let program = Program::new("sequence");
    fs::write(program.folder.path().join("file"), "").unwrap();
    let long = format!("/{}", "x/".repeat(3000));
    for folder in ["/proc/records", "/sys/records", "/dev/null/records", "file", "file/x", &long] {
        let output = program.command().env("BACKTRAIL_DIR", folder).arg("100000").output().unwrap();
        check_status(&output, 42);
        assert_eq!(output.stdout, b"");
        assert_eq!(output.stderr, b"");
    }
    let mut folders: Vec<_> = fs::read_dir(program.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    folders.sort();
    assert_eq!(folders, ["file", "sequence", "truth"], "nothing else was made");
}

/// Runs `limits.c`, whose events count up, and gives how many were recorded
/// by its first process.
fn run_limited(program: &Program, what: &str) -> (u32, Incomplete) {
    program.run(&[what], 23);
    let logs = program.logs();
    let log = &logs[0];
    let events = &log.only_thread().events;
    let count = events.len() as u32;
    assert!(events.iter().copied().eq((0..count).map(|block| 1 << 24 | block)));
    assert_ne!(log.gap().error, 0);
    (count, log.gap().why.unwrap())
}

#[test]
fn a_limit_on_the_size_of_files() {
    let program = Program::new("limits");
    let (count, why) = run_limited(&program, "f");
    // The largest length allowed is 16 KiB, less the header.
    assert_eq!((count, why), ((16 << 10) / 4 - 7, Incomplete::Extend));
    let logs = program.logs();
    assert_eq!(logs.len(), 2, "a child tries again");
    assert_eq!(logs[1].gap().why, Some(Incomplete::Extend));
    assert_eq!(logs[1].only_thread().events.len(), (16 << 10) / 4 - 7);
}

#[test]
fn a_limit_on_memory() {
    let program = Program::new("limits");
    let (count, why) = run_limited(&program, "m");
    assert!((100..300_000).contains(&count));
    assert_eq!(why, Incomplete::Map);
}

#[test]
fn a_record_that_is_removed() {
    let program = Program::new("limits");
    program.run(&["r"], 23);
    let logs = program.logs();
    assert_eq!(logs.len(), 1, "a child makes the folder again");
    assert!(logs[0].process.forked_from.is_some());
    assert_eq!(logs[0].only_thread().events.len(), 20_000);
}

#[test]
fn a_strict_umask_and_no_rights() {
    let program = Program::new("unprivileged").where_all_may_go();
    fs::set_permissions(program.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    program.run(&[], 0);
    let logs = program.logs();
    let told = fs::read_dir(program.folder.path().join("told")).unwrap().next().unwrap().unwrap();
    assert_eq!(fs::metadata(told.path()).unwrap().len(), 80_000);
    assert_eq!(logs[0].process.incomplete, None);
    let truth = (0..20_000).map(|i| (1 << 24) | (i % 1000));
    assert!(logs[0].only_thread().events.iter().copied().eq(truth));
}

/// Runs `sequence.c` with its records on a file system of its own, and copies
/// them to the usual place. Needs the right to mount.
fn run_on_disk(program: &Program, kind: &str, options: &str) {
    let script = "mkdir small && mount -t \"$0\" -o \"$1\" small small || exit 99; \
                  BACKTRAIL_DIR=small ./sequence 1000000; status=$?; \
                  cp -r small records; umount small; rmdir small; exit $status";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, kind, options]);
    command.current_dir(program.folder.path()).env("TRUTH", program.truth());
    check_status(&command.output().unwrap(), 42);
}

/// Only root can mount. For others, a limit on the size of files, tested above,
/// goes the same way as a full disk.
fn can_mount() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_disk_that_cannot_allocate_ahead() {
    if can_mount() {
        let program = Program::new("sequence");
        run_on_disk(&program, "ramfs", "mode=755");
        assert_eq!(program.check()[0].only_thread().events.len(), 1_000_000);
    }
}

#[test]
fn a_full_disk() {
    if !can_mount() {
        return;
    }
    let told = |program: &Program| program.told().into_values().next().unwrap();

    // Room for everything but the last part.
    let program = Program::new("sequence");
    run_on_disk(&program, "tmpfs", "size=1m,mode=755");
    let logs = program.logs();
    let events = &logs[0].only_thread().events;
    assert_eq!(logs[0].gap().why, Some(Incomplete::Extend));
    assert_eq!(logs[0].gap().error, 28, "ENOSPC");
    assert_eq!(events.len(), (512 << 10) / 4 - 7 - 16);
    assert_eq!(**events, told(&program)[..events.len()]);

    // Room for the process file, not for a thread's.
    let program = Program::new("sequence");
    run_on_disk(&program, "tmpfs", "size=8k,mode=755");
    let records = Records::read(&program.records()).unwrap();
    assert_eq!((records.processes.len(), records.foreign.len()), (1, 0));

    // Room for nothing.
    let program = Program::new("sequence");
    run_on_disk(&program, "tmpfs", "size=4k,mode=755");
    let records = Records::read(&program.records()).unwrap();
    assert_eq!((records.processes.len(), records.foreign.len()), (0, 1));
    assert!(records.foreign[0].why.contains("before it recorded anything"));

    // Not even a folder.
    let program = Program::new("sequence");
    run_on_disk(&program, "tmpfs", "size=4k,nr_inodes=1");
    assert_eq!(Records::read(&program.records()).unwrap(), Records::default());

    let program = Program::new("sequence");
    run_on_disk(&program, "tmpfs", "size=1m,ro");
    assert_eq!(Records::read(&program.records()).unwrap(), Records::default());
}
