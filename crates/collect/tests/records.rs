//! Folders of records, with all that may be in them besides.

use std::fs;
use std::path::Path;

use backtrail_collect::Error;
use backtrail_collect::records::{
    Descendant, ProcessRecord, Records, ThreadFile, in_order_of_forks,
};

fn process_file(pid: u32, parent: u32, forked_from: u32, executable: &str) -> Vec<u8> {
    let mut bytes = b"BTPROC\x01\n".to_vec();
    for number in [backtrail_abi::VERSION, pid, parent, forked_from, 0, 0, 0, 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(executable.as_bytes());
    bytes.resize(8192, 0);
    bytes
}

fn write(dir: &Path, name: &str, bytes: &[u8]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn processes_come_in_the_order_of_their_first_event() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "20-00000000000000ff/process", &process_file(20, 10, 10, "/bin/b"));
    write(dir, "20-00000000000000ff/thread-20-0", b"");
    write(dir, "10-00000000000000fe/process", &process_file(10, 1, 0, "/bin/a"));
    for thread in ["thread-12-10", "thread-10-0", "thread-11-9"] {
        write(dir, &format!("10-00000000000000fe/{thread}"), b"");
    }
    write(dir, "10-0000000000000100/process", &process_file(10, 1, 0, "/bin/c"));

    let records = Records::read(dir).unwrap();
    assert_eq!(records.foreign, []);
    let folder = dir.join("10-00000000000000fe");
    let thread = |ordinal, tid, name| ThreadFile { ordinal, tid, path: folder.join(name) };
    assert_eq!(
        records.processes[0],
        ProcessRecord {
            pid: 10,
            parent: 1,
            forked_from: None,
            forked_at: None,
            executable: "/bin/a".into(),
            folder: folder.clone(),
            nonce: 0xfe,
            threads: vec![
                thread(0, 10, "thread-10-0"),
                thread(9, 11, "thread-11-9"),
                thread(10, 12, "thread-12-10"),
            ],
            counts: vec![],
        }
    );
    let order: Vec<_> =
        records.processes.iter().map(|process| process.executable.to_str().unwrap()).collect();
    assert_eq!(order, ["/bin/a", "/bin/b", "/bin/c"]);
    assert_eq!(records.processes[1].forked_from, Some(10));
    assert_eq!(records.processes[0].process_file(), folder.join("process"));
}

#[test]
fn what_is_not_a_record_is_reported_and_hides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let good = process_file(10, 1, 0, "/bin/a");
    write(dir, "10-00000000000000fe/process", &good);
    write(dir, "10-00000000000000fe/thread-10", b"");
    write(dir, "10-00000000000000fe/core", b"");
    write(dir, "README", b"");
    write(dir, "1-00000000000000aa", b"");
    write(dir, "2-0000/process", &good);
    write(dir, "+2-00000000000000aa/process", &good);
    fs::create_dir(dir.join("3-00000000000000aa")).unwrap();
    write(dir, "4-00000000000000aa/process", b"");
    write(dir, "5-00000000000000aa/process", &[0; 8192]);
    write(dir, "6-00000000000000aa/process", &good[..100]);
    write(dir, "7-00000000000000aa/process", &[b'x'; 8192]);
    let mut other_version = good.clone();
    other_version[8] = 200;
    write(dir, "8-00000000000000aa/process", &other_version);

    let records = Records::read(dir).unwrap();
    assert_eq!(records.processes.len(), 1);
    assert_eq!(records.processes[0].threads, []);
    let found: Vec<_> = records
        .foreign
        .iter()
        .map(|foreign| {
            let path = foreign.path.strip_prefix(dir).unwrap().to_str().unwrap();
            (path, foreign.why.as_str())
        })
        .collect();
    let stopped = "its process was stopped, or could go no further, before it recorded anything";
    assert_eq!(
        found,
        [
            ("+2-00000000000000aa", "not the folder of a process"),
            ("1-00000000000000aa", "named like the folder of a process, but a file"),
            ("10-00000000000000fe/core", "not the file of a thread or of counters"),
            ("10-00000000000000fe/thread-10", "not the file of a thread or of counters"),
            ("2-0000", "not the folder of a process"),
            (
                "3-00000000000000aa",
                "its process file cannot be read: No such file or directory (os error 2)"
            ),
            ("4-00000000000000aa", stopped),
            ("5-00000000000000aa", stopped),
            (
                "6-00000000000000aa",
                "its process file has 100 bytes, fewer than a header: it was cut"
            ),
            ("7-00000000000000aa", "its process file is not one of ours"),
            (
                "8-00000000000000aa",
                "its process file has format version 200, this backtrail reads version 5"
            ),
            ("README", "not the folder of a process"),
        ]
    );
}

#[test]
fn no_folder_is_an_error_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("nothing");
    let error = Records::read(&missing).unwrap_err();
    assert!(matches!(&error, Error::Missing(path) if *path == missing));
    assert!(error.to_string().contains("run the variant first"));
    fs::write(&missing, "").unwrap();
    assert!(matches!(Records::read(&missing), Err(Error::Read { .. })));
    assert_eq!(Records::read(dir.path()).unwrap().foreign.len(), 1);
}

/// The log of a thread that a fork's child begins with.
fn forked_thread(tid: u32, forked_at: (u32, u32)) -> Vec<u8> {
    let mut bytes = backtrail_abi::log::THREAD_MAGIC.to_vec();
    for number in [backtrail_abi::VERSION, tid, 0, forked_at.0, forked_at.1] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.resize(4096, 0);
    bytes
}

#[test]
fn processes_follow_who_forked_them() {
    let folder = tempfile::tempdir().unwrap();
    // By first event: the number, whose fork it is, and when, by which thread.
    let processes = [
        (10, 0, (0, 0)),
        (15, 10, (3, 1)),
        (13, 10, (90, 0)),
        (12, 10, (40, 0)),
        (14, 12, (7, 0)),
        (11, 10, (5, 0)),
        (12, 0, (0, 0)),
    ];
    for (nonce, (pid, forked_from, forked_at)) in processes.into_iter().enumerate() {
        let process = folder.path().join(format!("{pid}-{:016x}", nonce + 1));
        std::fs::create_dir(&process).unwrap();
        std::fs::write(process.join("process"), process_file(pid, 1, forked_from, "/p")).unwrap();
        let thread = forked_thread(pid, forked_at);
        std::fs::write(process.join(format!("thread-{pid}-0")), thread).unwrap();
    }
    let records = Records::read(folder.path()).unwrap().processes;
    let order = in_order_of_forks(records);
    let place = |it: &Descendant| it.record.forked_at.map(|it| (it.thread, it.events));
    let found: Vec<_> = order.iter().map(|it| (it.record.pid, it.parent, place(it))).collect();
    assert_eq!(
        found,
        [
            (10, None, None),
            (11, Some(0), Some((0, 4))),
            (12, Some(0), Some((0, 39))),
            (14, Some(2), Some((0, 6))),
            (13, Some(0), Some((0, 89))),
            (15, Some(0), Some((1, 2))),
            (12, None, None),
        ]
    );
}
