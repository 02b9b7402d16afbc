/* Counts before the runtime can know, in a constructor, in main and after it.
 * What counts first has no check: a resolver of an ifunc runs before thread
 * storage is there. */
#include "count.h"

static int chosen(void) { return 5; }
__attribute__((used)) static int (*resolve(void))(void) {
    for (int i = 0; i < 3; i++)
        COUNT(1000);
    return chosen;
}
int resolved(void) __attribute__((ifunc("resolve")));

__attribute__((constructor(101))) static void early(void) {
    for (int i = 0; i < 4; i++)
        COUNT(1);
    count_many(2, 50);
}

__attribute__((destructor)) static void late(void) {
    count_many(3, 70);
    tell();
}

int main(void) {
    if (resolved() != 5)
        return 1;
    told(1000, 3);
    told(1, 4);
    count_many(4, 60);
    return 0;
}
