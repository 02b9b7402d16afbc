//! Small programs, written by hand, that code outside of their units calls into or
//! overrides.

use super::project::Project;

const COOKIE: &str = r#"#define _GNU_SOURCE
#include <stdio.h>
static int calls;
static ssize_t rd(void *c, char *b, size_t n) { calls++; if (calls > 3) return 0; b[0] = 'a' + calls; b[1] = '\n'; return 2; }
int main(void) { cookie_io_functions_t f = { .read = rd }; FILE *s = fopencookie(0, "r", f);
  char line[16]; int n = 0; while (fgets(line, sizeof line, s)) n += line[0]; printf("%d\n", n); return 0; }
"#;

const MALLOC: &str = r#"#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <stddef.h>
static char pool[1 << 20]; static size_t used;
void *malloc(size_t n) { n = (n + 15) & ~15ul; if (used + n > sizeof pool) return 0; void *p = pool + used; used += n; return p; }
void free(void *p) { (void)p; }
void *calloc(size_t a, size_t b) { return malloc(a * b); }
void *realloc(void *p, size_t n) { void *q = malloc(n); if (p && q) memcpy(q, p, n < 16 ? n : 16); return q; }
int main(void) { int n = 0; for (int i = 0; i < 5; i++) n += strlen(strdup("hello")); printf("%d\n", n); return 0; }
"#;

const NEW: &str = r#"#include <cstdio>
#include <cstdlib>
#include <new>
#include <sstream>
void *operator new(std::size_t n) { void *p = std::malloc(n); if (!p) throw std::bad_alloc(); return p; }
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }
int main() { std::ostringstream o; for (int i = 0; i < 40; i++) o << "item " << i << ' '; std::printf("%zu\n", o.str().size()); }
"#;

const WRAP: &str = r#"#include <stdio.h>
int helper(int x); int __real_helper(int x);
int __wrap_helper(int x) { if (x > 1) return __real_helper(x) + 100; return -1; }
int main(int argc, char **argv) { int s = 0; for (int i = 0; i < 4; i++) s += helper(i); printf("%d\n", s); if (argc > 1) __builtin_trap(); return 0; }
"#;
const HELPER: &str = "int helper(int x) { return x & 1 ? x * 3 : x + 7; }\n";

const NATIVE: &str = "int cb(int); int native(int x) { int s = 0; for (int i = 0; i < x; i++) s += cb(i); return s; }\n";
const USES_NATIVE: &str = r#"#include <stdio.h>
int native(int); int cb(int x) { if (x & 1) return 3; return 4; }
int main(void) { int t = native(5); if (t > 3) printf("%d\n", t); return 0; }
"#;

const STRONG: &str = "int cb(int); int hook(int x) { return cb(x) * 10; }\n";
const WEAK: &str = r#"#include <stdio.h>
int __attribute__((weak)) hook(int x) { if (x & 1) return 1; return 2; }
int cb(int x) { return x > 2 ? 5 : 6; }
int main(void) { int s = 0; for (int i = 0; i < 4; i++) s += hook(i); printf("%d\n", s); return 0; }
"#;

const ASSERT: &str = r#"#include <stdio.h>
void assert_fail(int);
static int step(int x) { if (x & 1) return 2; return 3; }
int main(void) { int s = 0; for (int i = 0; i < 5; i++) { s += step(i); printf("%d\n", s); assert_fail(i); } return 1; }
"#;
const ENDS: &str = "#include <stdlib.h>\nvoid assert_fail(int x) { if (x > 2) exit(0); }\n";

/// Functions in which nothing can be observed: what the loader asks, what it calls, and
/// what is all assembly.
const CHOSEN: &str = r#"#include <stdio.h>
#include <stdlib.h>
typedef int (*type)(int);
static volatile int sink;
int elsewhere(int);
__attribute__((noinline)) static int level(int x) { return x > 3 ? 1 : 2; }
static int fast(int x) { if (x & 2) return x * 3; return x + 7; }
static int slow(int x) { if (x > 3) sink++; return x + 2; }
static type resolve(void) { return level(sink) == 1 ? fast : slow; }
int chosen(int x) __attribute__((ifunc("resolve")));
int seen(int x) { if (x & 1) return 5; return 6; }
__attribute__((naked)) int bare(int x) { __asm__("lea 1(%rdi), %eax\n ret"); }
__attribute__((naked)) int jumps(int x) { __asm__("jmp seen@PLT"); }
int (*volatile pointer)(int) = bare;
int main(int argc, char **argv) {
  (void)argv; int s = elsewhere(argc);
  for (int i = 0; i < 6; i++) s += chosen(i);
  s += level(argc) + bare(1) + jumps(2);
  for (int i = 0; i < 3; i++) { s += pointer(i); pointer = i ? slow : jumps; }
  printf("%d\n", s);
  if (argc > 1) abort();
  return 0;
}
"#;
const ALSO_CHOSEN: &str = "int chosen(int);\nint elsewhere(int x) { return chosen(x) + 1; }\n";

const MERGED: &str = r#"#include <stdio.h>
#include <stdlib.h>
int mixed(int); int apart(int);
int called(int x) { if (x > 2) return x; return -x; }
int main(int argc, char **argv) { (void)argv; printf("%d\n", mixed(3) + apart(argc)); if (argc > 1) abort(); return 0; }
"#;
const MIXED: &str = "int native(int); int own(int x) { return x ? 4 : 5; } int mixed(int x) { return native(x) + own(x); }\n";
const APART: &str =
    "int called(int);\nint apart(int x) { if (x == 1) return called(x + 4); return 0; }\n";
const IN_MIXED: &str =
    "int called(int);\nint native(int x) { int s = 0; while (x--) s += called(x); return s; }\n";

const BESIDE: &str = "int within(int (*f)(int), int x) { return f(x) + f(x + 1); }\n";
const USES_BESIDE: &str = r#"#include <stdio.h>
int within(int (*)(int), int);
static int cb(int x) { if (x & 1) return 3; return 4; }
int main(void) { printf("%d\n", within(cb, 2)); return 0; }
"#;

const UNDER_MAIN: &str = r#"#include <stdio.h>
#include <stdlib.h>
static void late(void) { puts("late"); }
__attribute__((constructor)) static void early(void) { puts("early"); }
int step(int x) { if (x & 1) return x + 1; return x / 2; }
void start(int x) { if (x > 1) abort(); atexit(late); }
"#;
const MAIN: &str = r#"#include <stdio.h>
int step(int); void start(int);
int main(int argc, char **argv) { (void)argv; start(argc); int s = 0; for (int i = 0; i < 4; i++) s += step(i); printf("%d\n", s); return s; }
"#;

/// It dies behind `main`, where nothing was seen to begin.
const LATE: &str = r#"#include <stdio.h>
#include <stdlib.h>
static volatile int *volatile nowhere; static volatile int sink;
static void late(void) { int x = *nowhere; if (x) sink++; sink += 2; }
int main(void) { atexit(late); puts("main"); return 3; }
"#;

/// Functions of its own that code generation calls for what is no call.
const IMPLIED: &str = r#"#include <stdio.h>
typedef __int128 T; volatile int k;
__attribute__((noinline)) T __divti3(T a, T b) { k++; if (a > 5) return (long)a; return (long)a / (long)b; }
__attribute__((noinline)) double fmod(double a, double b) { k += 3; if (a > 4) return 4; return b; }
__attribute__((noinline)) double floor(double x) { k += 5; if (x > 2) return 2; return (int)x; }
int main(int c, char **v) { (void)v; T s = __divti3(c, 1); double d = 0; for (int i = 1; i < 9; i++) { if (i != 2) s += ((T)i + c) / (T)i; if (i & 1) d += __builtin_fmod(i, c + 2); else d += __builtin_floor(i / 3.0); } printf("%d %d %d\n", k, (int)s, (int)d); return 0; }
"#;

/// What an object puts into a variable, of which nothing else is known.
const HOOKED: &str = r#"#include <stdio.h>
int k; int (*hook)(int);
__attribute__((noinline)) int other(int a) { k += 5; if (a > 3) k++; return a; }
int (*volatile keep)(int) = other;
int main(void) { int s = 0; for (int i = 0; i < 3; i++) if (i != 1) s += hook(i); s += keep(1); printf("%d %d\n", k, s); return 0; }
"#;
const HOOKS: &str = "extern int (*hook)(int); static int mine(int x) { return x * 2; }\n\
                     __attribute__((constructor)) static void set(void) { hook = mine; }\n";

/// The only landing is in an object without a unit.
const JUMPS: &str = r#"#include <setjmp.h>
#include <stdio.h>
jmp_buf env; int k; int native(int);
__attribute__((noinline)) int jump(int x) { k++; if (x > 2) longjmp(env, x); return x; }
int main(void) { int n = 0; for (int i = 1; i < 5; i++) n += native(i); if (n > 3) printf("%d\n", n + k); return 0; }
"#;
const LANDS: &str = "#include <setjmp.h>\nextern jmp_buf env; int jump(int x);\n\
                     int native(int x) { int r = setjmp(env); if (r) return r; return jump(x); }\n";

/// All of them.
pub fn all() -> Vec<Project> {
    let row = Project::by_hand;
    let with_native = "clang-19 -O1 -c native.c\n$CC -O1 -g -o program main.c native.o";
    let alone = "$CC -O1 -g -o program main.c";
    vec![
        row("row-cookie", &[("main.c", COOKIE)], alone, false),
        row("row-malloc", &[("main.c", MALLOC)], alone, false),
        row("row-operator-new", &[("main.cc", NEW)], "$CXX -O1 -g -o program main.cc", false),
        row(
            "row-wrap",
            &[("main.c", WRAP), ("helper.c", HELPER)],
            "$CC -O1 -g -Wl,--wrap=helper -o program main.c helper.c",
            true,
        ),
        row("row-native", &[("main.c", USES_NATIVE), ("native.c", NATIVE)], with_native, false),
        row("row-strong", &[("main.c", WEAK), ("native.c", STRONG)], with_native, false),
        row("row-assert-fail", &[("main.c", ASSERT), ("native.c", ENDS)], with_native, false),
        row("row-chosen", &[("main.c", CHOSEN), ("native.c", ALSO_CHOSEN)], with_native, true),
        row(
            "row-merged",
            &[("main.c", MERGED), ("mixed.c", MIXED), ("apart.c", APART), ("native.c", IN_MIXED)],
            "clang-19 -O1 -c native.c\n$CC -O1 -g -c mixed.c\n$CC -O1 -g -c apart.c\n\
             ld -r -o one.o mixed.o native.o\nld -r -o two.o apart.o\n\
             $CC -O1 -g -o program main.c one.o two.o",
            true,
        ),
        row("row-main", &[("main.c", UNDER_MAIN), ("native.c", MAIN)], with_native, true),
        row("row-late", &[("main.c", LATE)], alone, false),
        row(
            "row-implied",
            &[("main.c", IMPLIED)],
            "$CC -O1 -g -fno-builtin -o program main.c",
            false,
        ),
        row("row-hooked", &[("main.c", HOOKED), ("native.c", HOOKS)], with_native, false),
        row(
            "row-hooked-beside",
            &[("main.c", HOOKED), ("native.c", HOOKS)],
            "clang-19 -O1 -fPIC -shared -o libhooks.so native.c\n\
             $CC -O1 -g -rdynamic -o program main.c -L. -Wl,--no-as-needed -lhooks \
             -Wl,-rpath,'$ORIGIN'",
            false,
        ),
        row("row-landing", &[("main.c", JUMPS), ("native.c", LANDS)], with_native, false),
        row(
            "row-beside",
            &[("main.c", USES_BESIDE), ("native.c", BESIDE)],
            "clang-19 -O1 -fPIC -shared -o libbeside.so native.c\n\
             $CC -O1 -g -o program main.c -L. -lbeside -Wl,-rpath,'$ORIGIN'",
            false,
        ),
    ]
}
