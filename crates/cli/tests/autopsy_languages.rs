//! Autopsies of Rust and C++ programs that die as such programs do.

use std::fs;
use std::path::Path;
use std::process::Command;

use backtrail_testkit::cores::core_of;
use serde_json::Value;

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

fn run(folder: &Path, words: &[&str]) -> String {
    let output = Command::new(BACKTRAIL).args(words).current_dir(folder).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

/// Lets `program` die and tells what is told of it: as text, and as a document.
fn autopsy(folder: &Path, program: &str, words: &[&str]) -> (String, Value) {
    let core = "the-core";
    core_of(Command::new(program).args(words).current_dir(folder), Path::new(core));
    let text = run(folder, &["autopsy", core]);
    let document = run(folder, &["autopsy", "--json", core]);
    fs::remove_file(folder.join(core)).unwrap();
    (text, serde_json::from_str(&document).unwrap())
}

/// The frames of the thread that died.
fn frames(document: &Value) -> Vec<&Value> {
    let threads = document["threads"].as_array().unwrap();
    let crashed = threads.iter().find(|thread| thread["crashed"] == true).unwrap();
    crashed["frames"].as_array().unwrap().iter().collect()
}

#[track_caller]
fn frame<'a>(document: &'a Value, name: &str) -> &'a Value {
    let found = frames(document).into_iter().find(|frame| {
        frame["demangled"].as_str().is_some_and(|it| it == name) && frame["inlined"] == false
    });
    found.unwrap_or_else(|| panic!("{name} in {document:#}"))
}

const RUST: &str = "\
use std::hint::black_box;
#[inline(never)]
fn pick(list: &[u32], which: usize) -> u32 {
    let mut sum = 0;
    for value in list {
        if value % 2 == 0 {
            sum += value;
        }
    }
    if which > 100 {
        return sum;
    }
    list[which] + sum
}
#[inline(never)]
fn peek(at: usize) -> u32 {
    let pointer = black_box(at * 8) as *const u32;
    if at > 9 {
        return 3;
    }
    unsafe { *pointer }
}
fn main() {
    let way = std::env::args().nth(1).unwrap_or_default();
    if way == \"panic\" {
        println!(\"{}\", pick(&black_box([1, 2, 3, 4]), black_box(7)));
    } else {
        println!(\"{}\", peek(black_box(1)));
    }
}
";

#[test]
fn rust_panics_and_wild_reads() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("src")).unwrap();
    fs::write(folder.join("src/main.rs"), RUST).unwrap();
    let manifest = "[package]\nname = \"falls\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
                    [profile.release]\npanic = \"abort\"\ndebug = 1\n[workspace]\n";
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    run(folder, &["cargo", "build", "--release", "--quiet", "--target-dir", "target"]);
    fs::copy(folder.join("target/release/falls"), folder.join("falls")).unwrap();
    run(folder, &["instrument", "-q", "--scheme", "full", "-o", "falls.full", "falls"]);

    let (text, document) = autopsy(folder, "./falls.full", &["panic"]);
    assert_eq!(document["signal"], "SIGABRT");
    let pick = frame(&document, "falls::pick");
    assert_eq!(pick["line"], 13, "{text}");
    assert!(text.contains("list[which] + sum") && text.contains("came by"), "{text}");
    let impossible = document["impossible"]["functions"].as_array().unwrap();
    assert!(impossible.iter().any(|name| name == "falls::peek"), "{impossible:?}");
    assert!(!impossible.iter().any(|name| name == "falls::pick" || name == "falls::main"));

    let (text, document) = autopsy(folder, "./falls.full", &["read"]);
    assert_eq!(document["signal"], "SIGSEGV");
    let peek = frame(&document, "falls::peek");
    assert_eq!(peek["line"], 21, "{text}");
    assert_eq!(peek["path"][0]["known"], "exact", "{text}");
    let impossible = document["impossible"]["functions"].as_array().unwrap();
    assert!(impossible.iter().any(|name| name == "falls::pick"), "{impossible:?}");
}

const CXX: &str = "\
#include <stdexcept>
#include <string>
struct Guard { int &count; ~Guard() { count++; } };
namespace deep {
__attribute__((noinline)) int thrower(int depth, int &count) {
    Guard guard{count};
    if (depth > 3)
        throw std::runtime_error(std::string(\"too deep\"));
    return thrower(depth + 1, count) + depth;
}
__attribute__((noinline)) int caught(int depth, int &count) {
    try {
        return thrower(depth, count);
    } catch (const std::logic_error &) {
        return -1;
    }
}
__attribute__((noinline)) void quiet(int depth, int &count) noexcept {
    count += thrower(depth, count);
}
}
int main(int argc, char **) {
    int count = 0;
    if (argc > 1)
        deep::quiet(argc, count);
    return deep::caught(argc, count);
}
";

#[test]
fn cxx_exceptions_that_nobody_catches() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.cc"), CXX).unwrap();
    run(folder, &["c++", "-O1", "-g", "a.cc", "-o", "a"]);
    run(folder, &["instrument", "-q", "--scheme", "full", "-o", "a.full", "a"]);
    let (text, document) = autopsy(folder, "./a.full", &[]);
    assert_eq!(document["signal"], "SIGABRT");
    let names: Vec<String> = frames(&document)
        .iter()
        .filter_map(|frame| frame["demangled"].as_str().map(str::to_owned))
        .collect();
    let deep = names.iter().filter(|name| *name == "deep::thrower(int, int&)").count();
    assert_eq!(deep, 4, "{text}");
    assert!(names.iter().any(|name| name == "std::terminate()"), "{names:?}");
    let thrower = frame(&document, "deep::thrower(int, int&)");
    assert_eq!(thrower["line"], 8, "{text}");
    let impossible = document["impossible"]["functions"].as_array().unwrap();
    assert!(impossible.iter().any(|name| name == "deep::quiet(int, int&)"), "{impossible:?}");
    assert!(!impossible.iter().any(|name| name == "deep::caught(int, int&)"), "{impossible:?}");
    // In a function that lets none out.
    let (text, document) = autopsy(folder, "./a.full", &["x"]);
    assert_eq!(document["signal"], "SIGABRT");
    frame(&document, "deep::quiet(int, int&)");
    assert!(text.contains("came by"), "{text}");
}

/// The two ways that docs/panics.md has to a core of a panic, as it has them.
#[test]
fn a_panic_leaves_a_core_in_both_ways_of_the_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/panics.md");
    let page = fs::read_to_string(page).unwrap();
    let block = |language: &str, begin: &str| {
        let code = page.split("```").find(|code| {
            code.strip_prefix(language).is_some_and(|code| code.trim_start().starts_with(begin))
        });
        code.unwrap().strip_prefix(language).unwrap().to_owned()
    };
    let profile = block("", "# Cargo.toml");
    let hook = block("rust", "let say");
    for (settings, hook) in [(profile.as_str(), ""), ("", hook.as_str())] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir(folder.join("src")).unwrap();
        let package = "[package]\nname = \"falls\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        fs::write(folder.join("Cargo.toml"), format!("{package}{settings}")).unwrap();
        let source = format!(
            "#[inline(never)]\nfn take(from: &[Option<u32>]) -> u32 {{\n    let mut sum = 0;\n    \
             for one in from {{\n        sum += one.unwrap();\n    }}\n    sum\n}}\nfn main() {{\n\
             {hook}    println!(\"{{}}\", take(&std::hint::black_box([Some(1), Some(2), None])));\n}}\n"
        );
        fs::write(folder.join("src/main.rs"), source).unwrap();
        run(folder, &["cargo", "build", "--release", "--quiet", "--target-dir", "target"]);
        let program = "target/release/falls";
        run(folder, &["instrument", "-q", "--scheme", "pt", "-o", "falls.pt", program]);
        let (text, document) = autopsy(folder, "./falls.pt", &[]);
        assert!(text.contains("  SIGABRT") && text.contains("falls::main"), "{text}");
        let frame = frame(&document, "falls::take");
        let own: Vec<&str> =
            frame["own_path"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        assert!(own.last().is_some_and(|line| line.ends_with("src/main.rs:5")), "{frame}");
        assert!(own.iter().all(|line| line.contains("src/main.rs:")), "{frame}");
        let older = frame["older"].as_array().unwrap();
        assert!(
            older.iter().any(|it| it["own_lines"].to_string().contains("main.rs:5")),
            "{frame}"
        );
    }
}
