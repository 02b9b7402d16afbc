/* Control flow of many shapes: tables of jumps, computed gotos, calls through
   pointers, callbacks, calls in tail position, frames that are left. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf place;
static volatile unsigned sink;

__attribute__((noinline)) static void give_up(int code) {
  if (code > 100) {
    fprintf(stderr, "too much\n");
    exit(3);
  }
  longjmp(place, code);
}

__attribute__((noinline)) unsigned dense(unsigned kind, unsigned value) {
  switch (kind) {
  case 0: return value + 1;
  case 1: sink += value; return value * 3;
  case 2: value ^= 0x55; /* fall through */
  case 3: return value - 7;
  case 4: sink ^= value; return value << 2;
  case 5: return value >> 1;
  case 6: sink -= 9; return ~value;
  case 9: return value | 64;
  default: return 0;
  }
}

__attribute__((noinline)) unsigned interpret(const unsigned char *program) {
  static void *const labels[] = {&&add, &&twice, &&less, &&loop, &&stop};
  unsigned value = 1, count = 0;
#define NEXT goto *labels[*program++]
  NEXT;
add:
  value += 5;
  NEXT;
twice:
  value *= 2;
  NEXT;
less:
  value -= 3;
  NEXT;
loop:
  if (++count < 6)
    program -= 4;
  NEXT;
stop:
  return value;
}

static int by_value(const void *one, const void *other) {
  return *(const int *)one - *(const int *)other;
}

__attribute__((noinline)) static unsigned even(unsigned n);
__attribute__((noinline)) static unsigned odd(unsigned n) { return n == 0 ? 0 : even(n - 1); }
__attribute__((noinline)) static unsigned even(unsigned n) { return n == 0 ? 1 : odd(n - 1); }

typedef unsigned (*operation)(unsigned);
static unsigned one_more(unsigned n) { return n + 1; }
static unsigned halve(unsigned n) { return n / 2; }
static operation operations[] = {one_more, halve, odd};

__attribute__((noinline)) static unsigned apply(unsigned which, unsigned n) {
  return operations[which % 3](n);
}

__attribute__((noinline)) static unsigned risky(unsigned n) {
  if (n % 5 == 3)
    give_up((int)n);
  return n;
}

__attribute__((constructor)) static void before(void) { sink = 7; }
static void behind(void) { sink += 1; }

int main(int argc, char **argv) {
  unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 20, sum = 0;
  atexit(behind);
  for (unsigned i = 0; i < rounds; i++)
    sum += dense(i % 11, i);
  sum += interpret((const unsigned char *)"\0\1\2\3\0\1\4");
  int numbers[24];
  for (int i = 0; i < 24; i++)
    numbers[i] = i * 7919 % 101;
  qsort(numbers, 24, sizeof *numbers, by_value);
  sum += (unsigned)numbers[3] + even(9);
  for (unsigned i = 0; i < rounds; i++)
    sum += apply(i, i);
  volatile unsigned i = 0;
  int landed = setjmp(place);
  if (landed)
    sum += (unsigned)landed;
  while (i < 12) {
    i++;
    sum += risky(i);
  }
  printf("%u %u %s\n", sum, sink, rounds > 30 ? "many" : "few");
  if (rounds == 13)
    give_up(101);
  return (int)(sum % 5);
}
