//! Programs and machines that make it hard to write anything.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use backtrail_abi::log::Incomplete;
use backtrail_collect::records::Records;

use super::{check, read, read_all, told};
use crate::program::{Program, check_status};

#[test]
fn closed_descriptors_and_another_folder() {
    let program = Program::new("count_limits");
    for when in ["A", "B"] {
        for what in ["c", "d", "e", "cde", "n"] {
            program.clear();
            program.run(&[&format!("{when}{what}")], 23);
            assert_eq!(check(&program).len(), 2, "{when}{what}");
        }
    }
}

#[test]
fn no_folder_can_be_made() {
    let program = Program::new("count_limits");
    fs::write(program.folder.path().join("file"), "").unwrap();
    let long = format!("/{}", "x/".repeat(3000));
    for folder in ["/proc/records", "/sys/records", "/dev/null/records", "file", "file/x", &long] {
        for when in ["A", "B"] {
            let output = program.command().env("BACKTRAIL_DIR", folder).arg(when).output().unwrap();
            check_status(&output, 23);
            assert_eq!(output.stdout, b"");
            assert_eq!(output.stderr, b"");
        }
    }
}

#[test]
fn a_limit_on_the_size_of_files() {
    // Neither file of counters fits, but a process file does.
    let program = Program::new("count_limits");
    program.run(&["Bf"], 23);
    let records = Records::read(&program.records()).unwrap();
    assert_eq!(records.processes.len(), 2);
    let whys: Vec<_> = records.foreign.iter().map(|foreign| foreign.why.as_str()).collect();
    assert_eq!(whys.len(), 3, "{whys:?}");
    assert!(whys.iter().all(|why| why.contains("holds no counts")), "{whys:?}");

    // The first thread has its file, the second and the child do not.
    let program = Program::new("count_limits");
    program.run(&["Af"], 23);
    let records = Records::read(&program.records()).unwrap();
    assert_eq!(records.processes.len(), 2);
    assert_eq!(records.processes[0].counts.len(), 1);
    for record in &records.processes {
        let bytes = fs::read(record.process_file()).unwrap();
        let process = backtrail_trace::block_log::Process::read(&bytes).unwrap();
        assert_eq!(process.incomplete.unwrap().why, Some(Incomplete::Extend));
    }
}

#[test]
fn a_limit_on_memory() {
    for when in ["Am", "Bm"] {
        let program = Program::with("count_limits", "clang-19", &["-O2", "-DPAGES=1000"]);
        program.run(&[when], 23);
        // The second thread finds no room for a copy and counts in the first
        // one's, one after the other here.
        let all = read(&program);
        let first = if when == "Am" { 200 } else { 100 };
        assert_eq!(*all[0].main(), [(1, first), (2, 1000)].into());
        assert_eq!(all[0].process.incomplete.unwrap().why, Some(Incomplete::Shared));
        assert_eq!(*all[1].main(), [(3, 1000)].into());
    }
}

#[test]
fn a_record_that_is_removed() {
    let program = Program::new("count_limits");
    program.run(&["Ar"], 23);
    let all = read(&program);
    assert_eq!(all.len(), 1, "a child makes the folder again");
    assert_eq!(*all[0].main(), [(3, 1000)].into());
}

/// Runs `count_limits.c` with its records on a file system of its own, and
/// copies them to the usual place. Needs the right to mount.
fn run_on_disk(program: &Program, kind: &str, options: &str) {
    let script = "mkdir small && mount -t \"$0\" -o \"$1\" small small || exit 99; \
                  BACKTRAIL_DIR=small ./count_limits A; status=$?; \
                  cp -r small records; umount small; rmdir small; exit $status";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, kind, options]);
    command.current_dir(program.folder.path()).env("TRUTH", program.truth());
    check_status(&command.output().unwrap(), 23);
}

/// Only root can mount. For others, a limit on the size of files, tested above,
/// goes the same way as a full disk.
fn can_mount() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_disk_that_cannot_allocate_ahead() {
    if can_mount() {
        let program = Program::new("count_limits");
        run_on_disk(&program, "ramfs", "mode=755");
        assert_eq!(check(&program).len(), 2);
    }
}

#[test]
fn a_full_disk() {
    if !can_mount() {
        return;
    }
    // From no room at all to room for two processes with three files of
    // counters: each is there as a whole, or its process says what is missing.
    let (mut without, mut with_one, mut whole) = (0, 0, 0);
    let program = Program::new("count_limits");
    for size in (4..100).step_by(4) {
        program.clear();
        run_on_disk(&program, "tmpfs", &format!("size={size}k,mode=755"));
        let records = Records::read(&program.records()).unwrap();
        let told = told(&program);
        for (record, counted) in records.processes.iter().zip(read_all(&records)) {
            let files = if record.forked_from.is_some() { 1 } else { 2 };
            if counted.files == files {
                assert_eq!(counted.process.incomplete, None, "{size} KiB");
                assert_eq!(*counted.main(), told[&record.pid]);
                whole += 1;
            } else {
                assert_eq!(counted.process.incomplete.unwrap().error, 28, "{size} KiB");
                without += usize::from(counted.files == 0);
                with_one += usize::from(counted.files == 1);
            }
        }
    }
    assert!(without > 5 && with_one > 0 && whole > 5, "{without}, {with_one}, {whole}");

    program.clear();
    run_on_disk(&program, "tmpfs", "size=1m,ro");
    assert_eq!(Records::read(&program.records()).unwrap(), Records::default());
}
