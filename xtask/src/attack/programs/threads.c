// Threads, how they begin and how they end.
#define _GNU_SOURCE
#include "work.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

static atomic_int ended, destroyed;
static sem_t ready;

static void *works(void *number) {
    long sum = work(100 + (int)(long)number % 9);
    atomic_fetch_add(&ended, 1);
    return (void *)sum;
}

static void *waits(void *unused) {
    sem_post(&ready);
    for (;;)
        pause();
    return unused;
}

static void *counts(void *unused) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    sem_post(&ready);
    for (;;)
        work(100);
    return unused;
}

static void destroy(void *value) {
    work((int)(long)value);
    atomic_fetch_add(&destroyed, 1);
}

static pthread_key_t key;

static void *keeps(void *number) {
    pthread_setspecific(key, (void *)((long)number + 1));
    return 0;
}

static int many(int count, int at_once) {
    pthread_t threads[64];
    long sum = 0;
    for (int from = 0; from < count; from += at_once) {
        for (int i = 0; i < at_once; i++)
            if (pthread_create(&threads[i], 0, works, (void *)(long)(from + i)))
                return -1;
        for (int i = 0; i < at_once; i++) {
            void *result;
            pthread_join(threads[i], &result);
            sum += (long)result;
        }
    }
    return (int)sum;
}

int main(int argc, char **argv) {
    const char *kind = KIND;
    sem_init(&ready, 0, 0);
    if (IS("threads-500")) {
        printf("sum %d\n", many(500, 50));
        return 3;
    }
    if (IS("threads-64")) {
        printf("sum %d\n", many(64, 64));
        return 4;
    }
    if (IS("detached")) {
        for (long i = 0; i < 20; i++) {
            pthread_t thread;
            pthread_create(&thread, 0, works, (void *)i);
            pthread_detach(thread);
        }
        while (atomic_load(&ended) < 20)
            usleep(1000);
        puts("detached");
        return 5;
    }
    if (IS("cancel") || IS("cancel-anywhere")) {
        int anywhere = IS("cancel-anywhere");
        for (int i = 0; i < 5; i++) {
            pthread_t thread;
            void *result;
            pthread_create(&thread, 0, anywhere ? counts : waits, 0);
            sem_wait(&ready);
            usleep(2000);
            pthread_cancel(thread);
            pthread_join(thread, &result);
            puts(result == PTHREAD_CANCELED ? "cancelled" : "ended");
        }
        return 6;
    }
    if (IS("keys")) {
        pthread_t threads[10];
        pthread_key_create(&key, destroy);
        for (long i = 0; i < 10; i++)
            pthread_create(&threads[i], 0, keeps, (void *)i);
        for (int i = 0; i < 10; i++)
            pthread_join(threads[i], 0);
        printf("destroyed %d\n", atomic_load(&destroyed));
        return 7;
    }
    if (IS("exit-with-threads")) {
        for (int i = 0; i < 4; i++) {
            pthread_t thread;
            pthread_create(&thread, 0, waits, 0);
            sem_wait(&ready);
        }
        printf("leaving %d\n", work(60));
        exit(8);
    }
    return 99;
}
