// A library that calls its program, and is called by it and by others.
#include <stdlib.h>

typedef unsigned (*Step)(unsigned);

// Of the program, by name.
unsigned host_step(unsigned value);

static unsigned calls;

__attribute__((constructor)) static void begin(void) { calls = 1; }
__attribute__((destructor)) static void end(void) {
  if (calls > 3)
    calls = 0;
}

// By name, from here too: whoever comes first is called.
unsigned shared_mix(unsigned value) { return value % 3 == 0 ? value / 3 : value * 2 + 1; }

// The program has one of the same name.
unsigned shared_replaced(unsigned value) { return value + 1000; }

static unsigned fast(unsigned value) { return value & 1 ? value + 4 : value; }
static unsigned slow(unsigned value) { return value & 2 ? value + 8 : value; }
static Step choose(void) { return calls > 100 ? slow : fast; }
unsigned shared_chosen(unsigned value) __attribute__((ifunc("choose")));

static int compare(const void *one, const void *other) {
  unsigned left = *(const unsigned *)one, right = *(const unsigned *)other;
  calls++;
  return left < right ? -1 : left > right;
}

// Through a library that is not traced, back to this one.
unsigned shared_sort(unsigned *values, unsigned count) {
  qsort(values, count, sizeof *values, compare);
  return values[count / 2];
}

static unsigned halve(unsigned value) { return value / 2; }
static unsigned third(unsigned value) { return value > 9 ? value / 3 : value; }

// A pointer for the program.
Step shared_step(unsigned which) { return which & 1 ? halve : third; }

// Pointers and names of the program.
unsigned shared_fold(Step step, unsigned count) {
  unsigned sum = 0;
  for (unsigned i = 0; i < count; i++) {
    sum += step(i);
    if (i % 2)
      sum ^= host_step(sum & 7);
    sum = shared_mix(sum) + shared_replaced(i) + shared_chosen(sum);
  }
  return sum;
}

// Down into the program and up again.
unsigned shared_down(unsigned depth, Step step) {
  if (depth == 0)
    return step(1);
  return shared_down(depth - 1, step) + (depth % 2 ? host_step(depth) : 1);
}

// In tail position.
unsigned shared_last(unsigned value) { return shared_mix(value + 1); }
