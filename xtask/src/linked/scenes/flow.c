//= setjmp  longjmp over frames of units
//: unit a
#include <setjmp.h>
static jmp_buf @back;
$a static void @deep(int x) { if (x > 4) longjmp(@back, x); TICK(x); if (x > 0) @deep(x + 1); }
int @scene(int x) { int r = setjmp(@back); if (r) return r + 10; @deep(x); return 1; }

//= longjmp-from-comparator  longjmp out of qsort's comparator
//: unit a
#include <setjmp.h>
static jmp_buf @back; static int @n;
static int @compare(const void *a, const void *b) { if (++@n == $n) longjmp(@back, @n); return *(const int *)a - *(const int *)b; }
int @scene(int x) { int v[6] = { 5, x, 3, 9, 1, 4 }; if (setjmp(@back)) return 40 + @n; qsort(v, 6, sizeof *v, @compare); return v[0]; }

//= longjmp-through-native  longjmp out of a callback of a native function
//: unit a
#include <setjmp.h>
static jmp_buf @back;
int @each(int n, void (*f)(int));
static void @visit(int i) { if (i == 2) longjmp(@back, 7); TICK(i); }
int @scene(int x) { int r = setjmp(@back); if (r) return r; @each(x, @visit); return 3; }
//: native
int @each(int n, void (*f)(int)) { for (int i = 0; i < n; i++) f(i); return n; }

//= signal  handlers of signals that the program raises
//: unit a
#include <signal.h>
static volatile sig_atomic_t @got;
static void @handler(int s) { if (s == SIGUSR1) @got += 1; else @got += 10; }
static void @other(int s) { (void)s; @got += 100; }
int @scene(int x) { signal(SIGUSR1, @handler); struct sigaction a; memset(&a, 0, sizeof a); a.sa_handler = x & 1 ? @handler : @other; sigaction(SIGUSR2, &a, 0); for (int i = 0; i < $n; i++) raise(i & 1 ? SIGUSR2 : SIGUSR1); signal(SIGUSR1, SIG_DFL); return @got & 255; }

//= sigaction-info  a handler with three arguments, and kill of itself
//: unit a
#include <signal.h>
static volatile int @got;
static void @handler(int s, siginfo_t *i, void *c) { (void)c; if (i && i->si_signo == s) @got += 3; else @got += 5; }
int @scene(int x) { struct sigaction a; memset(&a, 0, sizeof a); a.sa_sigaction = @handler; a.sa_flags = SA_SIGINFO; sigaction(SIGUSR2, &a, 0); kill(getpid(), SIGUSR2); return @got + x; }

//= siglongjmp  siglongjmp out of a handler
//: unit a
#include <setjmp.h>
#include <signal.h>
static sigjmp_buf @back; static volatile int @n;
static void @handler(int s) { (void)s; @n++; siglongjmp(@back, @n); }
int @scene(int x) { signal(SIGUSR1, @handler); int r = sigsetjmp(@back, 1); if (r < 2) raise(SIGUSR1); signal(SIGUSR1, SIG_DFL); return r * 16 + x; }

//= signal-by-native  a native object installs a unit's function as a handler, and raises
//: unit a
void @handler(int s) { static int n; if (s > 0) n++; if (n > 1) TICK(n); }
void @raise(int x);
int @scene(int x) { for (int i = 0; i < x; i++) @raise(i); return x; }
//: native
#include <signal.h>
void @handler(int s);
void @raise(int x) { signal(SIGUSR1, @handler); if (x < 3) raise(SIGUSR1); signal(SIGUSR1, SIG_DFL); }

//= fork  a child, by fork, with handlers of pthread_atfork
//: unit a
#include <pthread.h>
#include <sys/wait.h>
static int @n;
static void @before(void) { @n++; }
static void @parent(void) { if (@n) @n += 2; }
static void @child(void) { if (@n > 5) TICK(1); @n += 4; }
$a static int @work(int x) { $w{x} return x & 15; }
int @scene(int x) {
  pthread_atfork(@before, @parent, @child); fflush(0);
  pid_t p = fork(); if (p == 0) _exit(@work(x) + @n);
  int s = 0; waitpid(p, &s, 0); return WEXITSTATUS(s) * 8 + @n;
}

//= fork-by-native  a native object forks, and calls a unit's function in the child
//: unit a
int @forked(int x);
int @in_child(int x) { $w{x} return x & 31; }
int @scene(int x) { fflush(0); return @forked(x); }
//: native
#include <sys/wait.h>
int @in_child(int x);
int @forked(int x) { pid_t p = fork(); if (p == 0) _exit(@in_child(x)); int s = 0; waitpid(p, &s, 0); return WEXITSTATUS(s); }

//= threads  threads that begin in units, one after another
//: unit a
#include <pthread.h>
static void *@begin(void *p) { int x = *(int *)p; $w{x} *(int *)p = x; return 0; }
int @scene(int x) { int s = 0; for (int i = 0; i < 2; i++) { pthread_t t; int v = x + i; pthread_create(&t, 0, @begin, &v); pthread_join(t, 0); s += v; } return s & 255; }

//= thread-by-native  a native object begins a thread in a unit's function
//: unit a
void *@begin(void *p) { int x = *(int *)p; $w{x} *(int *)p = x; return p; }
int @threaded(int x);
int @scene(int x) { return @threaded(x); }
//: native
#include <pthread.h>
void *@begin(void *p);
int @threaded(int x) { pthread_t t; pthread_create(&t, 0, @begin, &x); pthread_join(t, 0); return x; }

//= native-thread  a thread that begins in a native function, which calls a unit's
//: unit a
int @inside(int x) { $w{x} return x; }
int @threaded(int x);
int @scene(int x) { return @threaded(x); }
//: native
#include <pthread.h>
int @inside(int x);
static void *@begin(void *p) { *(int *)p = @inside(*(int *)p) + 1; return 0; }
int @threaded(int x) { pthread_t t; pthread_create(&t, 0, @begin, &x); pthread_join(t, 0); return x; }

//= thread-keys  destructors of what threads keep, pthread_once and call_once
//: unit a
#include <pthread.h>
#include <threads.h>
static pthread_key_t @key; static pthread_once_t @once = PTHREAD_ONCE_INIT; static once_flag @flag = ONCE_FLAG_INIT; static int @n;
static void @drop(void *p) { if (*(int *)p > 2) @n += 10; else @n++; }
static void @init(void) { pthread_key_create(&@key, @drop); }
static void @twice(void) { @n += 3; }
static void *@begin(void *p) { pthread_once(&@once, @init); call_once(&@flag, @twice); pthread_setspecific(@key, p); return 0; }
int @scene(int x) { for (int i = 1; i < 4; i++) { pthread_t t; int v = i; pthread_create(&t, 0, @begin, &v); pthread_join(t, 0); } return @n + x; }

//= thread-cleanup  cleanup handlers and pthread_exit
//: unit a
#include <pthread.h>
static int @n;
static void @clean(void *p) { if (p) @n += 5; }
static void *@begin(void *p) { pthread_cleanup_push(@clean, p); if (*(int *)p > 2) pthread_exit(p); @n++; pthread_cleanup_pop(1); return p; }
int @scene(int x) { for (int i = 1; i < 5; i += 2) { pthread_t t; int v = i; pthread_create(&t, 0, @begin, &v); pthread_join(t, 0); } return @n + x; }

//= context  a coroutine by makecontext and swapcontext
//: unit a
#include <ucontext.h>
static ucontext_t @main, @other; static char @stack[1 << 16]; static int @n;
static void @run(void) { for (int i = 0; i < 2; i++) { @n += i + 1; swapcontext(&@other, &@main); } @n += 10; }
int @scene(int x) { getcontext(&@other); @other.uc_stack.ss_sp = @stack; @other.uc_stack.ss_size = sizeof @stack; @other.uc_link = &@main; makecontext(&@other, @run, 0); for (int i = 0; i < 3; i++) swapcontext(&@main, &@other); return @n + x; }

//= recursion  functions of two units that call each other
//: unit a
int @odd(int x);
int @even(int x) { if (x <= 0) return 1; return @odd(x - 1); }
int @scene(int x) { return @even(x) * 2 + @odd(x + 1); }
//: unit b
int @even(int x);
int @odd(int x) { if (x <= 0) return 0; return @even(x - 1); }

//= pointers  calls by pointers from a table of a unit
//: unit a
static int @add(int x) { return x + 3; } static int @twice(int x) { $w{x} return x * 2 & 255; } static int @less(int x) { if (x > 3) return x - 3; return 0; }
static int (*const @steps[])(int) = { @add, @twice, @less };
int @scene(int x) { for (int i = 0; i < 5; i++) x = @steps[(i + x) % 3](x); return x; }

//= varargs  a function with variable arguments, called by a native object through a pointer
//: unit a
#include <stdarg.h>
int @call(int (*f)(int, ...), int x);
static int @sum(int n, ...) { va_list l; va_start(l, n); int s = 0; for (int i = 0; i < n; i++) { int v = va_arg(l, int); if (v & 1) s += v; else s -= 1; } va_end(l); return s; }
int @scene(int x) { return @call(@sum, x) & 63; }
//: native
int @call(int (*f)(int, ...), int x) { return f(3, x, 4, 5) + f(1, x + 1); }

//= end-deep-exit  exit in a deep function
//: ending
//: unit a
$a static void @deeper(int x) { if (x > 3) exit(20 + (x & 15)); TICK(x); @deeper(x + 1); }
void @end(int x) { @deeper(x & 7); }

//= end-_exit  the program ends by _exit
//: ending
//: unit a
void @end(int x) { fflush(0); if (x & 1) _exit(31); _exit(32); }

//= end-quick-exit  quick_exit, with functions for it
//: ending
//: unit a
static void @quick(void) { static int n; if (n++) puts("quick again"); else puts("quick"); fflush(stdout); }
void @end(int x) { at_quick_exit(@quick); if (x & 1) at_quick_exit(@quick); fflush(0); quick_exit(33); }

//= end-native-exit  a native object calls exit in a callback's callee
//: ending
//: unit a
void @leave(int x);
static void @unused_way(int x) { if (x < 0) @leave(-x); }
void @end(int x) { @unused_way(x); if (x >= 0) @leave(x); TICK(5); }
//: native
void @leave(int x) { exit(40 + (x & 7)); }

//= end-exit-in-atexit  a function for the end ends the program differently
//: ending
//: unit a
static void @last(void) { puts("changed"); fflush(stdout); if (sink < 1 << 30) _exit(45); }
void @end(int x) { atexit(@last); TICK(x); }

//= end-abort  abort
//: ending
//: unit a
void @end(int x) { fflush(0); if (x >= 0) abort(); }

//= end-null  a write to where nothing is
//: ending
//: unit a
static int *volatile @nothing;
$a static void @write(int x) { *@nothing = x; }
void @end(int x) { fflush(0); if (x >= 0) @write(x); }

//= crash-deep  crashes in a deep function
//: crash
//: unit a
static int *volatile @nothing;
int NOINLINE @dive(int x) { if (x > 2) return *@nothing; return @dive(x + 1) + 1; }
void @crash(int x) { x = @dive(x & 1); TICK(x); }

//= crash-in-callback  crashes in a callback of a native function
//: crash
//: unit a
void @each(int n, void (*f)(int));
static int *volatile @nothing;
static void @visit(int i) { if (i == 2) *@nothing = 1; TICK(i); }
void @crash(int x) { @each(5 + (x & 1), @visit); }
//: native
void @each(int n, void (*f)(int)) { for (int i = 0; i < n; i++) f(i); }

//= crash-in-comparator  crashes in qsort's comparator
//: crash
//: unit a
static int @n;
static int @compare(const void *a, const void *b) { if (++@n > 3) abort(); return *(const int *)a - *(const int *)b; }
void @crash(int x) { int v[6] = { 5, x, 3, 9, 1, 4 }; qsort(v, 6, sizeof *v, @compare); }

//= crash-in-native  crashes in a native function that a unit's called
//: crash
//: unit a
void @die(int x);
$a static void @before(int x) { $w{x} TICK(x); }
void @crash(int x) { @before(x & 7); @die(x); TICK(1); }
//: native
void @die(int x) { if (x < 1000000) __builtin_trap(); }

//= crash-in-handler  crashes in a signal's handler
//: crash
//: unit a
#include <signal.h>
static int *volatile @nothing;
static void @handler(int s) { if (s > 1) *@nothing = s; }
void @crash(int x) { signal(SIGUSR1, @handler); raise(SIGUSR1); TICK(x); }

//= crash-at-end  crashes in a function for the end
//: crash
//: unit a
static void @late(void) { if (sink < 1 << 30) abort(); }
void @crash(int x) { atexit(@late); if (x >= 0) exit(9); }

//= sections  functions that the sections of what runs around main name, used or not
//: unit a
typedef void (*@f)(void);
static int @n;
$a static void @first(void) { @n += $n; if (@n > 4) TICK(1); }
static void @second(void) { @n++; }
static void @late(void) { if (@n & 1) TICK(2); @n++; }
__attribute__((section(".init_array"))) @f @runs_first = @first;
__attribute__((section(".init_array.00200"), aligned(8))) const @f @both[] = { @second, @first };
__attribute__((section(".fini_array"), used)) static @f @runs_late = @late;
__attribute__((section(".fini_array.00300"))) @f @called_too = @second;
int @scene(int x) { @f volatile f = @first; f(); if (x > $n) @late(); return @n & 31; }
