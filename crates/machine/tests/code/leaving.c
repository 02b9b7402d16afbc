/* Functions that jump within and, at their end, to a function that a pointer names. */

typedef int function(int, int);

static volatile int sink;

__attribute__((noinline)) static int first(int code, int value) { return sink += code + value; }
__attribute__((noinline)) static int second(int code, int value) { return sink ^= code * value; }

function *volatile hook = first;
struct hooks { function *one, *other; } hooks = {second, first};

/* With a frame, which is gone before the last jump. */
__attribute__((noinline)) int framed(int code, int value) {
  int kept = first(value, 1) + second(value, 2);
  switch (code) {
  case 0: kept += first(kept, 3); break;
  case 1: kept -= 7; break;
  case 2: kept *= second(kept, 5); break;
  case 3: kept ^= first(kept, kept); break;
  case 4: kept |= 64; break;
  }
  return hooks.one(code, kept);
}

/* Without one. */
__attribute__((noinline)) int frameless(int code, int value) {
  switch (code) {
  case 0: sink += 3; break;
  case 1: sink -= value; break;
  case 2: sink *= 5; return hooks.other(code, value);
  case 3: sink ^= value; break;
  case 4: sink |= 64; break;
  }
  return hook(code, value);
}

/* An interpreter whose labels are kept where nobody finds them. */
__attribute__((noinline)) int threaded(const unsigned char *code, int value) {
  static void *const labels[] = {&&add, &&twice, &&call, &&leave};
  void *program[16];
  void **next = program;
  for (int place = 0; place < 16; place++)
    program[place] = labels[code[place]];
  goto **next++;
add:
  value += 3;
  goto **next++;
twice:
  value *= 2;
  goto **next++;
call:
  value = hook(1, value);
  goto **next++;
leave:
  return hook(2, value);
}

/* All labels but the first are reached by the jump that goes to them. */
__attribute__((noinline)) int states(int value) {
  void *next = &&one;
  int sum = 0;
again:
  if (value-- <= 0)
    return sum;
  goto *next;
one:
  sum += first(value, 1);
  next = &&two;
  goto again;
two:
  sum ^= value * 3;
  next = value & 1 ? &&three : &&one;
  goto again;
three:
  sum -= 7;
  next = &&one;
  goto again;
}

int main(void) {
  static const unsigned char code[16] = {0, 1, 2, 0, 2, 1, 3};
  unsigned result = 0;
  for (int round = 0; round < 12; round++) {
    hook = round & 1 ? first : second;
    result = result * 7 + (unsigned)framed(round % 6, round);
    result = result * 7 + (unsigned)frameless(round % 6, round);
    result = result * 7 + (unsigned)threaded(code, round);
    result = result * 7 + (unsigned)states(round);
  }
  return (int)(result % 97);
}
