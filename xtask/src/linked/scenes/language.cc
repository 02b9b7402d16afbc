//= operator-new  operator new and delete of the program's own, which the C++ library calls
//: alone operator-new
//: unit c++
#include <new>
#include <string>
static int @calls;
void *operator new(std::size_t n) { @calls++; if (n > 64) @calls += 2; void *p = std::malloc(n ? n : 1); if (!p) throw std::bad_alloc(); return p; }
void operator delete(void *p) noexcept { if (p) @calls += 3; std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }
extern "C" int @scene(int x) { int before = @calls; std::string s; for (int i = 0; i < x * 9; i++) s += "item "; return (int)(s.size() + @calls - before) & 255; }

//= operator-new-streams  a stream of the C++ library, with operator new of the program's own
//: alone operator-new
//: unit c++
#include <new>
#include <sstream>
void *operator new(std::size_t n) { void *p = std::malloc(n); if (!p) throw std::bad_alloc(); return p; }
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }
extern "C" int @scene(int x) { std::ostringstream o; for (int i = 0; i < x * 8; i++) o << "item " << i << ' '; return (int)o.str().size() & 255; }

//= class-operator-new  operator new of a class
//: unit c++
struct @Cell { int v; static void *operator new(std::size_t n) { TICK(1); return std::malloc(n); } static void operator delete(void *p) { if (p) TICK(2); std::free(p); } explicit @Cell(int x) : v(x) {} };
extern "C" int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) { auto *c = new @Cell(i); s += c->v; delete c; } return s; }

//= virtual  virtual calls, one of them from a native object
//: unit c++
struct @Shape { virtual int area(int x) const { return x > 2 ? 1 : 2; } virtual ~@Shape() {} };
struct @Square : @Shape { int area(int x) const override { $w{x} return x; } };
struct @Other : @Shape { int area(int x) const override { if (x & 1) return 5; return @Shape::area(x); } };
extern "C" int @visit(void *p, int x) { return static_cast<@Shape *>(p)->area(x); }
extern "C" int @native(void *p, int x);
extern "C" int @scene(int x) { @Square a; @Other b; @Shape *all[] = { &a, &b, &a }; int s = 0; for (int i = 0; i < 3; i++) s += all[(i + x) % 3]->area(i) + @native(all[i], x); return s & 255; }
//: native
int @visit(void *p, int x);
int @native(void *p, int x) { return @visit(p, x) + 1; }

//= exceptions  exceptions through functions of the unit
//: unit c++
#include <stdexcept>
struct @Guard { int *n; ~@Guard() { if (*n > 1) *n += 3; } };
static int NOINLINE @risky(int x, int *n) { @Guard g{n}; if (x > 2) throw std::runtime_error("deep"); if (x == 1) throw x; TICK(x); return x; }
extern "C" int @scene(int x) { int s = 0, n = 0; for (int i = 0; i < x; i++) try { s += @risky(i, &n); } catch (int v) { s += 10 + v; } catch (const std::exception &) { s += 20; n++; } return (s + n) & 255; }

//= exception-through-native  exceptions through a native function that calls a unit's
//: unit c++
extern "C" int @each(int n, int (*f)(int));
static int @cb(int x) { if (x == 3) throw 7; return x; }
extern "C" int @scene(int x) { try { return @each(x, @cb); } catch (int v) { return 90 + v; } }
//: native
int @each(int n, int (*f)(int)) { int s = 0; for (int i = 0; i < n; i++) s += f(i); return s; }

//= exception-through-qsort  an exception out of qsort's comparator
//: unit c++
static int @n;
static int @compare(const void *a, const void *b) { if (++@n == $n) throw @n; return *(const int *)a - *(const int *)b; }
extern "C" int @scene(int x) { int v[5] = { 5, x, 3, 9, 1 }; try { qsort(v, 5, sizeof *v, @compare); } catch (int e) { return 60 + e; } return v[0]; }

//= exception-caught-by-native  a native function catches what a unit's callback throws
//: unit c++
extern "C" int @guarded(int (*f)(int), int x);
static int @cb(int x) { if (x & 1) throw x; TICK(x); return x; }
extern "C" int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) s += @guarded(@cb, i); return s; }
//: native c++
extern "C" int @guarded(int (*f)(int), int x) { try { return f(x); } catch (int v) { return v + 10; } }

//= new-handler  std::set_new_handler
//: unit c++
#include <new>
static int @n;
static void @handler() { if (++@n > 1) throw std::bad_alloc(); TICK(1); }
extern "C" int @scene(int x) { std::set_new_handler(@handler); int r = x; try { volatile std::size_t big = ~std::size_t(0) / 4; char *p = static_cast<char *>(::operator new(big)); r += *p; } catch (const std::bad_alloc &) { r += 20; } std::set_new_handler(nullptr); return r + @n; }

//= static-objects  constructors and destructors of static objects
//: unit c++
struct @Object { int v; explicit @Object(int x) : v(x) { if (x > 2) v += 5; } ~@Object() { if (v > 3) printf("object %d\n", v); } };
static @Object @first($n), @second(5);
static @Object &@local(int x) { static @Object o(x); return o; }
extern "C" int @scene(int x) { return @first.v + @second.v + @local(x).v; }

//= thread-local  destructors of thread_local objects
//: unit c++
#include <thread>
static int @n;
struct @Object { int v = 0; ~@Object() { if (v > 1) @n += v; else @n += 50; } };
static thread_local @Object @own;
extern "C" int @scene(int x) { for (int i = 1; i < 3; i++) { std::thread t([i] { @own.v = i; }); t.join(); } return @n + x; }

//= functional  std::sort, std::function and std::map with functions of the unit
//: unit c++
#include <algorithm>
#include <functional>
#include <map>
struct @Less { bool operator()(int a, int b) const { if ((a ^ b) & 1) return a & 1; return a < b; } };
extern "C" int @scene(int x) { std::map<int, int, @Less> m; for (int i = 0; i < x; i++) m[i * 5 % 7] = i; std::function<int(int)> f = [&](int v) { return v > 2 ? v + x : 1; }; int s = 0; for (auto &p : m) s = s * 3 + f(p.second); return s & 255; }

//= streambuf  a stream buffer of the program, called by the C++ library
//: unit c++
#include <ostream>
#include <streambuf>
struct @Buffer : std::streambuf { int n = 0; int overflow(int c) override { if (c == 'e') n += 2; else n++; return c; } int sync() override { n += 100; return 0; } };
extern "C" int @scene(int x) { @Buffer b; std::ostream o(&b); o << "three " << x << std::flush; return b.n; }

//= typeinfo  dynamic_cast and exceptions of a class with a virtual base
//: unit c++
struct @Base { virtual ~@Base() {} virtual int id() { return 1; } }; struct @Left : virtual @Base { int id() override { return 2; } }; struct @Right : virtual @Base {}; struct @Both : @Left, @Right { int id() override { TICK(1); return 3; } };
extern "C" int @scene(int x) { @Both b; @Left l; @Base *all[] = { &b, &l }; int s = 0; for (auto *p : all) { if (auto *r = dynamic_cast<@Right *>(p)) s += r->id() * 10; else s += p->id(); } try { throw @Both(); } catch (@Base &e) { s += e.id(); } return s + x; }

//= end-terminate  a terminate handler, which an exception that nobody catches comes to
//: ending
//: unit c++
#include <exception>
static void @handler() { puts("terminated"); fflush(stdout); if (sink < 1 << 30) std::abort(); std::_Exit(1); }
extern "C" void @end(int x) { std::set_terminate(@handler); if (x >= 0) throw 5; }

//= crash-in-destructor  crashes in a destructor while an exception is on its way
//: crash
//: unit c++
static int *volatile @nothing;
struct @Guard { int v; ~@Guard() { if (v > 0) *@nothing = v; } };
static void NOINLINE @throw_it(int x) { @Guard g{x + 1}; if (x >= 0) throw x; TICK(x); }
extern "C" void @crash(int x) { try { @throw_it(x & 7); } catch (int) { TICK(2); } }
