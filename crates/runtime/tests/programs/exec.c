/* Replaces itself, without a fork. */
#include "event.h"

UNIT(unit, 1, 10);

int main(int argc, char **argv) {
    if (argc > 1) {
        LOG(unit, 2);
        LOG(unit, 3);
        return 5;
    }
    LOG(unit, 0);
    LOG(unit, 1);
    execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    return 1;
}
