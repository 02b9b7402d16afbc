//! What is said in the link, and by sections, of who runs when and who is called.

use super::{SOME, Trace, equal};
use crate::profile_program::Program;

/// Functions that sections name, used or not, called otherwise or not, alone or several.
const SECTIONS: &str = r#"
#include <stdio.h>
#define IN(name) __attribute__((section(name), aligned(8)))
typedef void (*F)(void);
static int k;
__attribute__((noinline)) static void called(void) { k++; }
__attribute__((noinline)) static void early(int n) { if (n > 0) k += 2; }
static void one(void) { k += 3; }
static void two(void) { if (k > 1) k--; }
static void last(void) { for (int i = 0; i < 2; i++) k += i; }
static void put(void) { printf("%d\n", k); }
IN(".preinit_array") void (*before)(int) = early;
IN(".init_array") F not_used = called;
IN(".init_array.00150") const F several[] = { one, two };
IN(".ctors") F old = one;
IN(".fini_array") F ending[] = { put, last };
IN(".fini_array.00200") __attribute__((used)) static F used_at_the_end = two;
IN(".dtors") __attribute__((used)) static F old_end = last;
F volatile pointer = called;
int main(void) {
    pointer();
    for (int i = 0; i < 3; i++)
        if (i & 1) two();
    printf("%d\n", k);
    return 0;
}
"#;

#[test]
fn what_sections_name_runs_around_main() {
    for level in ["-O0", "-O1"] {
        equal(&Program::c(SECTIONS, &[level]), &SOME, &[]);
    }
}

/// Builds a program of these files with these words, the first file and `native.c`, which has
/// no unit; its traces are its log's, and nothing is missing in them.
#[track_caller]
fn equal_if_linked(files: &[(&str, &str)], words: &[&str]) {
    let program = Program::of_files(files);
    if program.path("native.c").exists() {
        let mut compiler = program.command("clang-19");
        assert!(compiler.args(["-O1", "-c", "native.c"]).status().unwrap().success());
    }
    program.backtrail(&[&["cc", "-O1", "-o", "program", files[0].0], words].concat());
    let found = equal(&program, &SOME, &[]);
    assert_eq!(found.incomplete, None, "{words:?}");
    assert!(found.unknown.iter().all(Option::is_none), "{words:?}: {:?}", found.unknown);
}

const WEAK: &str = r#"
#include <stdio.h>
__attribute__((weak, noinline)) int hook(int x) { return x; }
static int k;
int called(int x) { k++; return x; }
int main(void) {
    int s = called(1);
    for (int i = 0; i < 4; i++)
        if (i != 1) s += hook(i);
    printf("%d %d\n", s, k);
    return 0;
}
"#;

/// Objects between these words are members of an archive: here one that is taken, since
/// something else refers to it.
#[test]
fn objects_between_words_are_members_of_archives() {
    let native = "int called(int); int needed; int hook(int x) { return called(x) * 10; }";
    for linker in ["-fuse-ld=gold", "-fuse-ld=lld"] {
        let files = [("program.c", WEAK), ("native.c", native)];
        let library = ["-Wl,--start-lib", "native.o", "-Wl,--end-lib"];
        equal_if_linked(&files, &[&[linker][..], &library].concat());
        let taken = [linker, "-Wl,-u,needed"];
        equal_if_linked(&files, &[&taken[..], &library].concat());
    }
}

#[test]
fn abbreviated_words_of_linkers_are_understood() {
    let wrapped = r#"
#include <stdio.h>
int helper(int x);
int __real_helper(int x);
static int k;
int __wrap_helper(int x) { k++; return __real_helper(x) + 100; }
int main(void) {
    int s = __wrap_helper(1);
    for (int i = 0; i < 4; i++)
        if (i != 2) s += helper(i);
    printf("%d %d\n", s, k);
    return 0;
}
"#;
    let files = [("program.c", wrapped), ("helper.c", "int helper(int x) { return x * 3; }")];
    for words in [&["-Wl,--wra=helper"][..], &["-Wl,-wra,helper"], &["-Wl,--wr", "-Wl,helper"]] {
        equal_if_linked(&files, &[&["helper.c"], words].concat());
    }
}

/// An allocator, whose functions have names of their own.
const ALLOCATES: &str = r#"
#include <stddef.h>
#include <stdio.h>
#include <string.h>
static char pool[1 << 20];
static size_t used;
static int large;
void *take(size_t n) { void *p = pool + used; if (n > 100) large++; used += (n + 31) & ~(size_t)15; return p; }
void give(void *p) { if (p) large += 2; }
void *take_zeroed(size_t n, size_t m) { return take(n * m); }
void *take_more(void *p, size_t n) { void *q = take(n); if (p) memcpy(q, p, n < 64 ? n : 64); return q; }
int main(void) { char *s = strdup("one"); puts(s); s = strdup("two"); return s[0] & 1; }
"#;

/// How they are the C library's: by that name, and what does it.
const AS_ALLOCATORS: [(&str, &str); 4] =
    [("malloc", "take"), ("free", "give"), ("calloc", "take_zeroed"), ("realloc", "take_more")];

/// What a static C library allocates before `main` has sizes that depend on where the
/// executable is: how many of these there are does not.
const WRAPS_MALLOC: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void *__real_malloc(size_t n);
static int fours;
void *__wrap_malloc(size_t n) { if (n == 4) fours++; return __real_malloc(n); }
int main(void) { for (int i = 0; i < 4; i++) if (i & 1) puts(strdup("one")); return 0; }
"#;

/// Libraries call a function by names that are not its own: aliases of it, what `--wrap`
/// has go to it in what is linked in, what the linker or assembly says, and an object that
/// jumps to it.
#[test]
fn functions_have_other_names() {
    let all = |line: &dyn Fn(&str, &str) -> String, between: &str| {
        AS_ALLOCATORS.map(|(name, does)| line(name, does)).join(between)
    };
    let aliases = all(
        &|name, does| format!("extern __typeof({does}) {name} __attribute__((alias(\"{does}\")));"),
        "\n",
    );
    let aliases = format!("{ALLOCATES}{aliases}");
    let set = all(&|name, does| format!(".globl {name}\\n.set {name}, {does}\\n"), "");
    let types = all(&|name, _| format!(".type {name}, @function\\n"), "");
    let set = format!("{ALLOCATES}__asm__(\"{set}{types}\");");
    let told = all(&|name, does| format!("--defsym={name}={does}"), ",");
    let told = format!("-Wl,--export-dynamic,{told}");
    let jumps = all(&|name, does| format!(".globl {name}\\n{name}: jmp {does}\\n"), "");
    let jumps = format!("__asm__(\"{jumps}{types}\");");
    for words in [&["-fno-builtin"][..], &["-fno-builtin", "-static"]] {
        equal_if_linked(&[("program.c", &aliases)], words);
        equal_if_linked(&[("program.c", &set)], words);
        equal_if_linked(&[("program.c", ALLOCATES)], &[words, &[&*told]].concat());
        let native = [("program.c", ALLOCATES), ("native.c", &*jumps)];
        equal_if_linked(&native, &[words, &["native.o"]].concat());
        let wrap = [words, &["-Wl,--wrap=malloc"]].concat();
        equal_if_linked(&[("program.c", WRAPS_MALLOC)], &wrap);
    }
}

#[test]
fn names_that_the_linker_is_told_mean_what_it_says() {
    let told = r#"
#include <stdio.h>
static int k;
__attribute__((noinline)) int my_abs(int x) { k++; return x; }
__attribute__((noinline)) int other(int x) { return x > 1 ? x : k; }
int toupper(int);
int main(int argc, char **argv) {
    (void)argv;
    int s = my_abs(2);
    s += toupper(argc) + other(argc);
    printf("%d %d\n", k, s);
    return 0;
}
"#;
    let script = "toupper = my_abs; /* other = my_abs; */ PROVIDE(other = my_abs);";
    let files = [("program.c", told), ("told.ld", script)];
    for words in [
        &["-Wl,--defsym=toupper=my_abs"][..],
        &["-Wl,--defs", "-Wl,toupper=my_abs", "-Wl,--defsym=other=my_abs"],
        &["-fuse-ld=lld", "-Wl,--defsym=toupper=my_abs", "-Wl,--defsym=other=my_abs"],
        // An expression is something, but nobody knows what.
        &["-Wl,--defsym=toupper=my_abs+0"],
        &["told.ld"],
    ] {
        equal_if_linked(&files, &[&["-fno-builtin"], words].concat());
    }
}

/// What the loader enters is a function of the program's own, and assembly ends it.
#[test]
fn programs_begin_where_the_loader_enters_them() {
    let start = r#"
static int k;
__attribute__((noinline)) static int f(int x) { k += x; return k; }
__attribute__((noreturn)) static void quit(int x) {
    __asm__ volatile("syscall" :: "a"(60), "D"(x));
    __builtin_unreachable();
}
__attribute__((force_align_arg_pointer)) void BEGIN(void) {
    for (int i = 0; i < 3; i++)
        if (i & 1) f(i);
    quit(f(0));
}
"#;
    for (name, words) in [
        ("_start", &[][..]),
        ("go", &["-Wl,-e,go"][..]),
        ("go", &["-Wl,--ent=go"]),
        ("go", &["-Wl,--entry", "-Wl,go"]),
    ] {
        let begin = format!("-DBEGIN={name}");
        let words = [&["-nostartfiles", &begin], words].concat();
        equal_if_linked(&[("program.c", start)], &words);
    }
}

/// The C library loads modules for encodings and for unwinding while a program runs, which
/// find what the program exports: nothing at the link refers to it.
#[test]
fn what_is_loaded_later_calls_what_is_exported() {
    let program = r#"
#include <execinfo.h>
#include <iconv.h>
#include <pthread.h>
#include <stdio.h>
static int k;
size_t strlen(const char *s) { size_t n = 0; k++; while (s[n]) n++; return n; }
int strcmp(const char *a, const char *b) { k++; while (*a && *a == *b) a++, b++; return *a - *b; }
static void *run(void *p) { if (p) pthread_exit(p); return p; }
int main(void) {
    iconv_t text = iconv_open("UTF-16", "ISO-8859-1");
    if (text != (iconv_t)-1) iconv_close(text);
    void *frames[4];
    int some = backtrace(frames, 4) > 0;
    pthread_t thread;
    pthread_create(&thread, 0, run, &k);
    pthread_join(thread, 0);
    printf("%d %d\n", some, k > 0);
    return 0;
}
"#;
    equal_if_linked(&[("program.c", program)], &["-fno-builtin", "-rdynamic", "-pthread"]);
}

/// What is loaded before all other libraries takes the place of what the program's own
/// have, and of the C library's, and calls what the program exports.
#[test]
fn libraries_that_are_loaded_before_others() {
    let files = [
        (
            "program.c",
            "#include <stdio.h>\nint outer(int), inner(int), abs(int);\n\
             int given(int n) { return n > 1 ? 3 : 4; }\nint main(void) { int s = 0; for (int i = 0; \
             i < 4; i++) s += outer(i) + inner(i) + abs(i); printf(\"%d\\n\", s); return 0; }\n",
        ),
        ("outer.c", "int inner(int n) { return n; }\nint outer(int n) { return inner(n) + 1; }\n"),
        (
            "before.c",
            "__attribute__((weak)) int given(int);\nint inner(int n) { return n * 2; }\n\
             int abs(int n) { return given ? given(n) : n; }\n",
        ),
    ];
    let program = Program::of_files(&files);
    let before = ["-O1", "-fno-builtin", "-shared", "-fPIC", "-o", "before.so", "before.c"];
    assert!(program.command("clang-19").args(before).status().unwrap().success());
    program.backtrail(&["cc", "-O1", "-shared", "-fPIC", "-o", "libouter.so", "outer.c"]);
    let linked = ["-L.", "-louter", "-Wl,-rpath,$ORIGIN", "-rdynamic", "-fno-builtin"];
    program.backtrail(&[&["cc", "-O1", "-o", "program", "program.c"], &linked[..]].concat());
    let plain = equal(&program, &SOME, &[]);
    let path = program.path("before.so").display().to_string();
    let program = program.with("LD_PRELOAD", &path);
    let trace = equal(&program, &SOME, &[]);
    let has = |trace: &Trace, name: &str| trace.threads[0].iter().any(|(it, _)| it == name);
    assert!(has(&plain, "inner") && !has(&plain, "given"));
    assert!(!has(&trace, "inner") && has(&trace, "given"));
    program.backtrail(&["profile", "-q", "--copies", "2", "-o", "copies.btprof", "./program"]);
}

/// A library that carries units is as one that does not, where only such a one asks for it.
#[test]
fn libraries_that_others_ask_for_call_the_program() {
    let files = [
        (
            "program.c",
            "#include <stdio.h>\nint middle(int);\nint given(int n) { return n > 2 ? 3 : 4; }\n\
             int main(void) { int s = 0; for (int i = 0; i < 4; i++) s += middle(i); \
             printf(\"%d\\n\", s); return 0; }\n",
        ),
        ("middle.c", "int last(int);\nint middle(int n) { return last(n) + 1; }\n"),
        ("last.c", "int given(int);\nint last(int n) { return n > 1 ? given(n) : 1; }\n"),
    ];
    let program = Program::of_files(&files);
    program.backtrail(&["cc", "-O1", "-shared", "-fPIC", "-o", "liblast.so", "last.c"]);
    let middle = ["-O1", "-shared", "-fPIC", "-o", "libmiddle.so", "middle.c"];
    let last = ["-L.", "-llast", "-Wl,-rpath,$ORIGIN"];
    let mut compiler = program.command("clang-19");
    assert!(compiler.args(middle).args(last).status().unwrap().success());
    let linked = ["-L.", "-lmiddle", "-Wl,-rpath,$ORIGIN", "-rdynamic"];
    program.backtrail(&[&["cc", "-O1", "-o", "program", "program.c"], &linked[..]].concat());
    equal(&program, &SOME, &[]);
}

/// Callbacks that have no use for their last argument do not declare it. They are called
/// otherwise, too, or are not.
#[test]
fn callbacks_may_take_less_than_they_get() {
    for alone in ["", "one(&x);", "single(&x);"] {
        let text = format!(
            r#"
#include <stdio.h>
static volatile int k;
__attribute__((noinline)) static void one(void *a) {{ k += *(int *)a; }}
__attribute__((noinline)) static void two(void *a, void *b) {{ k += *(int *)a * 2 + (b != 0); }}
typedef void (*F1)(void *);
typedef void (*F2)(void *, void *);
static volatile F1 single = one;
static volatile F2 table[2];
int main(void) {{
    int x = 3;
    table[0] = two;
    table[1] = (F2)one;
    {alone}
    for (int i = 0; i < 4; i++) table[i & 1](&x, 0);
    printf("%d\n", k);
    return 0;
}}
"#
        );
        equal_if_linked(&[("program.c", &text)], &[]);
    }
}
