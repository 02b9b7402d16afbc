/* Loads a library in the middle, twice, and logs in turn with it. */
#include "event.h"
#include <dlfcn.h>

#ifdef QUIET
#undef LOG
#define LOG(unit, block) (void)(block)
#else
UNIT(unit, 1, 1000);
#endif

int main(int argc, char **argv) {
    (void)argc;
    for (int round = 0; round < 2; round++) {
        LOG(unit, (uint32_t)round);
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            puts(dlerror());
            return 1;
        }
        void (*run_library)(uint32_t, uint32_t);
        *(void **)&run_library = dlsym(library, "run_library");
        for (uint32_t i = 0; i < 3000; i++) {
            LOG(unit, i % 1000);
            run_library(i, i + 1);
            keep(9u << 24 | i % 1000);
        }
        dlclose(library);
    }
    tell();
    return 0;
}
