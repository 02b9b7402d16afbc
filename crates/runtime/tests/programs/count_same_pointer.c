/* A thread that gets the pointer of a dead one and, by way of a thread that does
 * not count, its base: it passes the check without asking. Meanwhile others ask
 * for copies of dead threads. Prints how often the pointer was the same. */
#include "count.h"

static pthread_t third;
static uintptr_t first_pointer, third_pointer;
static pthread_barrier_t first_is_dead, third_runs;
static uint64_t times = 20000;

static uintptr_t own_pointer(void) {
    uintptr_t pointer;
    __asm__("movq %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

static void *count_third(void *nothing) {
    third_pointer = own_pointer();
    pthread_barrier_wait(&third_runs);
    count_many(3, times);
    return nothing;
}

static void *start_third(void *nothing) {
    pthread_barrier_wait(&first_is_dead);
    pthread_create(&third, NULL, count_third, NULL);
    return nothing;
}

static void *count_first(void *second) {
    first_pointer = own_pointer();
    count_many(1, 10);
    pthread_create(second, NULL, start_third, NULL);
    return NULL;
}

static void *count_fourth(void *nothing) {
    count_many(3, times);
    return nothing;
}

int main(void) {
    int same = 0;
    pthread_barrier_init(&first_is_dead, NULL, 2);
    pthread_barrier_init(&third_runs, NULL, 2);
    count_many(2, 10);
    for (int i = 0; i < 50; i++) {
        pthread_t first, second, fourth;
        pthread_create(&first, NULL, count_first, &second);
        pthread_join(first, NULL);
        pthread_barrier_wait(&first_is_dead);
        pthread_join(second, NULL);
        pthread_barrier_wait(&third_runs);
        pthread_create(&fourth, NULL, count_fourth, NULL);
        pthread_join(third, NULL);
        pthread_join(fourth, NULL);
        same += first_pointer == third_pointer;
    }
    printf("%d\n", same);
    tell();
    return 0;
}
