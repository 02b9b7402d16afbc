//! Executables from elsewhere: what their recipes say is carried out only where it can
//! do no harm, and what this user built is derived as it was linked.

mod cc_project;

use std::fs;
use std::path::Path;

use backtrail_build::carry::Carried;
use backtrail_build::carry::recipe::{Input, InputKind, Recipe, RecipeArg, compress_native};
use backtrail_build::carry::unit::{Generator, UnitMeta, UnitRecord};
use backtrail_machine::edit::{self, Edit, NewSection};
use cc_project::{Project, Ran};

const PROGRAM: &str = "\
#include <stdio.h>
__attribute__((noinline)) int odd(int x) { return x & 1 ? 3 : x; }
int main(int c, char **v) { printf(\"%d\\n\", odd(c)); return 0; }
";
const LIBRARY: &str = "int twice(int x) { return x > 3 ? 2 * x : 0; }\n";
/// A plug-in of linkers, compilers and whatever else loads libraries.
const EVIL: &str = "\
#include <stdio.h>
__attribute__((constructor)) void begin(void) { FILE *f = fopen(MARK, \"w\"); if (f) fclose(f); }
int onload(void *t) { return 0; }
";

/// A place where nobody has built anything.
const ELSEWHERE: &str = "XDG_STATE_HOME=/no/state ";

/// A project with a built `program`, and programs and libraries that leave a mark when
/// they are run or loaded.
fn project() -> Project {
    let project = Project::new(&[("program.c", PROGRAM), ("library.c", LIBRARY), ("evil.c", EVIL)]);
    let script = "mkdir evil && for name in ld clang cc clang-19; do \
                  printf '#!/bin/sh\\ntouch %s/mark\\nexec %s \"$@\"\\n' $PWD $name > evil/$name && \
                  chmod +x evil/$name; done && \
                  clang-19 -shared -fPIC -DMARK=\"\\\"$PWD/mark\\\"\" evil.c -o evil.so && \
                  $CC -O1 program.c -o program";
    project.run_ours(script).succeeded();
    project
}

/// What tells where the project's tree is while commands run in it.
fn folder(project: &Project) -> String {
    project.run_ours("pwd").text().trim().to_owned()
}

/// Changes what `path` carries, with sums that are right.
fn rewrite(path: &Path, change: impl FnOnce(&mut Recipe, &mut Vec<UnitMeta>)) {
    let carried = Carried::read(path).unwrap();
    let mut recipe = carried.recipe.unwrap();
    let mut metas: Vec<UnitMeta> = carried.units.iter().map(|unit| unit.meta.clone()).collect();
    change(&mut recipe, &mut metas);
    let mut units = Vec::new();
    for (unit, meta) in carried.units.iter().zip(metas) {
        let bitcode = unit.bitcode().unwrap().unwrap();
        let mut meta = UnitMeta { id: [0; 16], ..meta };
        meta.id = meta.id_with(&bitcode);
        for input in &mut recipe.inputs {
            if let InputKind::Units(ids) = &mut input.kind {
                ids.iter_mut().filter(|id| **id == unit.meta.id).for_each(|id| *id = meta.id);
            }
        }
        let model = unit.model().unwrap();
        units.extend(UnitRecord::new(meta, Some(&bitcode), model.as_ref()).to_bytes());
    }
    replace(path, &units, &recipe);
}

fn replace(path: &Path, units: &[u8], recipe: &Recipe) {
    let (unit, link) = (backtrail_abi::UNIT_SECTION, backtrail_abi::LINK_SECTION);
    let link_bytes = recipe.to_bytes();
    let add =
        [NewSection { name: unit, data: units }, NewSection { name: link, data: &link_bytes }];
    let changes = Edit { remove: &[unit, link], add: &add, ..Edit::default() };
    let bytes = edit::edit(&fs::read(path).unwrap(), &changes).unwrap();
    fs::write(path, bytes).unwrap();
}

fn text(word: &str) -> RecipeArg {
    RecipeArg::Text(word.to_owned())
}

fn derive(project: &Project, before: &str, options: &str) -> Ran {
    let verb = "backtrail --quiet instrument --scheme log -o derived";
    project.run_ours(&format!("{before}{verb} {options} program"))
}

/// The names of the files in our tree.
fn names(project: &Project) -> String {
    project.run_ours("find . | sort").text()
}

/// Fails unless `program` is refused, for one of `words`, and nothing has happened.
#[track_caller]
fn refused_for(project: &Project, words: &[&str]) {
    let what = words.join(" ");
    let before = names(project);
    let ran = derive(project, "", "");
    assert_eq!((ran.status, ran.stdout.len()), (3, 0), "{what}: {}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("backtrail: program: "), "{}", ran.stderr);
    let named = words.iter().any(|word| ran.stderr.contains(word));
    assert!(named && ran.stderr.contains("--trust"), "{what}: {}", ran.stderr);
    assert_eq!(names(project), before, "{what}");
    let temporary = project.run_ours("ls $TMPDIR").text();
    assert_eq!(temporary, "", "{what}");
}

#[track_caller]
fn refused(project: &Project, what: &str) {
    refused_for(project, &[what]);
}

/// Fails unless `program` is derived without anything of its own being run.
#[track_caller]
fn derived_by_own_tools(project: &Project) {
    derive(project, "", "").succeeded();
    project.run_ours("test ! -e mark && ./derived").succeeded();
    project.run_ours("rm derived");
}

/// Fails unless `program` is refused when its link has these words besides.
#[track_caller]
fn words_are_refused(project: &Project, original: &[u8], words: &[&str]) {
    fs::write(project.ours("program"), original).unwrap();
    rewrite(&project.ours("program"), |recipe, _| {
        recipe.arguments.extend(words.iter().map(|word| text(word)));
    });
    refused_for(project, words);
}

#[test]
fn a_plugin_of_the_linker_runs_only_for_who_linked_with_it() {
    let project = project();
    let link = "$CC -O1 -Wl,-plugin=$PWD/evil.so program.c -o program && rm mark";
    project.run_ours(link).succeeded();
    let evil = format!("'-plugin={}/evil.so'", folder(&project));
    let before = names(&project);
    for verb in ["instrument --scheme log -o derived", "profile", "trace", "profile --copies 2"] {
        let ran = project.run_ours(&format!("{ELSEWHERE}backtrail {verb} ./program"));
        assert_eq!((ran.status, ran.stdout.len()), (3, 0), "{verb}: {}", ran.stderr);
        assert!(ran.stderr.contains(&evil), "{verb}: {}", ran.stderr);
        assert_eq!(names(&project), before, "{verb}");
    }
    for verb in ["instrument --scheme log -o derived", "profile", "trace", "profile --copies 2"] {
        let script = format!("{ELSEWHERE}backtrail {verb} --trust ./program && rm mark");
        project.run_ours(&script).succeeded();
        project.run_ours(&format!("backtrail {verb} ./program && rm mark")).succeeded();
    }
}

#[test]
fn hostile_words_of_links_are_named_and_refused() {
    let project = project();
    let original = fs::read(project.ours("program")).unwrap();
    for words in [
        &["-plugin", "./evil.so"][..],
        &["--plugin=./evil.so"],
        &["-plugin-opt=save-temps"],
        &["--plug=./evil.so"],
        &["-fuse-ld=/x/ld"],
        &["-B", "evil"],
        &["--ld-path=evil/ld"],
        &["-specs=evil.specs"],
        &["-wrapper", "evil/ld"],
        &["-Xlinker", "-plugin"],
        &["-Wl,-plugin=./evil.so"],
        &["-fplugin=./evil.so"],
        &["-load", "./evil.so"],
        &["--config=evil.cfg"],
        &["-Xclang", "-load"],
        &["-mllvm", "-load=./evil.so"],
        &["@words"],
        &["library.c"],
        &["-T", "/etc/passwd"],
        &["-T/etc/passwd"],
        &["-c", "script"],
        &["--version-script=/etc/passwd"],
        &["-o", "/tmp/x"],
        &["-o/tmp/x"],
        &["-oformat=binary"],
        &["--oformat=binary"],
        &["--format=binary", "-l:passwd"],
        &["--format=binary"],
        &["-l:../../etc/passwd"],
        &["-library", "-z"],
        &["-Map=x"],
        &["-Map", "x"],
        &["--dependency-file=x"],
        &["--out-implib=x"],
        &["--reproduce=x.tar"],
        &["--thinlto-index-only=x"],
        &["--thinlto-cache-dir=x"],
        &["--lto-obj-path=x"],
        &["--print-archive-stats=x"],
        &["--time-trace=x"],
        &["--why-extract=x"],
        &["--separate-debug-file=x"],
        &["--defsym=a=1;INPUT(/etc/passwd)"],
        &["-z"],
        &["-z", "-plugin"],
        &["-r"],
        &[""],
    ] {
        words_are_refused(&project, &original, words);
    }
}

#[test]
fn other_files_than_the_recipes_own_are_refused() {
    let project = project();
    let original = fs::read(project.ours("program")).unwrap();
    let native = |text: &str| InputKind::Native {
        contents: compress_native(text.as_bytes()),
        why: "not an object".to_owned(),
    };
    let bitcode = || InputKind::Native {
        contents: compress_native(b"BC\xC0\xDE...."),
        why: "compiled with -flto".to_owned(),
    };
    for (path, kind, what) in [
        ("/x/a.ld", native("INPUT(/etc/passwd)"), "INPUT"),
        ("/x/a.ld", native("/* */ INCLUDE other.ld"), "INCLUDE"),
        ("/x/a.ld", native("OUTPUT(/tmp/x) SECTIONS { }"), "OUTPUT"),
        ("/x/a.ld", native("GROUP ( \"/etc/passwd\" )"), "GROUP"),
        ("/x/a.ld", native("SEARCH_DIR(/tmp)"), "SEARCH_DIR"),
        ("/x/a.a", native("!<thin>\nx"), "archive of files elsewhere"),
        ("/x/a.o", bitcode(), "-flto"),
        ("/etc/passwd", InputKind::System, "/etc/passwd"),
        ("/usr/lib/../../etc/passwd", InputKind::System, "/etc/passwd"),
        ("/etc/passwd", InputKind::Shared { soname: None }, "/etc/passwd"),
    ] {
        fs::write(project.ours("program"), &original).unwrap();
        rewrite(&project.ours("program"), |recipe, _| {
            recipe.arguments.push(RecipeArg::Input(recipe.inputs.len() as u32));
            recipe.inputs.push(Input { path: path.into(), kind });
        });
        refused(&project, what);
    }
    // Names of inputs name files in a folder of our own.
    fs::write(project.ours("program"), &original).unwrap();
    rewrite(&project.ours("program"), |recipe, _| {
        let units = |input: &&mut Input| matches!(input.kind, InputKind::Units(_));
        let input = recipe.inputs.iter_mut().find(units).unwrap();
        input.path = "../../../../../../work-of-others/..".into();
    });
    derived_by_own_tools(&project);
}

#[test]
fn programs_are_this_machines_own() {
    let project = project();
    let original = fs::read(project.ours("program")).unwrap();
    let evil = Path::new(&folder(&project)).join("evil");
    let change = |change: &dyn Fn(&mut Recipe, &mut Vec<UnitMeta>)| {
        fs::write(project.ours("program"), &original).unwrap();
        rewrite(&project.ours("program"), change);
    };
    change(&|recipe, _| recipe.linker = evil.join("ld"));
    derived_by_own_tools(&project);
    change(&|recipe, _| recipe.linker = "./evil/ld".into());
    derived_by_own_tools(&project);
    change(&|_, units| {
        units[0].library = evil.with_file_name("evil.so");
        let Generator::Clang { program, .. } = &mut units[0].generator else { panic!() };
        *program = evil.join("clang");
    });
    derived_by_own_tools(&project);
    change(&|recipe, _| recipe.linker = "/bin/sh".into());
    refused(&project, "'sh' is not known as a linker");
    change(&|recipe, _| {
        recipe.linker = evil.join("cc");
        recipe.through_driver = true;
    });
    refused(&project, "which may run code");
    for hostile in ["-fplugin=./evil.so", "-load", "-fpass-plugin=./evil.so", "@words", "-ccc-x"] {
        change(&|_, units| {
            let Generator::Clang { arguments, .. } = &mut units[0].generator else { panic!() };
            arguments.push(hostile.to_owned());
            arguments.push("./evil.so".to_owned());
        });
        refused(&project, hostile);
    }
}

#[test]
fn words_for_compilers_that_link_are_refused() {
    let project = project();
    let original = fs::read(project.ours("program")).unwrap();
    let link = |words: &[&str]| {
        fs::write(project.ours("program"), &original).unwrap();
        rewrite(&project.ours("program"), |recipe, _| {
            recipe.linker = "/usr/bin/cc".into();
            recipe.through_driver = true;
            let is_units = |input: &Input| matches!(input.kind, InputKind::Units(_));
            let units = recipe.inputs.iter().position(is_units).unwrap();
            let input = RecipeArg::Input(units as u32);
            recipe.arguments = vec![text("-o"), RecipeArg::Output, input];
            recipe.arguments.extend(words.iter().map(|word| text(word)));
        });
    };
    link(&["-Wl,-z,now,--as-needed", "-Xlinker", "--gc-sections", "-pie", "-fuse-ld=bfd", "-lm"]);
    derived_by_own_tools(&project);
    for words in [
        &["-specs=evil.specs"][..],
        &["-specs", "evil.specs"],
        &["-Bevil"],
        &["-B", "evil"],
        &["-fuse-ld=./evil/ld"],
        &["--ld-path=./evil/ld"],
        &["-wrapper", "./evil/ld"],
        &["-fplugin=./evil.so"],
        &["-Wl,-plugin,./evil.so"],
        &["-Wl,-z", "-Wl,-plugin"],
        &["-Wp,-MD,x"],
        &["-Wa,-a=x"],
        &["--sysroot=evil"],
        &["--config=evil.cfg"],
        &["-Xclang", "-load"],
        &["-x", "c"],
        &["library.c"],
        &["@words"],
        &["-save-temps"],
        &["-dumpdir", "x"],
        &["-o", "x"],
        &["-target", "evil"],
        &["-flto"],
        &["-Xlinker"],
    ] {
        link(words);
        // What is for the linker is named as the linker gets it.
        let word = |word: &'static str| word.strip_prefix("-Wl,").unwrap_or(word).split(',').next();
        refused_for(&project, &words.iter().copied().filter_map(word).collect::<Vec<_>>());
    }
}

#[test]
fn assembly_of_others_reads_no_files() {
    let project = project();
    project.write("secret", b"secret\n");
    let include = "__asm__(\".incbin \\\"\" HERE \"/secret\\\"\");\n";
    let source = format!("{PROGRAM}{include}");
    project.write("program.c", source.as_bytes());
    project.run_ours("$CC -O1 -DHERE=\"\\\"$PWD\\\"\" program.c -o program").succeeded();
    project.carries("program", &["program.c"]);
    derive(&project, "", "").succeeded();
    project.run_ours("rm derived");
    let ran = derive(&project, ELSEWHERE, "");
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("its assembly has 'incbin'"), "{}", ran.stderr);
    derive(&project, ELSEWHERE, "--trust").succeeded();
}

#[test]
fn a_library_that_comes_along_is_checked_as_well() {
    let project = project();
    project.write("user.c", b"int twice(int);\nint main(int c, char **v) { return twice(c); }\n");
    let script = "$CC -O1 -fPIC -shared library.c -o libtwice.so && \
                  $CC -O1 user.c -L. -ltwice -Wl,-rpath,'$ORIGIN' -o program";
    project.run_ours(script).succeeded();
    derive(&project, ELSEWHERE, "").succeeded();
    project.run_ours("./derived && rm -r derived*").succeeded();
    rewrite(&project.ours("libtwice.so"), |recipe, _| {
        recipe.arguments.push(text("-plugin=./evil.so"));
    });
    let ran = derive(&project, "", "");
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    let named = ran.stderr.contains("libtwice.so: ") && ran.stderr.contains("-plugin=./evil.so");
    assert!(named, "{}", ran.stderr);
    project.run_ours("test ! -e derived && test ! -e mark").succeeded();
}

#[test]
fn a_unit_does_not_pass_for_another_one() {
    let project = project();
    let path = project.ours("program");
    let carried = Carried::read(&path).unwrap();
    let (unit, recipe) = (&carried.units[0], carried.recipe.as_ref().unwrap());
    let model = unit.model().unwrap();
    let other = [&unit.bitcode().unwrap().unwrap()[..], b"\0\0\0\0"].concat();
    let record = UnitRecord::new(unit.meta.clone(), Some(&other), model.as_ref());
    replace(&path, &record.to_bytes(), recipe);
    for options in ["", "--trust"] {
        let ran = derive(&project, "", options);
        assert_eq!(ran.status, 3, "{}", ran.stderr);
        assert!(ran.stderr.contains("its id is not that of its contents"), "{}", ran.stderr);
    }
}

/// An option that does nothing and is on no list: an abbreviation.
const UNLISTED: &str = "-Wl,--warn-com";

#[test]
fn what_a_user_links_is_known() {
    let project = project();
    let list = "$XDG_STATE_HOME/backtrail/known-recipes";
    project.run_ours(&format!("rm {list}")).succeeded();
    let links =
        format!("for i in 1 2 3 4 5 6; do $CC -O1 -DN=$i {UNLISTED} program.c -o p$i & done; wait");
    project.run_ours(&links).succeeded();
    // Once more changes nothing, and neither does clearing the cache.
    project.run_ours(&links).succeeded();
    project.run_ours("backtrail cache --clear").succeeded();
    let lines = project.run_ours(&format!("cat {list}")).succeeded().text();
    assert!(lines.lines().all(|line| line.len() == 64), "{lines}");
    let derive = |name: &str| {
        project.run_ours(&format!("backtrail -q instrument --scheme log -o derived {name}"))
    };
    (1..=6).for_each(|number| drop(derive(&format!("p{number}")).succeeded()));
    let modes = project.run_ours(&format!("stat -c %a {list} $XDG_STATE_HOME/backtrail")).text();
    assert_eq!(modes, "600\n700\n");
    // A list that others can write to proves nothing, and that is said.
    project.run_ours(&format!("chmod 622 {list}")).succeeded();
    let ran = derive("p1");
    assert_eq!(ran.status, 3);
    let [first, second] = ran.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{ran:?}") };
    assert!(first.ends_with("is not believed: others can write to it"), "{first}");
    assert!(second.contains("'--warn-com'"), "{second}");
}

#[test]
fn a_build_is_the_same_with_and_without_a_list() {
    let project = project();
    let build = format!("$CC -O1 {UNLISTED} program.c -o");
    project.run_ours(&format!("{build} with && rm -r $XDG_STATE_HOME")).succeeded();
    for state in [
        "XDG_STATE_HOME=/proc/none",
        "XDG_STATE_HOME= HOME=/proc/none",
        "XDG_STATE_HOME=. HOME=/proc/none",
    ] {
        let ran = project.run_ours(&format!("{state} {build} without")).succeeded();
        assert_eq!(ran.stderr, "", "{state}");
        project.run_ours("cmp with without").succeeded();
    }
    project.run_ours("test ! -e $XDG_STATE_HOME && test ! -e backtrail").succeeded();
    assert_eq!(project.run_ours("backtrail -q instrument --scheme log -o x without").status, 3);
}

/// What a folder has that the link names may be more than a library: `-l` finds it without
/// being told its path.
#[test]
fn libraries_that_are_found_by_name_are_looked_into() {
    let project = project();
    let make = "gcc -c library.c -o twice.o && mkdir lib && ar r lib/libtwice.a twice.o";
    project.run_ours(make).succeeded();
    rewrite(&project.ours("program"), |recipe, _| {
        recipe.arguments.extend(["-Llib", "-ltwice"].map(text));
    });
    derived_by_own_tools(&project);
    for (make, said) in [
        ("gcc -flto -c library.c -o x.o && ar r lib/libtwice.a x.o", "compiled by the linker"),
        ("clang-19 -flto -c library.c -o x.o && ar r lib/libtwice.a x.o", "compiled by the linker"),
        ("ar rT lib/libtwice.a twice.o", "is an archive of files elsewhere"),
        ("echo 'INPUT(/etc/passwd)' > lib/libtwice.so", "is a script of the linker with INPUT"),
        ("echo 'OUTPUT(x)' > lib/libtwice.a", "is a script of the linker with OUTPUT"),
        ("mkdir lib/libtwice.so", "cannot be read"),
    ] {
        project.run_ours(&format!("rm -r lib; mkdir lib; {make}")).succeeded();
        refused(&project, said);
    }
}
