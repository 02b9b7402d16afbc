//! Copies of programs on this machine: what they share, what keeps them apart,
//! and that no difference goes unseen.
//!
//! Programs are shell scripts. `run-copies` is started in a folder of its own,
//! with another folder for temporary files, which must be empty afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

const RUN_COPIES: &str = env!("CARGO_BIN_EXE_run-copies");

/// The ways of keeping copies apart; without overlays where the kernel allows
/// none, which is said.
fn apart() -> &'static [&'static str] {
    static OVERLAYS: OnceLock<bool> = OnceLock::new();
    let overlays = OVERLAYS.get_or_init(|| {
        let ran = Place::new().run(&["--isolate", "overlay", "/bin/true", "--copies", "2"]);
        if ran.code != Some(0) {
            assert!(ran.code == Some(5) && ran.stderr.contains("no overlay"), "{ran:?}");
            eprintln!("NOT RUN with overlays: {}", ran.stderr);
        }
        ran.code == Some(0)
    });
    if *overlays { &["auto", "copy", "overlay"] } else { &["auto", "copy"] }
}

/// Whether the kernel allows mounts of one's own; if not, that is said.
fn mounts() -> bool {
    static MOUNTS: OnceLock<bool> = OnceLock::new();
    *MOUNTS.get_or_init(|| {
        let place = Place::new();
        let command = place.command(&["--isolate", "copy", "/bin/true", "--copies", "2"]).output();
        let said = String::from_utf8(command.unwrap().stderr).unwrap();
        if !said.is_empty() {
            assert!(said.contains(DIFFERENT_PATHS), "{said}");
            eprintln!("NOT RUN with the same paths: {said}");
        }
        said.is_empty()
    })
}

const DIFFERENT_PATHS: &str = "run-copies: the copies see their working directory";

/// A working directory with programs beside it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Also for other users.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["work", "temporary", "programs"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join("programs").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(RUN_COPIES);
        command.args(words).current_dir(self.work()).stdin(Stdio::null());
        command.env("TMPDIR", self.folder.path().join("temporary"));
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        self.ran(self.command(words).output().unwrap())
    }

    fn ran(&self, output: Output) -> Ran {
        assert_eq!(names(&self.folder.path().join("temporary")), "", "something was left behind");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, mut stderr) = (text(&output.stdout), text(&output.stderr));
        if stderr.starts_with(DIFFERENT_PATHS) && !mounts() {
            stderr = stderr.split_once('\n').unwrap().1.to_owned();
        }
        Ran { code: output.status.code(), stdout, stderr }
    }

    /// Runs copies of one script.
    fn copies(&self, isolation: &str, count: usize, script: &str) -> Ran {
        let program = self.script("program", script);
        let count = count.to_string();
        let program = program.to_str().unwrap();
        self.run(&["--isolate", isolation, program, "--copies", &count])
    }

    /// What is in the working directory, as `find` tells it: names, kinds,
    /// modes, targets; and what files hold.
    fn listing(&self) -> String {
        let script = r"find . -mindepth 1 -printf '%P %y %m %l %s\n' | sed 's/\( d .*\) [0-9]*$/\1/' | sort
            find . -type f | sort | xargs -r sha256sum";
        let output = Command::new("sh").arg("-c").arg(script).current_dir(self.work()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }
}

#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn names(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.join(" ")
}

#[test]
fn a_program_that_deletes_its_input() {
    for &isolation in apart() {
        for copies in ["1", "2", "5"] {
            let place = Place::new();
            fs::write(place.work().join("notes"), "a\n".repeat(10_000)).unwrap();
            let gzip = ["--isolate", isolation, "/bin/gzip", "--copies", copies, "--", "notes"];
            let ran = place.run(&gzip);
            assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{isolation} {copies}");
            assert_eq!(names(&place.work()), "notes.gz", "{isolation} {copies}");
        }
    }
}

/// Everything a program can do to a folder.
const EDITS: &str = r#"
set -e
echo more >> appended
echo new > made
rm removed
rm -r folder/inner
mkdir folder/inner
echo other > folder/inner/again
rm -r gone
mkdir -p deep/a/b && echo x > deep/a/b/c
chmod 600 mode
chmod 700 folder
ln -s nowhere link
rm turned && mkdir turned && echo in > turned/in
rm -r flattened && echo file > flattened
mv moved away
truncate -s 1000000 sparse
mkfifo pipe
rm link-old && ln -s made link-old
exec 3<> touched-not-changed
echo done
"#;

fn fill(work: &Path) {
    let script = r"
        for name in appended removed mode turned moved touched-not-changed kept; do echo $name > $name; done
        mkdir folder folder/inner gone flattened
        echo old > folder/inner/old; echo two > folder/inner/again; echo y > folder/kept
        echo z > gone/z; echo f > flattened/f; ln -s kept link-old; ln kept second-name; chmod 444 kept";
    let status = Command::new("sh").arg("-c").arg(script).current_dir(work).status();
    assert!(status.unwrap().success());
}

#[test]
fn the_folder_is_as_after_one_run() {
    let plain = Place::new();
    fill(&plain.work());
    let program = plain.script("program", EDITS);
    assert!(Command::new(program).current_dir(plain.work()).status().unwrap().success());
    let expected = plain.listing();
    for &isolation in apart() {
        let place = Place::new();
        fill(&place.work());
        let ran = place.copies(isolation, 3, EDITS);
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), "done\n", ""), "{isolation}");
        assert_eq!(place.listing(), expected, "{isolation}");
    }
}

#[test]
fn nothing_is_kept_apart_if_so_wanted() {
    let place = Place::new();
    let ran = place.copies("none", 4, "echo x >> all; echo done");
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "done\n"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(place.work().join("all")).unwrap(), "x\n".repeat(4));
}

#[test]
fn the_first_copy_is_heard_and_its_end_is_the_end() {
    let place = Place::new();
    let ran = place.copies("auto", 3, "echo out; echo err >&2; exit 7");
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(7), "out\n", "err\n"));
    let ran = place.copies("auto", 3, "kill -USR1 $$");
    assert_eq!((ran.code, &*ran.stderr), (Some(128 + 10), ""));
}

/// A difference between copies is reported, with what differs.
fn diverges(script: &str, what: &str) {
    for &isolation in apart() {
        let place = Place::new();
        fill(&place.work());
        let ran = place.copies(isolation, 3, script);
        assert_eq!(ran.code, Some(4), "{isolation}: {ran:?}");
        assert!(ran.stderr.contains(what), "{isolation}: {}", ran.stderr);
        assert!(ran.stderr.contains("copies 1 and 2 of 3 differ: "), "{}", ran.stderr);
    }
}

#[test]
fn time_numbers_and_chance_are_seen() {
    diverges("echo one; echo process $$", "standard output from byte 1");
    diverges("date +%N >&2", "standard error from byte ");
    diverges("head -c 16 /dev/urandom", "standard output from byte ");
    diverges("head -c 16 /dev/urandom > left", "left has other contents");
    diverges("head -c 16 /dev/urandom >> appended", "appended has other contents");
    diverges("echo $$ > folder/inner/$$", "is left by the ");
    diverges("rm -r folder/inner; mkdir folder/inner; echo $$ > folder/inner/a", "inner/a has ");
    diverges("ln -s $$ link", "link has other contents");
}

/// Variants of one program that differ as little as possible.
fn differ(first: &str, second: &str, what: &str) {
    for &isolation in apart() {
        let place = Place::new();
        fill(&place.work());
        let (first, second) = (place.script("first", first), place.script("second", second));
        let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
        let ran = place.run(&["--isolate", isolation, first, first, first, second]);
        assert_eq!(ran.code, Some(4), "{isolation}: {ran:?}");
        let expected = format!("copies 1 and 4 of 4 differ: {what}; ");
        assert!(ran.stderr.contains(&expected), "{isolation}: {}", ran.stderr);
    }
}

#[test]
fn small_differences_are_seen() {
    differ("exit 0", "kill -SEGV $$", "status 0 against signal 11 (SIGSEGV)");
    differ("exit 1", "exit 2", "status 1 against status 2");
    differ(
        "seq 30000",
        "seq 29999; echo 30001",
        "standard output from byte 168892 (line 30000) on, \"0\\n\" against \"1\\n\"",
    );
    differ(
        "echo a; echo b",
        "echo a",
        "standard output from byte 2 (line 2) on, \"b\\n\" against nothing more",
    );
    differ(
        "echo e >&2",
        "",
        "standard error from byte 0 (line 1) on, \"e\\n\" against nothing more",
    );
    differ("touch empty", "", "empty is left by the one only");
    differ("", "mkdir deep", "deep is left by the other only");
    differ("", "rm removed", "removed is left by the one only");
    differ("rm removed", "", "removed is left by the other only");
    differ("mkdir x", "touch x", "x is a folder against a file");
    differ("", "chmod 640 mode", "mode has mode 644 against 640");
    differ("", "chmod 750 folder", "folder has mode 755 against 750");
    // Size and time of modification are as before.
    differ(
        "",
        "touch -r mode t; echo MODE > mode; touch -r t mode; rm t",
        "mode has other contents",
    );
    differ("", "rm -r folder; mkdir folder", "folder/inner is left by the one only");
}

/// The cores of two processes are never the same.
#[test]
fn core_dumps_of_crashed_copies_are_no_difference() {
    for &isolation in apart() {
        let place = Place::new();
        let ran = place.copies(isolation, 2, "ulimit -c unlimited; echo x > file; kill -SEGV $$");
        assert_eq!((ran.code, &*ran.stderr), (Some(128 + 11), ""), "{isolation}");
        let names = names(&place.work());
        assert!(names == "file" || names.starts_with("core"), "{names}");
    }
    // A program that writes one and lives answers for it.
    let core = |byte: u8| {
        format!("printf '\\177ELF\\2\\1\\1\\0\\0\\0\\0\\0\\0\\0\\0\\0\\4\\0\\{byte}' > core")
    };
    differ(&core(1), &core(2), "core has other contents");
    let place = Place::new();
    let scripts =
        [1, 2].map(|byte| place.script(&byte.to_string(), &format!("{}; kill -9 $$", core(byte))));
    let [first, second] = [0, 1].map(|index| scripts[index].to_str().unwrap());
    assert_eq!(place.run(&[first, second]).code, Some(128 + 9));
}

#[test]
fn the_first_copys_files_are_kept_also_when_copies_differ() {
    for &isolation in apart() {
        let place = Place::new();
        let (first, second) =
            (place.script("1", "echo 1 > file"), place.script("2", "echo 2 > file"));
        let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
        assert_eq!(place.run(&["--isolate", isolation, first, second]).code, Some(4));
        assert_eq!(fs::read_to_string(place.work().join("file")).unwrap(), "1\n", "{isolation}");
    }
}

#[test]
fn they_see_the_same() {
    for &isolation in apart().iter().chain(&["none"]).filter(|_| mounts()) {
        let place = Place::new();
        let script =
            "pwd; env | sort; echo $0; readlink /proc/$$/cwd; ls -l /proc/$$/fd/2 | cut -c1";
        let ran = place.copies(isolation, 3, script);
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{isolation}: {ran:?}");
        let work = place.work();
        assert!(ran.stdout.starts_with(work.to_str().unwrap()), "{}", ran.stdout);
        let ran = place.run(&["/bin/readlink", "--copies", "3", "--", "/proc/self/exe"]);
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
        assert!(ran.stdout.ends_with("/program/readlink\n"), "{}", ran.stdout);
    }
}

#[test]
fn each_has_its_own_records() {
    for &isolation in apart().iter().chain(&["none"]) {
        let place = Place::new();
        let records = place.folder.path().join("records");
        let program = place.script("program", "sleep 0.01; echo x >> $BACKTRAIL_DIR/record");
        let (program, records) = (program.to_str().unwrap(), records.to_str().unwrap());
        let ran =
            place.run(&["--isolate", isolation, "--records", records, program, "--copies", "3"]);
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{isolation}");
        for copy in ["records-000", "records-001", "records-002"] {
            let path = Path::new(records).join(copy).join("record");
            assert_eq!(fs::read_to_string(path).unwrap(), "x\n", "{isolation}");
        }
    }
}

#[test]
fn records_that_are_in_the_working_directory_are_no_difference() {
    for &isolation in apart() {
        let place = Place::new();
        let program = place.script("program", "echo $$ >> $BACKTRAIL_DIR/record");
        let program = program.to_str().unwrap();
        let ran = place.run(&["--isolate", isolation, "--records", ".", program, "--copies", "2"]);
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{isolation}");
        assert_eq!(names(&place.work()), "records-000 records-001");
        assert_eq!(names(&place.work().join("records-001")), "record");
    }
}

#[test]
fn temporary_files_may_be_in_the_working_directory() {
    for &isolation in apart() {
        let place = Place::new();
        let program = place.script("program", "echo x > file; cat file");
        let mut command = place.command(&["--isolate", isolation]);
        command.arg(program).args(["--copies", "2"]).env("TMPDIR", place.work());
        let ran = place.ran(command.output().unwrap());
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{isolation}");
        assert_eq!(ran.stdout, "x\n");
        assert_eq!(names(&place.work()), "file");
    }
}

#[test]
fn input_that_comes_through_a_pipe() {
    let place = Place::new();
    let run = |feeder: &str, program: &str| {
        let program = place.script("program", program);
        let (program, work) = (program.display(), place.work());
        let line = format!("{feeder} | {RUN_COPIES} {program} --copies 4");
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(line).current_dir(work);
        shell.env("TMPDIR", place.folder.path().join("temporary"));
        let ran = place.ran(shell.output().unwrap());
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
        ran.stdout
    };
    assert_eq!(run("printf abc", "cat"), "abc");
    assert_eq!(run(":", "cat"), "");
    assert_eq!(run("seq 200000", "tail -n 1"), "200000\n");
    // Without end.
    assert_eq!(run("yes", "head -n 1"), "y\n");
    assert_eq!(run("yes", "echo unread"), "unread\n");
    // An answer that comes after the question.
    let asked = place.folder.path().join("asked");
    let (path, fifo) = (asked.display(), Command::new("mkfifo").arg(&asked).status());
    assert!(fifo.unwrap().success());
    let answer = format!("{{ read question < {path}; echo 42; }}");
    // Who asks after the first was answered asks nobody.
    let program = format!("echo question > {path} & read answer; echo $answer; kill $! 2>&-; :");
    assert_eq!(run(&answer, &program), "42\n");
}

#[test]
fn input_that_never_comes_stops_nobody() {
    let place = Place::new();
    let program = place.script("program", "echo done");
    let mut command = place.command(&[program.to_str().unwrap(), "--copies", "3"]);
    // Our end stays open.
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let held = child.stdin.take();
    let ran = place.ran(child.wait_with_output().unwrap());
    drop(held);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "done\n"));
}

#[test]
fn input_that_is_a_file_is_a_file_and_is_read_as_far_as_the_program_reads() {
    for &isolation in apart().iter().chain(&["none"]) {
        let place = Place::new();
        fs::write(place.folder.path().join("input"), "0123456789").unwrap();
        let program = place.script("program", "test -f /dev/stdin && dd bs=1 count=4 2> /dev/null");
        let program = program.display();
        let run = format!("{RUN_COPIES} --isolate {isolation} {program} --copies 3");
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{{ dd bs=1 count=2; {run}; echo; cat; }} < ../input"));
        shell.current_dir(place.work());
        shell.env("TMPDIR", place.folder.path().join("temporary"));
        let ran = place.ran(shell.output().unwrap());
        assert_eq!((ran.code, &*ran.stdout), (Some(0), "012345\n6789"), "{isolation}");
    }
}

#[test]
fn output_that_goes_to_a_file_in_the_working_directory() {
    for &isolation in apart().iter().chain(&["none"]) {
        let place = Place::new();
        fs::write(place.work().join("all"), "begin\n").unwrap();
        let program = place.script("program", "echo out; echo error >&2");
        let run = format!("{RUN_COPIES} --isolate {isolation} {} --copies 3", program.display());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{run} >> all 2> errors")).current_dir(place.work());
        shell.env("TMPDIR", place.folder.path().join("temporary"));
        let ran = place.ran(shell.output().unwrap());
        let read = |name: &str| fs::read_to_string(place.work().join(name)).unwrap();
        assert_eq!((ran.code, &*read("all")), (Some(0), "begin\nout\n"), "{isolation}");
        assert!(read("errors").ends_with("error\n"), "{isolation}: {}", read("errors"));
    }
}

#[test]
fn input_that_the_program_overwrites() {
    for &isolation in apart() {
        let place = Place::new();
        fs::write(place.work().join("input"), "0123456789").unwrap();
        let program = place.script("program", "echo changed > input; cat");
        let mut command = place.command(&["--isolate", isolation, program.to_str().unwrap()]);
        command.args(["--copies", "3"]);
        command.stdin(fs::File::open(place.work().join("input")).unwrap());
        let ran = place.ran(command.output().unwrap());
        assert_eq!(
            (ran.code, &*ran.stdout),
            (Some(0), "0123456789"),
            "{isolation}: {}",
            ran.stderr
        );
        assert_eq!(fs::read_to_string(place.work().join("input")).unwrap(), "changed\n");
    }
}

#[test]
fn each_copy_has_the_same_number_of_cores() {
    let cores =
        |output: Vec<u8>| -> usize { String::from_utf8(output).unwrap().trim().parse().unwrap() };
    let all = cores(Command::new("nproc").output().unwrap().stdout);
    let place = Place::new();
    let ran = place.copies("auto", 2, "nproc");
    let each = if all < 2 { all } else { all / 2 };
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{each}\n")));
    let ran = place.copies("auto", all + 1, "nproc");
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{all}\n")));
}

#[test]
fn signals_are_for_the_program() {
    for &isolation in apart() {
        let place = Place::new();
        // All say that they have begun, then wait; a shell waits for `wait`.
        let script = "trap 'echo asked; exit 3' TERM; sleep 600 & echo x >> $BEGUN; wait";
        let program = place.script("program", script);
        let begun = place.folder.path().join("begun");
        let mut command = place.command(&["--isolate", isolation, program.to_str().unwrap()]);
        command.args(["--copies", "2"]).env("BEGUN", &begun);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while fs::read_to_string(&begun).unwrap_or_default().lines().count() < expected_at_once(2) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let killed = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
        assert!(killed.unwrap().success());
        let ran = place.ran(child.wait_with_output().unwrap());
        if expected_at_once(2) == 2 {
            assert_eq!(
                (ran.code, &*ran.stdout),
                (Some(3), "asked\n"),
                "{isolation}: {}",
                ran.stderr
            );
        } else {
            assert_eq!(ran.code, Some(128 + 15), "{isolation}: {}", ran.stderr);
        }
    }
}

fn expected_at_once(copies: usize) -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(copies)
}

#[test]
fn copies_that_were_interrupted_are_not_said_to_differ() {
    let place = Place::new();
    let script = "echo half > file; echo $$; echo x >> $BEGUN; exec sleep 600";
    let program = place.script("program", script);
    let begun = place.folder.path().join("begun");
    let mut command = place.command(&[program.to_str().unwrap(), "--copies", "3"]);
    let child = command.env("BEGUN", &begun).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    while fs::read_to_string(&begun).unwrap_or_default().lines().count() < expected_at_once(3) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = Command::new("kill").arg("-INT").arg(child.id().to_string()).status();
    assert!(killed.unwrap().success());
    let ran = place.ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(128 + 2), "{ran:?}");
    assert!(ran.stderr.contains("interrupted by signal 2"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(place.work().join("file")).unwrap(), "half\n");
}

#[test]
fn what_a_program_leaves_running_is_ended() {
    let place = Place::new();
    let alive = place.folder.path().join("alive");
    let script = format!("sleep 600 > /dev/null 2>&1 & echo $! >> {}", alive.display());
    assert_eq!(place.copies("auto", 2, &script).code, Some(0));
    for pid in fs::read_to_string(alive).unwrap().lines() {
        // Nobody may have reaped it yet.
        let is_gone = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let begun = std::time::Instant::now();
        while !is_gone() {
            assert!(begun.elapsed().as_secs() < 60, "{pid} still runs");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn programs_that_cannot_be_started() {
    let place = Place::new();
    let ran = place.copies("auto", 2, "");
    assert_eq!(ran.code, Some(0));
    let program = place.folder.path().join("programs/program");
    fs::write(&program, "#!/nonexistent/interpreter\n").unwrap();
    let ran = place.run(&[program.to_str().unwrap(), "--copies", "2"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("cannot be started: "), "{}", ran.stderr);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
    let ran = place.run(&[program.to_str().unwrap(), "--copies", "2"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("is not executable"), "{}", ran.stderr);
}

#[test]
fn a_place_that_cannot_be_isolated_is_refused() {
    let place = Place::new();
    for &isolation in apart() {
        let mut command = place.command(&["--isolate", isolation, "/bin/true", "--copies", "2"]);
        let ran = place.ran(command.current_dir("/").output().unwrap());
        assert_eq!(ran.code, Some(5), "{isolation}");
        assert!(ran.stderr.contains("--isolate none"), "{}", ran.stderr);
    }
}

/// Ordinary users can be kept apart as well, if the kernel allows it, and in
/// any case by copying.
#[test]
fn ordinary_users() {
    if !nix::unistd::geteuid().is_root() {
        // All tests are about ordinary users.
        return;
    }
    let place = Place::new();
    let own = place.folder.path().join("run-copies");
    fs::copy(RUN_COPIES, &own).unwrap();
    for name in ["work", "temporary"] {
        let path = place.folder.path().join(name);
        if let Err(error) = std::os::unix::fs::chown(path, Some(65534), Some(65534)) {
            eprintln!("NOT RUN as another user, there is none in this user namespace: {error}");
            return;
        }
    }
    let expected = {
        let plain = Place::new();
        fill(&plain.work());
        let program = plain.script("program", EDITS);
        assert!(Command::new(program).current_dir(plain.work()).status().unwrap().success());
        plain.listing()
    };
    let program = place.script("program", EDITS);
    for isolation in ["auto", "copy"] {
        fill(&place.work());
        let mut chown = Command::new("chown");
        chown.args(["-hR", "65534:65534", "."]).current_dir(place.work());
        assert!(chown.status().unwrap().success());
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&own);
        command.args(["--isolate", isolation]).arg(&program).args(["--copies", "3"]);
        command.current_dir(place.work()).stdin(Stdio::null());
        command.env("TMPDIR", place.folder.path().join("temporary"));
        let ran = place.ran(command.output().unwrap());
        assert_eq!((ran.code, &*ran.stdout), (Some(0), "done\n"), "{isolation}: {}", ran.stderr);
        assert_eq!(place.listing(), expected, "{isolation}");
        fs::remove_dir_all(place.work()).unwrap();
        fs::create_dir(place.work()).unwrap();
        std::os::unix::fs::chown(place.work(), Some(65534), Some(65534)).unwrap();
    }
}
