//! What `backtrail autopsy` says can have run: of one core, of several, and of
//! cores that are cut off anywhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use backtrail_testkit::cores::{self, core_of};
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

/// A library: it calls back, and calls a function of its own that its program
/// replaces.
const LIBRARY: &str = "\
volatile int told;
__attribute__((noinline)) int hook(int n) { return told += n; }
__attribute__((noinline)) int unused(int n) { return told -= n; }
__attribute__((noinline)) static int helper(int n, int (*f)(int)) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (i % 3 == 1)
            sum += f(i);
        else
            sum -= i;
        if (i == 5)
            sum += hook(i) * 2;
    }
    return sum;
}
int each(int n, int (*f)(int)) {
    if (n < 0)
        return unused(n);
    return helper(n, f) + 1;
}
";

const ITS_PROGRAM: &str = "\
#include <stdlib.h>
int each(int n, int (*f)(int));
static int left = 4;
int hook(int n) { return left + n; }
static int visit(int i) {
    if (--left == 0)
        abort();
    return i & 1 ? i + 1 : i - 1;
}
int main(int count, char **words) {
    (void)words;
    return each(40 * count, visit);
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
    core_of(Command::new("./a.traced").arg(which).current_dir(folder), Path::new(core));
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
fn functions_count_once_whatever_linker_linked_them() {
    let counts = ["bfd", "gold", "lld"].map(|linker| {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("a.c"), SOURCE).unwrap();
        run(folder, &["cc", "-O1", &format!("-fuse-ld={linker}"), "a.c", "-o", "a"]);
        run(folder, &["instrument", "--quiet", "--scheme", "full", "-o", "a.traced", "a"]);
        die(folder, "3", "core-of-it");
        let told = run(folder, &["autopsy", "--json", "core-of-it"]);
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(functions(&told), ["even", "other"], "{linker}");
        assert_eq!(told["active"]["functions"]["total"], 6, "{linker}");
        told["active"].clone()
    });
    assert!(counts.iter().all(|it| *it == counts[0]), "{counts:#?}");
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
    // gdb puts the registers behind everything else.
    let is_told = if cores::kernel_writes() { told > 10 } else { told <= 8 };
    assert!(is_told && refused > 0, "{told} {refused}");
}

#[test]
fn libraries_tell_what_can_have_run_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("library.c"), LIBRARY).unwrap();
    fs::write(folder.join("a.c"), ITS_PROGRAM).unwrap();
    run(folder, &["cc", "-O1", "-g", "-fPIC", "-shared", "library.c", "-o", "liblibrary.so"]);
    let rpath = "-Wl,-rpath,$ORIGIN";
    run(folder, &["cc", "-O1", "-g", "a.c", "-L.", "-llibrary", rpath, "-o", "a"]);
    run(folder, &["instrument", "--quiet", "--scheme", "log", "-o", "a.logged", "a"]);
    run(folder, &["instrument", "--quiet", "--scheme", "full", "-o", "a.traced", "a"]);
    die(folder, "", "core-of-it");
    let told: Value =
        serde_json::from_str(&run(folder, &["autopsy", "--json", "--blocks", "core-of-it"]))
            .unwrap();

    // Every frame, of the library and of the program, says how it came.
    let frames = told["threads"][0]["frames"].as_array().unwrap();
    let frame = |name: &str| frames.iter().find(|frame| frame["function"] == name).unwrap();
    for (name, file) in [("visit", "a.c"), ("helper", "library.c"), ("each", "library.c")] {
        assert!(frame(name)["file"].as_str().unwrap().ends_with(file), "{}", frame(name));
        assert!(!frame(name)["path"].as_array().unwrap().is_empty(), "{}", frame(name));
    }
    let helper = frame("helper");
    let older: u64 =
        helper["older"].as_array().unwrap().iter().map(|it| it["times"].as_u64().unwrap()).sum();
    assert!(
        older >= 10 && helper["module"].as_str().unwrap().ends_with("liblibrary.so"),
        "{helper}"
    );
    let never = frame("each")["never"].to_string();
    assert!(never.contains("library.c:20"), "{never}");

    // Nothing that ran is called impossible, though the library's own `hook` did not.
    let mut dying = Command::new(folder.join("a.logged"));
    dying.env("BACKTRAIL_DIR", folder.join("records")).current_dir(folder).output().unwrap();
    let log = run(folder, &["show", "--json", "records"]);
    let mut executed = BTreeSet::new();
    for line in log.lines().skip(1) {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        executed.insert((text("function"), text("block")));
    }
    assert!(executed.contains(&("helper".to_owned(), "b0".to_owned())), "{executed:?}");
    let code = told["code"].as_array().unwrap();
    for row in code {
        // There are two of this name.
        let name = row["function"].as_str().unwrap();
        for block in row["impossible"].as_array().unwrap().iter().filter(|_| name != "hook") {
            let what = (name.to_owned(), block.as_str().unwrap().to_owned());
            assert!(!executed.contains(&what), "{what:?} ran");
        }
    }
    assert_eq!(functions(&told), ["hook", "unused"]);
    assert_eq!(told["active"]["functions"]["total"], 7);
    assert_eq!(code.iter().filter(|row| row["function"] == "hook").count(), 2);
}

/// What a link does not tell of: a library that the loader is told to load first, and one
/// that this brings along, are called for others, and call what they find.
#[test]
fn what_was_loaded_first_is_called_for_others() {
    const PROGRAM: &str = "\
#include <stdlib.h>
volatile int seen; int *volatile nothing;
static int told(int x) { return seen += x; }
int (*volatile hook)(int) = told;
__attribute__((noinline)) static int never(int x) { return seen ^= x; }
int main(int count) {
    if (getenv(\"X\"))
        return never(count);
    return *(volatile int *)nothing;
}
";
    const FIRST: &str = "int bring(int); char *getenv(const char *it) { bring(*it); return 0; }\n";
    // The shell that starts the program has it loaded, too, and no hook.
    const BROUGHT: &str = "\
extern __attribute__((weak)) int (*hook)(int);
int bring(int x) { return &hook ? hook(x) & 1 : 0; }
";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    const IDLE: &str = "int idle(int x) { return x + 1; }\n";
    let sources = [("a.c", PROGRAM), ("first.c", FIRST), ("brought.c", BROUGHT), ("idle.c", IDLE)];
    sources.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    run(folder, &["cc", "-O1", "-rdynamic", "a.c", "-o", "a"]);
    run(folder, &["instrument", "--quiet", "--scheme", "pt", "-o", "a.traced", "a"]);
    let shared = |words: &[&str]| {
        let mut clang = Command::new("clang-19");
        clang.args(["-O1", "-shared", "-fPIC"]).args(words).current_dir(folder);
        assert!(clang.status().unwrap().success());
    };
    shared(&["brought.c", "-o", "libbrought.so"]);
    shared(&["first.c", "-o", "first.so", "-L.", "-lbrought", "-Wl,-rpath,$ORIGIN"]);
    let told = |core: &str| -> Value {
        serde_json::from_str(&run(folder, &["autopsy", "--json", core])).unwrap()
    };
    shared(&["idle.c", "-o", "idle.so"]);
    let die = |preloaded: Option<&str>, core: &str| {
        let mut dying = Command::new("./a.traced");
        dying.current_dir(folder).envs(preloaded.map(|it| ("LD_PRELOAD", folder.join(it))));
        core_of(&dying, Path::new(core));
    };
    die(None, "alone");
    assert_eq!(functions(&told("alone")), ["never", "told"]);
    die(Some("idle.so"), "idle");
    assert_eq!(functions(&told("idle")), ["never", "told"]);
    // What calls anything may as well call `main`, which is exported.
    die(Some("first.so"), "preloaded");
    assert_eq!(functions(&told("preloaded")), [""; 0]);
    // Of what is gone it is not known what it was called for.
    fs::remove_file(folder.join("libbrought.so")).unwrap();
    let told = told("preloaded");
    assert_eq!(told["impossible"], Value::Null);
    let said = "libbrought.so was loaded before the libraries of ";
    assert!(told["remarks"].to_string().contains(said), "{}", told["remarks"]);
}
