//! What `backtrail autopsy` says can have run: of one core, of several, and of
//! cores that are cut off anywhere.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

const SOURCE: &str = "\
#include <stdlib.h>
volatile int seen; int *volatile nothing;
__attribute__((noinline)) static int early(int x) { seen += x; return seen; }
__attribute__((noinline)) static int other(int x) { seen -= x; return seen; }
__attribute__((noinline)) static int odd(int x) { seen ^= x; return seen; }
__attribute__((noinline)) static int even(int x) { seen |= x; return seen; }
__attribute__((noinline)) static int die(int which) {
    if (which % 2)
        odd(which);
    else
        even(which);
    seen = 12;
    return *(volatile int *)nothing;
}
int main(int count, char **words) {
    int which = count > 1 ? atoi(words[1]) : 3;
    early(which);
    if (which > 100)
        return other(which);
    return die(which) + 1;
}
";

fn tool(folder: &Path, words: &[&str]) -> Output {
    Command::new(BACKTRAIL).args(words).current_dir(folder).output().unwrap()
}

#[track_caller]
fn run(folder: &Path, words: &[&str]) -> String {
    let output = tool(folder, words);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

fn build(folder: &Path, scheme: &str) {
    fs::write(folder.join("a.c"), SOURCE).unwrap();
    run(folder, &["cc", "-O1", "a.c", "-o", "a"]);
    run(folder, &["instrument", "--quiet", "--scheme", scheme, "-o", "a.traced", "a"]);
}

/// Lets the variant die; its core gets this name.
fn die(folder: &Path, which: &str, core: &str) {
    let script = format!("ulimit -c unlimited; ./a.traced {which}");
    let _ = Command::new("sh").args(["-c", &script]).current_dir(folder).output().unwrap();
    let names = fs::read_dir(folder).unwrap().flatten().map(|it| it.file_name());
    let mut names = names.filter_map(|name| name.into_string().ok());
    match names.find(|name| name == "core" || name.starts_with("core.")) {
        Some(written) => fs::rename(folder.join(written), folder.join(core)).unwrap(),
        None => {
            let save = format!("generate-core-file {core}");
            let words =
                ["-nx", "-batch", "-ex", "run", "-ex", &save, "--args", "./a.traced", which];
            Command::new("gdb").args(words).current_dir(folder).output().unwrap();
        }
    }
}

fn functions(document: &Value) -> Vec<&str> {
    let names = document["impossible"]["functions"].as_array().unwrap();
    names.iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn what_two_crashes_have_in_common() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    build(folder, "full");
    die(folder, "3", "one");
    die(folder, "4", "two");
    let documents = run(folder, &["autopsy", "--json", "one", "two"]);
    let documents: Vec<Value> =
        documents.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [one, two, common] = &documents[..] else { panic!("{documents:?}") };
    assert_eq!(functions(one), ["even", "other"]);
    assert_eq!(functions(two), ["odd", "other"]);
    // What caused both is in neither of these.
    assert_eq!(functions(common), ["even", "odd", "other"]);
    let path: Vec<&str> =
        common["path"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(path, ["12", "13"]);
    let names: Vec<&Value> =
        common["frames"].as_array().unwrap().iter().map(|it| &it["function"]).collect();
    assert_eq!(names[..2], ["die", "main"]);
    let left = |document: &Value| document["active"]["nodes"]["now"].as_u64().unwrap();
    assert!(left(common) < left(one) && left(common) < left(two));
    let text = run(folder, &["autopsy", "one", "two"]);
    assert!(text.contains("What 2 cores of a.traced have in common"), "{text}");
    assert_eq!(one["threads"][0]["frames"][0]["scheme"], "cc+bc+pt");
    // The lines of the other branch, though nothing was compiled with -g.
    let never = &one["threads"][0]["frames"][0]["never"];
    let never: Vec<&str> =
        never.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(never.iter().any(|line| line.ends_with("a.c:11")), "{never:?}");
    assert!(!never.iter().any(|line| line.ends_with("a.c:9")), "{never:?}");
}

#[test]
fn less_of_a_core_never_makes_executed_code_impossible() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    build(folder, "full");
    die(folder, "3", "whole");
    let whole = fs::read(folder.join("whole")).unwrap();
    let (mut told, mut refused) = (0, 0);
    for length in (0..whole.len()).step_by(4096) {
        fs::write(folder.join("part"), &whole[..length]).unwrap();
        let output = tool(folder, &["autopsy", "--json", "part"]);
        match output.status.code() {
            Some(0) => {
                told += 1;
                let document: Value = serde_json::from_slice(&output.stdout).unwrap();
                if document["impossible"].is_null() {
                    continue;
                }
                for name in functions(&document) {
                    assert!(["even", "other"].contains(&name), "{name} at {length}");
                }
                for line in document["impossible"]["lines"].as_array().unwrap() {
                    let line = line.as_str().unwrap().rsplit(':').next().unwrap();
                    let ran = ["3", "5", "8", "9", "12", "13", "16", "17", "18", "20"];
                    assert!(!ran.contains(&line), "{line} at {length}");
                }
            }
            // Nothing of the threads is there.
            Some(3) => refused += 1,
            other => panic!("{other:?} at {length}: {output:?}"),
        }
    }
    assert!(told > 10 && refused > 0, "{told} {refused}");
}
