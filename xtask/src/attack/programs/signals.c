// Signals, whoever sends them.
#define _GNU_SOURCE
#include "work.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks, faults;
static sigjmp_buf back;
static char *page;

static void tick(int signal) {
    (void)signal;
    ticks++;
}

static void leave(int signal) {
    (void)signal;
    faults++;
    siglongjmp(back, 1);
}

static void mend(int signal) {
    (void)signal;
    faults++;
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, 0);
}

__attribute__((noinline)) static int endless(int n) {
    volatile char room[512];
    room[n % 512] = (char)n;
    return sink < 0 ? n : endless(n + 1) + room[n % 512];
}

int main(int argc, char **argv) {
    const char *kind = KIND;
    if (IS("timer")) {
        struct itimerval every = {{0, 1000}, {0, 1000}};
        handle(SIGALRM, tick, SA_RESTART);
        setitimer(ITIMER_REAL, &every, 0);
        while (ticks < 50)
            work(50);
        puts("ticked");
        return 3;
    }
    if (IS("altstack")) {
        stack_t other = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
        sigaltstack(&other, 0);
        handle(SIGSEGV, leave, SA_ONSTACK);
        if (!sigsetjmp(back, 1))
            sink = endless(0);
        printf("overflowed %d\n", (int)faults);
        return 4;
    }
    if (IS("fault-mended")) {
        page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        handle(SIGSEGV, mend, 0);
        for (int i = 0; i < 10; i++) {
            mprotect(page, 4096, PROT_NONE);
            page[i] = (char)step(i);
        }
        printf("mended %d\n", (int)faults);
        return 5;
    }
    if (IS("int3")) {
        handle(SIGTRAP, tick, 0);
        for (int i = 0; i < 5; i++) {
            __asm__ volatile("int3");
            work(3);
        }
        printf("trapped %d\n", (int)ticks);
        return 6;
    }
    if (IS("all-blocked")) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, 0);
        printf("blocked %d\n", work(500));
        return 7;
    }
    if (IS("abort")) {
        printf("before %d\n", work(70));
        fflush(stdout);
        abort();
    }
    if (IS("killed")) {
        printf("before %d\n", work(80));
        fflush(stdout);
        kill(getpid(), SIGKILL);
    }
    if (IS("fault")) {
        printf("before %d\n", work(90));
        fflush(stdout);
        *(volatile int *)8 = 1;
    }
    return 99;
}
