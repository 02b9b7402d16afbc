/* A signal at each instruction of __backtrail_enter whose handler looks for its
 * callers, or checks and counts itself. Each trial is a child of its own, whose
 * exit status says whether the handler ran (0), or the function was over before
 * (1). What is written in Rust blocks signals, so only the rest is stepped. */
#include "count.h"
#include <execinfo.h>
#include <ucontext.h>

void __backtrail_enter(void *);
static int step, mode;
static volatile int steps, handled;

__attribute__((noinline)) static void run_interrupted(void) {
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
    ENTER();
    __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
    COUNT(1);
}

/* In this function, its caller, what the kernel returns to, __backtrail_enter, and
 * the function that calls it. What is beyond is not looked at: ENTER leaves the red
 * zone alone by moving the stack pointer, which unwind tables do not tell. */
enum { FRAMES = 5 };

__attribute__((noinline)) static int called_by_interrupted(void) {
    void *callers[FRAMES];
    int count = backtrace(callers, FRAMES);
    for (int i = 0; i < count; i++)
        if ((uintptr_t)callers[i] - (uintptr_t)run_interrupted < 150)
            return 1;
    return 0;
}

static void handle(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t offset = (uintptr_t)registers[REG_RIP] - (uintptr_t)__backtrail_enter;
    if (offset >= 80) {
        /* Before the call; or in what it calls, which blocks this signal. */
        if (steps)
            registers[REG_EFL] &= ~0x100;
        return;
    }
    if (steps++ != step)
        return;
    registers[REG_EFL] &= ~0x100;
    handled = 1;
    if (!called_by_interrupted())
        _exit(9);
    if (mode == 'c')
        count_many(2, 3);
}

int main(int argc, char **argv) {
    (void)argc;
    mode = *argv[1];
    void *warm[4];
    backtrace(warm, 4);
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    for (step = 0;; step++) {
        pid_t child = fork();
        if (child == 0) {
            run_interrupted();
            told(1, 1);
            tell();
            _exit(handled ? 0 : 1);
        }
        int status;
        waitpid(child, &status, 0);
        if (status == 1 << 8)
            break;
        if (status != 0) {
            printf("step %d: status %x\n", step, status);
            return 1;
        }
    }
    printf("%d\n", step);
    return 0;
}
