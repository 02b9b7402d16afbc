/* Many threads whose first call is at the same time, before any other. */
#include "count.h"

static pthread_barrier_t barrier;

static void *run(void *number) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 300; i++)
        count_many(10 + (uint64_t)(uintptr_t)number, 100);
    count_many(1, 10000);
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(void) {
    pthread_t ids[16];
    pthread_barrier_init(&barrier, NULL, 16);
    for (int i = 0; i < 16; i++)
        pthread_create(&ids[i], NULL, run, (void *)(uintptr_t)i);
    for (int i = 0; i < 16; i++)
        pthread_join(ids[i], NULL);
    count_many(2, 5);
    tell();
    return 0;
}
