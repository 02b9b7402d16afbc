//! Libraries that hide the runtime inside them: by version scripts, by options, by
//! attributes, with each linker. One process has one record all the same, in which
//! library and executable take turns; what witnesses saw is what was logged, and what
//! was counted is what the log adds up to. Nothing of the runtime is exported.

mod profile_program;

use std::collections::BTreeSet;
use std::process::Output;

use profile_program::{BACKTRAIL, Program, Ran, Scheme};
use serde_json::Value;

const LINKERS: [&str; 3] = ["bfd", "gold", "lld"];

/// Anonymous, with whatever a script may have before its first names.
const ANONYMOUS: &str = "/* { local: * } */ { global: twice; each; guarded; local: *; };";

/// One version, with names in quotes and of C++.
const NAMED: &str =
    "LIB_1.0 { global: \"twice\"; eac?; extern \"C++\" { none*; }; guarded; local: *; };";

const TWO: &str =
    "LIB_1.0 { global: twice; };\nLIB_2.0 { global: each; guarded; local: *; } LIB_1.0;";

const LIST: &str = "{ twice; each; guarded; };";

const SCRIPTS: [(&str, &str); 5] = [
    ("anonymous", ANONYMOUS),
    ("named", NAMED),
    ("two", TWO),
    ("list", LIST),
    ("none", "{ local: *; };"),
];

/// How a library is compiled and linked.
struct Way {
    name: &'static str,
    compile: &'static [&'static str],
    link: &'static [&'static str],
}

const WAYS: [Way; 9] = [
    Way { name: "anonymous", compile: &[], link: &["-Wl,--version-script=anonymous"] },
    Way { name: "named", compile: &[], link: &["-Wl,--version-script=named"] },
    Way { name: "two nodes", compile: &[], link: &["-Wl,--version-script,two"] },
    Way { name: "exclude-libs", compile: &[], link: &["-Wl,--exclude-libs,ALL"] },
    Way { name: "visibility", compile: &["-fvisibility=hidden"], link: &[] },
    Way { name: "Bsymbolic", compile: &[], link: &["-Wl,-Bsymbolic"] },
    Way { name: "Bsymbolic-functions", compile: &[], link: &["-Wl,-Bsymbolic-functions"] },
    Way { name: "dynamic-list", compile: &[], link: &["-Wl,--dynamic-list=list"] },
    Way {
        name: "all",
        compile: &["-fvisibility=hidden"],
        link: &["-Wl,--version-script=named,--exclude-libs,ALL,-Bsymbolic", "-Wl,-z,now"],
    },
];

fn source(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/hidden_runtimes/");
    std::fs::read_to_string(format!("{folder}{name}")).unwrap()
}

/// What a command of a folder prints.
#[track_caller]
fn run(program: &Program, command: &str, words: &[&str]) -> String {
    let output = program.command(command).args(words).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {words:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

/// A program with a library, part of which is in an archive.
fn build(linker: &str, way: &Way, options: &[&str]) -> Program {
    let names = ["lib.h", "lib.c", "inner.c", "main.c"].map(|it| (it, source(it)));
    let files = names.iter().map(|(name, text)| (*name, &text[..]));
    let program = Program::of_files(&files.chain(SCRIPTS).collect::<Vec<_>>());
    let linker = format!("-fuse-ld={linker}");
    let always = ["cc", "-O1", "-g", "-pthread", &linker];
    for name in ["lib", "inner"] {
        let words = ["-fPIC", "-c", &format!("{name}.c")];
        program.backtrail(&[&always[..4], way.compile, &words].concat());
    }
    run(&program, "ar", &["rcs", "libinner.a", "inner.o"]);
    let words = ["-shared", "lib.o", "libinner.a", "-o", "libx.so", "-Wl,-soname,libx.so"];
    program.backtrail(&[&always[..], &words, way.link].concat());
    let words = ["main.c", "libx.so", "-Wl,-rpath,$ORIGIN", "-o", "program"];
    program.backtrail(&[&always[..], &words, options].concat());
    program
}

/// Function and block of each step, by thread of each process.
type Steps = Vec<Vec<(String, String)>>;

#[track_caller]
fn trace(program: &Program, options: &[&str], arguments: &[&str]) -> (Output, Steps) {
    let _ = std::fs::remove_file(program.path("program.bttrace"));
    let mut command = program.command("setarch");
    command.args(["-R", BACKTRAIL, "trace"]).args(options).args(["./program", "--"]);
    let output = command.args(arguments).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!message.contains("backtrail"), "{options:?}: {message}");
    let shown = program.backtrail(&["show", "--json", "program.bttrace"]);
    let mut lines = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!(header["incomplete"], Value::Null, "{options:?}");
    let rows = header["threads"].as_array().unwrap();
    let ids = |row: &Value| (row["process"].as_u64(), row["thread"].as_u64());
    let mut threads = vec![Vec::new(); rows.len()];
    for row in lines {
        let thread = rows.iter().position(|it| ids(it) == ids(&row)).unwrap();
        let word = |name: &str| row[name].as_str().unwrap().to_owned();
        threads[thread].push((word("function"), word("block")));
    }
    (output, threads)
}

/// Traces a program from one run, from three and by its log; gives what they all say.
#[track_caller]
fn traced(program: &Program, arguments: &[&str], about: &str) -> Steps {
    let plain = program.command("./program").args(arguments).output().unwrap();
    let (logged, expected) = trace(program, &["--strategy", "log"], arguments);
    assert_eq!(Ran::of(&logged), Ran::of(&plain), "{about}");
    for options in [&[][..], &["--runs", "3"]] {
        let (output, found) = trace(program, options, arguments);
        assert_eq!(Ran::of(&output), Ran::of(&plain), "{about} {options:?}");
        for (thread, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let first = found.iter().zip(expected).position(|(found, logged)| found != logged);
            assert_eq!(first, None, "{about} {options:?} thread {thread}");
            assert_eq!(found.len(), expected.len(), "{about} {options:?} thread {thread}");
        }
        assert_eq!(found.len(), expected.len(), "{about} {options:?}");
    }
    expected
}

/// Fails unless functions of the library and of the executable take turns.
#[track_caller]
fn takes_turns(steps: &[(String, String)], about: &str) {
    let library = ["setup", "twice", "each", "guarded"];
    let sides: Vec<bool> = steps.iter().map(|(name, _)| library.contains(&&name[..])).collect();
    let turns = sides.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(turns > 40, "{about}: {turns} turns in {} steps", sides.len());
    assert_eq!(steps[0].0, "setup", "{about}");
}

/// What a library exports, with versions.
fn exported(program: &Program, library: &str) -> Vec<String> {
    let shown = run(program, "nm", &["-Dg", "--defined-only", "--with-symbol-versions", library]);
    let names = shown.lines().map(|line| line.rsplit_once(' ').unwrap().1.to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Fails unless variants of the library export what the library does.
fn exports_the_same(program: &Program, about: &str) {
    let expected = exported(program, "libx.so");
    assert!(expected.iter().any(|name| name.contains("twice")), "{about}: {expected:?}");
    for scheme in [Scheme::Log, Scheme::Profile] {
        let library = format!("{}.libs/libx.so", program.variant(scheme).display());
        assert_eq!(exported(program, &library), expected, "{about} {scheme:?}");
    }
}

fn every_way(linker: &str) {
    assert!(LINKERS.contains(&linker));
    let cache = tempfile::tempdir().unwrap();
    for way in &WAYS {
        let about = format!("{linker}, {}", way.name);
        let program =
            build(linker, way, &[]).with("BACKTRAIL_CACHE", cache.path().to_str().unwrap());
        let steps = traced(&program, &[], &about);
        assert_eq!(steps.len(), 1, "{about}");
        takes_turns(&steps[0], &about);
        let (_, profile) = program.equal(&[]);
        assert_eq!(profile.processes, 1, "{about}");
        exports_the_same(&program, &about);
    }
}

#[test]
fn by_gnu_ld() {
    every_way("bfd");
}

#[test]
fn by_gold() {
    every_way("gold");
}

#[test]
fn by_lld() {
    every_way("lld");
}

/// Executables may have scripts, too, and show nothing.
#[test]
fn threads_children_and_jumps() {
    let ways = [&WAYS[0], &WAYS[1], &WAYS[8]];
    for (linker, way) in LINKERS.into_iter().zip(ways) {
        for options in [&[][..], &["-Wl,--version-script=none"]] {
            let program = build(linker, way, options);
            for (argument, threads) in [("threads", 6), ("children", 5), ("jumps", 1)] {
                let about = format!("{linker}, {}, {options:?}, {argument}", way.name);
                let steps = traced(&program, &[argument], &about);
                assert_eq!(steps.len(), threads, "{about}");
                takes_turns(&steps[0], &about);
                assert!(steps.iter().all(|steps| !steps.is_empty()), "{about}");
            }
        }
    }
}

#[test]
fn exceptions_through_frames_of_both() {
    let names = ["exceptions.h", "exceptions_lib.cc", "exceptions_main.cc"];
    let files = names.map(|name| (name, source(name)));
    let mut files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (*name, &text[..])).collect();
    files.push(("script", "{ global: extern \"C++\" { attempt*; thrown*; }; local: *; };"));
    for linker in LINKERS {
        let program = Program::of_files(&files);
        let linker = format!("-fuse-ld={linker}");
        let always = ["c++", "-O1", "-g", &linker];
        let hides = ["-Wl,--version-script=script,-soname,libx.so", "-Wl,-Bsymbolic"];
        let words = ["-shared", "-fPIC", "exceptions_lib.cc", "-o", "libx.so"];
        program.backtrail(&[&always[..], &words, &hides].concat());
        let words = ["exceptions_main.cc", "libx.so", "-Wl,-rpath,$ORIGIN", "-o", "program"];
        program.backtrail(&[&always[..], &words].concat());
        traced(&program, &[], &linker);
        program.equal(&[]);
    }
}

/// Libraries that are derived on their own, where the program is no variant.
#[test]
fn libraries_in_a_program_that_is_no_variant() {
    for (linker, way) in LINKERS.into_iter().zip([&WAYS[0], &WAYS[1], &WAYS[5]]) {
        let program = build(linker, way, &[]);
        let plain = Ran::of(&program.command("./program").arg("threads").output().unwrap());
        std::fs::create_dir(program.path("derived")).unwrap();
        std::fs::write(program.path("second.c"), SECOND).unwrap();
        std::fs::write(program.path("hide"), "{ local: *; };").unwrap();
        let linker = format!("-fuse-ld={linker}");
        let hides = ["-Wl,--version-script=hide", "-o", "second.so", "second.c"];
        program.backtrail(&[&["cc", "-O1", &linker, "-shared", "-fPIC"], &hides[..]].concat());
        for name in ["libx.so", "second.so"] {
            let to = format!("derived/{name}");
            program.backtrail(&["instrument", "-q", "--scheme", "log", "-o", &to, name]);
        }
        let output = program
            .command("./program")
            .arg("threads")
            .env("LD_LIBRARY_PATH", program.path("derived"))
            .env("LD_PRELOAD", program.path("derived/second.so"))
            .env("BACKTRAIL_DIR", program.path("records"))
            .output();
        assert_eq!(Ran::of(&output.unwrap()), plain, "{linker}");
        let records = std::fs::read_dir(program.path("records")).unwrap();
        let folders: Vec<_> = records.map(|it| it.unwrap().path()).collect();
        assert_eq!(folders.len(), 1, "{linker}");
        let names = std::fs::read_dir(&folders[0]).unwrap();
        let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        let numbers: BTreeSet<String> = names
            .filter_map(|name| Some(name.strip_prefix("thread-")?.split_once('-')?.0.to_owned()))
            .collect();
        let files = std::fs::read_dir(&folders[0]).unwrap().count();
        assert_eq!((numbers.len(), files), (6, 7), "{linker}");
    }
}

const SECOND: &str = r"
static int here;
__attribute__((constructor)) static void second(void) {
    for (int i = 0; i < 9; i++)
        here += i % 2 ? here : 1;
}
";
