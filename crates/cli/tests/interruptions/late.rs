//! Signals around the program's end: what ran is not lost by one that this tool hears of
//! late, or by a second. A library in its process makes it slow where that matters.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use crate::ONE_RUN;
use crate::place::{Place, To, names, nobody_left, send};

/// The output, which is written when the program has begun, waits for the file `$GO`, and
/// says so by the file `$WRITES`. With `$HEARS_LATE`, the thread that waits for signals
/// hears of the first when that is there, and lets the output go on when it has dealt
/// with it. With `$TRACES_LATE`, the output is what is asked of a program that is traced.
const LATE: &str = r#"#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
static void tell(const char *path) {
    close(open(path, O_CREAT | O_WRONLY, 0600));
}
static void until(const char *path) {
    for (int i = 0; i < 12000 && access(path, F_OK) != 0; i++) usleep(10000);
}
int fchmod(int fd, mode_t mode) {
    struct stat begun;
    if (stat(getenv("BEGUN"), &begun) == 0 && begun.st_size > 0) {
        tell(getenv("WRITES"));
        until(getenv("GO"));
    }
    return ((int (*)(int, mode_t))dlsym(RTLD_NEXT, "fchmod"))(fd, mode);
}
ssize_t recv(int fd, void *to, size_t size, int flags) {
    static int has_come;
    int waits = getenv("HEARS_LATE") && !(flags & MSG_DONTWAIT);
    if (waits && has_come) tell(getenv("GO"));
    ssize_t (*own)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");
    ssize_t got = own(fd, to, size, flags);
    if (waits && got > 0) until(getenv("WRITES"));
    has_come |= waits && got > 0;
    return got;
}
long ptrace(enum __ptrace_request request, ...) {
    va_list words;
    va_start(words, request);
    pid_t pid = va_arg(words, pid_t);
    void *address = va_arg(words, void *), *data = va_arg(words, void *);
    va_end(words);
    if (getenv("TRACES_LATE") && request == PTRACE_SETOPTIONS) {
        tell(getenv("WRITES"));
        until(getenv("GO"));
    }
    long (*own)(enum __ptrace_request, ...) = dlsym(RTLD_NEXT, "ptrace");
    return own(request, pid, address, data);
}
"#;

fn library(place: &Place) -> PathBuf {
    fs::write(place.path("late.c"), LATE).unwrap();
    let library = place.path("late.so");
    let mut compiler = place.command("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(place.path("late.c"));
    assert!(compiler.status().unwrap().success());
    library
}

/// The tool on the program that waits, in a process that is slow.
fn slow(place: &Place, words: &[&str], library: &Path) -> Command {
    place.begin();
    for name in ["writes", "go"] {
        let _ = fs::remove_file(place.path(name));
    }
    let mut command = place.tool(&[words, &["-o", "out", "./waits", "--", "handle"]].concat());
    command.env("LD_PRELOAD", library);
    command.env("WRITES", place.path("writes")).env("GO", place.path("go"));
    command
}

#[test]
fn what_the_group_got_while_the_program_ran_is_the_programs_however_late_we_hear() {
    let place = Place::with_waits();
    let library = library(&place);
    for words in &ONE_RUN[..4] {
        let what = format!("{words:?}");
        let mut child = slow(&place, words, &library).env("HEARS_LATE", "").spawn().unwrap();
        place.until_begun(&mut child, 1);
        send("INT", To::Group, &child);
        let output = place.finish(child, &what);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "1 came\n", "{what}: {stderr}");
        assert_eq!(output.status.code(), Some(5), "{what}: {:?}: {stderr}", output.status);
        assert!(place.take_output(), "{what}");
    }
}

/// Until the output is about to be written.
fn until_it_writes(place: &Place, child: &mut Child) {
    while !place.path("writes").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_ran_is_written_before_a_second_signal_is_obeyed_and_a_third_ends_us() {
    let place = Place::with_waits();
    let library = library(&place);
    for words in &ONE_RUN[..4] {
        for insists in [false, true] {
            let what = format!("{words:?}, insisting: {insists}");
            let mut child = slow(&place, words, &library).spawn().unwrap();
            place.until_begun(&mut child, 1);
            send("INT", To::Group, &child);
            until_it_writes(&place, &mut child);
            send("TERM", To::Backtrail, &child);
            let mut stderr = BufReader::new(child.stderr.take().unwrap());
            let mut said = String::new();
            while !said.contains("SIGTERM: what ran is written first") {
                assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "{what}: {said}");
            }
            if insists {
                send("HUP", To::Group, &child);
            } else {
                File::create(place.path("go")).unwrap();
            }
            stderr.read_to_string(&mut said).unwrap();
            let session = child.id();
            let status = child.wait().unwrap();
            let expected = if insists { 1 } else { 15 };
            assert_eq!(status.signal(), Some(expected), "{what}: {status:?}: {said}");
            nobody_left(session, &what);
            assert_eq!(names(&place.path("temporary")), [""; 0], "{what}");
            if insists {
                assert_eq!(names(&place.path("work")), ["waits"], "{what}");
            } else {
                assert!(place.document(words)["incomplete"].is_null(), "{what}");
                assert!(place.take_output(), "{what}");
            }
        }
    }
}

/// At no moment is a program let go of that is traced.
#[test]
fn killed_before_the_program_begins_we_take_it_along() {
    let place = Place::with_waits();
    let library = library(&place);
    let words = ONE_RUN[3];
    let mut child = slow(&place, words, &library).env("TRACES_LATE", "").spawn().unwrap();
    until_it_writes(&place, &mut child);
    send("KILL", To::Backtrail, &child);
    let session = child.id();
    assert_eq!(child.wait_with_output().unwrap().status.signal(), Some(9));
    nobody_left(session, "traced");
    assert_eq!(fs::metadata(place.path("begun")).unwrap().len(), 0, "it began");
}
