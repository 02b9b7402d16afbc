/* Does something that makes recording hard, before (B) or after (A) the first
 * count, then counts on with a second thread, and a child. */
#include "count.h"

static void *run(void *nothing) {
    count_many(2, 1000);
    return nothing;
}

static struct rlimit descriptors;

static void restrict_(const char *what) {
    if (strchr(what, 'd') && chdir("/"))
        _exit(2);
    if (strchr(what, 'e'))
        clearenv();
    if (strchr(what, 'c'))
        for (int file = 0; file < 100; file++)
            close(file);
    if (strchr(what, 'n')) {
        int next = dup(2);
        getrlimit(RLIMIT_NOFILE, &descriptors);
        struct rlimit limit = {(rlim_t)next, descriptors.rlim_max};
        close(next);
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (strchr(what, 'f')) {
        struct rlimit limit = {10000, RLIM_INFINITY};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (strchr(what, 'm')) {
        /* A mebibyte more than there is. */
        char text[64] = "";
        int file = open("/proc/self/statm", O_RDONLY);
        if (read(file, text, sizeof text - 1) <= 0)
            _exit(2);
        close(file);
        struct rlimit limit = {(strtoull(text, NULL, 10) + 256) * 4096, RLIM_INFINITY};
        setrlimit(RLIMIT_AS, &limit);
    }
    if (strchr(what, 'r') && system("rm -rf \"$BACKTRAIL_DIR\""))
        _exit(2);
}

int main(int argc, char **argv) {
    (void)argc;
    char *truth_folder = realpath(getenv("TRUTH"), NULL);
    int after = strchr(argv[1], 'A') != NULL;
    if (after)
        count_many(1, 100);
    restrict_(argv[1]);
    errno = 5;
    count_many(1, 100);
    if (errno != 5)
        return 3;
    pthread_t id;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    if (pthread_create(&id, &small, run, NULL))
        return 4;
    pthread_join(id, NULL);
    pid_t child = fork();
    if (child == 0) {
        forget();
        count_many(3, 1000);
        if (descriptors.rlim_cur)
            setrlimit(RLIMIT_NOFILE, &descriptors);
        setenv("TRUTH", truth_folder, 1);
        if (!strpbrk(argv[1], "fm"))
            tell();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (status)
        return 6;
    if (strpbrk(argv[1], "cn")) {
        /* The lowest descriptor is what it would be. */
        if (descriptors.rlim_cur)
            setrlimit(RLIMIT_NOFILE, &descriptors);
        int expected = strchr(argv[1], 'c') ? 0 : 3;
        if (open("/dev/null", O_RDWR) != expected)
            return 5;
        close(expected);
    }
    setenv("TRUTH", truth_folder, 1);
    if (!strpbrk(argv[1], "fm"))
        tell();
    return 23;
}
