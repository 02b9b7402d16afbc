/* A signal at each instruction of the fast path, whose handler logs, returns or
 * leaves by longjmp, or looks for its callers.
 *
 * The processor's trap flag raises SIGTRAP after every instruction. Each trial
 * is a child of its own: FILL events first, then one event that is interrupted
 * at its STEPth instruction by a handler that logs BURST events. The child tells
 * everything but the interrupted event (block 999); its exit status says
 * whether the handler ran (0), or the fast path was over before (1). */
#include "event.h"
#include <execinfo.h>
#include <ucontext.h>

UNIT(unit, 1, 100000);

static int step, burst, mode;
static volatile int steps, handled;
static sigjmp_buf out;

__attribute__((noinline)) static void run_interrupted(void) {
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
    __backtrail_log(&unit, 999);
    __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

static int called_by_interrupted(void) {
    void *callers[32];
    int count = backtrace(callers, 32);
    for (int i = 0; i < count; i++)
        if ((uintptr_t)callers[i] - (uintptr_t)run_interrupted < 100)
            return 1;
    return 0;
}

static void handle(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t offset = (uintptr_t)registers[REG_RIP] - (uintptr_t)__backtrail_log;
    if (offset >= 75) {
        /* Before the call; or in the slow path, which blocks this signal. */
        if (steps)
            registers[REG_EFL] &= ~0x100;
        return;
    }
    if (steps++ != step)
        return;
    registers[REG_EFL] &= ~0x100;
    handled = 1;
    if (mode == 'b') {
        if (!called_by_interrupted())
            _exit(9);
        return;
    }
    for (int i = 0; i < burst; i++)
        LOG(unit, 50000 + i);
    if (mode == 'j')
        siglongjmp(out, 1);
}

static int trial(int fill) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    for (int i = 0; i < fill; i++)
        LOG(unit, i);
    if (!sigsetjmp(out, 1))
        run_interrupted();
    /* Enough to replace the window again, and more than once. */
    for (int i = 0; i < 5000; i++)
        LOG(unit, 10000 + i);
    tell();
    return handled ? 0 : 1;
}

int main(int argc, char **argv) {
    (void)argc;
    mode = *argv[1];
    void *warm[4];
    backtrace(warm, 4);
    /* The first window holds 1018 events, the second 1024. */
    static const int fills[] = {1, 500, 1017, 1018, 1019, 2041, 2042};
    static const int bursts[] = {0, 1, 3, 600, 2000, 7000};
    int trials = 0;
    for (int f = 0; f < 7; f++)
        for (int b = 0; b < (mode == 'b' ? 1 : 6); b++)
            for (step = 0;; step++) {
                burst = bursts[b];
                pid_t child = fork();
                if (child == 0)
                    _exit(trial(fills[f]));
                int status;
                waitpid(child, &status, 0);
                if (status == 1 << 8)
                    break;
                if (status != 0) {
                    printf("fill %d burst %d step %d: status %x\n", fills[f], burst, step, status);
                    return 1;
                }
                trials++;
            }
    printf("%d\n", trials);
    return 0;
}
