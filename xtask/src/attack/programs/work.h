// What all of them do in between: a function with a few paths.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) static int step(int n) {
    if (n & 1) {
        sink += n;
        return n * 3 + 1;
    }
    return n / 2;
}

__attribute__((noinline)) static int work(int rounds) {
    int n = 27, sum = 0;
    for (int i = 0; i < rounds; i++) {
        n = n == 1 ? 27 + i % 5 : step(n);
        sum += n & 7;
    }
    return sum;
}

#define IS(name) (!strcmp(kind, name))
#define KIND (argc > 1 ? argv[1] : "")
