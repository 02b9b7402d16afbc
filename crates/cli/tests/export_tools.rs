//! The tools that `backtrail export` writes for read what it writes.

use std::path::Path;
use std::process::Command;

use backtrail_profile::file::write_profile;
use backtrail_profile::model::Profile;
use backtrail_testkit::{random_profile, sample_profile};

fn run(folder: &Path, words: &[&str]) -> (String, String) {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).env("HOME", folder).env("LC_ALL", "C.UTF-8");
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", words[0]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{words:?}: {said}{printed}");
    (printed, said)
}

/// Exports to a file; what is said about it.
fn export(folder: &Path, to: &str, words: &[&str]) -> String {
    let mut all = vec![env!("CARGO_BIN_EXE_backtrail"), "export", "p.btprof", "--to", to];
    all.extend(["-o", to]);
    all.extend_from_slice(words);
    let (printed, said) = run(folder, &all);
    assert_eq!(printed, "");
    said
}

fn save(folder: &Path, profile: &Profile) {
    std::fs::write(folder.join("p.btprof"), write_profile(profile).unwrap()).unwrap();
}

/// A folder with the sample program and its profile.
fn sample() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("scan.c");
    std::fs::write(&source, sample_profile::SOURCE).unwrap();
    save(folder.path(), &sample_profile::profile(&source.display().to_string()));
    folder
}

/// A large profile with lines that do not exist and awkward names.
fn random(seed: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let folder_path = folder.path();
    let mut profile = random_profile::run(&random_profile::program(seed, 60, 15), seed).0;
    for (number, file) in profile.files.iter_mut().enumerate() {
        *file = folder_path.join(format!("file{number}.c")).display().to_string();
        std::fs::write(file, "int x;\n".repeat(6_000)).unwrap();
    }
    let names = [
        "_ZN3foo3barEiRKSt6vectorIiSaIiEE",
        "a,b",
        "operator\"",
        "\\l",
        "tail.llvm.123",
        "_RNvC1a1b",
    ];
    let ran = profile.functions.iter_mut().filter(|function| !function.paths.is_empty());
    for (function, name) in ran.zip(names) {
        function.name = name.to_owned();
    }
    save(folder_path, &profile);
    folder
}

#[test]
fn genhtml_renders_the_tracefile() {
    let folder = sample();
    let folder = folder.path();
    assert_eq!(export(folder, "lcov", &[]), "");
    let trace = std::fs::read_to_string(folder.join("lcov")).unwrap();
    for line in ["FN:9,scan", "FNDA:100000,scan", "DA:13,1300000", "DA:11,1600000", "DA:22,0"] {
        assert!(trace.lines().any(|other| other == line), "{line}: {trace}");
    }
    // The branch on line 4, in b3 of the first function.
    assert!(trace.contains("BRDA:4,3,0,500000\nBRDA:4,3,1,800000\n"), "{trace}");
    assert!(trace.contains("BRDA:29,65539,0,0\nBRDA:29,65539,1,1\n"), "{trace}");
    let words = ["genhtml", "--branch-coverage", "--output-directory", "site", "lcov"];
    let (printed, said) = run(folder, &words);
    assert!(printed.contains("functions..: 66.7% (2 of 3 functions)"), "{printed}{said}");
    assert!(printed.contains("lines......: 85.7% (18 of 21 lines)"), "{printed}{said}");
    assert!(folder.join("site/index.html").is_file());
    let (summary, _) =
        run(folder, &["lcov", "--rc", "lcov_branch_coverage=1", "--summary", "lcov"]);
    assert!(summary.contains("branches...: 90.9% (10 of 11 branches)"), "{summary}");

    let folder = random(1);
    export(folder.path(), "lcov", &[]);
    run(folder.path(), &words);
}

/// As those of Rust's library are, which genhtml would want to read.
#[test]
fn genhtml_is_not_told_of_libraries_that_are_not_here() {
    let folder = sample();
    let folder = folder.path();
    let mut profile = sample_profile::profile("scan.c");
    profile.files.push("/rustc/0123456789/library/core/src/fmt/mod.rs".to_owned());
    let inlined = profile.locations.iter_mut().filter(|it| it.inlined_at.is_some());
    inlined.for_each(|location| location.file = 1);
    save(folder, &profile);
    let said = export(folder, "lcov", &[]);
    assert!(said.contains("left out: 1 source file of libraries not on this machine"), "{said}");
    let (printed, said) =
        run(folder, &["genhtml", "--branch-coverage", "--output-directory", "site", "lcov"]);
    assert!(printed.contains("functions..: 66.7% (2 of 3 functions)"), "{printed}{said}");
    // A source of the user's own that is gone is not left out without a word.
    std::fs::remove_file(folder.join("scan.c")).unwrap();
    export(folder, "lcov", &[]);
    let trace = std::fs::read_to_string(folder.join("lcov")).unwrap();
    assert!(trace.contains("SF:scan.c\n") && !trace.contains("/rustc/"), "{trace}");
}

#[test]
fn callgrind_annotate_reads_the_file() {
    let folder = sample();
    let folder = folder.path();
    assert_eq!(export(folder, "callgrind", &[]), "");
    let (printed, said) = run(folder, &["callgrind_annotate", "--auto=yes", "callgrind"]);
    assert!(said.is_empty(), "{said}");
    let total = printed.lines().find(|line| line.contains("PROGRAM TOTALS")).unwrap();
    // Every block that was executed.
    assert!(total.contains("7,800,004"), "{total}");
    let of = |name: &str| printed.lines().find(|line| line.ends_with(name)).unwrap_or_default();
    assert!(of("scan.c:scan").contains("7,600,000"), "{printed}");
    assert!(of("scan.c:main").contains("200,004"), "{printed}");
    // Sources are annotated with the counts of their lines.
    assert!(of("        case 'a': sum += weigh(i); break;").contains("1,300,000"), "{printed}");

    let folder = random(2);
    export(folder.path(), "callgrind", &[]);
    let (printed, said) =
        run(folder.path(), &["callgrind_annotate", "--threshold=100", "callgrind"]);
    assert!(printed.contains("PROGRAM TOTALS") && said.is_empty(), "{said}");
    assert!(printed.contains("foo::bar(int, std::vector<"), "{printed}");
}

#[test]
fn clang_uses_the_samples() {
    let folder = sample();
    let folder = folder.path();
    let said = export(folder, "autofdo", &[]);
    assert!(said.contains("the beginning of 1 inlined function is not known (weigh)"), "{said}");
    let text = std::fs::read_to_string(folder.join("autofdo")).unwrap();
    let expected = "\
scan:4800000:100000
 1: 100000
 2: 1600000
 3: 1500000
 4: 1300000
 5: 100000
 6: 100000
 9: 100000
";
    assert!(text.starts_with(expected), "{text}");
    run(folder, &["llvm-profdata-19", "merge", "--sample", "-o", "samples", "autofdo"]);
    let (shown, _) = run(folder, &["llvm-profdata-19", "show", "--sample", "samples"]);
    assert!(
        shown.contains("Function: scan: ") && shown.contains(", 100000, 7 sampled lines"),
        "{shown}"
    );
    let words = ["-O2", "-gline-tables-only", "-Werror", "-fprofile-sample-use=samples"];
    let mut clang = vec!["clang-19", "-S", "-emit-llvm", "scan.c", "-o", "scan.ll"];
    clang.extend(words);
    run(folder, &clang);
    let ir = std::fs::read_to_string(folder.join("scan.ll")).unwrap();
    // The switch in scan: clang adds one to each count, so that none is 0.
    assert!(ir.contains("i32 100001, i32 1300001, i32 100001}"), "{ir}");

    let folder = random(3);
    export(folder.path(), "autofdo", &[]);
    run(folder.path(), &["llvm-profdata-19", "merge", "--sample", "-o", "samples", "autofdo"]);
}

#[test]
fn samples_of_inlined_functions_nest() {
    let folder = sample();
    let folder = folder.path();
    let nested = " 4: weigh:2600000\n  1: 1300000\n  2: 500000\n  3: 800000\n";
    let check = |profile: &Profile| {
        save(folder, profile);
        assert_eq!(export(folder, "autofdo", &[]), "");
        let text = std::fs::read_to_string(folder.join("autofdo")).unwrap();
        assert!(text.contains(nested), "{text}");
        run(folder, &["llvm-profdata-19", "merge", "--sample", "-o", "samples", "autofdo"]);
    };
    // Where it begins is known by its positions,
    let mut profile = sample_profile::profile("scan.c");
    let inlined = profile.locations.iter_mut().filter(|place| place.scope == "weigh");
    inlined.for_each(|place| place.scope_line = 3);
    check(&profile);

    // or by a copy of it that is not inlined, and never runs.
    let mut profile = sample_profile::profile("scan.c");
    let place = profile.locations.iter().find(|place| place.scope == "weigh").unwrap();
    let mut start = place.clone();
    (start.line, start.inlined_at) = (3, None);
    profile.locations.push(start);
    let mut weigh = profile.functions[2].clone();
    weigh.name = "weigh".to_owned();
    weigh.location = Some(profile.locations.len() as u32 - 1);
    profile.functions.push(weigh);
    check(&profile);
}

#[test]
fn pprof_reads_the_file() {
    let folder = sample();
    let folder = folder.path();
    assert_eq!(export(folder, "pprof", &[]), "");
    let (top, said) = run(folder, &["go", "tool", "pprof", "-top", "-unit=count", "pprof"]);
    assert!(top.contains("Type: blocks"), "{top}{said}");
    let of = |name: &str| top.lines().find(|line| line.ends_with(name)).unwrap_or_default();
    // What is not in weigh, which was inlined.
    assert!(of("  scan").trim_start().starts_with("5000000 "), "{top}");
    assert!(of("  weigh (inline)").trim_start().starts_with("2600000 "), "{top}");
    assert!(of("  main").trim_start().starts_with("200004 "), "{top}");
    let (list, _) = run(folder, &["go", "tool", "pprof", "-list=^scan$", "-unit=count", "pprof"]);
    assert!(list.contains("for (int i = 0; text[i] && i < limit; i++) {"), "{list}");
    run(folder, &["go", "tool", "pprof", "-raw", "pprof"]);

    let folder = random(4);
    export(folder.path(), "pprof", &[]);
    let (top, _) = run(
        folder.path(),
        &["go", "tool", "pprof", "-top", "-nodecount=100", "-nodefraction=0", "pprof"],
    );
    assert!(top.contains("foo::bar(int, std::vector<"), "{top}");
}

#[test]
fn graphviz_draws_the_graph() {
    let folder = sample();
    let folder = folder.path();
    assert_eq!(export(folder, "dot", &[]), "");
    let (picture, said) = run(folder, &["dot", "-Tsvg", "dot"]);
    assert!(said.is_empty(), "{said}");
    for text in ["scan: 100,000 entries", "b3", "scan.c:4", "1300000", "=98 100000", "F 800000"] {
        assert!(picture.contains(text), "{text}: {picture}");
    }
    assert_eq!(export(folder, "dot", &["--function", "main"]), "");
    let text = std::fs::read_to_string(folder.join("dot")).unwrap();
    assert!(text.contains("main: 1 entry") && !text.contains("scan: "), "{text}");

    let folder = random(5);
    let said = export(folder.path(), "dot", &[]);
    assert!(said.contains("lower bounds: counts of 14 functions with unfinished paths"), "{said}");
    run(folder.path(), &["dot", "-Tdot", "dot"]);
}

#[test]
fn what_cannot_be_read_or_written() {
    let folder = sample();
    let export = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_backtrail"));
        command.arg("export").args(words).current_dir(folder.path()).output().unwrap()
    };
    let code = |words: &[&str]| export(words).status.code();
    assert_eq!(code(&["scan.c", "--to", "lcov"]), Some(3));
    assert_eq!(code(&["gone", "--to", "dot"]), Some(3));
    assert_eq!(code(&["p.btprof", "--to", "png"]), Some(2));
    assert_eq!(code(&["p.btprof"]), Some(2));
    assert_eq!(code(&["p.btprof", "--to", "dot", "-o", "no/such/folder"]), Some(6));
    let mut torn = sample_profile::profile("scan.c");
    torn.incomplete = vec!["a full disk".to_owned()];
    save(folder.path(), &torn);
    for format in ["lcov", "callgrind", "autofdo", "pprof", "dot"] {
        let output = export(&["p.btprof", "--to", format]);
        assert!(output.status.success() && !output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("the profile is incomplete: a full disk"), "{format}: {said}");
    }
}
