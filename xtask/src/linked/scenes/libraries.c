//= library-of-units  a library made of units calls what it is passed
//: dynamic
//: exports @lib
//: unit a
int @lib(int n, int (*f)(int));
static int @cb(int x) { $w{x} return x; }
int @scene(int x) { return @lib(x, @cb) & 255; }
//: library units
static int @inner(int x) { $w{x} return x; }
int @lib(int n, int (*f)(int)) { int s = 0; for (int i = 0; i < n; i++) s += i & 1 ? f(i) : @inner(i); return s; }

//= library-of-natives  a native library calls what it is passed
//: dynamic
//: exports @lib
//: unit a
int @lib(int n, int (*f)(int));
static int @cb(int x) { $w{x} return x; }
int @scene(int x) { return @lib(x, @cb) & 255; }
//: library natives
int @lib(int n, int (*f)(int)) { int s = 0; for (int i = 0; i < n; i++) s += f(i); return s; }

//= library-calls-program  a library of units calls a function of the executable by name
//: dynamic
//: exports @lib
//: unit a
int @lib(int x);
int @own(int x) { $w{x} return x; }
int @scene(int x) { return @lib(x) + @lib(x + 1); }
//: library units
int @own(int x);
int @lib(int x) { if (x & 1) return @own(x) + 1; return @own(x + 2); }

//= native-library-calls-program  a native library calls a function of the executable by name
//: dynamic
//: exports @lib
//: unit a
int @lib(int x);
int @own(int x) { $w{x} return x; }
int @scene(int x) { return @lib(x) + @lib(x + 1); }
//: library natives
int @own(int x);
int @lib(int x) { return @own(x) + @own(x + 2); }

//= interposed-units  the executable has a function that its library of units has, too
//: dynamic
//: exports @lib @both
//: unit a
int @lib(int x);
int @both(int x) { $w{x} return x; }
int @scene(int x) { return @lib(x) + @both(x); }
//: library units
int @both(int x) { if (x > 1) return 40; return 41; }
int @lib(int x) { return @both(x) + 1; }

//= interposed-natives  the executable has a function that its native library has, too
//: dynamic
//: exports @lib @both
//: unit a
int @lib(int x);
int @both(int x) { $w{x} return x; }
int @scene(int x) { return @lib(x) + @both(x); }
//: library natives
int @both(int x) { return x > 1 ? 40 : 41; }
int @lib(int x) { return @both(x) + 1; }

//= interposed-by-native  a native object of the executable has a function that its library of units has, too
//: dynamic
//: exports @lib @both
//: unit a
int @lib(int x); int @own(int x);
int @own(int x) { $w{x} return x; }
int @scene(int x) { return @lib(x); }
//: native object
int @own(int x);
int @both(int x) { return @own(x) + 2; }
//: library units
int @both(int x) { if (x > 1) return 40; return 41; }
int @lib(int x) { return @both(x) + 1; }

//= library-weak  a library has a weak function, the executable a strong one
//: dynamic
//: exports @lib @hook
//: unit a
int @lib(int x);
int @hook(int x) { $w{x} return x; }
int @scene(int x) { return @lib(x); }
//: library units
int WEAK @hook(int x) { if (x > 1) return 3; return 4; }
int @lib(int x) { return @hook(x) + @hook(x + 1); }

//= library-hidden  a library has hidden and protected functions that are named like the executable's
//: dynamic
//: exports @lib
//: unit a
int @lib(int x); int @same(int x);
int @same(int x) { $w{x} return x; }
int @scene(int x) { return @lib(x) + @same(x); }
//: library $[units|natives]
int HIDDEN @same(int x) { if (x > 1) return 3; return 4; }
int @lib(int x) { return @same(x) + 1; }

//= library-protected  a library calls its own protected function, which the executable has, too
//: dynamic
//: exports @lib @same
//: unit a
int @lib(int x); int @same(int x);
int @same(int x) { $w{x} return x; }
int @scene(int x) { return @lib(x) + @same(x); }
//: library units
int PROTECTED @same(int x) { if (x > 1) return 3; return 4; }
int @lib(int x) { return @same(x) + 1; }

//= library-to-library  a native library calls a library of units by name, which calls the executable
//: dynamic
//: exports @outer @inner
//: unit a
int @outer(int x);
int @own(int x) { return x & 1 ? 2 : 3; }
int @scene(int x) { return @outer(x) + @outer(x + 1); }
//: library natives
int @inner(int x);
int @outer(int x) { return @inner(x) + 1; }
//: library units
int @own(int x);
int @inner(int x) { $w{x} return x + @own(x); }

//= library-constructor  constructors and destructors of a library call the executable
//: dynamic
//: exports @lib
//: unit a
int @lib(int x);
int @early(int x) { $w{x} return x; }
int @scene(int x) { return @lib(x); }
//: library $[units|natives]
int @early(int x);
static int @begun;
__attribute__((constructor)) static void @begin(void) { @begun = @early(3); }
__attribute__((destructor)) static void @end(void) { if (@begun > 0) @early(@begun & 7); }
int @lib(int x) { return @begun + x; }

//= library-registers  a library keeps a callback, and calls it from a function that a native object calls
//: dynamic
//: exports @keep @fire
//: unit a
void @keep(int (*f)(int)); int @native(int x);
static int @cb(int x) { $w{x} return x; }
int @scene(int x) { @keep(@cb); return @native(x); }
//: native
int @fire(int x);
int @native(int x) { return @fire(x) + 1; }
//: library $[units|natives]
static int (*@kept)(int);
void @keep(int (*f)(int)) { @kept = f; }
int @fire(int x) { return @kept ? @kept(x) : 5; }

//= library-data  a library has a table of its functions that the executable reads and writes
//: dynamic
//: exports @rows @lib @inside
//: unit a
extern int (*@rows[2])(int); int @lib(int x);
static int @cb(int x) { $w{x} return x; }
int @scene(int x) { int s = @lib(x); @rows[1] = @cb; return s + @lib(x); }
//: library $[units|natives]
int @inside(int x) { return x > 2 ? 8 : 1; }
int (*@rows[2])(int) = { @inside, @inside };
int @lib(int x) { return @rows[x & 1](x) + @rows[1](x + 1); }

//= dlopened  a library of units that is opened by name and not linked with, and calls back
//: dynamic
//: opened
//: link -rdynamic
//: exports @lib
//: unit a
#include <dlfcn.h>
int @own(int x) { $w{x} return x; }
static int @cb(int x) { return x > 1 ? 3 : 4; }
int @scene(int x) {
  void *l = dlopen(HERE "/lib@opened.so", RTLD_NOW); if (!l) return 98;
  int (*f)(int, int (*)(int)) = (int (*)(int, int (*)(int)))dlsym(l, "@lib");
  return f ? f(x, @cb) : 97;
}
//: library opened
int @own(int x);
int @lib(int x, int (*f)(int)) { $w{x} return f(x) + @own(x); }
