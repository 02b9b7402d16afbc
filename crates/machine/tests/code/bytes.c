// A jump through a table whose index is a byte of another table, as in glibc's printf.
// The comparison before it is about the bytes, which are more than the jumps.
#include <stdio.h>

static unsigned long sum;

__attribute__((noinline)) static unsigned classify(const char *text) {
  static const unsigned char kinds[] = {1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 3, 0, 0,
                                        2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0};
  // What follows the four jumps leads into instructions.
  static const int jumps[] = {
      &&other - &&other,     &&space - &&other,     &&digit - &&other,     &&sign - &&other,
      &&space - &&other + 1, &&digit - &&other + 1, &&sign - &&other + 1,  &&other - &&other + 1,
      &&space - &&other + 2, &&digit - &&other + 2, &&sign - &&other + 2,  &&other - &&other + 2,
  };
  unsigned count = 0;
next:
  if (*text == 0)
    return count;
  unsigned letter = (unsigned char)*text++ - ' ';
  if (letter >= sizeof kinds)
    goto other;
  goto *(&&other + jumps[kinds[letter]]);
other:
  sum = sum * 31 + letter;
  goto next;
space:
  count += 1;
  goto next;
digit:
  count += 100;
  sum ^= letter;
  goto next;
sign:
  count += 10000;
  sum += 7;
  goto next;
}

// Here the byte itself is compared, and the first bytes are small.
__attribute__((noipa)) static unsigned weigh(const char *text) {
  static const unsigned char weights[256] = {[' '] = 1, ['+'] = 2, ['-'] = 7, ['x'] = 3,
                                             ['3'] = 4, ['4'] = 5, ['1'] = 6, [','] = 200};
  unsigned weight = 0;
  for (; *text; text++) {
    switch (weights[(unsigned char)*text]) {
    case 0: weight ^= 1; break;
    case 1: weight += sum; break;
    case 2: weight *= 3; break;
    case 3: weight -= 9; sum++; break;
    case 4: weight = weight << 1 | 1; break;
    case 5: sum *= 5; break;
    case 6: weight /= 2; break;
    case 7: weight += 77; sum ^= weight; break;
    default: sum = ~sum;
    }
  }
  return weight;
}

int main(int argc, char **argv) {
  unsigned count = 0;
  for (int i = 1; i < argc; i++)
    count += classify(argv[i]);
  count += classify("3 + 4 - x, 17 % 5");
  count += weigh("3 + 4 - x, 17 % 5");
  printf("%u %lu\n", count, sum);
  return 0;
}
