//! What was linked besides the units, as the executable carries it, against what real
//! linkers made: which members of archives they took, and whose definitions they chose.

mod cc_project;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use backtrail_build::carry::Carried;
use backtrail_ir::program::{Program, Resolution, Surroundings};
use cc_project::Project;
use fastrand::Rng;
use object::{Object as _, ObjectSymbol as _};

const ARCHIVES: usize = 3;
const MEMBERS: usize = 4;
/// Functions by which members refer to each other; several may define one.
const SHARED: usize = 6;

/// Archives of objects without units, at random: each defines a function of its own name,
/// and some of those by which others refer to it.
fn project(rng: &mut Rng) -> (Project, String) {
    let mut files = Vec::new();
    let mut build = String::from("set -e; ");
    for archive in 0..ARCHIVES {
        for member in 0..MEMBERS {
            let mut text = format!("int only_{archive}_{member}(void) {{ return {member}; }}\n");
            let (defined, used) = (rng.usize(..SHARED), rng.usize(..SHARED));
            // Weak, so that two that are taken are no error.
            let _ = writeln!(text, "__attribute__((weak)) int f{defined}(void) {{ return 1; }}");
            if used != defined {
                let weak = if rng.u8(..4) == 0 { "__attribute__((weak)) " } else { "" };
                let _ = writeln!(text, "{weak}int f{used}(void);");
                let _ = writeln!(text, "int use_{archive}_{member}(void) {{ return f{used}(); }}");
            }
            let name = format!("m{archive}_{member}.c");
            let _ = write!(build, "clang-19 -c {name}; ");
            files.push((name, text));
        }
        let _ = write!(build, "ar rc lib{archive}.a m{archive}_?.o; ");
    }
    let mut main = String::new();
    let used: BTreeSet<usize> = (0..2).map(|_| rng.usize(..SHARED)).collect();
    main.extend(used.iter().map(|it| format!("int f{it}(void);\n")));
    let calls: Vec<String> = used.iter().map(|it| format!("f{it}()")).collect();
    let _ = writeln!(main, "int main(void) {{ return {} > 100; }}", calls.join(" + "));
    files.push(("main.c".to_owned(), main));
    let mut order: Vec<String> = (0..ARCHIVES).map(|it| format!("lib{it}.a")).collect();
    rng.shuffle(&mut order);
    if rng.bool() {
        order.insert(0, "-Wl,--start-group".to_owned());
        order.push("-Wl,--end-group".to_owned());
    }
    if rng.u8(..4) == 0 {
        order.insert(0, "-Wl,--whole-archive".to_owned());
        order.insert(2, "-Wl,--no-whole-archive".to_owned());
    }
    if rng.u8(..3) == 0 {
        order.insert(0, format!("-Wl,-u,f{}", rng.usize(..SHARED)));
    }
    let linker = ["bfd", "gold", "lld"][rng.usize(..3)];
    let _ = write!(build, "$CC -O1 main.c {} -fuse-ld={linker} -o prog", order.join(" "));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    (Project::new(&files), build)
}

/// The members that are in the executable, by the functions that only they have.
fn taken(program: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&bytes[..]).unwrap();
    let names = file.symbols().filter_map(|symbol| Some(symbol.name().ok()?.to_owned()));
    names.filter_map(|name| Some(name.strip_prefix("only_")?.to_owned())).collect()
}

fn surroundings(program: &Path) -> (Carried, Surroundings) {
    let carried = Carried::read(program).unwrap();
    let surroundings = carried.recipe.as_ref().unwrap().surroundings.clone();
    (carried, surroundings)
}

#[test]
fn members_that_linkers_took_are_known() {
    let (mut linked, mut members) = (0, 0);
    for seed in 0..24 {
        let (project, build) = project(&mut Rng::with_seed(seed));
        let ran = project.run_ours(&build);
        if ran.status != 0 {
            assert!(ran.stderr.contains("undefined"), "seed {seed}: {}", ran.stderr);
            continue;
        }
        let program = project.ours("prog");
        let (_, surroundings) = surroundings(&program);
        let known = surroundings.natives.iter().filter_map(|native| {
            let (_, member) = native.object.name.rsplit_once("(m")?;
            Some(member.trim_end_matches(".o)").to_owned())
        });
        let known: BTreeSet<String> = known.collect();
        let real = taken(&program);
        assert_eq!(known, real, "seed {seed}: {build}");
        (linked, members) = (linked + 1, members + real.len());
    }
    assert!(linked > 8 && members > linked, "{linked} programs, {members} members");
}

#[test]
fn names_mean_what_was_linked() {
    let project = Project::new(&[
        (
            "native.c",
            "int hook(int x) { return x; } int used(int); int call(void) { return used(1); }",
        ),
        (
            "main.c",
            "int call(void); __attribute__((weak)) int hook(int x) { return -x; }\n\
             int used(int x) { return hook(x); } int other(int x) { return x; }\n\
             int main(void) { return call() + other(0) - 1; }",
        ),
    ]);
    let build = "clang-19 -c native.c && $CC -O0 main.c native.o -o prog && ./prog";
    project.run_ours(build).succeeded();
    let (carried, surroundings) = surroundings(&project.ours("prog"));
    let unit = carried.units[0].model().unwrap().unwrap();
    let program = Program::linked([(vec![&unit], &surroundings)]);
    let (object, _) = program.units().next().unwrap();
    let symbol = |name: &str| {
        let mut symbols = unit.symbols.iter();
        symbols.find(|(_, symbol)| symbol.name == name).unwrap().0
    };
    assert!(matches!(program.resolve(object, symbol("hook")), Resolution::Native(_)));
    let by_name = |name: &str| match program.resolve(object, symbol(name)) {
        Resolution::Function(object, function) => program.by_name(object, function),
        other => panic!("{name} is {other:?}"),
    };
    assert!(by_name("used").object);
    assert!(!by_name("other").is_any());
    // What starts the program is no news.
    assert!(!by_name("main").object);
}
