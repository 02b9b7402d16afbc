/* Logs for ever, by two threads, and says on standard output how far it is. */
#include "event.h"
#include <pthread.h>

UNIT(unit, 1, 100003);

static void *run(void *say) {
    for (uint64_t i = 0;; i++) {
        __backtrail_log(&unit, (uint32_t)(i * 7919 % 100003));
        if (say && i % 997 == 0) {
            uint64_t logged = i + 1;
            if (write(1, &logged, sizeof logged) != sizeof logged)
                abort();
        }
    }
}

int main(void) {
    pthread_t id;
    pthread_create(&id, NULL, run, NULL);
    run("say");
}
