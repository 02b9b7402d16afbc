//= dlsym-rdynamic  dlsym finds a unit's function by name, -rdynamic
//: dynamic
//: link $[-rdynamic|-Wl,-E|-Wl,--export-dynamic]
//: unit a
#include <dlfcn.h>
int @named(int x) { $w{x} return x; }
int @scene(int x) { int (*f)(int) = (int (*)(int))dlsym($[RTLD_DEFAULT|0], "@named"); return f ? f(x) + f(x + 1) : 77; }

//= dlsym-dynamic-list  dlsym finds what a dynamic list names
//: dynamic
//: file @list.txt { @named; };
//: link -Wl,--dynamic-list=@list.txt
//: unit a
#include <dlfcn.h>
int @named(int x) { $w{x} return x; }
int @unnamed(int x) { $w{x} return x; }
int @scene(int x) {
  int s = 0; const char *names[] = { "@named", "@unnamed" };
  for (int i = 0; i < 2; i++) { int (*f)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, names[i]); if (f) s += f(x); else s += 50; }
  return s;
}

//= dlsym-export-symbol  dlsym finds what --export-dynamic-symbol names
//: dynamic
//: link -Wl,--export-dynamic-symbol=@named
//: unit a
#include <dlfcn.h>
int @named(int x) { $w{x} return x; }
int @scene(int x) { int (*f)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "@named"); return f ? f(x) : 77; }

//= dlsym-native  a native object calls a unit's function that it finds by dlsym
//: dynamic
//: link -rdynamic
//: unit a
int @by_name(const char *name, int x);
int @first(int x) { $w{x} return x; }
int @second(int x) { return x & 1 ? 8 : 9; }
int @scene(int x) { return @by_name("@first", x) + @by_name("@second", x); }
//: native
#include <dlfcn.h>
int @by_name(const char *name, int x) { int (*f)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, name); return f ? f(x) : 1; }

//= dlopen-itself  dlopen of the program itself, and dlsym in it
//: dynamic
//: link -rdynamic
//: unit a
#include <dlfcn.h>
int @named(int x) { $w{x} return x; }
int @scene(int x) {
  void *self = dlopen(0, RTLD_NOW); if (!self) return 99;
  int (*f)(int) = (int (*)(int))dlsym(self, "@named");
  int r = f ? f(x) : 77; dlclose(self); return r;
}

//= dladdr-of-own  dladdr of a unit's function and its name used
//: dynamic
//: link -rdynamic
//: unit a
#include <dlfcn.h>
int @named(int x) { $w{x} return x; }
int @scene(int x) { Dl_info i; if (!dladdr((void *)@named, &i) || !i.dli_sname) return 66; return @named(x + (int)(strlen(i.dli_sname) & 3)); }

//= dlsym-next  a unit's wrapper of a C library function calls the next one, found by dlsym
//: dynamic
//: alone abs
//: link -rdynamic
//: unit a
#include <dlfcn.h>
int atoi(const char *t) {
  static int (*next)(const char *);
  if (!next) next = (int (*)(const char *))dlsym(RTLD_NEXT, "atoi");
  if (t[0] == '7') return 70;
  return next ? next(t) + 1 : -1;
}
int @native(int x);
int @scene(int x) { return @native(x) + atoi("7"); }
//: native
int @native(int x) { char t[8]; snprintf(t, sizeof t, "%d", x); int (*volatile f)(const char *) = atoi; return f(t); }
