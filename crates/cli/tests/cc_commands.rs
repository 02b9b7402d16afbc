//! Kinds of command lines: what is compiled, from what, to where.

mod cc_project;

use cc_project::{Build, Project};

const MAIN: &str = r#"
#include <stdio.h>
int helper(int x);
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < argc * 7; i++) sum += helper(i);
    printf("%s %d\n", argc > 1 ? argv[1] : "none", sum);
    return sum & 3;
}
"#;

const HELPER: &str = r#"
int helper(int x) {
    if (x % 3 == 0) return x * 2;
    while (x > 10) x -= 4;
    return x - 1;
}
"#;

fn two_files() -> Project {
    Project::new(&[("main.c", MAIN), ("helper.c", HELPER)])
}

#[test]
fn one_source_to_an_object() {
    let project = two_files();
    project.both("$CC -O2 -c helper.c").succeeded();
    project.carries("helper.o", &["helper.c"]);
    project.both("$CC -O2 -c -o other.o helper.c && rm helper.o").succeeded();
    project.carries("other.o", &["helper.c"]);
}

#[test]
fn several_sources_to_a_program() {
    let project = two_files();
    project.both("$CC -O1 main.c helper.c").succeeded();
    project.carries("a.out", &["main.c", "helper.c"]);
    project.both("$CC main.c helper.c -o program").succeeded();
    project.carries("program", &["main.c", "helper.c"]);
    project.behaves("program", "word");
}

#[test]
fn several_sources_to_objects() {
    let project = two_files();
    project.both("$CC -O2 -c main.c helper.c").succeeded();
    project.carries("main.o", &["main.c"]);
    project.carries("helper.o", &["helper.c"]);
    project.both("$CC -o program main.o helper.o").succeeded();
    project.carries("program", &["main.c", "helper.c"]);
    project.behaves("program", "word");
    // Two objects cannot have one name.
    let refused = project.both("$CC -c main.c helper.c -o both.o");
    assert_ne!(refused.ours.status, 0);
}

#[test]
fn options_in_any_order() {
    let project = two_files();
    project.both("$CC -o program helper.c -O2 -lm main.c -g0 -I . -DX=1").succeeded();
    project.carries("program", &["helper.c", "main.c"]);
    project.both("$CC helper.c -c -O2 -o x.o -MMD").succeeded();
    project.carries("x.o", &["helper.c"]);
    project.both("$CC -c -o y.o -- helper.c").succeeded();
    project.carries("y.o", &["helper.c"]);
}

#[test]
fn response_files() {
    let project = two_files();
    project.write("compile.rsp", b"-O2 -c\nmain.c -DTEXT=\"a b\" -o 'ma in.o'");
    project.write("link.rsp", b"\"ma in.o\" helper.o @more.rsp");
    project.write("more.rsp", b"-o program");
    project.write("linker.rsp", b"helper.o");
    project.both("$CC @compile.rsp && $CC -c helper.c && $CC @link.rsp").succeeded();
    project.carries("program", &["main.c", "helper.c"]);
    // One that only the linker reads.
    project.both("$CC 'ma in.o' -Wl,@linker.rsp -o program").succeeded();
    project.carries("program", &["main.c", "helper.c"]);
    project.behaves("program", "x");
}

#[test]
fn preprocessing_assembly_and_dependencies_are_clangs() {
    let project = two_files();
    for options in ["-E", "-S", "-S -O2", "-M", "-MM", "-fsyntax-only", "-E -dM", "-S -emit-llvm"] {
        project.both(&format!("$CC {options} helper.c")).succeeded();
    }
    project.both("$CC -MM main.c helper.c -MT target").succeeded();
    project.both("$CC -S helper.c -o - | grep -c ret").succeeded();
}

#[test]
fn dependency_files_beside_objects() {
    let project = Project::new(&[
        ("main.c", "#include \"own.h\"\n#include <stddef.h>\nsize_t size = OWN;\n"),
        ("own.h", "#define OWN 3\n"),
    ]);
    for options in [
        "-MD",
        "-MMD",
        "-MMD -MF deps/main.d -MT target -MP",
        "-MD -MQ 'odd name.o'",
        "-Wp,-MD,wp.d",
        "-MMD -o deps/other.o",
    ] {
        project.both(&format!("mkdir -p deps && $CC {options} -c main.c")).succeeded();
    }
    project.carries("main.o", &["main.c"]);
    project.carries("deps/other.o", &["main.c"]);
}

#[test]
fn entries_for_a_compilation_database() {
    let project = two_files();
    project.both("$CC -MJ helper.json -O2 -c helper.c").succeeded();
    project.carries("helper.o", &["helper.c"]);
    let both = project.both("$CC -MJ bad.json -c missing.c");
    assert_eq!(both.ours.status, 1);
    // Here names of temporary files are in the entries.
    project.both_spoke("$CC -MJ program.json main.c helper.c -o program").succeeded();
    project.carries("program", &["main.c", "helper.c"]);
    let entries = std::fs::read_to_string(project.ours("program.json")).unwrap();
    assert_eq!(entries.lines().count(), 2, "{entries}");
}

#[test]
fn source_from_standard_input() {
    let project = two_files();
    project.both("$CC -O2 -x c -c - -o in.o < helper.c").succeeded();
    project.carries("in.o", &["-"]);
    project.both("cat main.c | $CC -xc - -x none helper.c -o program").succeeded();
    project.carries("program", &["-", "helper.c"]);
    project.behaves("program", "");
    // Said by code generation, from a source that cannot be read twice.
    let text = r#"echo 'void f(void) { __asm__("nonsense"); }'"#;
    let failed = project.both(&format!("{text} | $CC -x c -c - -o bad.o"));
    assert_eq!(failed.ours.status, 1);
    assert!(failed.ours.stderr.starts_with("<stdin>:1:24: error:"), "{}", failed.ours.stderr);
}

/// Clang must be the only one to read it.
#[test]
fn source_from_a_pipe() {
    let project = two_files();
    let why = "its source can be read only once: it is no regular file";
    let warning = format!("the IR of pipe is not carried: {why}");
    let script = "mkfifo pipe; cat helper.c > pipe & $CC -O2 -x c -c pipe -o pipe.o; rm pipe";
    project.both(script).warned(&[&warning]);
    assert_eq!(project.units("pipe.o"), [("pipe".to_owned(), format!("no: {why}"))]);
    // This can be read as often as one likes.
    project.both("$CC -O2 -x c -c /dev/stdin -o in.o < helper.c").succeeded();
    project.carries("in.o", &["/dev/stdin"]);
}

#[test]
fn nothing_is_left_after_an_interruption() {
    let project = two_files();
    for (signal, status) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        // The compiler waits for what it includes. In the background an
        // interrupt is ignored, and under nohup a hang-up, unless one says
        // otherwise.
        let script = format!(
            "mkfifo pipe; echo '#include \"pipe\"' > waits.c; \
             setsid env --default-signal=INT,HUP $CC -c waits.c -o waits.o & pid=$!; \
             for i in $(seq 200); do ls $TMPDIR | grep -q . && break; sleep 0.05; done; \
             ls -d $TMPDIR/backtrail-scratch-cc-*/unit-0 > /dev/null; \
             kill -{signal} -$pid; wait $pid; echo $?; ls $TMPDIR waits.o; rm pipe waits.c"
        );
        let ran = project.run_ours(&script);
        assert!(ran.text().starts_with(&format!("{status}\n")), "{signal} {ran:?}");
        let left: Vec<_> = std::fs::read_dir(project.ours("../temporary")).unwrap().collect();
        assert!(left.is_empty(), "{signal} left {left:?}");
        assert!(!project.ours("waits.o").exists());
    }
}

#[test]
fn without_a_place_for_temporary_files() {
    let project = two_files().with("TMPDIR", "/no/such/folder");
    let both = project.both("$CC -O2 -c helper.c");
    assert_eq!(both.warnings.len(), 1);
    assert!(both.warnings[0].starts_with("nothing is carried: no place for temporary files"));
    assert_eq!(both.ours.status, 0);
}

#[test]
fn output_to_no_regular_file() {
    let project = two_files();
    project.both("$CC -c helper.c -o /dev/null").succeeded();
    project.both("$CC main.c helper.c -o /dev/null").succeeded();
    // Objects on standard output are clang's, whole.
    let objects =
        [Build::Plain, Build::Ours].map(|build| project.run(build, "$CC -c helper.c -o -"));
    assert_eq!(objects[0], objects[1]);
    assert!(objects[1].stdout.starts_with(b"\x7fELF"));
    project.both("mkfifo pipe; cat pipe > copy.o & $CC -c helper.c -o pipe && wait && rm pipe");
    project.carries("copy.o", &["helper.c"]);
}

#[test]
fn an_output_that_is_a_link() {
    let project = two_files();
    // Clang puts the object in the place of the link; /dev/null stays.
    let script = "echo old > real; ln -s real link.o; ln -s missing lost.o; ln -s /dev/null null.o; \
                  for name in link lost null; do $CC -c helper.c -o $name.o; done; ls -l | cut -c1";
    project.both(script).succeeded();
    project.carries("link.o", &["helper.c"]);
    project.carries("lost.o", &["helper.c"]);
}

#[test]
fn odd_names() {
    let project = two_files();
    let source = "int main(void) { return 0; }\n";
    for name in ["with space/it's \"odd\".c", "-dash.c", "dol$lar.c", "back\\slash.c", "ünïcode.c"]
    {
        project.write(name, source.as_bytes());
    }
    project.both("$CC 'with space/it'\\''s \"odd\".c' -o 'with space/pro gram'").succeeded();
    project.carries("with space/pro gram", &["with space/it's \"odd\".c"]);
    project.both("$CC -c ./-dash.c && $CC ./-dash.o -o dash").succeeded();
    project.carries("dash", &["./-dash.c"]);
    project.both("$CC 'dol$lar.c' -o dollar && $CC 'back\\slash.c' -o backslash").succeeded();
    project.carries("dollar", &["dol$lar.c"]);
    project.carries("backslash", &["back\\slash.c"]);
    project.both("$CC -O2 ünïcode.c -DTEXT='\"ä\nö\"' -o ü").succeeded();
    project.carries("ü", &["ünïcode.c"]);
    for program in ["dash", "dollar", "backslash", "ü"] {
        project.behaves(program, "");
    }
}

#[test]
fn arguments_that_are_no_text_are_handed_to_clang() {
    let project = two_files();
    let script = "name=$(printf 'f\\377.c') && cp helper.c \"$name\" && $CC -c \"$name\" -o f.o";
    project.both_spoke(script).warned(&["nothing is carried: an argument is not UTF-8"]);
    // The object is an ordinary one, and so is a program made with it.
    let both = project.both_spoke("$CC main.c f.o -o program");
    both.succeeded();
    project.carries("program", &["main.c"]);
    let info = project.info("program");
    assert_eq!(info["native"][0]["why"], "not compiled by backtrail");
    project.behaves("program", "");
}

#[test]
fn very_long_command_lines() {
    let project = two_files();
    // More than one argument may hold, and more than a command line may hold
    // once clang has added to it.
    let script = r#"
        long=$(printf '%02000d' 7)
        $CC $(seq -f "-DLONG%g=$long" 60) $(seq -f "-Iinclude-%g/$long" 60) -O2 -c helper.c -o long.o
    "#;
    project.both(script).succeeded();
    project.carries("long.o", &["helper.c"]);
    let script =
        r#"$CC main.c helper.c $(seq -f "-L$PWD/folder-that-does-not-exist-%g" 2500) -o program"#;
    project.both(script).succeeded();
    project.carries("program", &["main.c", "helper.c"]);
    project.behaves("program", "");
}

#[test]
fn the_same_file_at_the_same_time() {
    let project = two_files();
    let script = r#"
        for i in 1 2 3 4 5 6; do $CC -O2 -c helper.c -o helper.o & done; wait
        $CC -O2 -c helper.c -o alone.o; cmp helper.o alone.o
    "#;
    project.both(script).succeeded();
    project.carries("helper.o", &["helper.c"]);
}

#[test]
fn two_builds_give_the_same_bytes() {
    let project = two_files();
    project
        .run_ours("$CC -O2 main.c helper.c -o one && $CC -O2 main.c helper.c -o two")
        .succeeded();
    project.run_ours("cmp one two").succeeded();
}

#[test]
fn assembly_alone_and_mixed() {
    let stack = "\n.section .note.GNU-stack,\"\",@progbits\n";
    let five = format!(".globl five\nfive: mov $5, %eax\n ret{stack}");
    let six = format!("#define SIX 6\n.globl six\nsix: mov $SIX, %eax\n ret{stack}");
    let project = Project::new(&[
        ("main.c", "int five(void), six(void);\nint main(void) { return five() + six(); }\n"),
        ("five.s", &five),
        ("six.S", &six),
    ]);
    project.both("$CC -c five.s six.S && $CC -S main.c").succeeded();
    let assembly = "no: assembly".to_owned();
    assert_eq!(project.units("five.o"), [("five.s".to_owned(), assembly.clone())]);
    project.both("$CC -O2 main.c five.s six.S -o program").succeeded();
    let expected = [("main.c", "yes"), ("five.s", "no: assembly"), ("six.S", "no: assembly")];
    assert_eq!(project.units("program"), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    project.behaves("program", "");
    project.both("$CC -x assembler-with-cpp -c six.S -DMORE -o again.o").succeeded();
    project.both("$CC main.s five.o six.o -o all-assembly").succeeded();
    assert_eq!(project.units("all-assembly").len(), 3);
}

#[test]
fn what_clang_says_of_itself() {
    let project = two_files();
    for options in [
        "",
        "--version",
        "-v",
        "-dumpversion",
        "-dumpmachine",
        "-print-search-dirs",
        "-print-prog-name=ld",
        "-print-file-name=libc.a",
        "-print-resource-dir",
        "--help | head -5",
        "-### -c helper.c",
        "-v -c helper.c",
        "-v -O2 -S helper.c",
        "-E -v helper.c",
    ] {
        project.both(&format!("$CC {options}"));
        project.both(&format!("$CXX {options}"));
    }
    // The linker's line is there for those who look into it; only the build id
    // is always the one that clang asks for.
    let both =
        project.both_spoke("$CC -v helper.o main.c -o program 2>&1 | grep -c -- -dynamic-linker");
    assert_eq!(both.ours.text(), "1\n");
}

#[test]
fn both_names_of_the_compilers() {
    let project = two_files();
    project
        .run_ours("backtrail cc -c helper.c && backtrail c++ -x c++ -c main.c -o main.o")
        .succeeded();
    project.carries("helper.o", &["helper.c"]);
    let info = project.info("main.o");
    assert_eq!(info["units"][0]["language"], "c++");
    // Without a name of their own, words behind the verb are clang's.
    let ran = project.run_ours("backtrail cc --version");
    assert!(ran.text().contains("clang version 19"), "{}", ran.text());
}
