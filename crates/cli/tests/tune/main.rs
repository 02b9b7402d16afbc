//! Functions of shipped executables are switched, and stay what they are.
//!
//! The oracle of a crash is a variant that was derived with what is on: whatever is
//! told of one must be told of the other.

#[path = "../cc_project/mod.rs"]
mod cc_project;
mod refused;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backtrail_testkit::cores;
use cc_project::Project;
use serde_json::{Value, json};

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tune/fixtures").join(name)
}

fn backtrail(folder: &Path, words: &[&str]) -> Output {
    Command::new(BACKTRAIL).args(words).current_dir(folder).output().unwrap()
}

/// What standard output was given by a command that succeeds.
#[track_caller]
fn run(folder: &Path, words: &[&str]) -> String {
    let output = backtrail(folder, words);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a program printed, and how it ended.
fn behaviour(folder: &Path, program: &str) -> (String, Option<i32>) {
    let output = Command::new(folder.join(program)).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

/// Builds `program` in a new folder, which has the fixtures.
fn built(verb: &str, options: &[&str], sources: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for source in fs::read_dir(fixture("")).unwrap().flatten() {
        fs::copy(source.path(), folder.path().join(source.file_name())).unwrap();
    }
    let words = [&[verb], options, sources, &["-o", "program"]].concat();
    run(folder.path(), &words);
    folder
}

/// What `--list` says: names, what is on and what is carried.
fn listed(folder: &Path, program: &str) -> Vec<(String, String, String)> {
    let document = run(folder, &["tune", program, "--list", "--json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["schema"], "backtrail.tune/1");
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/tune-1.json");
    let schema = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = schema.iter_errors(&document).map(|it| it.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?} in {document:#}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let functions = document["functions"].as_array().unwrap().iter();
    let carried = |it: &Value| {
        let schemes: Vec<String> = it["carries"].as_array().unwrap().iter().map(text).collect();
        schemes.join(" ")
    };
    functions.map(|it| (text(&it["demangled"]), text(&it["on"]), carried(it))).collect()
}

const SCHEMES: [&str; 4] = ["none", "cc+pt", "fc+bc", "cc"];

/// Switches all of a program through all schemes, and back. The functions `named`
/// can be switched.
fn switch_through(folder: &Path, options: &[&str], named: &[&str]) {
    let expected = behaviour(folder, "program");
    assert!(expected.0.len() > 20, "{expected:?}");
    run(
        folder,
        &[
            "-q",
            "instrument",
            "--scheme",
            "realistic",
            "--tunable",
            "*=none,cc+pt,bc+fc",
            "-o",
            "derived",
            "program",
        ],
    );
    assert_eq!(behaviour(folder, "derived"), expected, "{options:?}");
    let list = listed(folder, "derived");
    for name in named {
        let found = list.iter().find(|it| it.0 == *name);
        let (_, on, carried) = found.unwrap_or_else(|| panic!("{name} {options:?} {list:#?}"));
        assert_eq!((&on[..], &carried[..]), ("cc", "cc none cc+pt fc+bc"), "{name}");
    }
    fs::copy(folder.join("derived"), folder.join("shipped")).unwrap();
    let stripped = Command::new("strip").arg(folder.join("shipped")).status().unwrap();
    assert!(stripped.success());
    let shipped = fs::read(folder.join("shipped")).unwrap();
    for scheme in SCHEMES {
        run(folder, &["-q", "tune", "shipped", "--set", &format!("*={scheme}")]);
        assert_eq!(behaviour(folder, "shipped"), expected, "{options:?} {scheme}");
        let list = listed(folder, "shipped");
        assert!(list.iter().all(|it| it.1 == scheme), "{scheme}: {list:?}");
    }
    run(folder, &["-q", "tune", "shipped", "--set", "*=none", "--set", "*a*=cc+pt"]);
    assert_eq!(behaviour(folder, "shipped"), expected, "{options:?} mixed");
    assert_ne!(fs::read(folder.join("shipped")).unwrap(), shipped);
    run(folder, &["-q", "tune", "shipped", "--undo"]);
    assert!(fs::read(folder.join("shipped")).unwrap() == shipped, "{options:?}: not as it was");
}

/// What `docs/tune.md` says of tools that strip.
#[test]
fn the_list_of_what_can_be_switched_outlives_strips() {
    let project = Project::new(&[(
        "p.c",
        "__attribute__((noinline)) int f(int x) { return x & 1 ? 3 : x; }\n\
         int main(int c, char **v) { return f(c) - 3; }\n",
    )]);
    let script = "$CC -O1 p.c -o p && backtrail -q instrument --scheme full --tunable f -o t p";
    project.run_ours(script).succeeded();
    for (strip, stays) in [
        ("strip", true),
        ("strip -g", true),
        ("strip --strip-unneeded", true),
        ("llvm-strip-19 --strip-all-gnu", true),
        ("llvm-strip-19 --strip-unneeded", true),
        ("llvm-strip-19 -g", true),
        ("llvm-strip-19 --keep-section=.backtrail.tune", true),
        ("llvm-strip-19", false),
    ] {
        project.run_ours(&format!("cp t s && {strip} s && ./s")).succeeded();
        let ran = project.run_ours("backtrail tune s --set f=none && ./s");
        assert_eq!(ran.status, if stays { 0 } else { 3 }, "{strip}: {}", ran.stderr);
    }
}

#[test]
fn c_functions_of_every_shape() {
    for options in [
        &["-O0"][..],
        &["-O2", "-g"],
        &["-O3", "-ffunction-sections", "-Wl,--gc-sections", "-fcf-protection=full"],
        &["-O2", "-no-pie", "-fno-pic", "-static", "-fstack-protector-all"],
    ] {
        let folder = built("cc", options, &["shapes.c"]);
        let named = [
            "sum",
            "turned",
            "factorial",
            "interpret",
            "resumed",
            "weak_one",
            "addresses",
            "stay",
            "leave",
            "compare",
            "parse_words",
            "main",
        ];
        switch_through(folder.path(), options, &named);
        let list = listed(folder.path(), "derived");
        assert!(list.iter().all(|it| it.0 != "begun"), "its labels are in data");
    }
}

#[test]
fn exceptions_and_functions_of_two_units() {
    for options in [&["-O0"][..], &["-O2", "-g"]] {
        let folder = built("c++", options, &["thrown.cc", "second.cc"]);
        let named = [
            "thrower(int)",
            "catcher(int)",
            "passer(int)",
            "counted(int)",
            "int twice<int>(int)",
            "Derived::act(int)",
        ];
        switch_through(folder.path(), options, &named);
        let list = listed(folder.path(), "derived");
        let copies = list.iter().filter(|it| it.0 == "counted(int)").count();
        assert_eq!(copies, 1, "the linker keeps one copy of an inline function");
    }
}

#[test]
fn functions_of_a_shared_library() {
    let folder = built("cc", &["-O2", "-shared", "-fPIC"], &["library.c"]);
    let folder = folder.path();
    fs::rename(folder.join("program"), folder.join("libkept.so")).unwrap();
    let link = ["cc", "-O2", "user.c", "-L.", "-lkept", "-Wl,-rpath,$ORIGIN", "-o", "program"];
    run(folder, &link);
    let expected = behaviour(folder, "program");
    assert_eq!(expected, ("1018\n".to_owned(), Some(0)));
    run(
        folder,
        &["-q", "instrument", "--scheme", "cc", "--tunable", "*", "-o", "derived", "program"],
    );
    assert_eq!(behaviour(folder, "derived"), expected);
    let library = "derived.libs/libkept.so";
    let names: Vec<String> = listed(folder, library).into_iter().map(|it| it.0).collect();
    assert_eq!(names, ["keep", "inner", "keeper", "outer"]);
    for scheme in ["none", "cc+pt"] {
        for file in [library, "derived"] {
            run(folder, &["-q", "tune", file, "--set", &format!("*={scheme}")]);
            assert_eq!(behaviour(folder, "derived"), expected);
        }
    }
}

/// Only what matches has variants, and the rest is as it would be.
#[test]
fn growth_is_controlled_by_name() {
    let folder = built("cc", &["-O2"], &["shapes.c"]);
    let folder = folder.path();
    let derive = |out: &str, tunable: &[&str]| {
        let words = [&["-q", "instrument", "--scheme", "cc", "-o", out][..], tunable, &["program"]];
        run(folder, &words.concat());
        let text = Command::new("size").arg(folder.join(out)).output().unwrap().stdout;
        let text = String::from_utf8(text).unwrap();
        text.lines().nth(1).unwrap().split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let plain = derive("plain", &[]);
    let some = derive("some", &["--tunable", "parse_*"]);
    let all = derive("all", &["--tunable", "*", "--tunable", "stay=cc"]);
    assert!(plain < some && some < all, "{plain} {some} {all}");
    let names = |program| listed(folder, program).into_iter().map(|it| it.0).collect::<Vec<_>>();
    assert_eq!(names("some"), ["parse_words"]);
    // Of the one that is asked for there is no other.
    assert!(!names("all").contains(&"stay".to_owned()) && names("all").len() > 8);
}

/// The core of a program that dies.
fn core_of(folder: &Path, program: &str, words: &[&str]) -> PathBuf {
    let kept = folder.join(format!("{program}.dead"));
    let mut dying = Command::new(format!("./{program}"));
    cores::core_of(dying.args(words).current_dir(folder), &kept);
    kept
}

/// What is told of a crash, without addresses, threads' numbers and names of files.
fn told(folder: &Path, core: &Path, program: &str) -> Value {
    let words = ["autopsy", "--json", "--exe", program];
    let document = run(folder, &[&words[..], &[core.to_str().unwrap()]].concat());
    let document: Value = serde_json::from_str(&document).unwrap();
    let frames = document["threads"][0]["frames"].as_array().unwrap().iter();
    let frame = |it: &Value| {
        json!([it["demangled"], it["line"], it["scheme"], it["path"], it["older"], it["never"]])
    };
    json!({
        "frames": frames.map(frame).collect::<Vec<_>>(),
        "impossible": document["impossible"],
        "active": document["active"],
    })
}

#[test]
fn a_crash_is_told_by_the_variant_that_is_on() {
    for (verb, sources, argument, options, settings) in [
        ("cc", &["shapes.c"][..], "11", &["-O2"][..], &["parse_*=cc+pt", "main=fc+bc"][..]),
        ("cc", &["shapes.c"], "11", &["-O0", "-g"], &["*=none", "parse_*=cc+pt"]),
        ("cc", &["shapes.c"], "11", &["-O2", "-g"], &["*=fc+bc", "factorial=none"]),
        ("c++", &["thrown.cc", "second.cc"], "x", &["-O2"], &["*=cc+pt", "main=none"]),
    ] {
        let folder = built(verb, options, sources);
        let folder = folder.path();
        let scheme = settings.join(",");
        let scheme = format!("*=cc,{scheme}");
        run(folder, &["-q", "instrument", "--scheme", &scheme, "-o", "direct", "program"]);
        let tunable = ["--tunable", "*=none,cc+pt,fc+bc"];
        let words =
            [&["-q", "instrument", "--scheme", "cc", "-o", "tuned"][..], &tunable, &["program"]];
        run(folder, &words.concat());
        for program in ["direct", "tuned"] {
            let stripped = Command::new("strip").arg(folder.join(program)).status().unwrap();
            assert!(stripped.success());
        }
        let set: Vec<&str> = settings.iter().flat_map(|it| ["--set", it]).collect();
        run(folder, &[&["-q", "tune", "tuned"][..], &set].concat());
        let expected = told(folder, &core_of(folder, "direct", &[argument]), "direct");
        let core = core_of(folder, "tuned", &[argument]);
        let found = told(folder, &core, "tuned");
        assert_eq!(found, expected, "{options:?} {settings:?}");
        // The core says what was on, whatever is on by now.
        run(folder, &["-q", "tune", "tuned", "--undo"]);
        assert_eq!(told(folder, &core, "tuned"), expected, "{options:?} {settings:?} undone");
    }
}

#[test]
fn a_detached_executable_is_switched_alone() {
    let folder = built("cc", &["-O2"], &["shapes.c"]);
    let folder = folder.path();
    run(
        folder,
        &["-q", "instrument", "--scheme", "cc", "--tunable", "*", "-o", "tuned", "program"],
    );
    fs::create_dir(folder.join("aside")).unwrap();
    run(folder, &["detach", "tuned", "-o", "aside"]);
    run(folder, &["-q", "tune", "tuned", "--set", "parse_words=cc+pt"]);
    let core = core_of(folder, "tuned", &["11"]);
    let side = fs::read_dir(folder.join("aside")).unwrap().flatten().next().unwrap();
    fs::rename(side.path(), folder.join(side.file_name())).unwrap();
    let document = run(folder, &["autopsy", "--json", core.to_str().unwrap()]);
    let document: Value = serde_json::from_str(&document).unwrap();
    let frames = document["threads"][0]["frames"].as_array().unwrap();
    let scheme = |name: &str| {
        let frame = frames.iter().find(|it| it["function"] == name).unwrap();
        (frame["scheme"].clone(), frame["path"].as_array().is_some_and(|it| it.len() > 1))
    };
    assert_eq!(scheme("parse_words"), (json!("cc+pt"), true));
    assert_eq!(scheme("main"), (json!("cc"), false));
}
