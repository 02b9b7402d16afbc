/* Sets a limit after 100 events: on the size of its files (f), on its memory
 * (m); or removes its record (r). Tells what it logged, but not by a file that
 * would meet the same limit: the blocks count up, and the number is printed. */
#include "event.h"

UNIT(unit, 1, 1 << 24);
UNIT(other, 2, 5);
static volatile int received;

static void handle(int signal) {
    (void)signal;
    received++;
}

int main(int argc, char **argv) {
    (void)argc;
    uint32_t i = 0, count = 300000;
    while (i < 100)
        __backtrail_log(&unit, i++);
    if (*argv[1] == 'f') {
        struct rlimit limit = {20000, RLIM_INFINITY};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (*argv[1] == 'm') {
        struct rlimit limit = {1 << 20, RLIM_INFINITY};
        setrlimit(RLIMIT_AS, &limit);
    }
    if (*argv[1] == 'r' && system("rm -rf \"$BACKTRAIL_DIR\""))
        return 2;
    errno = 5;
    while (i < count)
        __backtrail_log(&unit, i++);
    __backtrail_log(&other, 3);
    if (errno != 5)
        return 3;
    if (*argv[1] == 'r') {
        /* A child makes everything anew. */
        pid_t child = fork();
        if (child == 0) {
            for (i = 0; i < 20000; i++)
                __backtrail_log(&unit, i);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    if (*argv[1] == 'f') {
        /* The program's own signal still comes, and only that one. */
        signal(SIGXFSZ, handle);
        int file = open("large", O_RDWR | O_CREAT, 0600);
        if (pwrite(file, "x", 1, 30000) != -1 || errno != EFBIG || received != 1)
            return 4;
        /* And one it keeps for later is kept. */
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGXFSZ);
        sigprocmask(SIG_BLOCK, &set, NULL);
        if (pwrite(file, "x", 1, 30000) != -1)
            return 5;
        pid_t child = fork();
        if (child == 0) {
            for (i = 0; i < 20000; i++)
                __backtrail_log(&unit, i);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        for (i = 0; i < 20000; i++)
            __backtrail_log(&unit, i);
        sigpending(&set);
        if (!sigismember(&set, SIGXFSZ))
            return 6;
    }
    return 23;
}
