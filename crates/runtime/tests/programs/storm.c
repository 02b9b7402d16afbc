/* A timer's handler logs while the program does: in ROUNDS children, so that
 * windows are small and often replaced within the handler. The blocks count
 * up, in the program (unit 1) and in the handler (unit 2) apart. */
#include "event.h"

UNIT(unit, 1, 1 << 24);
UNIT(handler_unit, 2, 1 << 24);
static volatile uint32_t handled;

static void handle(int signal) {
    (void)signal;
    static const uint32_t bursts[] = {1, 700, 0, 3000, 40, 1500, 9000, 2};
    static uint32_t turn;
    for (uint32_t i = bursts[turn++ % 8]; i; i--)
        __backtrail_log(&handler_unit, handled++);
}

static void round_of(uint32_t count) {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 60}, {0, 60}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (uint32_t i = 0; i < count; i++)
        __backtrail_log(&unit, i);
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    keep(count);
    keep(handled);
    tell();
    _exit(0);
}

int main(int argc, char **argv) {
    (void)argc;
    int rounds = atoi(argv[1]), failed = 0;
    for (int i = 0; i < rounds; i++) {
        pid_t child = fork();
        if (child == 0)
            round_of(1500000);
        int status;
        waitpid(child, &status, 0);
        failed |= status != 0;
    }
    return failed;
}
