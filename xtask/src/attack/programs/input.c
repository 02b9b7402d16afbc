// What inputs are made of: loops, recursion, a table of jumps, a process, a thread, a crash.
#include "work.h"
#include <pthread.h>
#include <sys/wait.h>

#ifdef WITH_LIBRARY
int from_library(int n);
#else
static int from_library(int n) { return n; }
#endif

__attribute__((noinline)) static int collatz(int n, int depth) {
    if (n <= 1 || depth > 100)
        return depth;
    return collatz(n & 1 ? 3 * n + 1 : n / 2, depth + 1);
}

__attribute__((noinline)) static int parse(const char *text) {
    int sum = 0;
    for (; *text; text++) {
        switch (*text) {
        case 'a': sum += 1; break;
        case 'b': sum += collatz(7, 0); break;
        case 'c': sum -= 3; break;
        case 'd': sum ^= 5; break;
        case 'e': sum += from_library(sum); break;
        case 'x': *(volatile int *)0 = sum; break;
        default: sum *= 2; break;
        }
    }
    return sum;
}

static void *thread(void *text) { return (void *)(long)parse(text); }

int main(int argc, char **argv) {
    const char *text = argc > 1 ? argv[1] : "abcdez";
    int sum = parse(text) + work(20);
    if (argc > 2) {
        pthread_t other;
        pid_t child = fork();
        if (!child)
            _exit(parse("bb") & 31);
        pthread_create(&other, 0, thread, "edcba");
        pthread_join(other, 0);
        waitpid(child, 0, 0);
    }
    printf("%d\n", sum);
    return sum & 1;
}
