//! Signals while a program runs are the program's, and get to it once, however they are
//! sent; what ran is kept. At any other time they end us, and nothing is left behind:
//! no temporary folder, no unfinished file, no process.
//!
//! Everything that a test starts is in a session of its own, so that signals to the
//! group meet nobody else, and whoever is left can be found.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use place::{BACKTRAIL, Place, To, members, names, nobody_left, number, send};

mod late;
mod place;

/// By probes and by breakpoints, one run.
const ONE_RUN: [&[&str]; 5] = [
    &["profile"],
    &["trace"],
    &["trace", "--strategy", "log"],
    &["trace", "--witness", "breakpoint"],
    &["trace", "--witness", "breakpoint", "--in-process"],
];

const TWO_RUNS: [&[&str]; 3] = [
    &["profile", "--copies", "2"],
    &["trace", "--runs", "2"],
    &["trace", "--witness", "breakpoint", "--runs", "2"],
];

#[test]
fn a_program_that_handles_a_signal_gets_it_once_and_what_ran_is_kept() {
    let place = Place::with_waits();
    for words in ONE_RUN {
        for (signal, to) in [
            ("TERM", To::Backtrail),
            ("TERM", To::Group),
            ("INT", To::Group),
            ("INT", To::Backtrail),
            ("HUP", To::Backtrail),
            ("QUIT", To::Group),
        ] {
            let what = format!("{words:?} {signal} to {to:?}");
            let child = place.start_waits(words, "handle", 1);
            send(signal, to, &child);
            let output = place.finish(child, &what);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(String::from_utf8_lossy(&output.stdout), "1 came\n", "{what}: {stderr}");
            // A handler that interrupts the program's own code is not seen from inside.
            if words.contains(&"--in-process") && stderr.contains("the runs diverged") {
                assert_eq!(output.status.code(), Some(4), "{what}: {stderr}");
                continue;
            }
            assert_eq!(output.status.code(), Some(5), "{what}: {stderr}");
            let document = place.document(words);
            let is_none = document["ended_by"].as_array().is_some_and(Vec::is_empty)
                || document["ended_by"].is_null();
            assert!(is_none && document["incomplete"].is_null(), "{what}: {document}");
            assert!(!place.shown(words).contains("ended by"), "{what}");
            assert!(place.take_output());
        }
    }
}

#[test]
fn what_a_signal_ended_says_so_and_so_do_we() {
    let place = Place::with_waits();
    for words in ONE_RUN {
        for (signal, to) in [
            ("TERM", To::Backtrail),
            ("INT", To::Group),
            ("HUP", To::Group),
            ("QUIT", To::Backtrail),
        ] {
            let what = format!("{words:?} {signal} to {to:?}");
            let child = place.start_waits(words, "die", 1);
            send(signal, to, &child);
            let output = place.finish(child, &what);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.signal(), Some(number(signal)), "{what}: {stderr}");
            let (document, name) = (place.document(words), format!("SIG{signal}"));
            let found = match words[0] {
                "profile" => &document["ended_by"][0]["signal"],
                _ => &document["ended_by"],
            };
            assert_eq!(found, &name, "{what}: {document}");
            assert!(document["incomplete"].is_null(), "{what}: {document}");
            let shown = place.shown(words);
            let line = shown.lines().find(|line| line.trim_start().starts_with("ended by"));
            assert!(line.is_some_and(|line| line.ends_with(&name)), "{what}: {shown}");
            assert!(place.take_output());
        }
    }
}

#[test]
fn profiles_add_up_the_signals_that_ended_runs() {
    let place = Place::with_waits();
    for signal in ["TERM", "INT", "TERM"] {
        let child = place.start_waits(&["profile"], "die", 1);
        send(signal, To::Backtrail, &child);
        place.finish(child, signal);
        let work = place.path("work");
        fs::rename(work.join("out"), work.join(format!("{}", names(&work).len()))).unwrap();
    }
    let files: Vec<String> =
        names(&place.path("work")).into_iter().filter(|name| name != "waits").collect();
    let words = [&["paths", "-o", "out"][..], &files.iter().map(|it| &**it).collect::<Vec<_>>()];
    assert!(place.command(BACKTRAIL).args(words.concat()).status().unwrap().success());
    let text = "[{\"runs\":1,\"signal\":\"SIGINT\"},{\"runs\":2,\"signal\":\"SIGTERM\"}]";
    assert_eq!(place.document(&["profile"])["ended_by"].to_string(), text);
    assert!(place.shown(&["profile"]).contains("ended by    SIGINT, SIGTERM (2 runs)"));
}

#[test]
fn a_program_that_ignores_signals_goes_on() {
    let place = Place::with_waits();
    for (words, runs) in ONE_RUN.iter().map(|it| (it, 1)).chain(TWO_RUNS.iter().map(|it| (it, 2))) {
        for to in [To::Group, To::Backtrail] {
            let what = format!("{words:?} to {to:?}");
            let child = place.start_waits(words, "ignore", runs);
            send("TERM", to, &child);
            send("HUP", to, &child);
            let output = place.finish(child, &what);
            let stderr = String::from_utf8_lossy(&output.stderr);
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            // With one core the second run has not begun, and does not.
            if runs <= cores {
                assert_eq!(output.status.code(), Some(6), "{what}: {stderr}");
                assert!(place.take_output(), "{what}: {stderr}");
            }
        }
    }
}

#[test]
fn runs_that_got_a_signal_are_not_put_together() {
    let place = Place::with_waits();
    for words in TWO_RUNS {
        for (mode, signal, to) in [
            ("handle", "TERM", To::Backtrail),
            ("handle", "INT", To::Group),
            ("die", "INT", To::Backtrail),
            ("die", "TERM", To::Group),
        ] {
            let what = format!("{words:?} {mode} {signal} to {to:?}");
            let child = place.start_waits(words, mode, 2);
            send(signal, to, &child);
            let output = place.finish(child, &what);
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.signal(), Some(number(signal)), "{what}: {stderr}");
            let said = format!("backtrail: interrupted by signal {}", number(signal));
            assert!(stderr.starts_with(&said) && stderr.lines().count() == 1, "{what}: {stderr}");
            assert!(!place.take_output(), "{what}");
        }
    }
}

#[test]
fn what_is_ignored_stays_ignored() {
    let place = Place::with_waits();
    for words in [ONE_RUN[0], ONE_RUN[3]] {
        place.begin();
        let mut command = place.command("setsid");
        command.args(["env", "--ignore-signal=HUP", BACKTRAIL]).args(words);
        command.args(["-o", "out", "./waits", "--", "short"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        place.until_begun(&mut child, 1);
        send("HUP", To::Group, &child);
        send("HUP", To::Backtrail, &child);
        let output = place.finish(child, "nohup");
        assert_eq!(output.status.code(), Some(6), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(place.take_output());
    }
}

/// The terminal's `^C` reaches the program, which is in front, once.
#[test]
fn the_keyboard_is_the_programs() {
    use std::io::Write as _;
    let place = Place::with_waits();
    for words in [ONE_RUN[0], ONE_RUN[3]] {
        place.begin();
        // In the shell's place: one that waits (dash) gets the signal, too, and ends by it.
        let line = format!("exec {BACKTRAIL} {} -o out ./waits -- handle", words.join(" "));
        let mut command = place.command("env");
        // Whoever runs this may ignore it, as shells do for what runs in the background.
        command.args(["--default-signal=INT", "script", "-q", "-e", "-c", &line, "/dev/null"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        place.until_begun(&mut child, 1);
        let mut keyboard = child.stdin.take().unwrap();
        keyboard.write_all(b"\x03").unwrap();
        let output = child.wait_with_output().unwrap();
        drop(keyboard);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(5), "{words:?}: {:?}: {said}", output.status);
        assert!(said.contains("1 came"), "{words:?}: {said}");
        assert_eq!(names(&place.path("temporary")), [""; 0]);
        assert!(place.take_output());
    }
}

/// A signal to the group that comes when it is settled that signals are the program's, and
/// before the program is there: a library sees to it that every `fork` takes its time.
#[test]
fn what_the_group_gets_before_the_program_is_there_it_gets() {
    let place = Place::with_waits();
    let slow = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <unistd.h>\n\
                pid_t fork(void) { usleep(400000); \
                return ((pid_t (*)(void))dlsym(RTLD_NEXT, \"fork\"))(); }\n";
    fs::write(place.path("slow.c"), slow).unwrap();
    let library = place.path("slow.so");
    let mut compiler = place.command("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(place.path("slow.c"));
    assert!(compiler.status().unwrap().success());
    for words in [ONE_RUN[0], ONE_RUN[3], ONE_RUN[4]] {
        let what = format!("{words:?}");
        // What is derived is kept, so that little is forked later.
        let child = place.start_waits(words, "die", 1);
        send("TERM", To::Group, &child);
        place.finish(child, &what);
        place.take_output();
        let mut command = place.command("setsid");
        command.args(["env", "--default-signal=TERM", BACKTRAIL]).args(words);
        command.args(["-o", "out", "./waits", "--", "die"]).env("LD_PRELOAD", &library);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        while !members(child.id()).iter().any(|name| name.ends_with("(bystander")) {
            assert!(child.try_wait().unwrap().is_none(), "{what}: it ended");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(100));
        send("TERM", To::Group, &child);
        let output = place.finish(child, &what);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let status = output.status;
        let is_ended = status.signal() == Some(15) || status.code() == Some(128 + 15);
        assert!(is_ended, "{what}: {status:?}: {stderr}");
        place.take_output();
    }
}

#[test]
fn killed_we_take_the_program_along_and_the_next_run_tidies_up() {
    let place = Place::with_waits();
    for words in ONE_RUN.iter().chain(&TWO_RUNS) {
        let what = format!("{words:?}");
        let child = place.start_waits(words, "die", 1);
        send("KILL", To::Backtrail, &child);
        let session = child.id();
        assert_eq!(child.wait_with_output().unwrap().status.signal(), Some(9), "{what}");
        nobody_left(session, &what);
        assert_ne!(names(&place.path("temporary")), [""; 0], "{what}");
        // Of a run that lives nothing is removed.
        let living = place.start_waits(&["profile"], "handle", 1);
        let folders = names(&place.path("temporary"));
        assert_eq!(folders.len(), 1, "{what}: {folders:?}");
        assert!(folders[0].starts_with("backtrail-scratch-profile-"), "{folders:?}");
        let mut other = place.command(BACKTRAIL);
        other.args(["instrument", "-q", "--scheme", "log", "-o", "log", "waits"]);
        assert!(other.status().unwrap().success());
        assert_eq!(names(&place.path("temporary")), folders, "{what}");
        send("TERM", To::Backtrail, &living);
        assert_eq!(place.finish(living, &what).status.code(), Some(5), "{what}");
        fs::remove_file(place.path("work").join("log")).unwrap();
        assert!(place.take_output());
    }
}

/// A program of many units, so that it takes a while to derive anything from it.
fn many_units(place: &Place) {
    let mut sources = Vec::new();
    for unit in 0..8 {
        let mut text = String::new();
        for number in 0..30 {
            text += &format!(
                "int f{unit}_{number}(int x, int *p) {{ int s = 0; for (int i = 0; i < x; i++) \
                 {{ switch (p[i] & 7) {{ case 0: s += i; break; case 1: s -= x; break; case 2: \
                 s ^= p[x - i]; break; case 3: s *= 3; break; default: s++; }} if (s > {number}) \
                 p[i] = s; }} return s; }}\n"
            );
        }
        if unit == 0 {
            text += "int main(void) { int p[9] = {0}; return f0_0(8, p) > 100; }\n";
        }
        let name = format!("{unit}.c");
        fs::write(place.path(&name), text).unwrap();
        sources.push(format!("../{name}"));
    }
    let mut cc = place.command(BACKTRAIL);
    let status = cc.args(["cc", "-O2", "-g", "-o", "many"]).args(&sources).status();
    assert!(status.unwrap().success());
}

#[test]
fn nothing_is_left_of_what_was_being_derived() {
    let place = Place::new();
    many_units(&place);
    let lines: [&[&str]; 5] = [
        &["instrument", "-q", "--scheme", "profile", "-o", "out", "many"],
        &["instrument", "-q", "--scheme", "cc", "--tunable", "*", "-o", "out", "many"],
        &["profile", "-o", "out", "./many"],
        &["profile", "--copies", "2", "-o", "out", "./many"],
        &["trace", "-o", "out", "./many"],
    ];
    let mut rng = fastrand::Rng::with_seed(12);
    let mut hits = 0;
    for (round, (words, signal)) in lines
        .iter()
        .flat_map(|words| ["INT", "TERM", "HUP", "KILL"].map(|it| (words, it)))
        .enumerate()
    {
        let to = if round % 2 == 0 { To::Backtrail } else { To::Group };
        let what = format!("{words:?} {signal} to {to:?}");
        // Everything is to be done again.
        fs::remove_dir_all(place.path("cache")).unwrap();
        let mut child = place.start(words);
        // From when there is something to remove.
        while names(&place.path("temporary")).is_empty() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(rng.u64(0..400)));
        if child.try_wait().unwrap().is_none() {
            send(signal, to, &child);
        }
        let session = child.id();
        let output = child.wait_with_output().unwrap();
        nobody_left(session, &what);
        if let Some(by) = output.status.signal() {
            hits += 1;
            let expected = if signal == "KILL" { 9 } else { number(signal) };
            assert_eq!(by, expected, "{what}");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(stderr, "", "{what}");
            assert_eq!(names(&place.path("work")), ["many"], "{what}");
        }
        if signal == "KILL" {
            // The next run tidies up.
            let mut next = place.command(BACKTRAIL);
            next.args(["instrument", "-q", "--scheme", "empty", "-o", "empty", "many"]);
            assert!(next.status().unwrap().success());
            fs::remove_file(place.path("work").join("empty")).unwrap();
        }
        assert_eq!(names(&place.path("temporary")), [""; 0], "{what}");
        place.take_output();
        fs::create_dir_all(place.path("cache")).unwrap();
    }
    assert!(hits > 5, "only {hits} came in time");
}

#[test]
fn an_executable_that_is_changed_in_place_has_no_copies_beside_it() {
    let place = Place::new();
    many_units(&place);
    let work = place.path("work");
    let mut instrument = place.command(BACKTRAIL);
    let scheme = ["instrument", "-q", "--scheme", "cc", "--tunable", "*"];
    instrument.args(scheme).args(["-o", "tunable", "many"]);
    assert!(instrument.status().unwrap().success());
    let whole = || {
        let listed = place.command(BACKTRAIL).args(["tune", "tunable", "--list"]).output().unwrap();
        listed.status.success()
    };
    // The moments are spread over what it takes when nobody interrupts it.
    let begun = Instant::now();
    let child = place.start(&["tune", "tunable", "--set", "f2_*=cc+pt"]);
    assert!(place.finish(child, "tune").status.success());
    let took = begun.elapsed();
    let mut hits = 0;
    for number in 0..40u32 {
        let mut child = place.start(&["tune", "tunable", "--set", "f1_*=cc+pt"]);
        std::thread::sleep(took * number / 60);
        if child.try_wait().unwrap().is_none() {
            send(["TERM", "INT", "KILL"][number as usize % 3], To::Backtrail, &child);
        }
        hits += usize::from(place.finish(child, "tune").status.signal().is_some());
        assert_eq!(names(&work), ["many", "tunable"], "the {number}th");
        assert!(whole());
    }
    assert!(hits > 10, "only {hits} came in time");
}

/// What it has there, and where reading begins.
const STDIN: &str = r#"#include <stdio.h>
#include <unistd.h>
int main(void) {
    char name[4096], text[16] = "";
    ssize_t length = readlink("/proc/self/fd/0", name, sizeof name - 1);
    name[length < 0 ? 0 : length] = 0;
    long offset = lseek(0, 0, SEEK_CUR);
    ssize_t read_bytes = read(0, text, 4);
    printf("%s %ld %zd %s\n", name, offset, read_bytes, text);
    return 0;
}
"#;

#[test]
fn standard_input_is_the_same_in_several_runs() {
    let place = Place::new();
    fs::write(place.path("stdin.c"), STDIN).unwrap();
    let mut cc = place.command(BACKTRAIL);
    assert!(cc.args(["cc", "-O1", "-g", "-o", "stdin", "../stdin.c"]).status().unwrap().success());
    fs::write(place.path("lines"), "first\nsecond\nthird\n").unwrap();
    let lines = place.path("lines");
    let (lines, folder) = (lines.display(), place.path("cache"));
    let inputs = [
        ("< /dev/null".to_owned(), "/dev/null 0 0 \n".to_owned()),
        ("< /dev/zero".to_owned(), "/dev/zero 0 4 \n".to_owned()),
        (format!("< {lines}"), format!("{lines} 6 4 seco\n")),
        (format!("< {}", folder.display()), format!("{} 0 -1 \n", folder.display())),
    ];
    for (input, expected) in &inputs {
        for words in ONE_RUN.iter().chain(&TWO_RUNS) {
            for isolation in ["auto", "copy"] {
                let run = format!("{} --isolate {isolation}", words.join(" "));
                // A shell reads a line of a file and no more.
                let before = if expected.contains(" 6 ") { "read line;" } else { "" };
                let line = format!("{{ {before} {BACKTRAIL} {run} -o ../out ./stdin; }} {input}");
                let output = place.command("sh").args(["-c", &line]).output().unwrap();
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(0), "{line}: {stderr}");
                assert_eq!(&String::from_utf8_lossy(&output.stdout), expected, "{line}");
            }
        }
    }
    let line = format!(
        "{BACKTRAIL} trace --witness breakpoint --runs 3 -o ../out /usr/bin/readlink -- \
         /proc/self/fd/0 < /dev/null"
    );
    let output = place.command("sh").args(["-c", &line]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/dev/null\n");
}
