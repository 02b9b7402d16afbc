/* A storm of signals whose handler counts: in the main thread, and in one that
 * does nothing else, so that a handler is the first to count there. */
#include "count.h"
#include <sys/time.h>

static volatile int done, handled;

static void handle(int signal) {
    (void)signal;
    count_many(20, 3);
    handled++;
}

static void *idle(void *nothing) {
    while (!done)
        usleep(100);
    return nothing;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    pthread_t id;
    pthread_create(&id, NULL, idle, NULL);
    struct itimerval often = {{0, 200}, {0, 200}};
    setitimer(ITIMER_PROF, &often, NULL);
    for (int i = 0; i < 2000 || handled < 1000; i++) {
        pthread_kill(id, SIGUSR1);
        count_many(20, 1000);
    }
    done = 1;
    pthread_join(id, NULL);
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &never, NULL);
    tell();
    return 0;
}
