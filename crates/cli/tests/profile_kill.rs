//! `kill -9` at random times: what was counted up to then is there, and is what
//! the program had done.
//!
//! The program ticks in one place and does the same in every run. A run that
//! was killed after `k` ticks must have counted at least what a run counts that
//! leaves at tick `k`, and at most what one counts that leaves at the next. The
//! same holds against the blocks that such runs log.
//!
//! `BACKTRAIL_KILLS=200` kills more often than the suite does.

mod profile_program;

use std::time::{Duration, Instant};

use profile_program::{BACKTRAIL, LEVELS, Profile, Program, Scheme, fixture};

/// Ticks up to which logs are walked: beyond, they are long.
const LOGGED: u64 = 200_000;

/// A tick that does not come: the program goes on to its end.
const NEVER: &str = "0";

/// What was recorded, if there is a record at all; the records are removed.
fn take(program: &Program, scheme: Scheme) -> Option<Profile> {
    let records = program.records(scheme);
    let words = ["paths", "--json", records.to_str().unwrap()];
    let output = program.command(BACKTRAIL).args(words).output().unwrap();
    if output.status.success() {
        let profile = Profile::read(&String::from_utf8(output.stdout).unwrap());
        std::fs::remove_dir_all(&records).unwrap();
        return Some(profile);
    }
    // Killed before it recorded anything.
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{message}");
    let _ = std::fs::remove_dir_all(&records);
    None
}

/// What is counted by a run that leaves at a tick.
fn stopped(program: &Program, scheme: Scheme, tick: u64) -> Profile {
    let ran = program.run(scheme, &[&tick.to_string()]);
    assert_eq!(ran.status, 0);
    take(program, scheme).unwrap()
}

/// Fails unless all counts of `less` are at most those of `more`, but for the
/// path on which a run leaves by itself.
#[track_caller]
fn assert_within(less: &Profile, more: &Profile, what: &str) {
    for (id, function) in &less.functions {
        let other = &more.functions[id];
        assert!(function.entries <= other.entries, "{what}: entries of {id}");
        for (number, path) in function.paths.iter().filter(|(_, path)| path.ends != "call") {
            let limit = other.paths.get(number).map_or(0, |path| path.count);
            assert!(path.count <= limit, "{what}: path {number} of {id}, {} > {limit}", path.count);
        }
    }
}

/// Kills the program somewhere between its start and its end.
fn kill(program: &Program, scheme: Scheme, after: Duration) -> Option<Profile> {
    let mut child = program.run_of(scheme, &[NEVER]).spawn().unwrap();
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    take(program, scheme)
}

/// Kills until it was running `count` times; how often that took.
fn kill_often(level: &str, count: u64) -> u64 {
    let program = Program::c(&fixture("clockwork.c"), &[level]);
    let start = Instant::now();
    assert_eq!(program.run(Scheme::Profile, &[NEVER]).status, 0);
    let duration = start.elapsed();
    let complete = take(&program, Scheme::Profile).unwrap();
    let all = complete.function("tick").entries;
    assert!(all > 100_000, "{all}");
    let mut rng = fastrand::Rng::with_seed(count);
    let (mut kills, mut hits) = (0, 0);
    while hits < count {
        kills += 1;
        assert!(kills < 10 * count + 20, "only {hits} of {kills} kills came while it ran");
        let after = duration.mul_f64(rng.f64());
        let Some(killed) = kill(&program, Scheme::Profile, after) else { continue };
        assert_eq!(killed.incomplete, None, "nothing is lost");
        assert_within(&killed, &complete, level);
        let ticks = killed.function("tick").entries;
        for function in killed.functions.values() {
            // The wheels are in one another.
            assert!(function.unfinished <= 6 && function.inherited == 0, "{function:?}");
        }
        if ticks == 0 || ticks == all {
            continue;
        }
        hits += 1;
        let schemes: &[Scheme] =
            if ticks < LOGGED { &[Scheme::Profile, Scheme::Log] } else { &[Scheme::Profile] };
        for &scheme in schemes {
            let what = format!("{level}, {scheme:?}, killed after {ticks} ticks");
            assert_within(&stopped(&program, scheme, ticks), &killed, &what);
            assert_within(&killed, &stopped(&program, scheme, ticks + 1), &what);
        }
    }
    kills
}

#[test]
fn what_was_counted_is_what_was_done_up_to_the_kill() {
    let wanted = std::env::var("BACKTRAIL_KILLS").map_or(20, |count| count.parse().unwrap());
    let kills: u64 = LEVELS.iter().map(|level| kill_often(level, wanted / 2)).sum();
    println!("{kills} kills, {wanted} of them between the first tick and the last");
}

#[test]
fn what_was_logged_is_what_was_done_up_to_the_kill() {
    let program = Program::c(&fixture("clockwork.c"), &["-O0"]);
    let mut hits = 0;
    for milliseconds in [4, 8, 12, 16, 20] {
        let killed = kill(&program, Scheme::Log, Duration::from_millis(milliseconds));
        let Some(killed) = killed else { continue };
        let ticks = killed.function("tick").entries;
        if ticks == 0 {
            continue;
        }
        hits += 1;
        let what = format!("killed after {ticks} ticks");
        assert_within(&stopped(&program, Scheme::Log, ticks), &killed, &what);
        assert_within(&killed, &stopped(&program, Scheme::Log, ticks + 1), &what);
        assert_within(&stopped(&program, Scheme::Profile, ticks), &killed, &what);
    }
    assert!(hits > 0);
}
