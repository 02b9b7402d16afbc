//= strong-over-weak  a native object has the strong version of a unit's weak function
//: unit a
int WEAK @hook(int x) { if (x & 1) return 1; return 2; }
int @cb(int x) { return x > 2 ? 5 : 6; }
int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) s += @hook(i); return s & 255; }
//: native object
int @cb(int x);
int @hook(int x) { return @cb(x) * 10; }

//= weak-native  a unit has the strong version of a native object's weak function
//: unit a
int @ask(int x);
int @hook(int x) { $w{x} return x; }
int @scene(int x) { return @ask(x) + @ask(x + 1); }
//: native object
int __attribute__((weak, noinline)) @hook(int x) { return x + 100; }
int @ask(int x) { return @hook(x); }

//= weak-units  one unit has the strong version of another's weak function
//: unit a
int WEAK @hook(int x) { if (x & 1) return 1; return 2; }
int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) s += @hook(i); return s; }
//: unit b
int @hook(int x) { $w{x} return x & 31; }

//= weak-twice  two units have a weak function each, of one name
//: unit a
int WEAK @hook(int x) { if (x & 1) return 1; return 2; }
int @other(int x);
int @scene(int x) { return @hook(x) + @other(x); }
//: unit b
int WEAK @hook(int x) { if (x & 2) return 3; return 4; }
int @other(int x) { return @hook(x) + 1; }

//= weak-undefined  functions that may be missing, one of which is there
//: unit a
int WEAK @gone(int x); int WEAK @here(int x);
int @scene(int x) { int s = @gone ? @gone(x) : 3; return @here ? s + @here(x) : s; }
//: native object
int @inner(int x);
int @here(int x) { return @inner(x) + @inner(x + 1); }
//: unit b
int @inner(int x) { $w{x} return x; }

//= common  a common symbol of a unit and a native object holds a callback
//: common
//: unit a
int (*@slot)(int);
int @fire(int x);
static int @cb(int x) { $w{x} return x; }
int @scene(int x) { if (x > 1) @slot = @cb; return @fire(x); }
//: native object
int (*@slot)(int);
int @fire(int x) { return @slot ? @slot(x) + 1 : 0; }

//= alias  aliases of a unit's function, one of which a native object calls
//: unit a
int @real(int x) { $w{x} return x; }
int @alias(int x) __attribute__((alias("@real")));
int @weakly(int x) __attribute__((weak, alias("@real")));
int @native(int x);
int @scene(int x) { return @alias(x) + @native(x) + @weakly(x + 1); }
//: native
int @alias(int x);
int @native(int x) { return @alias(x + 1) + 1; }

//= alias-overridden  a native object overrides a weak alias
//: unit a
int @real(int x) { $w{x} return x; }
int @public(int x) __attribute__((weak, alias("@real")));
int @scene(int x) { return @public(x) + @real(x + 1); }
//: native object
int @real(int x);
int @public(int x) { return x > 100 ? 0 : @real(x + 2) + 50; }

//= wrap-same-unit  --wrap of a function, the wrapper is in the same unit as its caller
//: link -Wl,--wrap=@helper
//: unit a
int @helper(int x); int __real_@helper(int x);
int __wrap_@helper(int x) { if (x > 1) return __real_@helper(x) + 100; return 1; }
int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) s += @helper(i); return s & 255; }
//: unit b
int @helper(int x) { return x & 1 ? x * 3 : x + 7; }

//= wrap-defined-here  --wrap of a function that is defined in the unit that calls it
//: link -Wl,--wrap=@helper
//: unit a
int NOINLINE @helper(int x) { return x & 1 ? x * 3 : x + 7; }
int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) s += @helper(i); return s & 255; }
//: unit b
int @helper(int x); int __real_@helper(int x);
int __wrap_@helper(int x) { TICK(x); return x > 1 ? __real_@helper(x) + 9 : 1; }
int @elsewhere(int x) { return @helper(x); }

//= wrap-three-units  --wrap of a function, with wrapper, caller and function in three units
//: link -Wl,--wrap=@helper
//: unit a
int @helper(int x);
int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) s += @helper(i); return s & 255; }
//: unit b
int __real_@helper(int x);
int __wrap_@helper(int x) { $w{x} return __real_@helper(x) + 1; }
//: unit c
int @helper(int x) { $w{x} return x; }

//= wrap-of-native  --wrap of a native function
//: link -Wl,--wrap=@helper
//: unit a
int @helper(int x); int __real_@helper(int x); int @again(int x);
int __wrap_@helper(int x) { if (x & 1) return __real_@helper(x); return 4; }
int @scene(int x) { return @helper(x) + @helper(x + 1) + @again(x); }
//: native
int @helper(int x) { return x * 3; }
//: native
int @helper(int x);
int @again(int x) { return @helper(x + 1) + 2; }

//= wrap-by-native  --wrap of a unit's function by a native one
//: link -Wl,--wrap=@helper
//: unit a
int @helper(int x);
int @scene(int x) { return @helper(x) + @helper(x + 1); }
//: unit b
int @helper(int x) { $w{x} return x; }
//: native
int __real_@helper(int x);
int __wrap_@helper(int x) { return x & 1 ? __real_@helper(x) + 1 : 2; }

//= wrap-address  the address of a wrapped function is taken and called by a native function
//: link -Wl,--wrap=@helper
//: unit a
int @helper(int x); int __real_@helper(int x); int @call(int (*f)(int), int x);
int __wrap_@helper(int x) { if (x > 2) return __real_@helper(x) + 3; return 1; }
int @scene(int x) { return @call(@helper, x) + @call(@helper, 1); }
//: unit b
int @helper(int x) { $w{x} return x; }
//: native
int @call(int (*f)(int), int x) { return f(x) + 1; }

//= wrap-malloc  --wrap of malloc, of which libraries know nothing
//: alone malloc
//: link -Wl,--wrap=malloc
//: unit a
void *__real_malloc(size_t n);
static int @large, @small;
void *__wrap_malloc(size_t n) { if (n > 40) @large++; else @small++; return __real_malloc(n); }
int @native(int x);
int @scene(int x) {
  // What a static C library allocates before main depends on where the executable is.
  @large = @small = 0;
  for (int i = 0; i < x; i++) { char *p = malloc(i * 20 + 1); p[0] = (char)i; sink = p[0]; free(p); }
  int n = @native(x); char *t = strdup("text"); n += t[1] & 1; free(t);
  return @large + 10 * @small + n;
}
//: native
int @native(int x) { char *p = malloc(50 + x); p[1] = 3; int v = p[1]; free(p); return v; }

//= own-malloc  malloc, calloc, realloc and free of the program's own, which libraries call
//: alone malloc
//: dynamic
//: unit a
#include <stdint.h>
static _Alignas(16) char @pool[1 << 21]; static size_t @used; static int @calls;
static void *@take(size_t n) {
  n = (n + 31) & ~(size_t)15;
  if (@used + n > sizeof @pool) return 0;
  char *p = @pool + @used; *(size_t *)p = n - 16; @used += n;
  return p + 16;
}
void *malloc(size_t n) { @calls++; if (n == 0) n = 1; return @take(n); }
void free(void *p) { if (!p) return; @calls += 2; }
void *calloc(size_t a, size_t b) { @calls++; return @take(a * b); }
void *realloc(void *p, size_t n) {
  void *q = @take(n);
  if (p && q) { size_t old = *(size_t *)((char *)p - 16); memcpy(q, p, n < old ? n : old); }
  return q;
}
void *memalign(size_t a, size_t n) {
  if (a <= 16) return @take(n);
  char *p = @take(n + a); if (!p) return 0;
  char *q = (char *)(((uintptr_t)p + a - 1) & ~(uintptr_t)(a - 1));
  if (q != p) *(size_t *)(q - 16) = n;
  return q;
}
void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) { *p = memalign(a, n); return *p ? 0 : 12; }
int @scene(int x) {
  int n = 0; int before = @calls;
  for (int i = 0; i < x; i++) { char *t = strdup("hello"); n += (int)strlen(t); free(t); }
  char *line = 0; size_t size = 0; FILE *f = fmemopen((void *)"ab\ncd\n", 6, "r");
  if (f) { while (getline(&line, &size, f) > 0) n += line[0]; fclose(f); }
  free(line);
  return (n + @calls - before) & 255;
}

//= alias-malloc  an allocator of the program's own whose functions have the C library's names as aliases
//: alone malloc
//: dynamic
//: unit a
static _Alignas(16) char @pool[1 << 21]; static size_t @used; static int @calls;
void *@take(size_t n) {
  @calls++; n = (n + 31) & ~(size_t)15;
  if (@used + n > sizeof @pool) return 0;
  char *p = @pool + @used; *(size_t *)p = n - 16; @used += n;
  return p + 16;
}
void @give(void *p) { if (!p) return; @calls += 2; }
void *@take_zeroed(size_t a, size_t b) { return @take(a * b); }
void *@take_more(void *p, size_t n) {
  void *q = @take(n);
  if (p && q) { size_t old = *(size_t *)((char *)p - 16); memcpy(q, p, n < old ? n : old); }
  return q;
}
void *malloc(size_t n) __attribute__((alias("@take")));
void free(void *p) __attribute__((alias("@give")));
void *calloc(size_t a, size_t b) __attribute__((alias("@take_zeroed")));
void *realloc(void *p, size_t n) __attribute__((alias("@take_more")));
int @scene(int x) {
  int n = 0; int before = @calls;
  for (int i = 0; i < x; i++) { char *t = strdup("hello"); n += (int)strlen(t); free(t); }
  char *line = 0; size_t size = 0; FILE *f = fmemopen((void *)"ab\ncd\n", 6, "r");
  if (f) { while (getline(&line, &size, f) > 0) n += line[0]; fclose(f); }
  free(line);
  return (n + @calls - before) & 255;
}

//= own-getopt  a function of the C library replaced by a unit's, and called by a native object
//: alone getopt
//: unit a
int getopt(int n, char *const *v, const char *o) { (void)v; (void)o; if (n > 2) return 'x'; TICK(n); return -1; }
int @native(int x);
int @scene(int x) { return (getopt(x, 0, "a") & 127) + @native(x); }
//: native
int @native(int x) { return getopt(x + 1, 0, "b") & 63; }

//= own-strdup  a unit's function named like one of the C library, which the library itself does not call
//: alone strdup
//: unit a
char *strdup(const char *s) { size_t n = strlen(s) + 1; char *p = malloc(n + 1); if (!p) return 0; if (s[0] == 'b') TICK(1); memcpy(p, s, n); return p; }
int @scene(int x) { char *p = strdup(x & 1 ? "abc" : "bcd"); int r = p[0] & 31; free(p); return r; }

//= own-name-of-library  unit and native functions that are named like internal ones of libraries
//: alone internal-names
//: unit a
int fdelt(int x); int xstat(int x);
int assert_fail(int x) { if (x > 2) return x; return 1; }
int @scene(int x) { return assert_fail(x) + fdelt(x) + xstat(x); }
//: native
int assert_fail(int x);
int fdelt(int x) { return assert_fail(x + 1) + 1; }
int xstat(int x) { return x > 90 ? x : assert_fail(1); }

//= ifunc  functions that a resolver of the unit chooses
//: unit a
typedef int (*@type)(int);
static int @fast(int x) { $w{x} return x; }
static int @slow(int x) { if (x > 3) TICK(x); return x + 2; }
static @type @resolve(void) { return $[@fast|@slow]; }
int @chosen(int x) __attribute__((ifunc("@resolve")));
int @native(int x);
int @scene(int x) { return @chosen(x) + @native(x); }
//: native
int @chosen(int x);
int @native(int x) { return @chosen(x + 1) + 1; }

//= copied-table  a native object overrides a weak table of functions
//: unit a
typedef int (*@type)(int);
int @a(int x) { $w{x} return x; }
int @b(int x) { return x > 2 ? 5 : 9; }
WEAK @type @rows[2] = { @a, @a };
int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) s += @rows[i & 1](i); return s & 255; }
//: native object
int @a(int x); int @b(int x);
int (*@rows[2])(int) = { @b, @a };

//= section-array  functions registered in a section that a loop walks over
//: unit a
typedef int (*@type)(int);
extern @type __start_set_@s[], __stop_set_@s[];
static int @f(int x) { $w{x} return x; }
__attribute__((used, retain, section("set_@s"))) static @type @pf = @f;
int @scene(int x) { int s = 0; for (@type *p = __start_set_@s; p < __stop_set_@s; p++) s += (*p)(x); return s & 255; }
//: unit b
typedef int (*@type)(int);
static int @g(int x) { return x & 1 ? 3 : x; }
__attribute__((used, retain, section("set_@s"))) static @type @pg = @g;
//: native object
typedef int (*@type)(int);
int @named(int x);
__attribute__((used, section("set_@s"))) static @type @ph = @named;
//: unit c
int @named(int x) { $w{x} return x + 1; }

//= gc-sections-unused  functions that nobody needs, dropped by --gc-sections
//: link -Wl,--gc-sections
//: sections
//: unit a
int @unneeded(int x) { $w{x} return x; }
int @kept(int x) { $w{x} return x; }
int @native(int x);
int @scene(int x) { return @native(x); }
//: native
int @kept(int x); int @unneeded(int x);
int @dropped(int x) { return @unneeded(x); }
int @native(int x) { return @kept(x) + 1; }

//= defsym  a name that the link defines to be a unit's function
//: link -Wl,--defsym=@other=@real
//: unit a
int @other(int x);
int @real(int x) { $w{x} return x; }
int @native(int x);
int @scene(int x) { return @other(x) + @native(x); }
//: native
int @other(int x);
int @native(int x) { return @other(x + 1); }

//= inline-asm-call  inline assembly calls a unit's function by name
//: unit a
__attribute__((used)) int @cb(int x) { $w{x} return x; }
static int NOINLINE @by_assembly(int x) {
  int r;
  __asm__ volatile("mov %%rsp, %%r12\n\tsub $256, %%rsp\n\tand $-16, %%rsp\n\tcall @cb\n\tmov %%r12, %%rsp"
    : "=a"(r), "+D"(x) : : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "memory", "cc");
  return r;
}
int @scene(int x) { return @by_assembly(x) + @by_assembly(x + 1); }

//= defsym-library  a name of the C library's that the link gives to a unit's function
//: dynamic
//: alone toupper
//: link -Wl,--defsym=toupper=@mine
//: unit a
int toupper(int);
int @mine(int x) { $w{x} return x & 63; }
int @scene(int x) { int s = @mine(x); for (int i = 0; i < 3; i++) s += toupper(x + i); return s & 127; }
