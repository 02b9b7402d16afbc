/* Counts in turn with a library it was linked with, by several threads. */
#include "count.h"

void run_library(uint64_t counter, uint64_t count);

static void *run(void *nothing) {
    for (int i = 0; i < 1000; i++) {
#ifndef QUIET
        count_many(1, 10);
#endif
        run_library(2, 7);
    }
    return nothing;
}

int main(void) {
    pthread_t ids[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&ids[i], NULL, run, NULL);
    run(NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    pid_t child = fork();
    if (child == 0) {
        forget();
        run(NULL);
        tell();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    tell();
    return 0;
}
