//! Links: how objects and libraries come together, by which linker, and that
//! the recipe for it is carried.

mod cc_project;

use cc_project::Project;

const MAIN: &str = r#"
#include <stdio.h>
int one(int), two(int);
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < 10 * argc; i++) sum += i & 1 ? one(i) : two(i);
    printf("%d %s\n", sum, argv[0] ? "named" : "");
    return sum & 1;
}
"#;
const ONE: &str = "int one(int x) { return x > 5 ? x * 2 : x + 1; }\n";
const TWO: &str = "int helper(int);\nint two(int x) { return helper(x) + 1; }\n";
const HELPER: &str = "int helper(int x) { return x * 3; }\n";
const NEVER: &str = "int never(int x) { return x * 4; }\n";

fn project() -> Project {
    Project::new(&[
        ("main.c", MAIN),
        ("one.c", ONE),
        ("first/same.c", TWO),
        ("second/same.c", HELPER),
        ("never.c", NEVER),
    ])
}

/// Why objects of units are linked as they are.
const MIXED: &str =
    "its symbols or sections are not those of its units (it was changed by ld -r or objcopy)";

const OBJECTS: &str = "$CC -O2 -fPIC -c main.c one.c never.c && \
    $CC -O2 -fPIC -c first/same.c -o first/same.o && $CC -O2 -fPIC -c second/same.c -o second/same.o";

#[test]
fn archives() {
    let project = project();
    project.both(OBJECTS).succeeded();
    // Two members of one name, and one that is not needed.
    project
        .both("ar rcDS all.a one.o first/same.o second/same.o never.o && ranlib -D all.a")
        .succeeded();
    project.both("$CC main.o all.a -o program").succeeded();
    let linked = ["main.c", "one.c", "first/same.c", "second/same.c"];
    project.carries("program", &linked);
    project.behaves("program", "");
    project.both("$CC main.o -L. -l:all.a -o program").succeeded();
    project.carries("program", &linked);
    project.behaves("program", "");
    project
        .both("$CC main.o -Wl,--whole-archive all.a -Wl,--no-whole-archive -o program")
        .succeeded();
    project.carries("program", &[&linked[..], &["never.c"]].concat());
    project.behaves("program", "");
}

#[test]
fn thin_archives_and_libraries_by_name() {
    let project = project();
    project.both(OBJECTS).succeeded();
    let linked = ["main.c", "one.c", "first/same.c", "second/same.c"];
    project
        .both("mkdir lib && ar rcTD lib/libthin.a one.o first/same.o second/same.o never.o")
        .succeeded();
    project.both("$CC main.o lib/libthin.a -o program").succeeded();
    project.carries("program", &linked);
    // The tree goes; everything that was linked is carried.
    project.both("$CC -Llib main.o -lthin -o program && rm -r lib *.o first second").succeeded();
    project.carries("program", &linked);
    project.behaves("program", "");
}

#[test]
fn groups_of_archives_and_archivers_of_llvm() {
    let project = Project::new(&[
        ("main.c", "int a(int);\nint main(void) { return a(3); }\n"),
        ("a.c", "int b(int);\nint a(int x) { return x ? b(x - 1) + 1 : 0; }\n"),
        ("b.c", "int a(int);\nint b(int x) { return x ? a(x - 1) + 2 : 0; }\n"),
    ]);
    let script = "$CC -O2 -c a.c b.c && llvm-ar-19 rcD liba.a a.o && llvm-ar-19 rcD libb.a b.o && \
                  $CC main.c -L. -Wl,--start-group -lb -la -Wl,--end-group -o program";
    project.both(script).succeeded();
    project.carries("program", &["main.c", "a.c", "b.c"]);
    project.behaves("program", "");
}

#[test]
fn kinds_of_executables() {
    let project = project();
    project.both(OBJECTS).succeeded();
    let objects = "main.o one.o first/same.o second/same.o";
    let units = ["main.c", "one.c", "first/same.c", "second/same.c"];
    for (options, kind) in [
        ("-static", "executable"),
        ("-static-pie", "position-independent executable"),
        ("-no-pie", "executable"),
        ("-pie -Wl,-z,relro,-z,now", "position-independent executable"),
        ("-s", "position-independent executable"),
    ] {
        project.both(&format!("$CC {options} {objects} -o program")).succeeded();
        project.carries("program", &units);
        assert_eq!(project.info("program")["kind"], kind, "{options}");
        project.behaves("program", "");
    }
}

#[test]
fn linkers() {
    let project = project();
    project.both(OBJECTS).succeeded();
    let objects = "main.o one.o first/same.o second/same.o";
    let units = ["main.c", "one.c", "first/same.c", "second/same.c"];
    for linker in ["-fuse-ld=lld", "-fuse-ld=bfd", "-fuse-ld=gold", "--ld-path=/usr/bin/ld.bfd"] {
        project.both(&format!("$CC {linker} {objects} -o program")).succeeded();
        project.carries("program", &units);
        project.behaves("program", "");
        let link = format!(
            "$CC {linker} -O2 -ffunction-sections -fdata-sections main.c one.c never.c first/same.c second/same.c -Wl,--gc-sections -o program"
        );
        project.both(&link).succeeded();
        project.behaves("program", "");
    }
}

#[test]
fn relocatable_objects() {
    let project = project();
    project.both(OBJECTS).succeeded();
    project.both("$CC -r one.o first/same.o second/same.o -o all.o").succeeded();
    project.carries("all.o", &["one.c", "first/same.c", "second/same.c"]);
    project.both("$CC main.o all.o -o program").succeeded();
    project.carries("program", &["main.c", "one.c", "first/same.c", "second/same.c"]);
    project.behaves("program", "");
    // Straight from sources.
    project.both("$CC -r -nostdlib one.c never.c -o two.o").succeeded();
    project.carries("two.o", &["one.c", "never.c"]);
}

#[test]
fn objects_that_were_changed_are_linked_as_they_are() {
    let project = project();
    project.both(OBJECTS).succeeded();
    project
        .both("ld -r main.o one.o -o both.o && objcopy --localize-symbol=one both.o changed.o")
        .succeeded();
    let both = project.both("$CC changed.o first/same.o second/same.o -o program");
    both.warned(&[&format!("changed.o is linked as it is: {MIXED}")]);
    let info = project.info("program");
    assert_eq!(info["native"][0]["why"], MIXED);
    assert_eq!(info["remarks"].as_array().unwrap().len(), 1);
    project.behaves("program", "");
}

#[test]
fn what_defines_nothing_for_others_is_not_lost() {
    let table = |number: u32| {
        format!(
            "static int n{number} = {number};\n\
             __attribute__((used, section(\"numbers\"))) static int *p{number} = &n{number};\n"
        )
    };
    let main = "#include <stdio.h>\nextern int *__start_numbers[], *__stop_numbers[];\n\
                __attribute__((used, section(\"numbers\"))) static int *own = &(int){1};\n\
                int main(void) { int sum = 0; \
                for (int **p = __start_numbers; p < __stop_numbers; p++) sum += **p; \
                printf(\"%d\\n\", sum); return 0; }\n";
    let (two, four) = (table(2), table(4));
    let project = Project::new(&[("main.c", main), ("two.c", &two), ("four.c", &four)]);
    project.both("$CC -O2 -c main.c two.c && clang-19 -O2 -c four.c").succeeded();
    // Of what is compiled by us alone nothing is in the way.
    project.both("ld -r main.o two.o -o ours.o && $CC ours.o -o ours").succeeded();
    project.carries("ours", &["main.c", "two.c"]);
    project.behaves("ours", "");
    project.both("ld -r main.o two.o four.o -o all.o").succeeded();
    let all = project.both("$CC all.o -o program");
    all.warned(&[&format!("all.o is linked as it is: {MIXED}")]);
    project.behaves("program", "");
}

#[test]
fn scripts_for_the_linker() {
    let project = project();
    project.write("exports.map", b"{ global: main; local: *; };\n");
    project.write("list.txt", b"{ one; };\n");
    project.write("order.ld", b"SECTIONS { .own_data : { *(.own_data) } } INSERT AFTER .data;\n");
    project.write("both.ld", b"INPUT(first/same.o second/same.o)\n");
    project.both(OBJECTS).succeeded();
    let objects = "main.o one.o first/same.o second/same.o";
    for options in [
        "-Wl,--version-script=exports.map",
        "-Wl,--version-script,exports.map",
        "-Wl,--dynamic-list=list.txt",
        "-Wl,-T,order.ld",
        "-T order.ld",
        "-Wl,-Map=program.map -Wl,--cref -Wl,--defsym=extra=42",
        "-Wl,--wrap=never -Wl,-u,one -Xlinker -E -rdynamic",
    ] {
        project
            .both(&format!("$CC {options} {objects} -o program && rm -f program.map"))
            .succeeded();
        project.carries("program", &["main.c", "one.c", "first/same.c", "second/same.c"]);
        project.behaves("program", "");
    }
    // The script is not needed any more.
    project
        .both(&format!(
            "$CC -Wl,--version-script=exports.map {objects} -o program && rm exports.map"
        ))
        .succeeded();
    project.behaves("program", "");
}

#[test]
fn shared_libraries() {
    let project = project();
    project.write("library.map", b"V1 { global: one; two; local: *; };\n");
    let script = "$CC -O2 -fPIC -shared -Wl,-soname,libboth.so.1 -Wl,--version-script=library.map \
                  one.c first/same.c second/same.c -o libboth.so.1 && ln -s libboth.so.1 libboth.so && \
                  $CC main.c -L. -lboth '-Wl,-rpath,$ORIGIN' -o program";
    project.both(script).succeeded();
    project.carries("libboth.so.1", &["one.c", "first/same.c", "second/same.c"]);
    project.carries("program", &["main.c"]);
    assert_eq!(project.info("libboth.so.1")["kind"], "shared library");
    project.behaves("program", "");
    // By itself, as a library to be put in the place of the other.
    let plain = project.run_ours("./program");
    for scheme in ["empty", "log"] {
        project.derive("libboth.so.1", scheme);
        let script = format!(
            "mkdir -p in && cp libboth.so.1.{scheme} in/libboth.so.1 && LD_LIBRARY_PATH=in ./program"
        );
        assert_eq!(project.run_ours(&script), plain, "{scheme}");
    }
}

#[test]
fn libraries_that_are_loaded_at_run_time() {
    let project = Project::new(&[
        (
            "main.c",
            "#include <dlfcn.h>\n#include <stdio.h>\nint shared = 5;\nint main(void) { void *l = dlopen(\"./plugin.so\", RTLD_NOW); if (!l) { puts(dlerror()); return 1; } int (*f)(int) = (int (*)(int))dlsym(l, \"plug\"); printf(\"%d\\n\", f(4)); return 0; }\n",
        ),
        (
            "plugin.c",
            "extern int shared;\nint plug(int x) { int s = 0; while (x--) s += shared; return s; }\n",
        ),
    ]);
    project.both("$CC -O2 main.c -rdynamic -ldl -o program && $CC -O2 -fPIC -shared plugin.c -o plugin.so").succeeded();
    project.carries("plugin.so", &["plugin.c"]);
    project.behaves("program", "");
}

/// Units that link-time optimisation is asked for are not carried, and say so.
#[test]
fn optimisation_at_link_time() {
    // What the linker compiles is not checked.
    let project = project().with("TRUST", "--trust");
    let why = "no: compiled with -flto".to_owned();
    let warning = |name: &str| format!("the IR of {name} is not carried: compiled with -flto");
    for options in ["-flto -fuse-ld=lld", "-flto=thin -fuse-ld=lld", "-flto -fuse-ld=gold", "-flto"]
    {
        let both = project
            .both_spoke(&format!("$CC -O2 {options} main.c first/same.c -c && mv same.o first/"));
        both.warned(&[&warning("main.c"), &warning("first/same.c")]);
        project.both_spoke("$CC -O2 -c one.c second/same.c && mv same.o second/").succeeded();
        // Objects of both kinds together.
        let link = format!("$CC -O2 {options} main.o one.o first/same.o second/same.o -o program");
        project.both_spoke(&link).succeeded();
        let units = project.units("program");
        assert!(units.contains(&("one.c".to_owned(), "yes".to_owned())), "{units:?}");
        assert!(units.contains(&("main.o".to_owned(), why.clone())), "{options} {units:?}");
        project.behaves("program", "");
        // All of them, at once.
        let link = format!("$CC -O2 {options} main.c one.c first/same.c second/same.c -o program");
        let both = project.both_spoke(&link);
        assert_eq!(both.warnings.len(), 4);
        let units = project.units("program");
        assert_eq!(units.len(), 4);
        assert!(units.iter().all(|(_, carried)| *carried == why), "{units:?}");
        project.behaves("program", "");
    }
}

#[test]
fn objects_for_either_kind_of_link() {
    // What the linker compiles is not checked.
    let project = project().with("TRUST", "--trust");
    let objects = "$CC -O2 -flto -ffat-lto-objects -c main.c one.c first/same.c && mv same.o first && \
                   $CC -O2 -flto -ffat-lto-objects -c second/same.c -o second/same.o";
    assert_eq!(project.both(objects).warnings.len(), 4);
    assert_eq!(
        project.units("one.o"),
        [("one.c".to_owned(), "no: compiled with -flto".to_owned())]
    );
    for options in ["", "-flto -ffat-lto-objects -fuse-ld=lld"] {
        let link = format!("$CC {options} main.o one.o first/same.o second/same.o -o program");
        project.both_spoke(&link).succeeded();
        let units = project.units("program");
        assert_eq!(units.len(), 4, "{options} {units:?}");
        project.behaves("program", "");
    }
}

/// Objects of ours, linked by somebody else: units without a recipe.
#[test]
fn linked_by_another() {
    let project = project();
    project.both(OBJECTS).succeeded();
    let script = "clang-19 main.o one.o first/same.o second/same.o -o by-clang && \
                  gcc main.o one.o first/same.o second/same.o -o by-gcc";
    project.run_ours(script).succeeded();
    for program in ["by-clang", "by-gcc"] {
        project.carries(program, &["main.c", "one.c", "first/same.c", "second/same.c"]);
        assert_eq!(project.info(program)["relinkable"], false);
        let ran = project.run_ours(&format!("backtrail instrument --scheme log {program}"));
        assert_eq!(ran.status, 3);
        assert_eq!(
            ran.stderr,
            format!(
                "backtrail: {program}: it carries units but no link recipe: it was not linked by 'backtrail cc'; link it with that\n"
            )
        );
        assert!(!project.ours(&format!("{program}.log")).exists());
    }
}

#[test]
fn symbols_weak_common_hidden_and_versioned() {
    let project = Project::new(&[
        (
            "main.c",
            "#include <stdio.h>\nint common;\nextern int shared(void);\n__attribute__((weak)) int overridden(void) { return 1; }\n__attribute__((weak)) extern int nowhere(void);\n__attribute__((constructor)) static void first(void) { common += 5; }\nstatic int thread_number = 3;\nint main(void) { printf(\"%d %d %d %d\\n\", common, overridden(), nowhere ? nowhere() : -1, shared()); return 0; }\n",
        ),
        (
            "other.c",
            "int common;\nint overridden(void) { return 2; }\n__attribute__((visibility(\"hidden\"))) int hidden(void) { return 7; }\nint shared(void) { static __thread int t = 40; return hidden() + ++t; }\nint alias(void) __attribute__((alias(\"shared\")));\n",
        ),
    ]);
    project.both("$CC -O2 -fcommon main.c other.c -o program").succeeded();
    project.behaves("program", "");
}

/// Its symbols are named by its path.
#[test]
fn data_that_the_linker_takes_in() {
    let project = Project::new(&[
        ("some/data.bin", "forty-two\0"),
        (
            "main.c",
            "#include <stdio.h>\nextern char _binary_some_data_bin_start[];\nint main(void) { puts(_binary_some_data_bin_start); return 0; }\n",
        ),
    ]);
    let options = "-Wl,-b,binary some/data.bin -Wl,-b,default -Wl,-z,noexecstack";
    for linker in ["bfd", "lld"] {
        project.both(&format!("$CC -fuse-ld={linker} main.c {options} -o program")).succeeded();
        let native = project.info("program")["native"].clone();
        assert_eq!(native[0]["why"], "taken in as it is (-b binary)", "{native}");
        project.behaves("program", "");
    }
}

/// A variable of the linker's is a part of how a program was linked.
#[test]
fn run_path_from_a_variable() {
    let project = project();
    project.both("mkdir -p deep/lib && $CC -O2 -fPIC -shared one.c -o deep/lib/libone.so && $CC -O2 -fPIC -shared first/same.c second/same.c -o deep/lib/libsame.so").succeeded();
    project.both("LD_RUN_PATH=\"$PWD/deep/lib\" $CC main.c -Ldeep/lib -lone -lsame -o program && ./program").ours.stderr.clear();
    project.behaves("program", "");
}
