/* What a unit with counters does, by hand.
 *
 * The module's area has an owner's page and COUNTERS counters, all defined here
 * as whoever links a variant does. ENTER() is the check at the start of a
 * function, COUNT(n) one more for counter n.
 *
 * told(n, m) adds to what is true about this process; tell() writes a line
 * "COUNTER COUNT" for each counter to $TRUTH/PID. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef LAYOUT
#define LAYOUT 1
#endif
/* Pages of counters, and so 512 times as many counters. */
#ifndef PAGES
#define PAGES 4
#endif
#define COUNTERS (PAGES * 512)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

__asm__(".pushsection .bss.backtrail_area,\"aw\",@nobits\n"
        ".p2align 12\n"
        ".hidden __backtrail_owner\n"
        ".globl __backtrail_owner\n"
        "__backtrail_owner: .zero 4096\n"
        ".hidden __backtrail_counts_0\n"
        ".globl __backtrail_counts_0\n"
        "__backtrail_counts_0: .zero 4096 * " TEXT(PAGES) "\n"
        ".popsection\n"
        ".pushsection .data.backtrail_module,\"aw\",@progbits\n"
        ".p2align 3\n"
        ".hidden __backtrail_module\n"
        ".globl __backtrail_module\n"
        "__backtrail_module: .long 5, 0\n"
        ".byte " TEXT(LAYOUT) "\n"
        ".zero 15\n"
        ".quad __backtrail_owner - . + 24\n"
        ".quad 4096 * (" TEXT(PAGES) " + 1)\n"
        ".quad 0\n"
        ".popsection\n"
#ifndef LIBRARY
        ".pushsection .preinit_array,\"aw\",@preinit_array\n"
        ".p2align 3\n"
        ".quad __backtrail_load\n"
        ".popsection\n"
#endif
);

#define ENTER()                                                                                    \
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"                                                 \
                     "movq %%fs:0, %%rax\n\t"                                                      \
                     "cmpq %%rax, %%gs:__backtrail_owner(%%rip)\n\t"                               \
                     "je 1f\n\t"                                                                   \
                     "leaq __backtrail_module(%%rip), %%rdi\n\t"                                   \
                     "call *__backtrail_enter@GOTPCREL(%%rip)\n"                                   \
                     "1:\tleaq 128(%%rsp), %%rsp" ::                                               \
                         : "rax", "rdi", "cc", "memory")

static inline void COUNT(uint64_t counter) {
    void *address;
    __asm__ volatile("leaq __backtrail_counts_0(%%rip), %0\n\t"
                     "incq %%gs:(%0,%1,8)"
                     : "=&r"(address)
                     : "r"(counter)
                     : "cc", "memory");
}

static uint64_t truth[COUNTERS];

static inline void told(uint64_t counter, uint64_t count) {
    __atomic_fetch_add(&truth[counter], count, __ATOMIC_RELAXED);
}

/* What came before a fork is the parent's. */
static inline void forget(void) { memset(truth, 0, sizeof truth); }

static inline void tell(void) {
    char path[4096], line[64];
    snprintf(path, sizeof path, "%s/%d", getenv("TRUTH"), getpid());
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    for (int i = 0; i < COUNTERS; i++) {
        if (truth[i] == 0)
            continue;
        int length = snprintf(line, sizeof line, "%d %llu\n", i, (unsigned long long)truth[i]);
        if (write(file, line, (size_t)length) != length) {
            perror(path);
            _exit(99);
        }
    }
    close(file);
}

__attribute__((noinline)) static void count_many(uint64_t counter, uint64_t count) {
    ENTER();
    for (uint64_t i = 0; i < count; i++)
        COUNT(counter);
    told(counter, count);
}
