//! Traces of executables, put together from the stops of several runs, against
//! single steps.
//!
//! How much is compared can be set, and `cargo xtask fuzz breakpoints` does:
//!
//! - `BACKTRAIL_ALL_PLANS`: plans of one to six runs, all strategies, several limits;
//! - `BACKTRAIL_COMPILED`: a compiler and its options, such as `gcc -O2`, instead of
//!   all;
//! - `BACKTRAIL_STEPPED`: an installed command instead of some, and
//!   `BACKTRAIL_STRATEGIES` how many strategies it is traced with (0: in one and
//!   three runs only), and
//!   `BACKTRAIL_LIBRARIES` how the names of libraries begin that are traced with it;
//! - `BACKTRAIL_ROWS`: the file that gets what was found.

mod compared;

use std::path::{Path, PathBuf};
use std::process::Command;

use backtrail_trace::planning::Strategy;
use compared::{Program, Row, Spread};

fn compile(folder: &Path, compiler: &str, source: &str, options: &[&str]) -> PathBuf {
    compile_with(folder, compiler, source, options, &[])
}

/// With what is linked to it.
fn compile_with(
    folder: &Path,
    compiler: &str,
    source: &str,
    options: &[&str],
    linked: &[&str],
) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machine/tests/code").join(source);
    let program = folder.join(format!("{compiler}{}", options.concat()));
    let mut command = Command::new(compiler);
    let command = command.args(options).arg(source).args(linked).arg("-o").arg(&program);
    let done = command.status();
    assert!(done.expect("the compiler is installed").success(), "{compiler} {options:?}");
    program
}

const ONE: Spread = (1, Strategy::Fine, None);

fn wants_all() -> bool {
    std::env::var_os("BACKTRAIL_ALL_PLANS").is_some()
}

/// A few, or all of one to six runs, the strategies and limits.
fn plans() -> Vec<Spread> {
    if !wants_all() {
        return vec![
            ONE,
            (2, Strategy::Function, None),
            (3, Strategy::Fine, None),
            (4, Strategy::Grouped, None),
            (2, Strategy::Fine, Some(6)),
        ];
    }
    spreads(&Strategy::ALL, &[None, Some(6), Some(15), Some(40)])
}

fn spreads(strategies: &[Strategy], limits: &[Option<usize>]) -> Vec<Spread> {
    let mut all = Vec::new();
    for runs in 1..=6 {
        for &strategy in strategies {
            all.extend(limits.iter().map(|&limit| (runs, strategy, limit)));
        }
    }
    all
}

/// The one compiler and option that is asked for, or these.
fn compiled(all: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(one, other): (&str, &str)| (one.to_owned(), other.to_owned());
    match std::env::var("BACKTRAIL_COMPILED") {
        Ok(asked) => vec![owned(asked.split_once(' ').expect("a compiler and an option"))],
        Err(_) => all.iter().copied().map(owned).collect(),
    }
}

/// Leaves what was found to whoever asked for it. Nothing may be wrong.
fn report(rows: &[Row]) {
    let wrong: Vec<&String> = rows.iter().flat_map(|it| &it.wrong).collect();
    if let Some(path) = std::env::var_os("BACKTRAIL_ROWS") {
        let text = serde_json::json!({ "rows": rows, "wrong": wrong }).to_string();
        std::fs::write(path, text).unwrap();
    }
    rows.iter().for_each(|row| println!("{row:?}"));
    assert!(!rows.is_empty());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn traces_of_what_gcc_and_clang_make_are_those_of_single_steps() {
    let folder = tempfile::tempdir().unwrap();
    let levels = ["-O0", "-O1", "-O2", "-O3"];
    let all: Vec<(&str, &str)> =
        ["gcc", "clang-19"].iter().flat_map(|it| levels.map(|level| (*it, level))).collect();
    let rows = compiled(&all).into_iter().map(|(compiler, level)| {
        let kind = if level == "-O1" { "-no-pie" } else { "-pie" };
        let program = compile(folder.path(), &compiler, "shapes.c", &[&level, kind]);
        Program::new(&program, &["9"]).compare(&format!("{compiler} {level}"), &plans())
    });
    let rows: Vec<Row> = rows.collect();
    report(&rows);
    assert!(rows.iter().all(|row| row.blocks > 300), "{rows:?}");
}

/// Nothing is compared before jumps, and one table is found through another.
#[test]
fn traces_through_tables_without_bounds_are_those_of_single_steps() {
    let folder = tempfile::tempdir().unwrap();
    let rows = compiled(&[("gcc", "-O0"), ("clang-19", "-O2")]).into_iter().map(|(it, level)| {
        let program = compile(folder.path(), &it, "tables.c", &[&level]);
        Program::new(&program, &[]).compare(&format!("{it} {level}, tables"), &plans())
    });
    report(&rows.collect::<Vec<_>>());
}

/// Computed jumps beside labels, bound to their place: pointers to both look alike.
#[test]
fn traces_of_jumps_that_stay_or_leave_are_those_of_single_steps() {
    let folder = tempfile::tempdir().unwrap();
    let rows = compiled(&[("gcc", "-O2"), ("clang-19", "-O1")]).into_iter().map(|(it, level)| {
        let program = compile(folder.path(), &it, "leaving.c", &[&level, "-no-pie", "-fno-pie"]);
        Program::new(&program, &[]).compare(&format!("{it} {level}, leaving"), &plans())
    });
    report(&rows.collect::<Vec<_>>());
}

/// The number of jumps is not what is compared, and what follows them is no code.
#[test]
fn a_table_of_jumps_is_as_long_as_the_bytes_say_that_are_its_indices() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "gcc", "bytes.c", &["-O2"]);
    let row = Program::new(&program, &["1-x"]).compare("bytes", &plans());
    report(std::slice::from_ref(&row));
    // What leads to functions for the processor, and to the end of threads.
    assert!(row.unknown_jumps <= 2, "{row:?}");
}

/// Their C library is traced with them.
#[test]
fn traces_of_what_is_linked_statically_are_those_of_single_steps() {
    let folder = tempfile::tempdir().unwrap();
    let plans = [ONE, (2, Strategy::Function, None), (4, Strategy::Fine, None)];
    let plans = if wants_all() { &plans[..] } else { &plans[..1] };
    let rows = compiled(&[("clang-19", "-static-pie")]).into_iter().map(|(compiler, kind)| {
        let program = compile(folder.path(), &compiler, "shapes.c", &["-O2", &kind]);
        Program::new(&program, &["9"]).compare(&format!("{compiler} {kind}"), plans)
    });
    let rows: Vec<Row> = rows.collect();
    report(&rows);
    assert!(rows.iter().all(|row| row.blocks > 1000), "{rows:?}");
}

/// Calls both ways, and through libraries that are not traced.
#[test]
fn traces_of_a_program_and_its_library_are_those_of_single_steps() {
    let folder = tempfile::tempdir().unwrap();
    let all = [("gcc", "-O0"), ("gcc", "-O2"), ("clang-19", "-O1")];
    let few = [ONE, (3, Strategy::Fine, None), (2, Strategy::Function, Some(8))];
    let plans = if wants_all() { plans() } else { few.to_vec() };
    let rows = compiled(&all).into_iter().map(|(compiler, level)| {
        let place = folder.path().join(format!("{compiler}{level}"));
        std::fs::create_dir(&place).unwrap();
        let library = place.join("libshared.so");
        let made = compile(&place, &compiler, "shared.c", &[&level, "-fPIC", "-shared"]);
        std::fs::rename(made, &library).unwrap();
        let library = library.to_str().unwrap();
        let program = compile_with(&place, &compiler, "host.c", &[&level], &[library]);
        let name = format!("{compiler} {level} with a library");
        Program::with_libraries(&program, &["3"], &["libshared"]).compare(&name, &plans)
    });
    let rows: Vec<Row> = rows.collect();
    report(&rows);
    assert!(rows.iter().all(|row| row.in_libraries > 100), "{rows:?}");
}

#[test]
fn exceptions_land_in_the_right_frame() {
    let folder = tempfile::tempdir().unwrap();
    let few = [ONE, (3, Strategy::Fine, None)];
    let plans = if wants_all() { plans() } else { few.to_vec() };
    let all = [("g++", "-O0"), ("g++", "-O2"), ("clang++-19", "-O1")];
    let rows = compiled(&all).into_iter().map(|(compiler, level)| {
        let program = compile(folder.path(), &compiler, "throws.cc", &[&level, "-s"]);
        Program::new(&program, &[]).compare(&format!("{compiler} {level}"), &plans)
    });
    report(&rows.collect::<Vec<_>>());
}

/// What throws and unwinds is traced with them: a landing is reached by a jump in code
/// that is seen. Stripped at -O2, so that no name tells what does not return.
#[test]
fn exceptions_in_what_is_linked_statically_land_in_the_right_frame() {
    let folder = tempfile::tempdir().unwrap();
    let rows = compiled(&[("clang++-19", "-static-pie -O2")]).into_iter();
    let rows = rows.map(|(compiler, options)| {
        let mut words: Vec<&str> = options.split(' ').collect();
        words.extend(words.contains(&"-O2").then_some("-s"));
        // Streams are many blocks before anything is thrown.
        let (source, plans) = match wants_all() {
            true => ("streams.cc", vec![ONE, (2, Strategy::Fine, None)]),
            false => ("throws.cc", vec![ONE]),
        };
        let program = compile(folder.path(), &compiler, source, &words);
        Program::new(&program, &[]).compare(&format!("{compiler} {options}"), &plans)
    });
    let rows: Vec<Row> = rows.collect();
    report(&rows);
    assert!(rows.iter().all(|row| row.blocks > 10_000), "{rows:?}");
}

const RUST: &str = "\
fn main() {
    let lengths: Vec<usize> = std::env::args().map(|word| word.len()).collect();
    let mut sum = 0;
    for length in &lengths {
        sum += if length % 2 == 0 { *length } else { 1 };
    }
    println!(\"{sum} {}\", lengths.len());
}
";

/// They call what panics by way of words that are sealed once they are written.
#[test]
fn traces_of_what_rustc_makes_are_those_of_single_steps() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("program.rs");
    std::fs::write(&source, RUST).unwrap();
    // With a limit, a program of this size takes thousands of runs.
    let plans = match wants_all() {
        true => spreads(&Strategy::ALL, &[None]),
        false => vec![ONE, (3, Strategy::Fine, None)],
    };
    let all = compiled(&[("rustc", "-Copt-level=0"), ("rustc", "-Copt-level=3")]);
    let rows = all.into_iter().map(|(compiler, level)| {
        let path = folder.path().join(&level[2..]);
        let mut rustc = Command::new(&compiler);
        let built = rustc.arg(&level).arg(&source).arg("-o").arg(&path).status().unwrap();
        assert!(built.success());
        let program = Program::new(&path, &["a", "bb", "ccc"]);
        program.compare(&format!("{compiler} {level}"), &plans)
    });
    report(&rows.collect::<Vec<_>>());
}

/// What Debian installs, stripped as it is.
#[test]
fn traces_of_installed_programs_are_those_of_single_steps() {
    let commands = "true;ls /usr;sort -S1M /etc/group;sed -n s/a/b/p /etc/group;\
                    grep -n ro*t /etc/group;gzip --version;mawk {print($1)} /etc/group;\
                    find /etc/apt;xz --version;expr 3 + 4;date +%Y;diff /etc/group /etc/group";
    let commands = std::env::var("BACKTRAIL_STEPPED").unwrap_or_else(|_| commands.to_owned());
    let plans = match std::env::var("BACKTRAIL_STRATEGIES").ok().as_deref() {
        Some("0") => vec![ONE, (3, Strategy::Fine, None)],
        Some("1") => spreads(&[Strategy::Fine], &[None]),
        Some(_) => {
            let limited = [(2, Strategy::Fine, Some(100)), (4, Strategy::Function, Some(100))];
            [&spreads(&Strategy::ALL, &[None])[..], &limited].concat()
        }
        None => vec![ONE],
    };
    let libraries = std::env::var("BACKTRAIL_LIBRARIES").ok();
    let rows = commands.split(';').map(|command| {
        let mut words = command.split_whitespace();
        let name = words.next().unwrap();
        let arguments: Vec<&str> = words.collect();
        let path = Path::new("/usr/bin").join(name);
        match libraries.as_deref() {
            Some(library) => Program::with_libraries(&path, &arguments, &[library])
                .compare(&format!("{name} with {library}"), &plans),
            None => Program::new(&path, &arguments).compare(name, &plans),
        }
    });
    report(&rows.collect::<Vec<_>>());
}
