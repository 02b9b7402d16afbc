/* 3000 units, each with two descriptors (as if its object were in two modules),
 * registered by four threads at the same time. */
#include "event.h"
#include <pthread.h>

static struct unit units[2][3000];

static void *run(void *number) {
    uint32_t random = (uint32_t)(uintptr_t)number;
    for (int i = 0; i < 60000; i++) {
        uint32_t unit = i < 6000 ? (uint32_t)i / 2 : next_random(&random) % 3000;
        struct unit *chosen = &units[next_random(&random) & 1][unit];
        /* Only the first byte of an id is told: the block says the rest. */
        uint32_t block = unit;
        __backtrail_log(chosen, block);
        keep((uint32_t)chosen->id[0] << 24 | block);
    }
    tell();
    return NULL;
}

int main(void) {
    for (int copy = 0; copy < 2; copy++)
        for (int i = 0; i < 3000; i++) {
            units[copy][i].id[0] = (unsigned char)(i % 251);
            units[copy][i].id[9] = (unsigned char)(i >> 8);
            units[copy][i].id[15] = (unsigned char)i;
            units[copy][i].blocks = 3000;
        }
    pthread_t ids[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&ids[i], NULL, run, (void *)(uintptr_t)i);
    for (int i = 0; i < 4; i++)
        pthread_join(ids[i], NULL);
    return 0;
}
