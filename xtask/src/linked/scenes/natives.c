//= native-calls-unit  a native object calls a function of a unit by name
//: unit a
int @native(int x);
int @cb(int x) { $w{x} return x & 7; }
int @scene(int x) { int t = @native(x); $w{t} return t; }
//: native
int @cb(int x);
int @native(int x) { int s = 0; for (int i = 0; i < x; i++) s += @cb(i); return s; }

//= unit-calls-native  a unit calls native functions that call nobody
//: unit a
int @leaf(int x);
$a static int @own(int x) { $w{x} return x; }
int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) s += @own(@leaf(i)); return s & 255; }
//: native
int @leaf(int x) { $w{x} return x; }

//= native-takes-address  a native object takes the address of a unit's function by name and calls it later
//: unit a
void @remember(void); int @later(int x);
int @taken(int x) { $w{x} return x + 1; }
int @scene(int x) { @remember(); $w{x} return @later(x) + @later(x + 3); }
//: native
int @taken(int x);
static int (*@kept)(int);
void @remember(void) { @kept = @taken; }
int @later(int x) { return @kept ? @kept(x) : 0; }

//= callback-argument  a native function calls what it is passed
//: unit a
int @each(int n, int (*f)(int));
static int @odd(int x) { $w{x} return x | 1; }
static int @even(int x) { $w{x} return x & 62; }
int @scene(int x) { return (@each(x, x & 1 ? @odd : @even) + @each(2, @odd)) & 255; }
//: native
int @each(int n, int (*f)(int)) { int s = 0; for (int i = 0; i < n; i++) s += f(i); return s; }

//= native-table  a native object keeps callbacks in a table
//: unit a
void @add(int (*f)(int)); int @all(int x);
static int @one(int x) { $w{x} return x; }
static int @two(int x) { return x > 3 ? 5 : 6; }
int @scene(int x) { @add(@one); if (x > 2) @add(@two); @add(@one); return @all(x) & 255; }
//: native
static int (*@table[8])(int); static int @used;
void @add(int (*f)(int)) { @table[@used++] = f; }
int @all(int x) { int s = 0; for (int i = 0; i < @used; i++) s += @table[i](x + i); return s; }

//= native-static-table  a table of a native object names functions of units
//: unit a
extern int (*const @table[3])(int);
int @one(int x) { $w{x} return x; }
int @two(int x) { $w{x} return x + 2; }
int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) s += @table[i % 3](i); return s & 255; }
//: native
int @one(int x); int @two(int x);
static int @three(int x) { return @one(x) + 1; }
int (*const @table[3])(int) = { @one, @two, @three };

//= native-twice  a unit calls a native function that calls a unit that calls a native one
//: unit a
int @down(int x);
int @middle(int x) { if (x > 1) return @down(x - 1) + 1; TICK(x); return x; }
int @scene(int x) { return @down(x); }
//: unit b
int @plus(int x) { $w{x} return x; }
//: native
int @middle(int x); int @plus(int x);
int @down(int x) { return x > 5 ? @middle(x - 2) + @plus(x) : @middle(x); }

//= native-tail  a native function ends with a jump to a function of a unit
//: unit a
int @jump(int x, int (*f)(int));
int @target(int x) { $w{x} return x; }
int @scene(int x) { return @jump(x, @target) + @jump(x + 1, 0); }
//: native
int @target(int x);
int @jump(int x, int (*f)(int)) { if (f) return f(x); return @target(x + 3); }

//= assembly-jump  an assembly function jumps to a function of a unit
//: unit a
int @thunk(int x);
int @behind(int x) { $w{x} return x & 31; }
int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) s += @thunk(i); return s; }
//: assembly
.text
.globl @thunk
@thunk:
  add $3, %edi
  jmp @behind
.section .note.GNU-stack,"",%progbits

//= assembly-table  an assembly object has a table of a unit's functions, and calls by it
//: unit a
int @call(int x);
int @entry0(int x) { $w{x} return x; }
int @entry1(int x) { return x & 2 ? x + 4 : x + 9; }
int @scene(int x) { return @call(x) + @call(x + 1); }
//: assembly
.text
.globl @call
@call:
  sub $8, %rsp
  mov %edi, %eax
  and $1, %eax
  lea @rows(%rip), %rdx
  call *(%rdx,%rax,8)
  add $8, %rsp
  ret
.section .data.rel.ro.local,"aw"
.balign 8
@rows:
  .quad @entry0
  .quad @entry1
.section .note.GNU-stack,"",%progbits

//= same-static-name  a unit, another unit and a native object have static functions of one name
//: unit a
int @other(int x); int @native(int x);
$a static int @same(int x) { $w{x} return x; }
int @scene(int x) { return (@same(x) + @other(x) + @native(x)) & 255; }
//: unit b
$a static int @same(int x) { $w{x} return x + 1; }
int @other(int x) { return @same(x) + @same(x + 1); }
//: native
static int @same(int x) { return x * 2; }
int @native(int x) { return @same(x); }

//= localised  a native object's function of the same name was made local by objcopy
//: unit a
int @native(int x);
int @same(int x) { $w{x} return x; }
int @scene(int x) { return @same(x) + @native(x); }
//: native localised @same
int @same(int x);
__attribute__((noinline)) int @same(int x) { return x * 3; }
int @native(int x) { return @same(x) + 1; }

//= archive-pulls-archive  members of a native archive need a unit's function and each other
//: unit a
int @first(int x);
int @needed(int x) { $w{x} return x; }
int @scene(int x) { return @first(x); }
//: native archive
int @second(int x);
int @first(int x) { return @second(x) + 1; }
//: native archive
int @needed(int x);
int @second(int x) { return @needed(x) + @needed(x + 2); }

//= native-data-pointer  a native object has a variable with the address of a unit's function, which a unit changes
//: unit a
extern int (*@hook)(int); int @run(int x);
int @before(int x) { $w{x} return x; }
static int @after(int x) { return x > 2 ? x : 7; }
int @scene(int x) { int s = @run(x); @hook = @after; return s + @run(x); }
//: native
int @before(int x);
int (*@hook)(int) = @before;
int @run(int x) { return @hook(x) + 1; }

//= callback-with-data  a native function passes a callback its data, and stops when it says so
//: unit a
int @walk(int n, int (*f)(void *, int), void *data);
struct @sum { int total; int calls; };
static int @visit(void *data, int i) {
  struct @sum *s = data; s->calls++; s->total += i;
  if (s->total > 9) return 1;
  return 0;
}
int @scene(int x) { struct @sum s = { 0, 0 }; @walk(x + 3, @visit, &s); return s.total + 16 * s.calls; }
//: native
int @walk(int n, int (*f)(void *, int), void *data) {
  for (int i = 0; i < n; i++) if (f(data, i)) return i;
  return n;
}

//= native-longjmp  a native function jumps out of a callback by longjmp
//: unit a
#include <setjmp.h>
int @guarded(int x, int (*f)(int));
void @leave(int x);
static int @risky(int x) { if (x & 1) @leave(x); TICK(1); return x; }
int @scene(int x) { int s = 0; for (int i = 0; i < x; i++) s += @guarded(i, @risky); return s; }
//: native
#include <setjmp.h>
static jmp_buf @back;
void @leave(int x) { longjmp(@back, x + 1); }
int @guarded(int x, int (*f)(int)) { int r = setjmp(@back); return r ? r + 10 : f(x); }
