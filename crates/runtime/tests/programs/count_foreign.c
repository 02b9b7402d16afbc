/* A thread that uses %gs for itself, at a base from which something readable is
 * where the owner's word would be, is left alone. */
#include "count.h"
#include <asm/prctl.h>

extern char area[] __asm__("__backtrail_owner") __attribute__((visibility("hidden")));
static char *theirs;

static void *run(void *nothing) {
    uintptr_t base = (uintptr_t)theirs - (uintptr_t)area;
    if (syscall(SYS_arch_prctl, ARCH_SET_GS, base))
        _exit(2);
    for (int i = 0; i < 1000; i++)
        ENTER();
    uintptr_t after = 0;
    if (syscall(SYS_arch_prctl, ARCH_GET_GS, &after) || after != base)
        _exit(3);
    return nothing;
}

int main(void) {
    count_many(1, 10);
    theirs = mmap(NULL, 4096 * (PAGES + 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                  -1, 0);
    pthread_t id;
    pthread_create(&id, NULL, run, NULL);
    pthread_join(id, NULL);
    for (int i = 0; i < 4096 * (PAGES + 1); i++)
        if (theirs[i])
            return 4;
    count_many(1, 10);
    tell();
    return 0;
}
