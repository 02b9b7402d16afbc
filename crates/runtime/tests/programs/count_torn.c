/* A library is loaded while the places of its area in the copies of others are
 * taken: by what a thread maps there first. Those threads, and the one that
 * loads it, go elsewhere. */
#include "count.h"
#include <dlfcn.h>
#include <malloc.h>

static const char *path;
static void (*run_library)(uint64_t, uint64_t);
static uintptr_t place;
static pthread_barrier_t barrier;
static char *taken[4];

static uintptr_t own_base(void) {
    uintptr_t base = 0;
    syscall(SYS_arch_prctl, 0x1004, &base);
    return base;
}

static pthread_t helper;
static pthread_barrier_t helper_barrier;

static void *help(void *nothing) {
    pthread_barrier_wait(&helper_barrier);
    count_many(3, 5);
    return nothing;
}

static void *load(void) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library)
        _exit(3);
    return library;
}

/* Where the library will be is where it is now. */
static void find_place(void) {
    void *library = load();
    place = (uintptr_t) * (void **)dlsym(library, "area_of_library");
    dlclose(library);
    /* A new copy is made, so that nothing is left of the library. */
    pthread_barrier_wait(&helper_barrier);
    pthread_join(helper, NULL);
}

/* Counts without a check before and after the library is there. */
__attribute__((noinline)) static void loop(int number) {
    ENTER();
    for (int i = 0; i < 1000; i++)
        COUNT(1);
    pthread_barrier_wait(&barrier);
    if (!number)
        find_place();
    pthread_barrier_wait(&barrier);
    /* Where the library's area will be, from here; with or without the page the
     * check looks at. */
    if (number) {
        uintptr_t at = place + own_base() + (number == 3 ? 4096 : 0);
        taken[number] = mmap((void *)at, 4 * 4096, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (taken[number] != (char *)at)
            _exit(2);
        memset(taken[number], 7, 4 * 4096);
    }
    pthread_barrier_wait(&barrier);
    if (number == 1) {
        void *library = load();
        if (place != (uintptr_t) * (void **)dlsym(library, "area_of_library"))
            _exit(5);
        *(void **)&run_library = dlsym(library, "run_library");
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 100; i++) {
        for (int j = 0; j < 100; j++)
            COUNT(2);
        run_library(2, 70);
    }
    told(1, 1000);
    told(2, 10000);
    if (number)
        for (int i = 0; i < 4 * 4096; i++)
            if (taken[number][i] != 7)
                _exit(4);
}

static void *run(void *number) {
    loop((int)(uintptr_t)number);
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc;
    path = argv[1];
    mallopt(M_ARENA_MAX, 1);
    /* The main thread has the areas themselves. */
    count_many(3, 1);
    pthread_t ids[3];
    pthread_barrier_init(&barrier, NULL, 4);
    pthread_barrier_init(&helper_barrier, NULL, 2);
    pthread_create(&helper, NULL, help, NULL);
    for (int i = 0; i < 3; i++)
        pthread_create(&ids[i], NULL, run, (void *)(uintptr_t)(i + 1));
    loop(0);
    for (int i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    tell();
    return 0;
}
