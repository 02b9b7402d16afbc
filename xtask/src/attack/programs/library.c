// The library of an input.
__attribute__((noinline)) int from_library(int n) {
    int sum = 0;
    for (int i = 0; i < (n & 15); i++)
        sum += i & 1 ? i : -i;
    return sum;
}
