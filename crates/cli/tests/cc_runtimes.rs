//! Options that bring a runtime of their own: sanitizers, coverage, profiles.
//! The program still reports what it reports under plain clang.

mod cc_project;

use cc_project::{Build, Project};

const FAULTY: &str = r#"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int *room = malloc(4 * sizeof *room);
    int at = argc > 1 ? atoi(argv[1]) : 0;
    int big = INT_MAX;
    for (int i = 0; i < 4; i++) room[i] = i;
    printf("%d\n", room[at & 7]);
    fflush(stdout);
    if (argc > 2) printf("%d\n", big + at > 0);
    free(room);
    return 0;
}
"#;

/// Lines that hold no addresses, process numbers or positions in the file.
fn essence(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| {
        line.contains("runtime error")
            || line.contains("SUMMARY")
            || line.contains("ERROR: AddressSanitizer")
    });
    lines
        .map(|line| {
            let words = line.split_whitespace().filter(|word| {
                !word.starts_with("==") && !word.starts_with("0x") && !word.contains('/')
            });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[track_caller]
fn same_report(project: &Project, arguments: &str) -> Vec<String> {
    let plain = project.run(Build::Plain, &format!("./program {arguments}"));
    for scheme in ["", ".empty", ".log"] {
        if !scheme.is_empty() {
            project.derive("program", &scheme[1..]);
        }
        let ours = project.run_ours(&format!("./program{scheme} {arguments}"));
        assert_eq!(ours.status, plain.status, "{scheme} {arguments}\n{}", ours.stderr);
        assert_eq!(ours.stdout, plain.stdout, "{scheme} {arguments}");
        assert_eq!(essence(&ours.stderr), essence(&plain.stderr), "{scheme} {arguments}");
    }
    project.run_ours("rm -f program.empty program.log").succeeded();
    essence(&plain.stderr)
}

#[test]
fn address_sanitizer() {
    let project = Project::new(&[("faulty.c", FAULTY)]);
    project.both("$CC -O1 -g -fsanitize=address faulty.c -o program").succeeded();
    project.carries("program", &["faulty.c"]);
    assert_eq!(same_report(&project, "2"), [""; 0]);
    let report = same_report(&project, "6");
    assert!(report[0].contains("heap-buffer-overflow"), "{report:?}");
}

#[test]
fn undefined_behaviour_sanitizer() {
    let project = Project::new(&[("faulty.c", FAULTY)]);
    project.both("$CC -O1 -fsanitize=undefined faulty.c -o program").succeeded();
    project.carries("program", &["faulty.c"]);
    let report = same_report(&project, "3 more");
    assert!(report.iter().any(|line| line.contains("signed integer overflow")), "{report:?}");
    project
        .both("$CC -O1 -fsanitize=undefined -fsanitize-trap=all faulty.c -o program")
        .succeeded();
    same_report(&project, "3 more");
}

#[test]
fn other_sanitizers_make_the_same_objects() {
    let project = Project::new(&[("faulty.c", FAULTY)]);
    for options in [
        "-fsanitize=thread",
        "-fsanitize=memory -fsanitize-memory-track-origins",
        "-fsanitize=leak",
        "-fsanitize=safe-stack",
        "-fsanitize-coverage=trace-pc-guard,trace-cmp",
        "-fsanitize=address,undefined -g",
        "-fxray-instrument",
    ] {
        project.both(&format!("$CC -O2 {options} -c faulty.c")).succeeded();
        project.carries("faulty.o", &["faulty.c"]);
    }
}

#[test]
fn coverage_for_gcov() {
    let project = Project::new(&[("faulty.c", FAULTY)]);
    project
        .both("$CC --coverage -O0 -c faulty.c -o faulty.o && $CC --coverage faulty.o -o program")
        .succeeded();
    assert!(project.ours("faulty.gcno").is_file());
    project.carries("program", &["faulty.c"]);
    project.both("./program 2").succeeded();
    assert!(project.ours("faulty.gcda").is_file());
    // The reports agree, and a variant counts on.
    project.both("llvm-cov-19 gcov -b faulty.c").succeeded();
    project.derive("program", "empty");
    project.run(Build::Plain, "./program 1").succeeded();
    project.run_ours("./program.empty 1 && rm program.empty").succeeded();
    project.both("llvm-cov-19 gcov -b faulty.c").succeeded();
    project
        .both("rm -f *.gc* && $CC --coverage -O2 faulty.c -o program && ./program 3")
        .succeeded();
}

#[test]
fn profiles_of_clang() {
    let project = Project::new(&[("faulty.c", FAULTY)]);
    let script = "$CC -O2 -fprofile-instr-generate -fcoverage-mapping faulty.c -o program";
    project.both(script).succeeded();
    project.carries("program", &["faulty.c"]);
    let report = "LLVM_PROFILE_FILE=raw ./program 2 && llvm-profdata-19 merge raw -o merged && rm raw && \
                  llvm-profdata-19 show --all-functions --counts merged && \
                  llvm-cov-19 show ./program -instr-profile=merged";
    // Merged profiles hold build ids.
    project.both_spoke(report).succeeded();
    project.write("merged", &std::fs::read(project.plain("merged")).unwrap());
    // Used again.
    for options in
        ["-fprofile-instr-use=merged", "-fprofile-use=merged -Wno-profile-instr-unprofiled"]
    {
        project.both(&format!("$CC -O2 {options} -c faulty.c -o used.o")).succeeded();
        project.carries("used.o", &["faulty.c"]);
    }
    project.both("$CC used.o -o program").succeeded();
    project.behaves("program", "1");
    project.both("$CC -O2 -fprofile-generate -c faulty.c -o generate.o").succeeded();
    project.carries("generate.o", &["faulty.c"]);
}
