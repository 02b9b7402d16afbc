//! What people read: names that tell functions apart, lines of their own code, lists that
//! end with the screen, and what to do with a script.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use backtrail_testkit::cores::core_of;
use serde_json::Value;

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

/// Templates used with two types, and instantiated with two more that nobody calls; code of
/// the standard library is inlined everywhere.
const SOURCE: &str = "\
#include <cstdlib>
#include <vector>
template <class T> struct Parser {
    std::vector<T> stack;
    __attribute__((noinline)) T factor(T x) {
        stack.push_back(x);
        return stack.size() > 3 ? stack.back() * 2 : x;
    }
    __attribute__((noinline)) T expr(T x) {
        T sum = 0;
        for (int i = 0; i < 5; i++)
            sum += factor(x + i);
        if (x > 100)
            abort();
        return sum;
    }
};
template struct Parser<long>;
template struct Parser<char>;
__attribute__((noinline)) static int alone(int x) { return x / 3; }
int main(int count, char **words) {
    Parser<int> ints;
    Parser<double> doubles;
    int start = count > 1 ? atoi(words[1]) : 1;
    return start > 1000 ? alone(start) : ints.expr(start) + doubles.expr(start) > 1e9;
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

fn json(folder: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&run(folder, words)).unwrap()
}

fn built() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.cc"), SOURCE).unwrap();
    run(folder.path(), &["c++", "-O2", "-g", "a.cc", "-o", "a"]);
    folder
}

/// What is printed on a terminal of so many rows.
fn on_terminal(folder: &Path, rows: u32, words: &str) -> String {
    let line = format!("stty rows {rows} cols 80; NO_COLOR=1 {BACKTRAIL} {words}");
    let mut command = Command::new("script");
    command.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(folder);
    let output = command.env("TERM", "xterm").output().expect("script (package bsdutils) is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect()
}

#[test]
fn paths_are_told_by_names_and_lines_of_ones_own() {
    let folder = built();
    let folder = folder.path();
    run(folder, &["profile", "./a"]);
    let text = run(folder, &["paths", "a.btprof", "--top", "20"]);
    for name in ["Parser<int>::factor", "Parser<double>::factor", "Parser<int>::expr"] {
        assert!(text.contains(&format!("  {name}  ")), "{name}: {text}");
    }
    assert!(text.contains("  main  ") && !text.contains("%  Parser<…>"), "{text}");
    assert!(text.contains("library code stand on the line"), "{text}");
    let chains: Vec<&str> = text.lines().filter(|line| line.contains('▶')).collect();
    assert!(chains.iter().any(|chain| chain.contains("▶ 6 TFF")), "{text}");
    assert!(!text.contains("stl_vector.h"), "{text}");
    let full = run(folder, &["paths", "a.btprof", "--full"]);
    assert!(full.contains("  Parser<int>::factor(int)  "), "{full}");
    assert!(full.contains("stl_vector.h:") && !full.contains("library code stand"), "{full}");

    // The document has both.
    let document = json(folder, &["paths", "a.btprof", "--json"]);
    let functions = document["functions"].as_array().unwrap();
    let factor = functions.iter().find(|it| it["name"] == "_ZN6ParserIiE6factorEi").unwrap();
    for path in factor["paths"].as_array().unwrap() {
        let (lines, own) = (texts(&path["lines"]), texts(&path["own_lines"]));
        assert!(lines.iter().any(|line| line.contains("stl_vector.h:")), "{lines:?}");
        assert!(own.iter().all(|line| line.contains("/a.cc:")), "{own:?}");
        assert!(own[0].ends_with(":6") && own.iter().any(|it| it.ends_with(":7")), "{own:?}");
    }

    // And so do pages, of which the first is as the text.
    for (words, has_steps) in [(&[][..], false), (&["--full"], true)] {
        run(folder, &[&["paths", "a.btprof", "--html", "page"], words].concat());
        let page = fs::read_to_string(folder.join("page/index.html")).unwrap();
        let chain = page.split("class=\"chain\">").nth(1).unwrap().split('<').next().unwrap();
        assert_eq!(chain.contains("stl_vector.h:"), has_steps, "{chain}");
        assert!(page.contains("Parser&lt;int&gt;::factor"), "{page}");
    }
}

#[test]
fn traces_are_told_by_lines_of_ones_own() {
    let folder = built();
    let folder = folder.path();
    run(folder, &["trace", "./a"]);
    run(folder, &["instrument", "-q", "--scheme", "log", "-o", "a.log", "a"]);
    let records = folder.join("records");
    let logged = Command::new(folder.join("a.log")).env("BACKTRAIL_DIR", &records).status();
    assert!(logged.unwrap().success());
    run(folder, &["trace", "--witness", "breakpoint", "-o", "b.bttrace", "./a"]);
    for what in ["a.bttrace", "records", "b.bttrace"] {
        let text = run(folder, &["show", what, "--function", "*factor*"]);
        assert!(text.contains("a.cc:6 ") && !text.contains("stl_vector.h"), "{what}: {text}");
        let full = run(folder, &["show", what, "--function", "*factor*", "--full"]);
        assert!(full.contains("stl_vector.h:"), "{what}: {full}");
        let document = run(folder, &["show", what, "--json", "--function", "*factor*"]);
        let mut inlined = 0;
        for line in document.lines().skip(1) {
            let row: Value = serde_json::from_str(line).unwrap();
            let Some(line) = row["line"].as_str() else { continue };
            let own = row["own_line"].as_str().unwrap();
            assert!(own.contains("a.cc:"), "{row}");
            inlined += usize::from(line.contains("stl_vector.h:"));
        }
        assert!(inlined > 0, "{what}: {document}");
    }
}

#[test]
fn an_autopsy_counts_functions_and_not_names() {
    let folder = built();
    let folder = folder.path();
    run(folder, &["instrument", "-q", "--scheme", "full", "-o", "a.traced", "a"]);
    core_of(Command::new("./a.traced").arg("200").current_dir(folder), Path::new("core"));
    let text = run(folder, &["autopsy", "core"]);
    let not_run = text.split("did not run").nth(1).unwrap();
    // Those for int ran; double's has an entry in the log of neither.
    for expected in ["alone", "Parser<…>::expr (3 of 4)", "Parser<…>::factor (3 of 4)"] {
        assert!(not_run.contains(expected), "{expected}: {text}");
    }
    let full = run(folder, &["autopsy", "core", "--full"]);
    let not_run = full.split("did not run").nth(1).unwrap();
    assert!(not_run.contains("Parser<long>::expr(long)"), "{full}");
    assert!(!not_run.contains("Parser<int>"), "{full}");
    let document = json(folder, &["autopsy", "core", "--json"]);
    let (shown, linked) = (
        texts(&document["impossible"]["functions"]),
        texts(&document["impossible"]["linkage_names"]),
    );
    let counts = &document["active"]["functions"];
    let not_run = counts["total"].as_u64().unwrap() - counts["now"].as_u64().unwrap();
    assert_eq!((shown.len() as u64, linked.len() as u64), (not_run, not_run));
    let place = linked.iter().position(|name| *name == "_ZN6ParserIlE4exprEl").unwrap();
    assert_eq!(shown[place], "Parser<long>::expr(long)");
    assert!(!linked.contains(&"_ZN6ParserIiE4exprEi"), "{linked:?}");
}

#[test]
fn an_autopsy_folds_what_libraries_did_in_ones_own_code() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = "\
#include <algorithm>
#include <vector>
volatile int *nowhere;
__attribute__((noinline)) int sum(std::vector<int> const &all) {
    int found = 0;
    std::for_each(all.begin(), all.end(), [&](int x) { found += x; });
    std::for_each(all.begin(), all.end(), [&](int x) {
        found += x;
        if (x == 3)
            found += *nowhere;
    });
    return found;
}
int main(int count, char **) { return sum({count, 2, 3}); }
";
    fs::write(folder.join("a.cc"), source).unwrap();
    run(folder, &["c++", "-O1", "-g", "-fno-vectorize", "-fno-unroll-loops", "a.cc", "-o", "a"]);
    run(folder, &["instrument", "-q", "--scheme", "pt", "-o", "a.traced", "a"]);
    core_of(Command::new("./a.traced").current_dir(folder), Path::new("core"));
    let text = run(folder, &["autopsy", "core"]);
    let full = run(folder, &["autopsy", "core", "--full"]);
    assert!(!text.contains("stl_algo") && full.contains("stl_algo.h:"), "{text}{full}");
    // Numbers are those of all frames.
    let last = |text: &str| text.lines().find(|it| it.contains("  main  ")).unwrap().to_owned();
    assert_eq!(last(&text).split_whitespace().next(), last(&full).split_whitespace().next());
    assert!(text.contains("… 1 inlined function of libraries (--full) …"), "{text}");
    let document = json(folder, &["autopsy", "core", "--json"]);
    let frames = document["threads"][0]["frames"].as_array().unwrap();
    let sum = frames.iter().find(|it| it["function"] == "_Z3sumRKSt6vectorIiSaIiEE").unwrap();
    let lines = sum["path"].as_array().unwrap().iter().filter_map(|step| step["line"].as_str());
    assert!(lines.clone().any(|line| line.contains("stl_")), "{sum}");
    let own = texts(&sum["own_path"]);
    assert!(own.iter().all(|line| line.contains("/a.cc:")), "{own:?}");
    assert!(own.last().is_some_and(|line| line.ends_with("/a.cc:10")), "{own:?}");
    run(folder, &["autopsy", "core", "--html", "page"]);
    let page = fs::read_to_string(folder.join("page/index.html")).unwrap();
    assert!(!page.contains("\"name\":\"std::for_each"), "{page}");
}

#[test]
fn lists_end_with_the_screen_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut words = vec!["cc".to_owned(), "-O0".to_owned()];
    for unit in 0..30 {
        let name = format!("u{unit}.c");
        let main = if unit == 0 { "int main(void) { return 0; }\n" } else { "" };
        let source = format!("{main}int f{unit}(int x) {{ return x + {unit}; }}\n");
        fs::write(folder.join(&name), source).unwrap();
        words.push(name);
    }
    words.extend(["-o", "many"].map(str::to_owned));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    run(folder, &words);
    let piped = run(folder, &["info", "--functions", "many"]);
    assert!(piped.contains("u29.c") && piped.contains("f29") && !piped.contains(" more ("));
    let screen = on_terminal(folder, 24, "info --functions many");
    assert!(
        screen.contains("… 13 more (--all)") && screen.contains("… 14 more (--all)"),
        "{screen}"
    );
    assert!(!screen.contains("u29.c") && !screen.contains("f29"), "{screen}");
    let all = on_terminal(folder, 24, "info --functions --all many");
    assert!(all.contains("u29.c") && all.contains("f29") && !all.contains(" more ("), "{all}");
    assert!(piped.contains("carries") && piped.contains(" in 30 units, "), "{piped}");
}

/// Functions with many paths; those that have the most are named unasked, in short.
#[test]
fn info_does_not_list_all_that_is_cut_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let long = "a_name_of_many_words_".repeat(8);
    let mut source = "volatile int seen;\n".to_owned();
    for number in 0..14 {
        let name = if number == 13 { long.clone() } else { format!("f{number}") };
        let ifs: String =
            (0..13 + number).map(|bit| format!(" if (x & (1 << {bit})) seen++;")).collect();
        source += &format!("void {name}(int x) {{{ifs} }}\n");
    }
    source += "int main(void) { return 0; }\n";
    fs::write(folder.join("a.c"), source).unwrap();
    run(folder, &["cc", "-O0", "-g", "a.c", "-o", "a"]);
    let piped = run(folder, &["info", "a"]);
    assert!(piped.contains("  functions  1 whole, 14 cut"), "{piped}");
    assert!(piped.contains("f12") && !piped.contains("f2\n"), "{piped}");
    assert!(piped.contains("… 4 more (--functions lists all)"), "{piped}");
    assert!(piped.contains(&long) && piped.contains(" in 1 unit, "), "{piped}");
    let screen = on_terminal(folder, 50, "info a");
    assert!(!screen.contains(&long) && screen.contains("  a_na"), "{screen}");
    let table = screen.split("Functions not").nth(1).unwrap();
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let all = run(folder, &["info", "a", "--functions"]);
    assert!(all.contains("f2\n") && all.contains("f13") | all.contains(&long), "{all}");
}

#[test]
fn a_script_is_told_from_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = folder.join("script");
    fs::write(&script, "#!/usr/bin/env python3\nprint(1)\n").unwrap();
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(&script, mode).unwrap();
    for (words, said) in [
        (
            &["trace"][..],
            "trace the interpreter with the script as argument: backtrail trace python3 -- ./script",
        ),
        (
            &["trace", "--witness", "breakpoint"],
            "trace the interpreter with the script as argument: backtrail trace --witness \
             breakpoint python3 -- ./script",
        ),
        (
            &["profile"],
            "profile the interpreter with the script as argument: backtrail profile python3 -- ./script",
        ),
        (&["info"], "give that, or a program that the script starts"),
    ] {
        let output = tool(folder, &[words, &["./script"]].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        let expected = format!("backtrail: ./script is a script for python3: {said}\n");
        assert_eq!((output.status.code(), told), (Some(3), expected));
    }
}

/// What differs from run to run is random: which of two functions is called, 64 times, while
/// another run than the one that sees that sees what is decided in them.
#[test]
fn runs_that_differ_are_told_by_functions_and_lines() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = "\
#include <fcntl.h>
#include <unistd.h>
volatile int seen;
__attribute__((noinline)) static void even(int x) {
    if (x % 3)
        seen += 2;
}
__attribute__((noinline)) static void odd(int x) {
    if (x % 5)
        seen += 1;
}
int main(void) {
    unsigned char bits[64];
    int file = open(\"/dev/urandom\", O_RDONLY);
    if (read(file, bits, sizeof bits) != sizeof bits)
        return 1;
    for (unsigned at = 0; at < sizeof bits; at++) {
        if (bits[at] & 1)
            odd(bits[at]);
        else
            even(bits[at]);
    }
    return 0;
}
";
    fs::write(folder.join("a.c"), source).unwrap();
    run(folder, &["cc", "-O1", "-g", "a.c", "-o", "a"]);
    let output = tool(folder, &["trace", "--runs", "3", "--strategy", "function", "./a"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{told}");
    let functions = ["main", "odd", "even"].map(|name| format!(" of {name} ("));
    assert!(functions.iter().any(|it| told.contains(it)) && told.contains("a.c:"), "{told}");
    assert!((1..=3).any(|run| told.contains(&format!(" steps: run {run} "))), "{told}");
    assert!(told.contains("the order of threads"), "{told}");
    // Nobody else knows our numbers of nodes, routines and witnesses.
    let is_number_of_ours = |word: &str| {
        let digits = word.strip_prefix(['n', 'r', 't']).unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
    };
    assert!(!told.split([' ', '(', ')', ':', ',', ';']).any(is_number_of_ours), "{told}");
}

/// A launcher: it loads a library that does the work, starts a process and becomes another
/// program.
#[test]
fn what_is_in_no_trace_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = "\
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    void *library = dlopen(\"./libwork.so\", RTLD_NOW);
    int (*work)(int) = (int (*)(int))dlsym(library, \"work\");
    if (work(count) != count + 1)
        abort();
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, 0, 0);
    if (count > 1)
        execl(words[1], words[1], (char *)0);
    return 0;
}
";
    fs::write(folder.join("a.c"), source).unwrap();
    fs::write(folder.join("work.c"), "int work(int x) { return x + 1; }\n").unwrap();
    for words in [&["-shared", "-fPIC", "work.c", "-o", "libwork.so"][..], &["a.c", "-o", "a"]] {
        let built = Command::new("clang-19").args(words).current_dir(folder).status();
        assert!(built.unwrap().success());
    }
    let trace = ["trace", "--witness", "breakpoint", "./a"];
    let told = |more: &[&str]| {
        let output = tool(folder, &[&trace, more].concat());
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let line = "backtrail: not traced: 1 library besides the C library (--library GLOB) and 1 \
                process that it started\n";
    assert_eq!(told(&[]), line);
    let line = "backtrail: not traced: 1 library besides the C library (--library GLOB), 1 process \
                that it started and ";
    let became = told(&["--", "/bin/true"]);
    assert!(became.starts_with(line) && became.ends_with("/true, which it became\n"), "{became}");
    let silent = tool(folder, &[&["-q"], &trace[..]].concat());
    assert!(silent.status.success() && silent.stderr.is_empty());
}

#[test]
fn a_tree_names_functions_by_what_differs() {
    let folder = built();
    run(folder.path(), &["trace", "-q", "-o", "t", "./a", "--", "7"]);
    let tree = on_terminal(folder.path(), 40, "show t --tree");
    for name in ["Parser<int>::factor", "Parser<double>::factor", "Parser<int>::expr"] {
        assert!(tree.lines().any(|line| line.trim_end().ends_with(&format!("  {name}"))), "{tree}");
    }
    let full = run(folder.path(), &["show", "t", "--tree", "--full"]);
    assert!(full.contains("Parser<int>::factor(int)"), "{full}");
}
