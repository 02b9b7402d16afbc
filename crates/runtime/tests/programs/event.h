/* What an instrumented unit does, by hand, and the truth about it.
 *
 * LOG(unit, block) logs a block and keeps it in a list of the thread's own.
 * tell() writes the list to $TRUTH/PID-TID, where the test finds it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

struct unit {
    unsigned char id[16];
    uint32_t blocks;
    uint32_t base;
};

#ifdef __cplusplus
extern "C"
#endif
void __backtrail_log(struct unit *unit, uint32_t block);

#define UNIT(name, first, count) static struct unit name = {{first}, count, 0}
#define LOG(unit, block)                                                                           \
    do {                                                                                           \
        uint32_t block_ = (block);                                                                 \
        __backtrail_log(&(unit), block_);                                                          \
        keep((uint32_t)(unit).id[0] << 24 | block_);                                               \
    } while (0)

static __thread uint32_t *kept;
static __thread size_t kept_count, kept_room;

static inline void keep(uint32_t event) {
    if (kept_count == kept_room) {
        kept_room = kept_room ? kept_room * 2 : 1 << 12;
        kept = (uint32_t *)realloc(kept, kept_room * sizeof *kept);
    }
    kept[kept_count++] = event;
}

/* A child of a raw fork must not allocate: a lock may be held for ever. */
static inline void reserve(size_t count) {
    kept_room = count;
    kept = (uint32_t *)realloc(kept, kept_room * sizeof *kept);
}

/* What came before a fork is the parent's. */
static inline void forget(void) { kept_count = 0; }

static inline void tell(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d-%d", getenv("TRUTH"), getpid(), (int)syscall(SYS_gettid));
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    size_t size = kept_count * sizeof *kept;
    if (file < 0 || write(file, kept, size) != (ssize_t)size) {
        perror(path);
        _exit(99);
    }
    close(file);
}

static inline uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}
