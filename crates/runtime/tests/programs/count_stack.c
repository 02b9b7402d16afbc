/* Prints how many bytes of stack a check takes at most, beyond what an empty
 * function takes: the first one of all, the first one of a thread, and that of a
 * fork's child. */
#include "count.h"
#include <ucontext.h>

#define SIZE (1 << 16)
static unsigned char stacks[3][SIZE];
static long most;

static void nothing(void) { __asm__ volatile("" ::: "memory"); }
static void check(void) { ENTER(); }

static long used_by(unsigned char *stack, void (*function)(void)) {
    ucontext_t here, there;
    memset(stack, 0xa5, SIZE);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = SIZE;
    there.uc_link = &here;
    makecontext(&there, function, 0);
    swapcontext(&here, &there);
    size_t untouched = 0;
    while (stack[untouched] == 0xa5)
        untouched++;
    return (long)(SIZE - untouched);
}

static void measure(unsigned char *stack) {
    long base = used_by(stack, nothing), used = used_by(stack, check) - base;
    most = used > most ? used : most;
}

static void *run(void *stack) {
    measure(stack);
    return NULL;
}

int main(void) {
    measure(stacks[0]);
    pthread_t id;
    pthread_create(&id, NULL, run, stacks[1]);
    pthread_join(id, NULL);
    pid_t child = (pid_t)syscall(SYS_fork);
    if (child == 0) {
        most = 0;
        measure(stacks[2]);
        printf("%ld\n", most);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("%ld\n", most);
    return 0;
}
