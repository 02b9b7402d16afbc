/* Tables of jumps whose size no comparison before the jump tells: compilers leave it
   out where they know that there is no other case. One table is reached through
   another, so that where it begins is found late. */
#include <stdio.h>

static volatile unsigned sink;

#define NONE __builtin_unreachable()

__attribute__((noinline)) unsigned nested(const unsigned char *kind, unsigned value) {
  switch (kind[0]) {
  case 0: sink += value; return value * 3;
  case 1: sink ^= value; return value + 11;
  case 2: value ^= 0x55; break;
  case 3: sink -= 9; return ~value;
  case 4:
    sink += 2;
    switch (kind[1]) {
    case 0: sink ^= 17; return value << 2;
    case 1: value += sink; break;
    case 2: sink *= 5; return value - 7;
    case 3: sink += value; value |= 64; break;
    case 4:
      sink -= 1;
      switch (kind[2]) {
      case 0: sink = 3; value += 5; break;
      case 1: sink ^= 8; return value / 3;
      case 2: sink += 21; return value - sink;
      case 3: sink -= value; value *= 7; break;
      default: NONE;
      }
      break;
    default: NONE;
    }
    break;
  default: NONE;
  }
  return value + sink;
}

/* Fewer cases than bits could tell apart. */
__attribute__((noinline)) unsigned masked(unsigned bits, unsigned value) {
  switch (bits & 7) {
  case 0: sink += 1; return value;
  case 1: sink ^= 2; return value * 5;
  case 2: sink -= 3; return value + 13;
  case 3: sink *= 4; return value ^ 21;
  case 4: sink += 5; return value - 34;
  default: NONE;
  }
}

__attribute__((noinline)) unsigned shifted(unsigned char bits, unsigned value) {
  switch (bits >> 6) {
  case 0: sink += 6; return value + 1;
  case 1: sink ^= 7; return value - 2;
  case 2: sink -= 8; return value * 9;
  default: sink *= 9; return value | 8;
  }
}

/* A comparison of something else is nearby. */
__attribute__((noinline)) unsigned other(unsigned size, unsigned char kind, unsigned value) {
  if (size > 2)
    return value;
  sink += size;
  switch (kind) {
  case 0: sink += 3; return value * 11;
  case 1: sink ^= 4; return value + 12;
  case 2: sink -= 5; return value ^ 13;
  case 3: sink *= 6; return value - 14;
  case 4: sink += 7; return value | 15;
  case 5: sink ^= 8; return ~value;
  default: NONE;
  }
}

/* What is compared is kept in memory, or is a copy. */
__attribute__((noinline)) unsigned kept(const unsigned *kind, unsigned value) {
  if (*kind - 3 > 6)
    return 0;
  sink += 4;
  switch (*kind - 3) {
  case 0: sink ^= 1; return value + 1;
  case 1: sink -= 2; return value * 2;
  case 2: sink += 3; return value ^ 3;
  case 3: sink *= 4; return value - 4;
  case 4: sink ^= 5; return value | 5;
  case 5: sink -= 6; return value / 6;
  case 6: sink += 7; return ~value;
  }
  return value;
}

int main(void) {
  unsigned all = 1;
  for (unsigned one = 0; one < 5; one++)
    for (unsigned two = 0; two < 5; two++)
      for (unsigned three = 0; three < 4; three++) {
        unsigned char kind[] = {one, two, three};
        all = all * 31 + nested(kind, all);
      }
  for (unsigned round = 0; round < 5; round++)
    all += masked(round + 8, all) + shifted((unsigned char)(round << 6), all);
  for (unsigned round = 0; round < 24; round++) {
    unsigned kind = round % 12;
    all ^= other(round % 4, (unsigned char)(round % 6), all) + kept(&kind, all);
  }
  printf("%u %u\n", all, sink);
  return 0;
}
