//! The code is clang's own: every section, symbol and relocation of every
//! object is the one that the same clang makes without us, at every level of
//! optimisation, with debug information and without; and so it is again when
//! the program is rebuilt from what it carries.

mod cc_project;

use std::fs;

use cc_project::{Project, elf};

const C: &str = "control.c data.c numbers.c";
const CXX: &str = "classes.cpp modern.cpp";
const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-O3", "-Os"];

fn project() -> Project {
    let project = Project::new(&[]);
    project.add_fixture("identity");
    project
}

#[track_caller]
fn same_objects(options: &[&str]) {
    let project = project();
    for options in options {
        // Functions that are never called are not carried less.
        let script = format!(
            "$CC {options} -Wno-everything -c {C} && $CXX {options} -Wno-everything -std=c++20 -c {CXX}"
        );
        project.both(&script).succeeded();
    }
    for source in format!("{C} {CXX}").split(' ') {
        let object = format!("{}.o", source.split('.').next().unwrap());
        project.carries(&object, &[source]);
    }
}

#[test]
fn at_every_level() {
    same_objects(&LEVELS);
}

#[test]
fn at_every_level_with_debug_information() {
    same_objects(&LEVELS.map(|level| format!("-g {level}")).each_ref().map(String::as_str));
}

#[test]
fn with_options_of_real_packages() {
    same_objects(&[
        "-O2 -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIC -ffunction-sections -fdata-sections",
        "-O2 -fno-strict-aliasing -fwrapv -fno-omit-frame-pointer -fvisibility=hidden -march=x86-64-v3",
        "-O3 -ffast-math -funroll-loops -fno-semantic-interposition -fPIC",
        "-O2 -mno-red-zone -mcmodel=large -fno-pie -fno-builtin",
    ]);
}

/// Loops that need not end, which line tables would change: before C11, all.
#[test]
fn in_older_standards() {
    let project = project();
    let endless = include_str!("../../llvm/tests/fixtures/endless.c");
    let conditions = ["step(0)", "step(0)", "b != limit", "step(0)"];
    let ending = conditions.iter().fold(endless.to_owned(), |text, condition| {
        text.replacen("while (1)", &format!("while ({condition})"), 1)
    });
    assert!(!ending.contains("(1)"));
    project.write("endless.c", endless.as_bytes());
    project.write("ending.c", ending.as_bytes());
    project.both("$CC -O2 -std=c89 -w -c endless.c ending.c").succeeded();
    for options in ["-O2 -std=gnu99", "-O3 -std=c9x", "-Os -std=c99", "-O2 -fno-finite-loops"] {
        project.both(&format!("$CC {options} -w -c {C} endless.c ending.c")).succeeded();
        project.carries("endless.o", &["endless.c"]);
        project.carries("ending.o", &["ending.c"]);
    }
}

/// Where the optimiser inserts something of its own, too.
#[test]
fn with_sanitizers_and_profiles() {
    let project = project();
    for options in [
        "-O2 -fsanitize=undefined",
        "-O1 -fsanitize=address",
        "-O2 -fsanitize=memory",
        "-O2 -fprofile-instr-generate -fcoverage-mapping",
        "-Os --coverage",
        "-O2 -fprofile-generate",
        "-O2 -fsanitize-coverage=trace-pc-guard",
    ] {
        project.both(&format!("$CC {options} -w -c {C}")).succeeded();
        project.carries("control.o", &["control.c"]);
    }
}

#[test]
fn the_standard_library_of_cxx() {
    let project = project();
    project
        .both("$CXX -O2 -std=c++20 -c library.cpp && $CXX -g -std=c++20 -c library.cpp -o g.o")
        .succeeded();
    project.carries("library.o", &["library.cpp"]);
}

/// The empty plan: rebuilt without probes, the program is the same code.
#[test]
fn rebuilt_from_what_is_carried() {
    let project = project();
    project.write("main.c", b"int main(void) { return 0; }\n");
    for options in ["-O0", "-O2", "-O2 -g", "-Os -ffunction-sections"] {
        let script = format!(
            "$CC {options} -w -c {C} main.c && $CXX {options} -w -std=c++20 -c {CXX} && \
            $CXX main.o control.o data.o numbers.o classes.o modern.o -lm -o program"
        );
        project.both(&script).succeeded();
        project.derive("program", "empty");
        let described = |name: &str| elf::describe(&fs::read(project.ours(name)).unwrap());
        let [ours, rebuilt] = ["program", "program.empty"].map(described);
        for (ours, rebuilt) in ours.iter().zip(&rebuilt) {
            assert_eq!(rebuilt, ours, "{options}");
        }
        assert_eq!(rebuilt.len(), ours.len(), "{options}");
        fs::remove_file(project.ours("program.empty")).unwrap();
    }
}
