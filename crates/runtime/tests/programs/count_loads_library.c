/* Threads that are there before a library is loaded run its code; it is loaded
 * by the main thread or (with a second argument) by another one, and again.
 * After it is gone, something else is where it was, which a child keeps. */
#include "count.h"
#include <dlfcn.h>

static const char *path;
static void *library;
static void (*run_library)(uint64_t, uint64_t);
static pthread_barrier_t barrier;
static int loader;

#define KEPT (16 * 4096)
static char *kept;

/* Maps something where the library was. */
static void replace(uintptr_t was) {
    was = was / 4096 * 4096;
    kept = mmap((void *)was, KEPT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (kept != (char *)was) {
        puts("the library is still there");
        _exit(1);
    }
    memset(kept, 7, KEPT);
}

static void load(void) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        puts(dlerror());
        _exit(1);
    }
    *(void **)&run_library = dlsym(library, "run_library");
}

static void *run(void *number) {
    for (int round = 0; round < 3; round++) {
        count_many(1, 10);
        pthread_barrier_wait(&barrier);
        if ((int)(uintptr_t)number == loader)
            load();
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < 1000; i++)
            run_library(2, 7);
        pthread_barrier_wait(&barrier);
        if ((int)(uintptr_t)number == loader) {
            uintptr_t was = (uintptr_t)run_library;
            dlclose(library);
            if (round == 2)
                replace(was);
            /* So that it is loaded elsewhere the last time. */
            if (round == 1)
                mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv) {
    path = argv[1];
    loader = argc > 2;
    pthread_t ids[3];
    pthread_barrier_init(&barrier, NULL, 4);
    for (int i = 0; i < 3; i++)
        pthread_create(&ids[i], NULL, run, (void *)(uintptr_t)(i + 1));
    run(NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    pid_t child = fork();
    if (child == 0) {
        forget();
        count_many(3, 10);
        for (int i = 0; i < KEPT; i++)
            if (kept[i] != 7)
                _exit(1);
        tell();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (status)
        return 9;
    tell();
    return 0;
}
