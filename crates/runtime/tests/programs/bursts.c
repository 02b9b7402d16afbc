/* Logs 100,000 events for each byte that it reads, and then writes a byte. */
#include "event.h"

UNIT(unit, 1, 100003);

int main(void) {
    uint64_t i = 0;
    for (char byte; read(0, &byte, 1) == 1;) {
        for (int j = 0; j < 100000; j++, i++)
            LOG(unit, (uint32_t)(i * 7919 % 100003));
        if (write(1, &byte, 1) != 1)
            abort();
    }
    tell();
    return 0;
}
