/* Forks while three threads start and end others all the time, so that the
 * runtime is often at work at a fork. Each child counts, starts threads of its
 * own and forks once more. */
#include "count.h"

static volatile int done;

static void *once(void *counter) {
    count_many((uint64_t)(uintptr_t)counter, 200);
    return NULL;
}

static void run_threads(uint64_t counter) {
    pthread_t ids[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&ids[i], NULL, once, (void *)(uintptr_t)counter);
    for (int i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
}

static void *busy(void *counter) {
    while (!done)
        run_threads((uint64_t)(uintptr_t)counter);
    return NULL;
}

static int wait_for(pid_t child) {
    int status;
    return waitpid(child, &status, 0) != child || status;
}

int main(void) {
    pthread_t ids[3];
    count_many(1, 10);
    for (int i = 0; i < 3; i++)
        pthread_create(&ids[i], NULL, busy, (void *)(uintptr_t)(10 + i));
    int failed = 0;
    for (int i = 0; i < 60; i++) {
        count_many(2, 100);
        pid_t child = fork();
        if (child == 0) {
            forget();
            alarm(60);
            count_many(3, 100);
            run_threads(4);
            child = fork();
            if (child == 0) {
                forget();
                count_many(5, 100);
                tell();
                _exit(0);
            }
            failed = wait_for(child);
            tell();
            _exit(failed);
        }
        failed |= wait_for(child);
    }
    done = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    tell();
    return failed;
}
