/* A library that counts, with counters of its own: LAYOUT says which. */
#define LIBRARY
#include "count.h"

extern char area[] __asm__("__backtrail_owner") __attribute__((visibility("hidden")));
void *area_of_library = area;

void run_library(uint64_t counter, uint64_t count) {
    ENTER();
    for (uint64_t i = 0; i < count; i++)
        COUNT(counter);
}

#ifdef CONSTRUCTOR
__attribute__((constructor)) static void early(void) {
    /* Before any check. */
    COUNT(501);
    COUNT(501);
    run_library(500, 3);
}
#endif
