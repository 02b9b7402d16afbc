//! Records are read with the variants that made them, wherever those are by now, or not
//! at all; and libraries that did not run as they were derived are named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

const MAIN: &str = "
#include <stdio.h>
__attribute__((noinline)) static int half(int x) { return x > 3 ? x / 2 : x; }
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < 10 * argc; i++) sum += half(i);
    printf(\"%d\\n\", sum);
    return 0;
}";

const OTHER: &str = "
#include <stdio.h>
int main(int argc, char **argv) { for (int i = 0; i < argc; i++) puts(argv[i]); return 0; }";

const LIBRARY: &str = "int twice(int x) { if (x > 3) return x * 2; return x; }";

const USER: &str = "
#include <stdio.h>
int twice(int);
int main(int argc, char **argv) { printf(\"%d\\n\", twice(argc)); return 0; }";

const OPENER: &str = "
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library) return 1;
        int (*twice)(int) = (int (*)(int))dlsym(library, \"twice\");
        sum += twice(i + 2);
        dlclose(library);
    }
    printf(\"%d\\n\", sum);
    return 0;
}";

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: status.code(), out: text(stdout), err: text(stderr) }
    }

    #[track_caller]
    fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self
    }

    /// One line on standard error that has all of these words, and nothing else.
    #[track_caller]
    fn refused(&self, words: &[&str]) {
        assert_eq!((self.code, &*self.out), (Some(3), ""), "{}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "no {word} in: {}", self.err);
        }
    }
}

/// A folder in which programs are built and run, with a cache of its own.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::Builder::new().prefix("backtrail-by-").tempdir().unwrap());
        for (name, text) in
            [("m.c", MAIN), ("n.c", OTHER), ("lib.c", LIBRARY), ("use.c", USER), ("dl.c", OPENER)]
        {
            fs::write(place.path(name), text).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.0.path());
        command.env("BACKTRAIL_CACHE", self.path("cache"));
        command.env("XDG_STATE_HOME", self.path("state"));
        command.env("BACKTRAIL_DIR", self.path("records"));
        command.env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD");
        command
    }

    fn backtrail(&self, words: &str) -> Ran {
        Ran::of(self.command(Path::new(BACKTRAIL)).args(words.split_whitespace()))
    }

    fn run(&self, program: &str, words: &[&str]) -> Ran {
        Ran::of(self.command(&self.path(program)).args(words)).succeeded()
    }

    fn copy(&self, from: &str, to: &str) {
        // As `cp` does.
        fs::write(self.path(to), fs::read(self.path(from)).unwrap()).unwrap();
    }

    fn forget_cache(&self) {
        fs::remove_dir_all(self.path("cache")).unwrap();
    }

    fn with_program(scheme: &str) -> Self {
        let place = Self::new();
        place.backtrail("cc -O1 -g m.c -o m").succeeded();
        place.backtrail(&format!("instrument -q --scheme {scheme} -o m.p m")).succeeded();
        place.run("m.p", &[]);
        place
    }

    fn with_library(scheme: &str) -> Self {
        let place = Self::new();
        fs::create_dir(place.path("libs")).unwrap();
        let soname = "-Wl,-soname,libt.so";
        place
            .backtrail(&format!("cc -O1 -g -shared -fPIC {soname} lib.c -o libs/libt.so"))
            .succeeded();
        place.backtrail("cc -O1 -g use.c -Llibs -lt -Wl,-rpath,$ORIGIN/libs -o use").succeeded();
        place.backtrail(&format!("instrument -q --scheme {scheme} -o use.p use")).succeeded();
        place
    }

    fn paths(&self, words: &str) -> Value {
        let ran = self.backtrail(&format!("paths records --json {words}")).succeeded();
        serde_json::from_str(&ran.out).unwrap()
    }
}

/// Of each function, how often it was entered.
fn entries(profile: &Value) -> Vec<(&str, u64)> {
    let functions = profile["functions"].as_array().unwrap().iter();
    let mut entries: Vec<(&str, u64)> = functions
        .map(|it| (it["name"].as_str().unwrap(), it["entries"].as_u64().unwrap()))
        .collect();
    entries.sort_unstable();
    entries
}

const SCHEMES: [&str; 2] = ["profile", "log"];

#[test]
fn records_are_read_when_the_original_is_put_back() {
    for scheme in SCHEMES {
        let place = Place::with_program(scheme);
        place.copy("m", "m.p");
        let profile = place.paths("");
        assert_eq!(entries(&profile), [("half", 10), ("main", 1)]);
        assert_eq!(profile["incomplete"], Value::Null);
        if scheme == "log" {
            let shown = place.backtrail("show records --function half").succeeded();
            assert!(shown.out.contains("half"), "{}", shown.out);
        }
    }
}

#[test]
fn records_are_not_read_with_another_executable() {
    for scheme in SCHEMES {
        let place = Place::with_program(scheme);
        place.backtrail("cc -O1 -g n.c -o n").succeeded();
        let readers: &[&str] = if scheme == "log" {
            &["paths records", "show records", "show records --json"]
        } else {
            &["paths records", "paths records --json", "export records --to lcov"]
        };
        let refused = |words: &[&str]| {
            place.forget_cache();
            readers.iter().for_each(|reader| place.backtrail(reader).refused(words));
        };
        let made = "was made by variant ";
        place.copy("m", "m.p");
        refused(&[made, " of m.p", "m.p is no variant", "(id ", "--exe"]);
        place.backtrail(&format!("instrument -q --scheme {scheme} -o m.p n")).succeeded();
        refused(&[made, " of m.p", "m.p is variant ", "--exe"]);
        place.backtrail(&format!("instrument -q --scheme {scheme} -o n.p n")).succeeded();
        let wrong = place.backtrail(&format!("{} --exe n.p", readers[0]));
        wrong.refused(&["n.p is variant ", "made none", "of m.p"]);
        fs::remove_file(place.path("m.p")).unwrap();
        refused(&[made, " of m.p", "m.p is gone", "--exe"]);
        // Made again, wherever and by whatever name, it is the same.
        place.backtrail(&format!("instrument -q --scheme {scheme} -o else m")).succeeded();
        place.forget_cache();
        assert_eq!(entries(&place.paths("--exe else")), [("half", 10), ("main", 1)]);
    }
}

#[test]
fn a_variant_that_was_moved_or_renamed_reads_its_records() {
    let place = Place::with_program("profile");
    place.forget_cache();
    fs::rename(place.path("m.p"), place.path("records/m.p")).unwrap();
    assert_eq!(entries(&place.paths("")), [("half", 10), ("main", 1)]);
    fs::create_dir(place.path("away")).unwrap();
    fs::rename(place.path("records/m.p"), place.path("away/q")).unwrap();
    place.backtrail("paths records").refused(&["m.p is gone"]);
    assert_eq!(entries(&place.paths("--exe away/q")), [("half", 10), ("main", 1)]);
    // One variant under two names is one program.
    place.run("away/q", &["x"]);
    assert_eq!(entries(&place.paths("")), [("half", 30), ("main", 2)]);
}

#[test]
fn a_variant_of_other_counters_is_another_one() {
    let place = Place::with_program("profile");
    place.forget_cache();
    place.backtrail("instrument -q --scheme profile --only main -o m.p m").succeeded();
    place.backtrail("paths records").refused(&["was made by variant", "m.p is variant"]);
}

#[test]
fn a_wrong_program_is_not_blamed_on_a_library() {
    let place = Place::with_library("profile");
    place.run("use.p", &[]);
    place.backtrail("cc -O1 -g n.c -o n").succeeded();
    place.backtrail("instrument -q --scheme profile -o use.p n").succeeded();
    assert_eq!(entries(&place.paths("")), [("main", 1), ("twice", 1)]);
    place.forget_cache();
    place.backtrail("paths records").refused(&["of use.p", "use.p is variant", "--exe"]);
}

#[test]
fn libraries_that_did_not_run_as_derived_are_named() {
    for scheme in SCHEMES {
        let place = Place::with_library(scheme);
        place.run("use.p", &["x"]);
        assert_eq!(place.paths("")["incomplete"], Value::Null);
        fs::remove_dir_all(place.path("records")).unwrap();
        fs::create_dir(place.path("else")).unwrap();
        fs::copy(place.path("use.p"), place.path("else/use")).unwrap();
        let mut moved = place.command(&place.path("else/use"));
        Ran::of(moved.env("LD_LIBRARY_PATH", place.path("libs"))).succeeded();
        let profile = place.paths("");
        let why = profile["incomplete"].as_str().unwrap();
        assert!(why.contains("libt.so did not run as it was derived"), "{why}");
        assert_eq!(entries(&profile), [("main", 1)]);
        if scheme == "log" {
            let shown = place.backtrail("show records").succeeded().out;
            assert!(shown.contains("incomplete: libt.so did not run as"), "{shown}");
            let rows = place.backtrail("show records --json").succeeded().out;
            assert!(rows.lines().next().unwrap().contains("libt.so did not run as"), "{rows}");
        }
    }
}

#[test]
fn collections_name_libraries_that_did_not_run_as_derived() {
    let place = Place::with_library("profile");
    for verb in ["profile", "profile --copies 2", "trace", "trace --runs 2", "trace --strategy log"]
    {
        let mut command = place.command(Path::new(BACKTRAIL));
        command.env("LD_PRELOAD", place.path("libs/libt.so"));
        let words = format!("{verb} -o out ./use -- x");
        let ran = Ran::of(command.args(words.split_whitespace())).succeeded();
        assert_eq!(ran.out, "2\n");
        let why = "incomplete: libt.so did not run as it was derived";
        assert!(ran.err.contains(why), "{verb}: {}", ran.err);
    }
}

#[test]
fn libraries_that_are_opened_are_found() {
    for scheme in SCHEMES {
        let place = Place::new();
        place.backtrail("cc -O1 -g dl.c -o dl").succeeded();
        place.backtrail("cc -O1 -g -shared -fPIC lib.c -o libt.so").succeeded();
        place.backtrail(&format!("instrument -q --scheme {scheme} -o dl.p dl")).succeeded();
        place.backtrail(&format!("instrument -q --scheme {scheme} -o libd.so libt.so")).succeeded();
        let library = place.path("libd.so").display().to_string();
        assert_eq!(place.run("dl.p", &[&library]).out, "13\n");
        let is_whole = |words: &str| {
            let profile = place.paths(words);
            assert_eq!(entries(&profile), [("main", 1), ("twice", 3)]);
            assert_eq!(profile["incomplete"], Value::Null);
        };
        let blocks = |words: &str| {
            let shown = place.backtrail(&format!("show records --json {words}")).succeeded().out;
            let count = shown.lines().filter(|line| line.contains("\"twice\"")).count();
            (count, shown.lines().next().unwrap().to_owned())
        };
        is_whole("");
        fs::rename(place.path("libd.so"), place.path("away.so")).unwrap();
        is_whole("");
        place.forget_cache();
        is_whole("--exe away.so");
        fs::rename(place.path("dl.p"), place.path("gone.p")).unwrap();
        is_whole("--exe away.so --exe gone.p");
        let profile = place.paths("--exe gone.p");
        assert_eq!(entries(&profile), [("main", 1)]);
        let why = profile["incomplete"].as_str().unwrap();
        assert!(why.contains("libd.so (variant ") && why.contains("is not found"), "{why}");
        if scheme == "log" {
            let (count, header) = blocks("--exe gone.p --exe away.so");
            assert!(count == 3 && header.contains("\"incomplete\":null"), "{header}");
            let (count, header) = blocks("--exe gone.p");
            assert!(count == 0 && header.contains("libd.so (variant "), "{header}");
        }
    }
}

#[test]
fn collections_have_what_the_program_opens() {
    let place = Place::new();
    place.backtrail("cc -O1 -g dl.c -o dl").succeeded();
    place.backtrail("cc -O1 -g -shared -fPIC lib.c -o libt.so").succeeded();
    place.backtrail("instrument -q --scheme profile -o counts.so libt.so").succeeded();
    place.backtrail("instrument -q --scheme log -o logs.so libt.so").succeeded();
    let counts = place.path("counts.so").display().to_string();
    let logs = place.path("logs.so").display().to_string();
    // What else was opened is not known.
    let opened = "backtrail: not recorded: libraries without IR, if any, that were opened by the \
                  call of dlopen in main (dl.c:";
    let ran = place.backtrail(&format!("profile -o p ./dl -- {counts}")).succeeded();
    assert!(ran.err.starts_with(opened) && ran.err.lines().count() == 1, "{}", ran.err);
    let shown = place.backtrail("paths p --json").succeeded().out;
    assert_eq!(entries(&serde_json::from_str(&shown).unwrap()), [("main", 1), ("twice", 3)]);
    let ran = place.backtrail(&format!("profile --copies 2 -o p ./dl -- {counts}")).succeeded();
    assert!(ran.err.contains("counts.so counts by itself"), "{}", ran.err);
    let ran = place.backtrail(&format!("trace --strategy log -o t ./dl -- {logs}")).succeeded();
    assert!(ran.err.starts_with(opened) && ran.err.lines().count() == 1, "{}", ran.err);
    let shown = place.backtrail("show t --function twice").succeeded().out;
    assert_eq!(shown.lines().filter(|line| line.contains("twice")).count(), 3, "{shown}");
    let ran = place.backtrail(&format!("trace -o u ./dl -- {logs}"));
    assert_eq!(ran.code, Some(4));
    assert!(ran.err.contains("logs.so is a variant that logs by itself"), "{}", ran.err);
    assert!(!place.path("u").exists());
}
