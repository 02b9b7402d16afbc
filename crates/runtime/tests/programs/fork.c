/* Parent and children in the same loop: a fork by way HOW every so often, from
 * a process with several threads that log all the time. */
#include "event.h"
#include <pthread.h>

UNIT(unit, 1, 1 << 20);
UNIT(late, 2, 1 << 20);
static volatile int done;
static int started;

static void *busy(void *number) {
    uint32_t random = (uint32_t)(uintptr_t)number;
    do {
        LOG(unit, next_random(&random) & 0xfffff);
        if (kept_count == 1)
            __atomic_fetch_add(&started, 1, __ATOMIC_RELAXED);
    } while (!done);
    tell();
    return NULL;
}

static pid_t make_child(const char *how) {
    if (!strcmp(how, "fork"))
        return fork();
    if (!strcmp(how, "syscall"))
        return (pid_t)syscall(SYS_fork);
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

int main(int argc, char **argv) {
    (void)argc;
    int threads = atoi(argv[2]), depth = 0;
    reserve(1 << 16);
    pthread_t ids[8];
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, busy, (void *)(uintptr_t)(i + 1));
    while (__atomic_load_n(&started, __ATOMIC_RELAXED) < threads)
        sched_yield();
    uint32_t random = 5;
    pid_t children[8];
    int count = 0;
    for (int i = 0; i < 20000; i++) {
        LOG(unit, next_random(&random) & 0xfffff);
        if (i % 2500 == 1250 && depth < 2) {
            pid_t child = make_child(argv[1]);
            if (child < 0)
                return 3;
            if (child == 0) {
                forget();
                depth++;
                count = 0;
                random += 77;
                continue;
            }
            children[count++] = child;
        }
        /* Registered only after some of the forks. */
        if (i > 9000 + depth * 3000)
            LOG(late, next_random(&random) & 0xfffff);
    }
    done = 1;
    if (depth == 0)
        for (int i = 0; i < threads; i++)
            pthread_join(ids[i], NULL);
    int failed = 0;
    for (int i = 0; i < count; i++) {
        int status;
        waitpid(children[i], &status, 0);
        failed |= status != 0;
    }
    tell();
    return failed;
}
