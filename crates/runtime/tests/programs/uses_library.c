/* Logs in turn with a library it was linked with, by two threads. */
#include "event.h"
#include <pthread.h>

UNIT(unit, 1, 1000);
void run_library(uint32_t from, uint32_t to);

static void *run(void *nothing) {
    for (uint32_t i = 0; i < 3000; i++) {
#ifndef QUIET
        LOG(unit, i % 1000);
#endif
        run_library(i, i + 1);
        keep(9u << 24 | i % 1000);
    }
    tell();
    return nothing;
}

int main(void) {
    pthread_t id;
    pthread_create(&id, NULL, run, NULL);
    run(NULL);
    pthread_join(id, NULL);
    return 0;
}
