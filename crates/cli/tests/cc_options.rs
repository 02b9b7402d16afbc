//! Options of the compiler, one by one: the object is clang's, what is written
//! beside it is clang's, and the unit is carried.

mod cc_project;

use cc_project::{Build, Project};

/// Enough for most options to make a difference.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item { int key; double weight; char name[12]; };
static struct item items[6];
int limit = 40;
static const char *const words[] = {"zero", "one", "two", "three"};

static int compare(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    return x->key - y->key;
}

__attribute__((noinline)) double total(const struct item *list, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += list[i].weight * list[i].key;
    return sum;
}

int classify(int value) {
    switch (value) {
    case 0: return 1;
    case 1: return 7;
    case 2: return 3;
    case 3: return 9;
    case 4: return -2;
    default: return value > limit ? 0 : value;
    }
}

int main(int argc, char **argv) {
    char text[64];
    for (int i = 0; i < 6; i++) {
        items[i].key = (i * 7) % 6;
        items[i].weight = i / 2.0;
        snprintf(items[i].name, sizeof items[i].name, "%s", words[i % 4]);
    }
    qsort(items, 6, sizeof items[0], compare);
    strcpy(text, items[3].name);
    int sum = 0;
    for (int i = 0; i < 50; i++) sum += classify(i);
    printf("%s %.2f %d %d\n", text, total(items, 6), sum, argc);
    return argc > 1 ? atoi(argv[1]) : 0;
}
"#;

fn project() -> Project {
    Project::new(&[("program.c", PROGRAM)])
}

/// Compiles and links with `options`, and checks everything that can be.
#[track_caller]
fn check(project: &Project, options: &str) {
    project.both(&format!("$CC {options} -c program.c -o program.o")).succeeded();
    project.carries("program.o", &["program.c"]);
    project.both(&format!("$CC {options} program.o -o program")).succeeded();
    project.carries("program", &["program.c"]);
    project.behaves("program", "3");
    assert_eq!(project.run_ours("./program 3").status, 3);
    project.both("rm -f program program.o");
}

#[test]
fn code_models_and_position_independence() {
    let project = project();
    for options in
        ["-fPIC", "-fpie -pie", "-fno-pie -no-pie", "-mcmodel=large", "-mcmodel=medium -O2"]
    {
        check(&project, options);
    }
}

#[test]
fn machine_and_hardening() {
    let project = project();
    for options in [
        "-march=native -O3",
        "-O2 -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fstack-clash-protection -fcf-protection",
        "-O2 -fno-omit-frame-pointer -mno-red-zone -fno-plt",
        "-O2 -fzero-call-used-regs=used-gpr -ftrivial-auto-var-init=zero",
        "-O2 -fno-asynchronous-unwind-tables -fvisibility=hidden",
    ] {
        check(&project, options);
    }
}

#[test]
fn sections_and_what_the_linker_drops() {
    let project = project();
    check(
        &project,
        "-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections -Wno-unused-command-line-argument",
    );
    check(&project, "-O2 -funique-internal-linkage-names -fno-common");
    check(&project, "-O2 -fbasic-block-sections=all");
}

#[test]
fn debug_information() {
    let project = project();
    for options in [
        "-g",
        "-g1 -O2",
        "-g3 -O1",
        "-ggdb -O2 -gdwarf-4",
        "-gline-tables-only",
        "-g -gz",
        "-g0",
        "-g -fdebug-types-section",
    ] {
        check(&project, options);
    }
    // Paths that the user chose to hide stay hidden in the code.
    check(&project, "-g -ffile-prefix-map=$PWD=/src");
}

#[test]
fn split_debug_information() {
    let project = project();
    project.both("$CC -g -gsplit-dwarf -O2 -c program.c").succeeded();
    project.carries("program.o", &["program.c"]);
    project
        .both("mkdir -p out && $CC -g -gsplit-dwarf -O2 -c program.c -o out/other.o")
        .succeeded();
    assert!(project.ours("out/other.dwo").is_file());
    project.both("$CC -g -gsplit-dwarf program.c -o program").succeeded();
    project.carries("program", &["program.c"]);
    project.behaves("program", "");
}

#[test]
fn files_written_beside_the_object() {
    let project = project();
    for options in [
        "-fstack-usage",
        "-fstack-usage -g",
        "-O2 -fsave-optimization-record",
        "-O2 -g -fsave-optimization-record=yaml -foptimization-record-passes=inline",
        "-save-temps",
        "-save-temps=obj -O2",
        "-save-temps -no-integrated-as",
    ] {
        check(&project, options);
    }
    // It holds times.
    for build in [Build::Plain, Build::Ours] {
        let script = "$CC -ftime-trace -O2 -c program.c && grep -c traceEvents program.json && grep -c OptModule program.json && grep -c Frontend program.json";
        assert_eq!(project.run(build, script).succeeded().text(), "1\n1\n1\n");
    }
    project.carries("program.o", &["program.c"]);
}

#[test]
fn time_reports_are_whole() {
    let project = project();
    let ran = project.run_ours("$CC -ftime-report -O2 -c program.c").succeeded();
    assert_eq!(ran.stderr.matches("Clang front-end time report").count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("X86 DAG->DAG Instruction Selection"));
    project.carries("program.o", &["program.c"]);
}

#[test]
fn other_assemblers() {
    let project = project();
    for options in [
        "-no-integrated-as",
        "-fno-integrated-as -O2",
        "-fintegrated-as",
        "-O2 -fno-integrated-as -g",
    ] {
        project.both(&format!("$CC {options} -c program.c -o program.o")).succeeded();
        project.carries("program.o", &["program.c"]);
        project.both(&format!("$CC {options} program.o -o program")).succeeded();
        project.behaves("program", "2");
    }
}

#[test]
fn options_for_the_tools_behind_the_driver() {
    let project = project();
    for options in [
        "-O2 -Wa,--noexecstack",
        "-Wp,-DFROM_WP=1,-UX",
        "-Wl,-z,now -Wl,-O1 -Wno-unused-command-line-argument",
        "-O2 -Xclang -no-enable-noundef-analysis",
        "-O2 -mllvm -inline-threshold=0 -mllvm -x86-asm-syntax=intel",
        "-Xassembler --noexecstack -Xpreprocessor -DX=1",
        "-pipe",
        "-O2 -Xclang -disable-llvm-passes",
    ] {
        check(&project, options);
    }
}

#[test]
fn bitcode_that_the_user_asks_for() {
    let project = project();
    for options in ["-emit-llvm -c", "-emit-llvm -S", "-O2 -emit-llvm -c -o other.bc"] {
        project.both(&format!("$CC {options} program.c")).succeeded();
    }
    // And an object from such bitcode.
    project.both("$CC -O2 -c other.bc -o from-bitcode.o").succeeded();
    project.carries("from-bitcode.o", &["other.bc"]);
    project.both("$CC -O2 -fembed-bitcode -c program.c").succeeded();
    project.carries("program.o", &["program.c"]);
    project.both("$CC program.o -o program").succeeded();
    project.behaves("program", "");
}

#[test]
fn precompiled_headers() {
    let project = Project::new(&[
        (
            "all.h",
            "#include <stdio.h>\n#define WORD \"from the header\"\nstatic inline int twice(int x) { return 2 * x; }\n",
        ),
        ("main.c", "int main(void) { printf(\"%s %d\\n\", WORD, twice(21)); return 0; }\n"),
        ("all.hpp", "#include <string>\n#include <vector>\n"),
        (
            "main.cpp",
            "#include <cstdio>\nint main() { std::vector<std::string> v{\"a\", \"b\"}; printf(\"%zu\\n\", v.size()); }\n",
        ),
    ]);
    project.both("$CC -O2 -x c-header all.h -o all.h.pch").succeeded();
    project.both("$CC -O2 -include all.h main.c -o one").succeeded();
    project.both("$CC -O2 -include-pch all.h.pch -c main.c && $CC main.o -o two").succeeded();
    project.both("$CXX -x c++-header all.hpp -o all.hpp.pch").succeeded();
    project.both("$CXX -include-pch all.hpp.pch main.cpp -o three").succeeded();
    // Not the way this header was compiled.
    assert_ne!(
        project
            .both("$CC -O0 -D__OPTIMIZE__ -fPIC -include-pch all.h.pch -c main.c -o x.o")
            .ours
            .status,
        2
    );
    for (program, source) in [("one", "main.c"), ("two", "main.c"), ("three", "main.cpp")] {
        project.carries(program, &[source]);
        project.behaves(program, "");
    }
}

#[test]
fn modules_of_cxx20() {
    let project = Project::new(&[
        ("greet.cppm", "export module greet;\nexport int greet(int x) { return x + 1; }\n"),
        ("main.cpp", "import greet;\nint main() { return greet(4); }\n"),
    ]);
    let script = "$CXX -std=c++20 -c greet.cppm -fmodule-output=greet.pcm -o greet.o && \
                  $CXX -std=c++20 -fmodule-file=greet=greet.pcm main.cpp greet.o -o program";
    project.both(script).succeeded();
    project.carries("program", &["main.cpp", "greet.cppm"]);
    project.behaves("program", "");
    let script = "$CXX -std=c++20 --precompile greet.cppm -o other.pcm && $CXX -std=c++20 -c other.pcm -o other.o";
    project.both(script).succeeded();
    project.carries("other.o", &["other.pcm"]);
}

/// A unit whose code needs a file of the build tree could not be made again
/// without it.
#[test]
fn assembly_that_includes_files() {
    let project = Project::new(&[
        ("data.txt", "forty-two"),
        (
            "data.c",
            "__asm__(\".section .rodata\\n.globl data\\ndata: .incbin \\\"data.txt\\\"\\n.byte 0\\n.text\");\n",
        ),
        (
            "main.c",
            "#include <stdio.h>\nextern char data[];\nint main(void) { puts(data); return 0; }\n",
        ),
    ]);
    let both = project.both("$CC main.c data.c -o program");
    assert_eq!(both.warnings.len(), 1);
    assert!(
        both.warnings[0].starts_with("the IR of data.c is not carried: code generation failed"),
        "{:?}",
        both.warnings
    );
    let units = project.units("program");
    assert_eq!(units[0], ("main.c".to_owned(), "yes".to_owned()));
    assert!(units[1].1.starts_with("no: code generation failed"), "{units:?}");
    project.behaves("program", "");
}

#[test]
fn another_machine_gets_an_ordinary_object() {
    let project = Project::new(&[("plain.c", "int plain(int x) { return x + 1; }\n")]);
    let why = "compiled for aarch64-unknown-linux-gnu, not for x86-64 Linux";
    let warning = format!("the IR of plain.c is not carried: {why}");
    project.both("$CC --target=aarch64-linux-gnu -c plain.c").warned(&[&warning]);
    let both = project.both("$CC -m32 -c plain.c -o small.o");
    assert_eq!(both.warnings.len(), 1);
}
