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

// Branches that no conditional move replaces, and a loop.
__attribute__((noinline)) uint64_t hot(uint64_t x) {
    uint64_t sum = x;
    if (x & 1)
        sum = sum * 31 + (sum >> 7);
    switch (x >> 60) {
    case 0: sum ^= sum << 3; break;
    case 3: sum += 0x9e3779b97f4a7c15; break;
    case 7: sum = ~sum; break;
    case 12: sum -= sum >> 9; break;
    default: sum += 3;
    }
    for (unsigned i = 0; i < ((x >> 20) & 7); i++) {
        if (sum & (1u << i))
            sum = (sum << 5) ^ (sum >> 3);
        else
            sum += i * x;
    }
    return sum;
}

static void *run(void *argument) {
    struct half *half = argument;
    uint64_t x = half->seed, sum = 0;
    for (uint64_t i = 0; i < half->rounds; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        sum += hot(x);
    }
    half->sum = sum;
    return NULL;
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    uint64_t rounds = strtoull(words[2], NULL, 10);
    struct half halves[2] = {{0x1234567, rounds, 0}, {0xabcdef1, rounds, 0}};
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
