/* One thread, three units, COUNT events in a random order. */
#include "event.h"

UNIT(first, 1, 100);
UNIT(second, 2, 1);
UNIT(third, 3, 70000);

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1000;
    uint32_t random = 1;
    errno = 77;
    for (int i = 0; i < count; i++) {
        switch (next_random(&random) % 3) {
        case 0: LOG(first, next_random(&random) % 100); break;
        case 1: LOG(second, 0); break;
        case 2: LOG(third, next_random(&random) % 70000); break;
        }
    }
    int kept_errno = errno;
    tell();
    return kept_errno == 77 ? 42 : 1;
}
