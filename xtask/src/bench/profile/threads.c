// The same work in one thread or in two: threads 1|2 ROUNDS
// Both halves run the same hot function with different numbers, so the counts
// of both ways of running it are the same.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct half {
    uint64_t seed, rounds, sum;
};

// Keeps a branch from becoming a conditional move.
#define HERE __asm__ volatile("")

// Branches and a loop, which the processor learns to predict: what is then
// left is what the counters cost.
__attribute__((noinline)) uint64_t hot(uint64_t x) {
    uint64_t sum = x;
    if (x & 1) {
        HERE;
        sum = sum * 31 + (sum >> 7);
    }
    switch (x & 7) {
    case 0: sum ^= sum << 3; HERE; break;
    case 3: sum += 0x9e3779b97f4a7c15; HERE; break;
    case 6: sum = ~sum; HERE; break;
    default: sum += 3;
    }
    for (uint64_t rest = x & 31; rest; rest >>= 1) {
        if (rest & 1) {
            HERE;
            sum = (sum << 5) ^ (sum >> 3);
        } else {
            HERE;
            sum += rest;
        }
    }
    return sum;
}

static void *run(void *argument) {
    struct half *half = argument;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < half->rounds; i++)
        sum += hot(half->seed + i % 24);
    half->sum = sum;
    return NULL;
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    uint64_t rounds = strtoull(words[2], NULL, 10);
    struct half halves[2] = {{1000, rounds, 0}, {2011, rounds, 0}};
    if (words[1][0] == '2') {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, &halves[0]))
            return 1;
        run(&halves[1]);
        pthread_join(thread, NULL);
    } else {
        run(&halves[0]);
        run(&halves[1]);
    }
    printf("%016llx\n", (unsigned long long)(halves[0].sum ^ halves[1].sum));
    return 0;
}
