//! A glob that matches no function is wrong usage, in every verb that takes one: it is told
//! before anything runs or is written, with names that come near.

mod cc_project;

use cc_project::Project;

const PROGRAM: &str = r#"
#include <stdio.h>
__attribute__((noinline)) int parse(int x) { return x > 3 ? x * 2 : x; }
__attribute__((noinline)) int never(int x) { return x * 7; }
int main(int argc, char **argv) {
    FILE *ran = fopen("ran", "w");
    fclose(ran);
    return parse(argc) > 9 ? never(argc) : 0;
}
"#;

fn project() -> Project {
    let project = Project::new(&[("p.c", PROGRAM)]);
    let script = "$CC -O1 -g p.c -o p && backtrail profile -o prof ./p && \
        backtrail trace -o trace ./p && backtrail -q instrument --scheme log -o p.log p && \
        BACKTRAIL_DIR=rec ./p.log && \
        backtrail -q instrument --scheme none --tunable parse -o p.tune p && rm ran";
    project.run_ours(script).succeeded();
    project
}

#[test]
fn what_matches_nothing_is_told_before_anything_runs() {
    let project = project();
    for command in [
        "profile --only GLOB -o new ./p",
        "profile --only parse --only GLOB -o new ./p",
        "profile --skip GLOB -o new ./p",
        "profile --copies 2 --only GLOB -o new ./p",
        "paths --function GLOB prof",
        "paths --json --function GLOB prof",
        "paths --compare prof prof --function GLOB",
        "export prof --to lcov --function GLOB",
        "show trace --function GLOB",
        "show trace --json --function GLOB",
        "show trace --tree --function GLOB",
        "show rec --function GLOB",
        "show rec --json --function GLOB",
        "plan p --weights prof --explain GLOB",
        "instrument --scheme profile --only GLOB -o new p",
        "instrument --scheme cc,GLOB=pt -o new p",
        "instrument --scheme pt:GLOB -o new p",
        "instrument --scheme cc --tunable GLOB -o new p",
        "tune p.tune --set GLOB=cc",
    ] {
        for (glob, near) in [("nothing*", ""), ("porse", "; near it: parse")] {
            let command = command.replace("GLOB", &format!("'{glob}'"));
            let ran = project.run_ours(&format!("backtrail {command}"));
            let told = ran.stderr.clone();
            assert_eq!(ran.status, 2, "{command}: {told}");
            assert!(told.contains(&format!(" is called {glob}{near}\n")), "{command}: {told}");
            assert_eq!(told.lines().count(), 1, "{command}: {told}");
            assert!(ran.stdout.is_empty(), "{command}");
            assert!(!project.ours("ran").exists() && !project.ours("new").exists(), "{command}");
        }
        let command = command.replace("GLOB", "'p[ar'");
        let ran = project.run_ours(&format!("backtrail {command}"));
        assert_eq!(ran.status, 2, "{command}");
    }
}

#[test]
fn what_matches_is_done() {
    let project = project();
    for command in [
        "profile --only 'pa*' -o new ./p",
        "profile --skip main -o new ./p",
        "paths --function never prof",
        "paths --compare prof prof --function parse",
        "export prof --to lcov --function never",
        "show trace --function parse",
        "show rec --function never",
        "plan p --weights prof --explain 'm*'",
        "instrument --scheme profile --only main -o new p",
        "instrument --scheme 'cc,ne*=pt' -o new p",
        "tune p.tune --set 'parse=cc'",
    ] {
        project.run_ours(&format!("backtrail {command}")).succeeded();
    }
}

#[test]
fn globs_that_leave_nothing_or_mean_nothing_are_told() {
    let project = project();
    let refused = |command: &str, why: &str| {
        let ran = project.run_ours(&format!("backtrail {command}"));
        let told = ran.stderr.clone();
        assert_eq!(ran.status, 2, "{command}: {told}");
        assert!(told.contains(why), "{command}: {told}");
        assert!(!project.ours("ran").exists(), "{command}");
    };
    refused(
        "profile --only parse --skip 'p*' -o new ./p",
        "--only and --skip leave no function that can be counted",
    );
    let for_profile = "--weights, --only and --skip are for --scheme profile";
    refused("instrument --scheme log --only parse -o new p", for_profile);
    refused("instrument --scheme cc --skip parse -o new p", for_profile);
    // A page and events of all calls have no such choice.
    refused("show trace --html page --function parse", "cannot be used with");
    refused("show trace --to perfetto --function parse", "cannot be used with");
    // A trace knows what ran.
    refused("show trace --function never", "no function of p that ran is called never");
}
