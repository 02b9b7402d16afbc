/* Forks while three threads register units and threads all the time, so that the
 * runtime's lock is often held at a fork. Each child registers units too. */
#include "event.h"
#include <pthread.h>

#define UNITS 4000
static struct unit units[3][UNITS], of_children[50];
static volatile int done;

static void name(struct unit *unit, uint32_t number) {
    memset(unit->id, 0, sizeof unit->id);
    unit->id[0] = (unsigned char)(number % 200);
    memcpy(unit->id + 4, &number, sizeof number);
    unit->blocks = 10;
}

static void *once(void *unit) {
    LOG(*(struct unit *)unit, 3);
    tell();
    free(kept);
    return NULL;
}

static void *busy(void *number) {
    struct unit *own = units[(uintptr_t)number];
    for (int i = 0; i < UNITS && !done; i++) {
        LOG(own[i], (uint32_t)i % 10);
        if (i % 100 == 0) {
            pthread_t id;
            pthread_create(&id, NULL, once, &own[i]);
            pthread_join(id, NULL);
        }
    }
    tell();
    return NULL;
}

int main(void) {
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < UNITS; j++)
            name(&units[i][j], i * UNITS + j);
    for (uint32_t j = 0; j < 50; j++)
        name(&of_children[j], 3 * UNITS + j);
    reserve(1 << 12);
    pthread_t ids[3];
    LOG(of_children[0], 1);
    for (int i = 0; i < 3; i++)
        pthread_create(&ids[i], NULL, busy, (void *)(uintptr_t)i);
    int failed = 0;
    for (int i = 0; i < 100; i++) {
        pid_t child = (pid_t)syscall(SYS_fork);
        if (child == 0) {
            forget();
            alarm(20);
            for (uint32_t j = 0; j < 2000; j++)
                LOG(of_children[j % 50], j % 10);
            tell();
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        failed |= status != 0;
    }
    done = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    tell();
    return failed;
}
