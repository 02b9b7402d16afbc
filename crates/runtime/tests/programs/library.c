/* A library that logs. */
#include "event.h"

#ifndef NUMBER
#define NUMBER 9
#endif
static struct unit library = {{NUMBER}, 1000, 0};

void run_library(uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        __backtrail_log(&library, i % 1000);
}
