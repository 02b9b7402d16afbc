/* Loads two libraries, each in a scope of its own, and logs in turn with them: by
 * threads that come where others were, and in the children of forks, where the one
 * that was last before the fork is not the first behind it. */
#include "event.h"
#include <dlfcn.h>
#include <pthread.h>

#ifndef QUIET
UNIT(unit, 1, 1000);
#endif
static void (*run_library[2])(uint32_t, uint32_t);

static void step(uint32_t library, uint32_t number) {
#ifndef QUIET
    if (number % 3 == 0)
        LOG(unit, number % 1000);
#endif
    run_library[library](number, number + 1);
    keep((9 + library) << 24 | number % 1000);
}

static void *run(void *first) {
    for (uint32_t i = 0; i < 300; i++)
        step((i + (uint32_t)(uintptr_t)first) % 2, i);
    tell();
    free(kept);
    kept = NULL;
    kept_room = kept_count = 0;
    return NULL;
}

static void run_threads(void) {
    for (uintptr_t i = 0; i < 20; i++) {
        pthread_t ids[2];
        pthread_create(&ids[0], NULL, run, (void *)i);
        pthread_create(&ids[1], NULL, run, (void *)(i + 1));
        pthread_join(ids[0], NULL);
        pthread_join(ids[1], NULL);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(argv[1 + i], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            puts(dlerror());
            return 1;
        }
        *(void **)&run_library[i] = dlsym(library, "run_library");
    }
    step(0, 0);
    run_threads();
    int failed = 0;
    for (uint32_t depth = 0; depth < 3; depth++) {
        step(depth % 2, depth);
        pid_t child = fork();
        if (child == 0) {
            forget();
            for (uint32_t i = 0; i < 1000; i++)
                step((i + depth + 1) % 2, i);
            run_threads();
            if (depth < 2)
                continue;
            tell();
            return 0;
        }
        int status;
        waitpid(child, &status, 0);
        failed = status != 0;
        break;
    }
    step(1, 7);
    tell();
    return failed;
}
