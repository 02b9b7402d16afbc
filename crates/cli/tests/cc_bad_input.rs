//! Bad input: one line that says what is wrong and what to do, the exit code
//! that stands for it, and nothing overwritten.

mod cc_project;

use std::fs;
use std::path::Path;

use backtrail_build::carry::file::read_units;
use backtrail_build::carry::unit::UnitRecord;
use backtrail_machine::edit::{Edit, NewSection, edit};
use backtrail_machine::elf::Elf;
use cc_project::Project;

const INPUT: i32 = 3;
const WRITE: i32 = 6;
const NO_CLANG: i32 = 127;

fn built() -> Project {
    let project = Project::new(&[(
        "program.c",
        "#include <stdio.h>\nint main(void) { puts(\"fine\"); return 0; }\n",
    )]);
    project.run_ours("$CC -O2 program.c -o program").succeeded();
    project
}

/// Fails unless the command says exactly `message` and leaves with `status`.
#[track_caller]
fn refused(project: &Project, script: &str, status: i32, message: &str) {
    let ran = project.run_ours(script);
    assert_eq!(ran.stderr, format!("backtrail: {message}\n"), "{script}");
    assert_eq!(ran.status, status, "{script}");
    assert!(ran.stdout.is_empty(), "{script}: {}", ran.text());
}

/// Fails unless every verb that reads `name` is refused, and an output that was
/// there is kept.
#[track_caller]
fn refused_by_all(project: &Project, name: &str, message: &str) {
    fs::write(project.ours("kept"), "kept").unwrap();
    for verb in [
        "info",
        "info --json",
        "instrument --scheme empty -o kept",
        "instrument --scheme log -o kept",
        "detach -o kept",
        "extract -o new-folder",
    ] {
        refused(project, &format!("backtrail {verb} '{name}'"), INPUT, message);
    }
    assert_eq!(fs::read(project.ours("kept")).unwrap(), b"kept");
    assert!(!project.ours("new-folder").exists());
}

#[test]
fn files_that_are_not_programs() {
    let project = built();
    fs::write(project.ours("script"), "#!/bin/sh\necho\n").unwrap();
    let script = "script is a script for /bin/sh: give that, or a program that the script starts";
    refused_by_all(&project, "script", script);
    for (name, bytes) in [("text.txt", &b"hello\n"[..]), ("empty", b"")] {
        fs::write(project.ours(name), bytes).unwrap();
        refused_by_all(&project, name, &format!("{name}: not an ELF file"));
    }
    refused_by_all(
        &project,
        "missing",
        "cannot read missing: No such file or directory (os error 2)",
    );
    project.run_ours("mkdir folder").succeeded();
    refused_by_all(&project, "folder", "cannot read folder: Is a directory (os error 21)");
}

#[test]
fn elf_files_that_are_damaged_or_of_another_kind() {
    let project = built();
    let whole = fs::read(project.ours("program")).unwrap();
    for length in [4, 17, 63, 64, 200, 4096, whole.len() / 2, whole.len() - 1] {
        fs::write(project.ours("cut"), &whole[..length]).unwrap();
        let ran = project.run_ours("backtrail info cut");
        assert_eq!(
            (ran.status, ran.stderr.lines().count()),
            (INPUT, 1),
            "{length}: {}",
            ran.stderr
        );
    }
    project.run_ours("$CC -m32 -c program.c -I/usr/include/x86_64-linux-gnu -o small.o; true");
    project.run_ours("clang-19 -target aarch64-linux-gnu -c -x c /dev/null -o arm.o").succeeded();
    refused_by_all(&project, "arm.o", "arm.o: unsupported ELF file: machine 183, not x86-64");
}

#[test]
fn programs_without_our_data() {
    let project = built();
    project.run_ours("clang-19 -Wl,--build-id=none program.c -o plain && clang-19 -Wl,--build-id=0x1234abcd program.c -o other").succeeded();
    let advice = "build it with 'backtrail cc', 'backtrail c++' or 'backtrail cargo'";
    refused_by_all(&project, "plain", &format!("plain carries no IR: {advice}"));
    refused_by_all(
        &project,
        "other",
        &format!(
            "other carries no IR: {advice} (if it was stripped by llvm-strip or detached, put 1234abcd.backtrail beside it)"
        ),
    );
    // An object can be looked at, but there is nothing to link.
    project.run_ours("$CC -c program.c && backtrail info program.o").succeeded();
    let message = "program.o: it carries units but no link recipe: it was not linked by 'backtrail cc'; link it with that";
    refused(&project, "backtrail instrument --scheme log program.o", INPUT, message);
}

#[test]
fn side_files_of_another_build() {
    let project = built();
    project.run_ours("$CC -O0 program.c -o second && backtrail detach program -o side && backtrail detach second -o second.side").succeeded();
    let [first, second] = ["side", "second.side"].map(|side| {
        let program = if side == "side" { "program" } else { "second" };
        let ran =
            project.run_ours(&format!("backtrail info --json --side {side} {program}")).succeeded();
        let info: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        info["build_id"].as_str().unwrap().to_owned()
    });
    let message = format!(
        "second.side belongs to build id {second}, not to program with build id {first}; give the file made from this build"
    );
    refused(&project, "backtrail info --side second.side program", INPUT, &message);
    // Under the name by which it is looked for.
    project.run_ours(&format!("cp second.side {first}.backtrail")).succeeded();
    let message = message.replacen("second.side", &format!("{first}.backtrail"), 1);
    refused_by_all(&project, "program", &message);
    // Not a side file at all, and one cut short.
    fs::write(project.ours("bad"), "something else entirely, long enough for a header").unwrap();
    refused(
        &project,
        "backtrail info --side bad program",
        INPUT,
        "bad: what it carries is damaged: no record where one should begin, at byte 0 of 49; build it again",
    );
    let side = fs::read(project.ours("side")).unwrap();
    fs::write(project.ours("bad"), &side[..side.len() - 1]).unwrap();
    refused(
        &project,
        "backtrail info --side bad program",
        INPUT,
        &format!(
            "bad: what it carries is damaged: a record is cut short at byte 0 of {}; build it again",
            side.len() - 1
        ),
    );
}

/// `program` with its units changed.
fn with_units(project: &Project, name: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    let path = project.ours("program");
    let bytes = fs::read(&path).unwrap();
    let section =
        Elf::parse(&bytes).unwrap().section(backtrail_abi::UNIT_SECTION).unwrap().unwrap();
    let data = change(section);
    let section = NewSection { name: backtrail_abi::UNIT_SECTION, data: &data };
    let remove = [backtrail_abi::UNIT_SECTION];
    let edits = Edit { remove: &remove, add: &[section], ..Edit::default() };
    fs::write(project.ours(name), edit(&bytes, &edits).unwrap()).unwrap();
}

#[test]
fn damaged_sections() {
    let project = built();
    with_units(&project, "cut", |mut section| {
        section.truncate(section.len() / 2);
        section
    });
    let ran = project.run_ours("backtrail info cut");
    assert!(
        ran.stderr.starts_with("backtrail: cut: what it carries is damaged: a record is cut short"),
        "{}",
        ran.stderr
    );
    refused_by_all(&project, "cut", ran.stderr.trim_end().strip_prefix("backtrail: ").unwrap());
    with_units(&project, "flipped", |mut section| {
        let middle = section.len() / 2;
        section[middle] ^= 1;
        section
    });
    let ran = project.run_ours("backtrail info flipped");
    assert!(ran.stderr.contains("the checksum of a record does not hold"), "{}", ran.stderr);
    refused_by_all(&project, "flipped", ran.stderr.trim_end().strip_prefix("backtrail: ").unwrap());
    // Written by a version of ours to come.
    with_units(&project, "newer", |mut section| {
        section[8] = 77;
        section
    });
    let version = backtrail_build::carry::frame::VERSION;
    refused_by_all(
        &project,
        "newer",
        &format!(
            "newer: what it carries was written by another version of Backtrail \
             (format 77, this one reads {version}); build it again"
        ),
    );
    // Damage in an object does not keep the program from being linked.
    let ran = project.run_ours("$CC -c program.c && objcopy --dump-section .backtrail.units=units program.o && head -c 100 units > cut-units && objcopy --update-section .backtrail.units=cut-units program.o && $CC program.o -o linked && ./linked");
    assert_eq!((ran.status, ran.text().as_str()), (0, "fine\n"), "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("backtrail: warning: no variants can be derived from linked: "),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stderr.lines().count(), 1);
}

/// The record says which libLLVM a unit needs.
#[test]
fn units_of_an_llvm_that_is_not_here() {
    let project = built();
    with_units(&project, "foreign", |section| {
        let units = read_units(Path::new("program"), &section).unwrap();
        let foreign = units.iter().flat_map(|unit| {
            let mut meta = unit.meta.clone();
            meta.library = "/opt/llvm-21/lib/libLLVM.so.21.1".into();
            meta.compiler = "clang version 21.1.0".to_owned();
            let bitcode = unit.bitcode().unwrap();
            UnitRecord::new(meta, bitcode.as_deref(), unit.model().unwrap().as_ref()).to_bytes()
        });
        foreign.collect()
    });
    let message = "program.c was compiled by clang version 21.1.0, whose library /opt/llvm-21/lib/libLLVM.so.21.1 is not on this machine; install that compiler";
    for scheme in ["empty", "log"] {
        fs::write(project.ours("kept"), "kept").unwrap();
        refused(
            &project,
            &format!("backtrail instrument --scheme {scheme} -o kept foreign"),
            INPUT,
            message,
        );
        assert_eq!(fs::read(project.ours("kept")).unwrap(), b"kept");
    }
    // Verbs that need no LLVM work.
    project.carries("foreign", &["program.c"]);
}

#[test]
fn no_clang() {
    let project = built();
    let own = Path::new(env!("CARGO_BIN_EXE_backtrail")).parent().unwrap().display().to_string();
    project.run_ours("mkdir nothing && echo kept > kept.o").succeeded();
    let message = "no clang found: install clang-19, or name one in BACKTRAIL_CLANG";
    for compiler in ["backtrail-cc", "backtrail-cxx", "backtrail cc", "backtrail c++"] {
        refused(
            &project,
            &format!("PATH=$PWD/nothing {own}/{compiler} -c program.c -o kept.o"),
            NO_CLANG,
            message,
        );
    }
    for name in ["/no/such/clang", "no-such-clang", "./nothing"] {
        let script = format!("BACKTRAIL_CLANG={name} $CC -c program.c -o kept.o");
        let why = "No such file or directory (os error 2); correct BACKTRAIL_CLANG";
        refused(&project, &script, NO_CLANG, &format!("cannot start the compiler '{name}': {why}"));
    }
    // Backtrail itself would go round in circles.
    let ran = project.run_ours("BACKTRAIL_CLANG=backtrail-cc $CC -c program.c -o kept.o");
    assert_eq!(ran.status, NO_CLANG);
    assert!(ran.stderr.contains("it is Backtrail itself"), "{}", ran.stderr);
    assert_eq!(fs::read(project.ours("kept.o")).unwrap(), b"kept\n");
}

/// A stand-in for a compiler: `-###` gives `answer` on standard error.
fn stand_in(project: &Project, name: &str, version: &str, answer: &str) {
    let script = format!(
        "#!/bin/sh\ncase $1 in -###) cat >&2 <<'X'\n{answer}\nX\n;; --version) echo '{version}';; *) exit 9;; esac\n"
    );
    fs::write(project.ours(name), script).unwrap();
    project.run_ours(&format!("chmod +x {name}")).succeeded();
}

#[test]
fn compilers_that_are_not_supported() {
    let project = built();
    let advice = "use clang 19 to 22 with a shared libLLVM (BACKTRAIL_CLANG)";
    let version = project.run_ours("gcc --version | head -1").text().trim_end().to_owned();
    refused(
        &project,
        "BACKTRAIL_CLANG=gcc $CC -c program.c -o new.o",
        NO_CLANG,
        &format!("{version} is not supported: it is not clang; {advice}"),
    );
    let old = "Debian clang version 14.0.6";
    stand_in(&project, "clang-14", old, old);
    refused(
        &project,
        "BACKTRAIL_CLANG=./clang-14 $CC -c program.c -o new.o",
        NO_CLANG,
        &format!("{old} is not supported: it is version 14; {advice}"),
    );
    // A clang that is linked statically: its program proper loads no libLLVM.
    let new = "clang version 19.1.7";
    let job = |program: &str| {
        format!(
            "{new}\n \"{program}\" \"-cc1\" \"-triple\" \"x86_64-pc-linux-gnu\" \"-emit-obj\" \"-o\" \"new.o\" \"-x\" \"c\" \"program.c\""
        )
    };
    stand_in(&project, "clang-static", new, &job("/bin/true"));
    refused(
        &project,
        "BACKTRAIL_CLANG=./clang-static $CC -c program.c -o new.o",
        NO_CLANG,
        &format!(
            "{new} is not supported: it has no shared libLLVM (it is linked statically); {advice}"
        ),
    );
    // One whose libLLVM is gone: it does not start, or we do not find it.
    stand_in(&project, "clang-broken", new, "");
    project.run_ours("printf '#!/bin/sh\\necho \"$0: error while loading shared libraries: libLLVM.so.19.1: cannot open shared object file\" >&2; exit 127\\n' > clang-broken").succeeded();
    refused(
        &project,
        "BACKTRAIL_CLANG=./clang-broken $CC -c program.c -o new.o",
        NO_CLANG,
        "cannot start the compiler './clang-broken': ./clang-broken: error while loading shared libraries: libLLVM.so.19.1: cannot open shared object file; correct BACKTRAIL_CLANG",
    );
    project.run_ours("gcc -shared -Wl,-soname,libLLVM.so.19.9 -x c /dev/null -o libLLVM.so.19.9 && gcc program.c -Wl,--no-as-needed ./libLLVM.so.19.9 -o loads && rm libLLVM.so.19.9").succeeded();
    stand_in(&project, "clang-gone", new, &job("./loads"));
    refused(
        &project,
        "BACKTRAIL_CLANG=./clang-gone $CC -c program.c -o new.o",
        NO_CLANG,
        &format!("{new} is not supported: its libLLVM.so.19.9 is not found; {advice}"),
    );
    assert!(!project.ours("new.o").exists());
}

#[test]
fn another_clang_by_name() {
    let project = built();
    project.run_ours("BACKTRAIL_CLANG=clang-19 $CC -c program.c -o one.o && BACKTRAIL_CLANG=$(command -v clang-19) $CC -c program.c -o two.o && cmp one.o two.o").succeeded();
    project.run_ours("ln -s $(command -v clang-19) my-clang && BACKTRAIL_CLANG=./my-clang $CC -c program.c -o three.o").succeeded();
    project.carries("three.o", &["program.c"]);
}

#[test]
fn caches_and_outputs_that_cannot_be_written() {
    let project = built();
    let message = "cannot write /proc/no-cache: No such file or directory (os error 2); name a writable folder for the cache in BACKTRAIL_CACHE";
    refused(
        &project,
        "BACKTRAIL_CACHE=/proc/no-cache backtrail instrument --scheme log program",
        WRITE,
        message,
    );
    assert!(!project.ours("program.log").exists());
    // The compiler needs no cache.
    project.run_ours("BACKTRAIL_CACHE=/proc/no-cache $CC -c program.c -o x.o").succeeded();
    project.carries("x.o", &["program.c"]);

    fs::write(project.ours("file"), "kept").unwrap();
    project.run_ours("mkdir folder").succeeded();
    for (output, verb) in [
        ("no/such/folder/out", "instrument --scheme empty"),
        ("file/out", "instrument --scheme empty"),
        ("folder", "instrument --scheme empty"),
        ("no/such/folder/out", "detach"),
        ("file/out", "extract"),
    ] {
        let ran = project.run_ours(&format!("backtrail {verb} -o {output} program"));
        assert_eq!(ran.status, WRITE, "{verb} {output} {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{verb} {output}: {}", ran.stderr);
        assert!(
            ran.stderr.starts_with(&format!("backtrail: cannot write {output}: ")),
            "{verb} {output}: {}",
            ran.stderr
        );
    }
    // Nothing happened to the program, nor to what was in the way.
    project.carries("program", &["program.c"]);
    assert_eq!(fs::read(project.ours("file")).unwrap(), b"kept");
    assert!(fs::read_dir(project.ours("folder")).unwrap().next().is_none());
}

#[test]
fn wrong_usage() {
    let project = built();
    for script in [
        "backtrail",
        "backtrail no-such-verb",
        "backtrail info",
        "backtrail instrument program",
        "backtrail instrument --scheme nothing program",
    ] {
        assert_eq!(project.run_ours(script).status, 2, "{script}");
    }
}

/// Something else than a program stands where the linker was.
#[test]
fn a_link_that_cannot_be_done_again() {
    let project = Project::new(&[
        ("main.c", "int f(void);\nint main(void) { return f(); }\n"),
        ("f.c", "int f(void) { return 4; }\n"),
    ]);
    project.run_ours("$CC -shared -fPIC f.c -o libf.so && $CC main.c -L. -lf '-Wl,-rpath,$ORIGIN' -o program && mkdir away && mv program away").succeeded();
    let ran = project.run_ours("rm libf.so && backtrail instrument --scheme empty away/program");
    assert_eq!((ran.status, ran.stderr.lines().count()), (INPUT, 1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("libf.so") && !project.ours("away/program.empty").exists(),
        "{}",
        ran.stderr
    );
}
