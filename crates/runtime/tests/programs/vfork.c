/* A vfork child logs into its parent's record and then runs this program. */
#include "event.h"

UNIT(unit, 1, 1000);

int main(int argc, char **argv) {
    if (argc > 1) {
        LOG(unit, 900);
        tell();
        return 7;
    }
    if (!getenv("LATE"))
        for (uint32_t i = 0; i < 1500; i++)
            LOG(unit, i % 500);
    pid_t child = vfork();
    if (child == 0) {
        /* Far enough to need a new window. */
        for (uint32_t i = 0; i < 1500; i++)
            __backtrail_log(&unit, 500 + i % 300);
        execl(argv[0], argv[0], "again", (char *)NULL);
        _exit(1);
    }
    for (uint32_t i = 0; i < 1500; i++)
        keep(1u << 24 | (500 + i % 300));
    int status;
    waitpid(child, &status, 0);
    for (uint32_t i = 0; i < 1500; i++)
        LOG(unit, i % 500);
    tell();
    return WEXITSTATUS(status);
}
