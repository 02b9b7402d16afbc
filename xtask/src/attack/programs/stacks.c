// Stacks that are deep, many, or left by other ways than they were entered.
#define _GNU_SOURCE
#include "work.h"
#include <asm/prctl.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>

static jmp_buf back;
static ucontext_t first, second, begin;
static int turns;

__attribute__((noinline)) static long deep(long n) {
    if (!n)
        return 1;
    return deep(n - 1) + (n & 1);
}

__attribute__((noinline)) static void jump(int n) {
    if (!n)
        longjmp(back, 5);
    jump(n - 1);
    sink++;
}

static void one(void) {
    for (int i = 0; i < 10; i++) {
        turns += step(i);
        swapcontext(&first, &second);
    }
}

static void other(void) {
    for (int i = 0; i < 10; i++) {
        turns += step(i + 1);
        swapcontext(&second, &first);
    }
}

static void prepare(ucontext_t *context, void (*function)(void)) {
    getcontext(context);
    context->uc_stack.ss_sp = malloc(1 << 16);
    context->uc_stack.ss_size = 1 << 16;
    context->uc_link = &begin;
    makecontext(context, function, 0);
}

static int order;
__attribute__((constructor(101))) static void early(void) { order = order * 10 + 1; work(5); }
__attribute__((constructor(102))) static void late(void) { order = order * 10 + 2; work(6); }
__attribute__((destructor)) static void behind(void) { work(7); }

static void at_quick_exit_too(void) {
    work(8);
    if (write(1, "quick\n", 6) < 0)
        _exit(96);
}

int main(int argc, char **argv) {
    const char *kind = KIND;
    if (IS("recursion")) {
        struct rlimit all;
        getrlimit(RLIMIT_STACK, &all);
        if (all.rlim_cur != RLIM_INFINITY && all.rlim_cur < 512 << 20) {
            all.rlim_cur = 512 << 20;
            if (setrlimit(RLIMIT_STACK, &all))
                return 98;
        }
        printf("deep %ld\n", deep(1000000));
        return 3;
    }
    if (IS("contexts")) {
        prepare(&first, one);
        prepare(&second, other);
        swapcontext(&begin, &first);
        printf("turns %d\n", turns);
        return 4;
    }
    if (IS("longjmp")) {
        volatile int jumps = 0;
        if (setjmp(back) == 5)
            jumps++;
        if (jumps < 20)
            jump(jumps);
        printf("jumps %d\n", jumps);
        return 5;
    }
    if (IS("constructors")) {
        printf("order %d\n", order);
        return 6;
    }
    if (IS("quick-exit")) {
        at_quick_exit(at_quick_exit_too);
        work(9);
        quick_exit(7);
    }
    if (IS("gs")) {
        static long own[512];
        own[0] = 12;
        if (syscall(SYS_arch_prctl, ARCH_SET_GS, own))
            return 98;
        long seen;
        int sum = work(100);
        __asm__ volatile("movq %%gs:0, %0" : "=r"(seen));
        printf("gs %ld %d\n", seen, sum);
        return 8;
    }
    return 99;
}
