/* Prints how many bytes of stack a call takes at most, beyond what an empty
 * function takes: at the first event of all, at extensions, at registrations. */
#include "event.h"
#include <ucontext.h>

static struct unit units[400];
static unsigned char stack[1 << 16];
static ucontext_t here, there;
static void (*work)(void);

static void start(void) { work(); }
static void nothing(void) { __asm__ volatile("" ::: "memory"); }
static void first(void) { __backtrail_log(&units[0], 0); }
static void extend(void) {
    for (int i = 0; i < 300000; i++)
        __backtrail_log(&units[0], 0);
}
static void enlist(void) {
    for (int i = 0; i < 400; i++)
        __backtrail_log(&units[i], 0);
}

static long used_by(void (*function)(void)) {
    work = function;
    memset(stack, 0xa5, sizeof stack);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof stack;
    there.uc_link = &here;
    makecontext(&there, start, 0);
    swapcontext(&here, &there);
    size_t untouched = 0;
    while (stack[untouched] == 0xa5)
        untouched++;
    return (long)(sizeof stack - untouched);
}

int main(void) {
    for (int i = 0; i < 400; i++) {
        units[i].id[0] = (unsigned char)i;
        units[i].id[1] = (unsigned char)(i >> 8);
        units[i].blocks = 1;
    }
    long base = used_by(nothing), most = 0;
    void (*const all[])(void) = {first, extend, enlist};
    for (int i = 0; i < 3; i++) {
        long used = used_by(all[i]) - base;
        most = used > most ? used : most;
    }
    printf("%ld\n", most);
    return 0;
}
