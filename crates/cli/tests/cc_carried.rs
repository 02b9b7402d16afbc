//! What an executable carries: it survives copying, stripping and the end of
//! its build tree, it can be moved into a side file, and taken out.

mod cc_project;

use cc_project::Project;

const MAIN: &str = r#"
#include <stdio.h>
int gcd(int, int);
int main(int argc, char **argv) {
    int pairs[][2] = {{12, 18}, {7, 13}, {100, 75}};
    for (int i = 0; i < 3; i++) printf("%d\n", gcd(pairs[i][0], pairs[i][1]));
    return argc;
}
"#;
const GCD: &str =
    "int gcd(int a, int b) { while (b) { int t = a % b; a = b; b = t; } return a; }\n";

fn built(options: &str) -> Project {
    let project = Project::new(&[("main.c", MAIN), ("gcd.c", GCD)]);
    project.both(&format!("$CC {options} main.c gcd.c -o program")).succeeded();
    project
}

fn build_id(project: &Project, program: &str) -> String {
    project.info(program)["build_id"].as_str().unwrap().to_owned()
}

#[test]
fn lines_are_known_without_being_asked_for() {
    let project = built("-O2");
    let info = project.info("program");
    assert_eq!(info["schema"], "backtrail.info/1");
    let functions = info["functions"].as_array().unwrap();
    let gcd = functions.iter().find(|function| function["name"] == "gcd").unwrap();
    assert_eq!(gcd["line"], 1);
    assert!(gcd["file"].as_str().unwrap().ends_with("/gcd.c"), "{gcd}");
    // And still the program has no debug information.
    let sections = project.run_ours("readelf -SW program").succeeded().text();
    assert!(!sections.contains(".debug_"), "{sections}");
    assert!(sections.contains(".backtrail.units") && sections.contains(".backtrail.link"));
    // Nothing of it is loaded.
    let segments = project.run_ours("readelf -lW program").succeeded().text();
    assert!(!segments.contains(".backtrail"), "{segments}");
}

#[test]
fn a_copy_is_as_good_and_the_tree_may_go() {
    let project = built("-O2");
    let plain = project.run_ours("./program");
    project
        .run_ours("mkdir -p other/place && cp program other/place/copy && rm *.c program")
        .succeeded();
    project.carries("other/place/copy", &["main.c", "gcd.c"]);
    project.behaves_as("other/place/copy", "", &plain);
}

#[test]
fn the_tree_may_be_moved() {
    let project = built("-g");
    let plain = project.run_ours("./program");
    project.run_ours("mkdir away && mv *.c program away").succeeded();
    project.behaves_as("away/program", "", &plain);
}

#[test]
fn gnu_strip_keeps_everything() {
    let project = built("-g");
    for options in ["", "--strip-debug", "--strip-unneeded", "-s -R .comment"] {
        project.run_ours(&format!("strip {options} program -o stripped")).succeeded();
        project.carries("stripped", &["main.c", "gcd.c"]);
        let plain = project.run_ours("./stripped");
        project.behaves_as("stripped", "", &plain);
    }
    project.run_ours("objcopy --only-keep-debug program program.debug && objcopy --strip-debug --add-gnu-debuglink=program.debug program linked").succeeded();
    project.carries("linked", &["main.c", "gcd.c"]);
    // Objects, too, before they are linked.
    project
        .run_ours("$CC -g -c main.c gcd.c && strip -g main.o gcd.o && $CC main.o gcd.o -o again")
        .succeeded();
    project.carries("again", &["main.c", "gcd.c"]);
    let plain = project.run_ours("./again");
    project.behaves_as("again", "", &plain);
}

#[test]
fn llvm_strip_drops_it_and_we_say_so() {
    let project = built("-O2");
    let id = build_id(&project, "program");
    project
        .run_ours("llvm-strip-19 program -o stripped && ./stripped > out; test -s out")
        .succeeded();
    let ran = project.run_ours("backtrail info stripped");
    assert_eq!(ran.status, 3);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("carries no IR") && ran.stderr.contains("llvm-strip"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains(&format!("{id}.backtrail")), "{}", ran.stderr);
    // What it names helps.
    project.run_ours("cp program copy && backtrail detach copy").succeeded();
    project.carries("stripped", &["main.c", "gcd.c"]);
}

#[test]
fn detached_and_found_again() {
    let project = built("-O2");
    let plain = project.run_ours("./program");
    let id = build_id(&project, "program");
    let before = std::fs::metadata(project.ours("program")).unwrap().len();
    let said = project.run_ours("cp program whole && backtrail detach program").succeeded();
    assert_eq!(said.text(), format!("{id}.backtrail\n"));
    assert!(std::fs::metadata(project.ours("program")).unwrap().len() < before);
    let sections = project.run_ours("readelf -SW program").succeeded().text();
    assert!(!sections.contains(".backtrail"), "{sections}");
    project.carries("program", &["main.c", "gcd.c"]);
    assert_eq!(project.info("program")["side_file"], format!("{id}.backtrail"));
    project.behaves_as("program", "", &plain);
    // Elsewhere, by name.
    project.run_ours(&format!("mkdir aside && mv {id}.backtrail aside/some.name")).succeeded();
    assert_eq!(project.run_ours("backtrail info program").status, 3);
    let ran = project.run_ours("backtrail info --json --side aside/some.name program").succeeded();
    assert!(ran.text().contains("gcd.c"));
    // In a folder of debug files, and to a place of choice.
    project
        .run_ours(&format!("mkdir .debug && cp aside/some.name .debug/{id}.backtrail"))
        .succeeded();
    project.carries("program", &["main.c", "gcd.c"]);
    project.run_ours("backtrail detach whole -o aside").succeeded();
    assert!(project.ours(&format!("aside/{id}.backtrail")).is_file());
    // Twice is once too often.
    let again = project.run_ours("backtrail detach program");
    assert_eq!((again.status, again.stderr.lines().count()), (3, 1), "{}", again.stderr);
}

#[test]
fn extracted_bitcode_is_readable() {
    let project = built("-O1");
    project.run_ours("backtrail extract program -o out && ls out").succeeded();
    let text = project.run_ours("llvm-dis-19 out/gcd.c.bc -o -").succeeded().text();
    assert!(text.contains("@gcd(") && text.contains("!DILocation"), "{text}");
    let model = std::fs::read_to_string(project.ours("out/gcd.c.btir")).unwrap();
    assert!(model.contains("gcd"), "{model}");
    // It is what was compiled: it gives the same program.
    let plain = project.run_ours("./program");
    let rebuilt = project.run_ours("clang-19 out/main.c.bc out/gcd.c.bc -o rebuilt && ./rebuilt");
    assert_eq!((rebuilt.status, rebuilt.stdout), (plain.status, plain.stdout));
}

#[test]
fn two_units_of_one_name_are_extracted_apart() {
    let project = Project::new(&[
        ("a/same.c", "int b(void);\nint main(void) { return b(); }\n"),
        ("b/same.c", "int b(void) { return 3; }\n"),
    ]);
    project.both("$CC a/same.c b/same.c -o program").succeeded();
    project
        .run_ours("backtrail extract program -o out && test $(ls out/*.bc | wc -l) = 2")
        .succeeded();
}

#[test]
fn a_variant_is_told_from_its_program() {
    let project = built("-O2");
    project.derive("program", "log");
    let info = project.info("program.log");
    assert_eq!(info["variant"], "log");
    assert_eq!(info["derived_from"], build_id(&project, "program"));
    let ran = project.run_ours("backtrail instrument --scheme empty program.log");
    assert_eq!(ran.status, 3);
    assert_eq!(
        ran.stderr,
        "backtrail: program.log is a variant (log) already; give the executable it was derived from\n"
    );
    // The empty one is the program's code, whole.
    project.derive("program", "empty");
    let code = |name: &str| {
        let bytes = std::fs::read(project.ours(name)).unwrap();
        let lines = cc_project::elf::describe(&bytes).into_iter();
        lines
            .filter(|line| line.starts_with("section .") || line.starts_with("symbol "))
            .collect::<Vec<_>>()
    };
    assert_eq!(code("program.empty"), code("program"));
}
