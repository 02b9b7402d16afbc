/* What every file of a generated program begins with. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
#define UNUSED __attribute__((unused))
#define HIDDEN __attribute__((visibility("hidden")))
#define PROTECTED __attribute__((visibility("protected")))
#define WEAK __attribute__((weak))
static volatile int sink UNUSED;
/* Keeps a branch a branch. */
#define TICK(k) ((void)(sink = sink + (k)))
/* Where nothing has storage of threads, a variant that logs is the first that has, and the C
   library frees one null pointer more whenever it uses the stack of a thread again. A `free`
   of the program's own sees that. What nothing refers to is dropped by --gc-sections. */
static __thread int own_storage __attribute__((used));
