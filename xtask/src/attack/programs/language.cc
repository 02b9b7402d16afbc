// What C++ adds: exceptions through frames of C, threads, the end without a handler.
#include "work.h"
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

static int compared;

static int compare(const void *one, const void *other) {
    if (++compared == 40)
        throw std::runtime_error("compared");
    return step(*(const int *)one) - step(*(const int *)other);
}

static void terminated() {
    if (write(1, "terminated\n", 11) < 0)
        _exit(96);
    _exit(5);
}

struct Counter {
    int *count;
    ~Counter() { *count += step(3); }
};

static int unwinds(int depth, int *count) {
    Counter counter{count};
    if (!depth)
        throw depth;
    return unwinds(depth - 1, count) + 1;
}

int main(int argc, char **argv) {
    const char *kind = KIND;
    if (IS("thrown-through-qsort")) {
        int numbers[64];
        for (int i = 0; i < 64; i++)
            numbers[i] = i * 37 % 64;
        try {
            qsort(numbers, 64, sizeof *numbers, compare);
        } catch (const std::exception &error) {
            printf("caught %s %d\n", error.what(), compared);
        }
        return 3;
    }
    if (IS("unwound")) {
        int count = 0;
        for (int i = 0; i < 50; i++) {
            try {
                unwinds(i, &count);
            } catch (int) {
                count++;
            }
        }
        printf("unwound %d\n", count);
        return 4;
    }
    if (IS("terminate")) {
        std::set_terminate(terminated);
        work(10);
        throw 1;
    }
    if (IS("std-thread")) {
        std::vector<std::thread> threads;
        std::vector<int> sums(8);
        for (int i = 0; i < 8; i++)
            threads.emplace_back([&sums, i] { sums[i] = work(100 + i); });
        int sum = 0;
        for (int i = 0; i < 8; i++) {
            threads[i].join();
            sum += sums[i];
        }
        printf("sum %d\n", sum);
        return 6;
    }
    return 99;
}
