//! All verbs count the same functions: those that are linked, each once.

mod profile_program;

use std::process::Command;

use backtrail_testkit::cores::core_of;
use profile_program::Program;
use serde_json::Value;

/// The number before a word in a text.
#[track_caller]
fn number_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().unwrap();
    let digits = before.trim_end().rsplit(' ').next().unwrap().replace(',', "");
    digits.parse().unwrap_or_else(|_| panic!("no number before {word:?}: {text}"))
}

#[test]
fn a_function_that_several_units_define_counts_once() {
    let header = "#include <cstdio>\n#include <cstdlib>\n\
        inline __attribute__((noinline)) int shared(int x) { return x > 2 ? x * 3 : x; }\n\
        template <class T> __attribute__((noinline)) T twice(T x) { return x + x; }\n";
    let main = "#include \"shared.h\"\nint other(int);\nint main(int argc, char **) { \
        std::printf(\"%d\\n\", shared(argc) + twice(argc) + other(argc)); if (argc > 3) std::abort(); return 0; }\n";
    let other = "#include \"shared.h\"\nint other(int x) { return shared(x) + twice(x); }\n";
    let program =
        Program::of_files(&[("main.cc", main), ("other.cc", other), ("shared.h", header)]);
    program.backtrail(&["c++", "-O1", "-o", "program", "main.cc", "other.cc"]);
    program.backtrail(&["profile", "-o", "p.btprof", "./program"]);
    let info = program.backtrail(&["info", "program"]);
    let paths = program.backtrail(&["paths", "p.btprof"]);
    let plan = program.backtrail(&["plan", "program", "--weights", "p.btprof", "--copies", "2"]);
    let counts = [
        number_before(&info, " functions, "),
        number_before(&info, " whole, "),
        number_before(&paths, " ran; "),
        number_before(&plan, " functions whose paths are counted"),
    ];
    assert_eq!(counts, [4; 4], "{info}{paths}{plan}");
    assert!(info.contains("; 2 of other units' were not linked"), "{info}");
    // A crash, and what can be switched, count them alike.
    let words = ["instrument", "--scheme", "cc", "--tunable", "*", "-o", "traced", "program"];
    program.backtrail(&words);
    let listed = program.backtrail(&["tune", "traced", "--json", "--list"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["functions"].as_array().unwrap().len(), 4, "{listed}");
    let core = program.path("core of it");
    core_of(Command::new(program.path("traced")).args(["1", "2", "3"]), &core);
    let autopsy = program.backtrail(&["autopsy", "--json", core.to_str().unwrap()]);
    let autopsy: Value = serde_json::from_str(&autopsy).unwrap();
    assert_eq!(autopsy["active"]["functions"]["total"], 4, "{autopsy}");
    let document: Value =
        serde_json::from_str(&program.backtrail(&["info", "--json", "program"])).unwrap();
    let rows = document["functions"].as_array().unwrap();
    let linked = rows.iter().filter(|row| row["linked"] == true).count();
    assert_eq!((rows.len(), linked), (6, 4));
}

#[test]
fn why_functions_are_cut_is_not_said_of_their_acyclic_paths() {
    // Behind each computed goto paths begin anew, so there are more of them than acyclic ones.
    let mut source = String::from("int run(const char *p) {\n  static void *at[] = {");
    for label in 0..40 {
        source.push_str(&format!("&&l{label}, "));
    }
    source.push_str("};\n  int x = 0;\n  goto *at[*p++ % 40];\n");
    for label in 0..40 {
        let next = "goto *at[*p++ % 40];";
        let test = if label % 2 == 0 { "if (x > 5) x -= 3; if (x > 9) x = 1;" } else { "" };
        source.push_str(&format!("  l{label}: x += {label}; {test} if (!*p) return x; {next}\n"));
    }
    source.push_str("}\nint main(int argc, char **argv) { return run(argv[0]) & 1; }\n");
    let program = Program::c(&source, &["-O1"]);
    let info = program.backtrail(&["info", "program"]);
    assert!(info.contains(" cut (to 4,096 paths at most)"), "{info}");
}
