/* A child of a fork that starts threads of its own before it logs. */
#include "event.h"
#include <pthread.h>

UNIT(unit, 1, 1000);

static void *run(void *number) {
    for (uint32_t i = 0; i < 3000; i++)
        LOG(unit, (i + (uint32_t)(uintptr_t)number) % 1000);
    tell();
    return NULL;
}

int main(void) {
    LOG(unit, 1);
    tell();
    pid_t child = fork();
    if (child == 0) {
        pthread_t ids[4];
        for (int i = 0; i < 4; i++)
            pthread_create(&ids[i], NULL, run, (void *)(uintptr_t)i);
        for (int i = 0; i < 4; i++)
            pthread_join(ids[i], NULL);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return status != 0;
}
