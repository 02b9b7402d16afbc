/* THREADS threads that log COUNT events each at the same time. */
#include "event.h"
#include <pthread.h>

UNIT(one, 1, 1 << 20);
UNIT(two, 2, 1 << 20);
static int count;

static void *run(void *number) {
    uint32_t random = (uint32_t)(uintptr_t)number;
    for (int i = 0; i < count; i++) {
        uint32_t block = next_random(&random) & 0xfffff;
        if (block & 1)
            LOG(one, block);
        else
            LOG(two, block);
    }
    tell();
    free(kept);
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc;
    int threads = atoi(argv[1]);
    count = atoi(argv[2]);
    pthread_t ids[threads];
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, run, (void *)(uintptr_t)(i + 1));
    run((void *)99);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return 0;
}
