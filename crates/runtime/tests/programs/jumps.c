/* Leaves a timer's handler by longjmp, again and again. Blocks count up and are
 * told once they are logged for certain. */
#include "event.h"

UNIT(unit, 1, 1 << 24);
#define LIMIT (1u << 21)
static sigjmp_buf out;
static volatile uint32_t next, logged_count;
static volatile uint32_t logged[LIMIT];
static volatile int armed;

static void handle(int signal) {
    (void)signal;
    if (armed)
        siglongjmp(out, 1);
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 50}, {0, 50}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (volatile int jumps = 0; jumps < 1000 && next < LIMIT; jumps++) {
        if (sigsetjmp(out, 1) == 0) {
            armed = 1;
            while (next < LIMIT) {
                uint32_t block = next++;
                __backtrail_log(&unit, block);
                logged[logged_count] = block;
                logged_count = logged_count + 1;
            }
        }
        armed = 0;
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    for (uint32_t i = 0; i < logged_count; i++)
        keep(1u << 24 | logged[i]);
    tell();
    return 0;
}
