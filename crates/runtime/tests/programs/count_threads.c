/* The main thread and THREADS others, N times in the same counter and in one of
 * their own each. */
#include "count.h"

static uint64_t times;

static void *run(void *number) {
    count_many(7, times);
    count_many(100 + (uint64_t)(uintptr_t)number, times);
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc;
    int threads = atoi(argv[1]);
    times = strtoull(argv[2], NULL, 10);
    pthread_t ids[200];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, (size_t)sysconf(_SC_THREAD_STACK_MIN));
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], &small, run, (void *)(uintptr_t)(i + 1)))
            return 3;
    run(NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    tell();
    return 0;
}
