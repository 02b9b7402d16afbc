/* Closes everything, changes its folder, clears its environment, or allows
 * itself no more descriptors, after FIRST events. */
#include "event.h"

UNIT(unit, 1, 1 << 20);

int main(int argc, char **argv) {
    (void)argc;
    uint32_t random = 3;
    char *truth = realpath(getenv("TRUTH"), NULL);
    int first = atoi(argv[1]);
    for (int i = 0; i < 30000; i++) {
        if (i == first) {
            if (strchr(argv[2], 'd') && chdir("/"))
                return 2;
            if (strchr(argv[2], 'e'))
                clearenv();
            if (strchr(argv[2], 'c'))
                for (int file = 0; file < 100; file++)
                    close(file);
            if (strchr(argv[2], 'n')) {
                int next = dup(2);
                struct rlimit limit = {(rlim_t)next, (rlim_t)next};
                close(next);
                setrlimit(RLIMIT_NOFILE, &limit);
                if (dup(2) >= 0 || errno != EMFILE)
                    return 3;
            }
        }
        LOG(unit, next_random(&random) & 0xfffff);
    }
    if (strchr(argv[2], 'n')) {
        if (dup(2) >= 0 || errno != EMFILE)
            return 4;
        close(0);
    }
    /* The lowest descriptor is what it would be. */
    int expected = strpbrk(argv[2], "cn") ? 0 : 3;
    if (open("/dev/null", O_RDWR) != expected)
        return 5;
    close(expected);
    setenv("TRUTH", truth, 1);
    tell();
    return 17;
}
