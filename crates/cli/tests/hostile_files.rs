//! Files that are no files, that have what nobody wrote, or names that are no text;
//! disks that are full: one line, the exit code that stands for it, never a panic.

mod cc_project;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use backtrail_build::carry::Carried;
use backtrail_build::carry::recipe::{Recipe, RecipeArg};
use backtrail_build::carry::unit::UnitRecord;
use backtrail_machine::edit::{Edit, NewSection, edit};
use backtrail_testkit::cores::core_beside;
use cc_project::{Project, Ran};

const INPUT: i32 = 3;
const WRITE: i32 = 6;

const PROGRAM: &str = r#"
#include <stdlib.h>
__attribute__((noinline)) int step(int x) { return x & 1 ? 3 * x + 1 : x / 2; }
__attribute__((noinline)) int crash(int x) { if (x > 1) *(volatile int *)0 = x; return x; }
int main(int argc, char **argv) { int n = 7, k = 0; while (n != 1) { n = step(n); k++; } return crash(argc) + k == 0; }
"#;

fn built() -> Project {
    let project = Project::new(&[("p.c", PROGRAM)]);
    project.run_ours("$CC -O1 -g p.c -o p").succeeded();
    project
}

/// Fails unless it was refused in one line with this code.
#[track_caller]
fn refused(ran: &Ran, status: i32, words: &str, script: &str) {
    assert_eq!(ran.status, status, "{script}: {}", ran.stderr);
    let is_one = ran.stderr.lines().filter(|line| line.starts_with("backtrail: ")).count() == 1;
    assert!(is_one && ran.stderr.contains(words), "{script}: {}", ran.stderr);
}

#[test]
fn what_is_no_file_is_not_read() {
    let project = built();
    project.run_ours("mkfifo pipe && ln -s pipe link && backtrail profile -o prof ./p; true");
    for name in ["pipe", "link", "/dev/zero"] {
        for verb in [
            "info",
            "info p --side",
            "instrument --scheme log -o out",
            "detach",
            "extract -o out",
            "tune --list",
            "paths",
            "paths --compare prof",
            "export --to lcov",
            "plan p --weights",
            "autopsy",
        ] {
            let script = format!("timeout 20 backtrail {verb} {name}");
            refused(&project.run_ours(&script), INPUT, "is not a regular file", &script);
        }
    }
    let list = "timeout 20 backtrail instrument --scheme realistic -o out p --pt-list";
    refused(&project.run_ours(&format!("{list} /dev/zero")), INPUT, "not a regular file", list);
    // A list may come from a pipe.
    project.run_ours(&format!("echo step > pipe & {list} pipe")).succeeded();
    project.run_ours("echo '{\"a\"' > list").succeeded();
    refused(&project.run_ours(&format!("{list} list")), INPUT, "list: no JSON", list);
}

#[test]
fn standard_output_that_is_full_is_an_error() {
    let project = built();
    project
        .run_ours(
            "backtrail profile -o prof ./p && backtrail trace -o trace ./p && cp p q && \
             backtrail -q instrument --scheme log -o p.log p && BACKTRAIL_DIR=rec ./p.log && \
             backtrail -q instrument --scheme full --tunable '*' -o p.tune p",
        )
        .succeeded();
    let core = core_beside(&project.ours("p.tune"), &["crash"], "full");
    fs::rename(core, project.ours("core")).unwrap();
    for verb in [
        "--help",
        "--version",
        "info --help",
        "info p",
        "info p --json",
        "show trace",
        "show trace --json",
        "show trace --tree",
        "show trace --to perfetto",
        "show trace --html d",
        "show rec",
        "show rec --json",
        "plan p --weights prof",
        "plan p --weights prof --json",
        "paths prof",
        "paths prof --json",
        "paths prof --html d",
        "paths prof -o sum",
        "paths --compare prof prof",
        "paths --compare prof prof --json",
        "export prof --to lcov",
        "export prof --to callgrind",
        "export prof --to autofdo",
        "export prof --to pprof",
        "export prof --to dot",
        "autopsy core",
        "autopsy core --json",
        "autopsy core core",
        "autopsy core --html d",
        "tune p.tune --list",
        "tune p.tune --list --json",
        "detach q",
        "extract p -o d",
        "cache",
        "cache --clear",
        "completions bash",
        "completions zsh",
        "completions fish",
    ] {
        let script = format!("backtrail {verb} >/dev/full");
        let words = "cannot write to standard output: No space left on device";
        refused(&project.run_ours(&script), WRITE, words, &script);
        // Nobody reads any further.
        let script = format!("(backtrail {verb}; echo $? >&2) | true");
        let ran = project.run_ours(&script);
        assert!(!ran.stderr.contains("panicked"), "{script}: {}", ran.stderr);
    }
    let script = "backtrail show trace --to perfetto -o /dev/full";
    refused(&project.run_ours(script), WRITE, "cannot write /dev/full: No space left", script);
    // Nobody hears why.
    assert_eq!(project.run_ours("backtrail info none 2>/dev/full").status, INPUT);
    assert_eq!(project.run_ours("backtrail none 2>/dev/full").status, 2);
}

#[test]
fn a_full_temporary_folder_is_an_error_of_writing() {
    // Only root can mount.
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let project = built();
    project.run_ours("mkdir small").succeeded();
    for linker in ["", "-fuse-ld=lld", "-fuse-ld=gold"] {
        project.run_ours(&format!("$CC -O1 -g {linker} p.c -o p")).succeeded();
        for size in ["4k", "16k", "40k", "96k"] {
            for verb in [
                "profile ./p",
                "trace ./p",
                "profile --copies 2 ./p",
                "instrument --scheme full -o out p",
            ] {
                let script = format!(
                    "unshare --mount sh -c 'mount -t tmpfs -o size={size} none small && \
                     BACKTRAIL_CACHE=cache-of-full TMPDIR=$PWD/small backtrail {verb}'; \
                     status=$?; rm -rf cache-of-full; exit $status"
                );
                let ran = project.run_ours(&script);
                // What fits is done.
                if ran.status == 0 && ["40k", "96k"].contains(&size) {
                    continue;
                }
                assert_eq!(ran.status, WRITE, "{linker} {script}: {}", ran.stderr);
                let said = ran.stderr.to_lowercase();
                let is_said = said.contains("no space left") && said.contains("small");
                assert!(is_said, "{linker} {script}: {}", ran.stderr);
            }
        }
    }
}

/// The program with other carried sections, under right sums.
fn replace(program: &Path, section: &str, data: &[u8]) {
    let bytes = fs::read(program).unwrap();
    let add = [NewSection { name: section, data }];
    let edits = Edit { remove: &[section], add: &add, ..Edit::default() };
    fs::write(program, edit(&bytes, &edits).unwrap()).unwrap();
}

#[test]
fn what_is_carried_but_cannot_be_used_is_an_input() {
    let project = built();
    let path = project.ours("p");
    let whole = fs::read(&path).unwrap();
    let carried = Carried::read(&path).unwrap();
    let unit = &carried.units[0];
    let bitcode = unit.bitcode().unwrap().unwrap();
    let model = unit.model().unwrap();
    let mut cut = bitcode.clone();
    cut.truncate((bitcode.len() / 2) & !3);
    let mut changed = bitcode.clone();
    let middle = changed.len() / 2;
    changed[middle..middle + 64].fill(0x5a);
    for damaged in [&b"BC\xc0\xde"[..], b"no bitcode", &cut, &changed] {
        let record = UnitRecord::new(unit.meta.clone(), Some(damaged), model.as_ref());
        replace(&path, backtrail_abi::UNIT_SECTION, &record.to_bytes());
        let script = "backtrail instrument --scheme log -o out p";
        refused(&project.run_ours(script), INPUT, "p.c", script);
        fs::write(&path, &whole).unwrap();
    }

    let recipe = carried.recipe.unwrap();
    let link = |change: &dyn Fn(&mut Recipe)| {
        let mut recipe = recipe.clone();
        change(&mut recipe);
        replace(&path, backtrail_abi::LINK_SECTION, &recipe.to_bytes());
        // Nobody else is to be asked than the linker.
        let script = "backtrail instrument --trust --scheme full -o out p";
        let ran = project.run_ours(script);
        fs::write(&path, &whole).unwrap();
        ran
    };
    link(&|_| ()).succeeded();
    let ran = link(&|it| it.arguments.push(RecipeArg::Text("--no-such-option".into())));
    refused(&ran, INPUT, "linking a variant of p failed", "an option");
    assert!(ran.stderr.contains("no-such-option") && !ran.stderr.contains("warning"), "{ran:?}");
    let ran = link(&|it| {
        it.arguments.retain(|word| !matches!(word, RecipeArg::Text(text) if text == "-lc"))
    });
    refused(&ran, INPUT, "linking a variant of p failed", "no library");
    assert!(ran.stderr.contains("undefined"), "{}", ran.stderr);
    refused(&link(&|it| it.arguments.push(RecipeArg::Input(1 << 20))), INPUT, "input 1048576", "");
    refused(&link(&|it| it.linker = "/none/ld".into()), INPUT, "/none/ld", "no linker");
}

#[test]
fn names_that_are_no_text_and_names_that_are_odd() {
    let project = built();
    let name = "$(printf 'n\\377\\376\\200')";
    let script = format!("mkdir odd && backtrail -q instrument --scheme full -o \"odd/{name}\" p");
    project.run_ours(&script).succeeded();
    let entry = fs::read_dir(project.ours("odd")).unwrap().next().unwrap().unwrap();
    let core = core_beside(&entry.path(), &["x"], "odd");
    // By its own name, and where that is gone, beside the core.
    let own = Command::new(env!("CARGO_BIN_EXE_backtrail")).arg("autopsy").arg(&core).output();
    let text = String::from_utf8(own.unwrap().stdout).unwrap();
    assert!(text.contains("crash") && text.contains("p.c:4"), "{text}");
    assert!(!text.contains("No such file"), "{text}");
    let beside = project.run_ours("backtrail autopsy odd/odd.core").succeeded().text();
    assert!(beside.contains("crash") && beside.contains("p.c:4"), "{beside}");

    // Names that assemblers escape.
    let source = PROGRAM.replace(
        "int step(int x) {",
        "int step(int x) __asm__(\"st\\\"e\\np\");\nint step(int x) {",
    );
    project.write("odd.c", source.as_bytes());
    project
        .run_ours(
            "$CC -O1 -g odd.c -o q && backtrail -q instrument --scheme full --tunable '*' -o t q && \
             ./t && backtrail -q tune t --set 'st*=none' && ./t && \
             backtrail -q tune t --set 'st*=cc+pt' && ./t",
        )
        .succeeded();
    let list = project.run_ours("backtrail tune t --list").succeeded().text();
    assert!(list.contains(r#"st"e\u{a}p"#), "{list}");
}

#[test]
fn a_program_that_carries_nothing_is_said_to() {
    let project = Project::new(&[("p.c", PROGRAM)]);
    project.run_ours("$CC -O1 -flto -fuse-ld=lld p.c -o p; true").succeeded();
    for verb in ["profile", "trace", "trace --strategy log", "profile --copies 2"] {
        let script = format!("backtrail {verb} -o out ./p");
        let ran = project.run_ours(&script);
        refused(&ran, INPUT, "carries the IR of none of its units", &script);
        assert!(ran.stderr.contains("backtrail info"), "{}", ran.stderr);
    }
}
