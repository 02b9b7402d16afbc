/* Two threads count for ever; the main thread prints its count now and then. */
#include "count.h"

__attribute__((noinline)) static void forever(uint64_t counter, int file) {
    ENTER();
    for (uint64_t i = 1;; i++) {
        COUNT(counter);
        if (file >= 0 && i % 1000 == 0 && write(file, &i, sizeof i) != sizeof i)
            _exit(1);
    }
}

static void *run(void *nothing) {
    forever(2, -1);
    return nothing;
}

int main(void) {
    pthread_t id;
    pthread_create(&id, NULL, run, NULL);
    forever(1, 1);
}
