// A program with a library of its own (shared.c): calls both ways, by name, through
// pointers, through a library that nobody traces, and a jump over its frames.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned (*Step)(unsigned);

unsigned shared_mix(unsigned value);
unsigned shared_chosen(unsigned value);
unsigned shared_sort(unsigned *values, unsigned count);
Step shared_step(unsigned which);
unsigned shared_fold(Step step, unsigned count);
unsigned shared_down(unsigned depth, Step step);
unsigned shared_last(unsigned value);

static jmp_buf back;

unsigned host_step(unsigned value) {
  if (value > 4)
    return shared_mix(value);
  return value + 2;
}

unsigned shared_replaced(unsigned value) { return value & 4 ? 5 : value; }

static unsigned own_step(unsigned value) { return value % 5 ? value + 1 : shared_last(value); }
static unsigned leaves(unsigned value) {
  if (value == 1)
    longjmp(back, 7);
  return value;
}

static void at_end(void) { printf("%u\n", shared_mix(9)); }

int main(int count, char **arguments) {
  unsigned values[] = {5, 3, 9, 1, 7, 2, 8};
  unsigned sum = count > 1 ? (unsigned)atoi(arguments[1]) : 4;
  atexit(at_end);
  for (unsigned i = 0; i < 6; i++) {
    sum += shared_fold(i % 2 ? own_step : shared_step(i), i + 2);
    sum += shared_step(i)(sum & 31);
    sum = shared_mix(sum & 1023);
    sum += shared_down(i, own_step);
    if (i % 3 == 1)
      sum += shared_chosen(sum);
  }
  sum += shared_sort(values, 7);
  if (setjmp(back) == 0)
    sum += shared_down(3, leaves);
  else
    sum += shared_last(sum & 15);
  printf("%u\n", sum);
  return 0;
}
