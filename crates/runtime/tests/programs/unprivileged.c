/* Gives its rights up before the first event, and lets nobody do anything with
 * what it creates. */
#include "event.h"

UNIT(unit, 1, 1000);

int main(void) {
    mkdir("told", 0777);
    chmod("told", 0777);
    setenv("TRUTH", "told", 1);
    if (getuid() == 0 && (setgid(65534) || setuid(65534)))
        return 2;
    umask(0777);
    for (uint32_t i = 0; i < 20000; i++)
        LOG(unit, i % 1000);
    umask(0);
    tell();
    return 0;
}
