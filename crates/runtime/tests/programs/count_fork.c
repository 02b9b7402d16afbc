/* Forks in the middle of a loop that counts without another check; parent and
 * child go on in it. HOW is fork, syscall, clone or _Fork; the main thread forks,
 * or (with a second argument) a thread beside another busy one. */
#include "count.h"

static volatile int done;

static pid_t make_child(const char *how) {
    if (!strcmp(how, "fork"))
        return fork();
    if (!strcmp(how, "syscall"))
        return (pid_t)syscall(SYS_fork);
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void *busy(void *nothing) {
    while (!done)
        count_many(9, 1000);
    return nothing;
}

static int failed;

__attribute__((noinline)) static void loop(const char *how) {
    ENTER();
    pid_t children[4];
    int count = 0, depth = 0;
    for (int i = 0; i < 400000; i++) {
        COUNT(3);
        told(3, 1);
        if (i % 100000 == 50000 && depth < 2) {
            pid_t child = make_child(how);
            if (child < 0)
                _exit(3);
            if (child == 0) {
                forget();
                count = 0;
                depth++;
            } else {
                children[count++] = child;
            }
        }
    }
    for (int i = 0; i < count; i++) {
        int status;
        waitpid(children[i], &status, 0);
        failed |= status != 0;
    }
    if (depth) {
        /* Checked again at the latest here. */
        count_many(4, 10);
        tell();
        _exit(failed);
    }
}

static void *start(void *how) {
    loop(how);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 2) {
        pthread_t ids[2];
        count_many(9, 1);
        pthread_create(&ids[0], NULL, busy, NULL);
        pthread_create(&ids[1], NULL, start, argv[1]);
        pthread_join(ids[1], NULL);
        done = 1;
        pthread_join(ids[0], NULL);
    } else {
        loop(argv[1]);
    }
    count_many(5, 10);
    tell();
    return failed;
}
