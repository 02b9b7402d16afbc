/* Counts at four places of 24 mebibytes; prints how many pages of them are in
 * memory then, and the same after a fork for the child. */
#include "count.h"

extern unsigned char counters[] __asm__("__backtrail_counts_0")
    __attribute__((visibility("hidden")));
static unsigned char resident[PAGES];

static void run(void) {
    for (uint64_t i = 0; i < 4; i++)
        count_many(i * (COUNTERS / 4) + 7, 10);
    if (mincore(counters, sizeof resident * 4096, resident))
        _exit(1);
    int pages = 0;
    for (int i = 0; i < PAGES; i++)
        pages += resident[i] & 1;
    printf("%d\n", pages);
    fflush(stdout);
}

int main(void) {
    run();
    pid_t child = fork();
    if (child == 0) {
        forget();
        run();
        tell();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    tell();
    return 0;
}
