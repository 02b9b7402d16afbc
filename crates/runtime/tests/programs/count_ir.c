/* Calls what count_ir.ll defines: its first call in each of five threads, and
 * many more. */
#include "count.h"

double mix(double a, double b, double c, double d, double e, double f, double g, double h,
           uint64_t i, uint64_t j, uint64_t k, uint64_t l, uint64_t m, uint64_t n);

static void *run(void *nothing) {
    for (uint64_t i = 0; i < 1000; i++) {
        double sum = ((((1.5 + 2) * 3 + 4) * 5 + 6) * 7) + 8;
        sum += (double)((((i % 100 + 9) * 10 + 11) * 12) + 13);
        if (mix(1.5, 2, 3, 4, 5, 6, 7, 8, i % 100, 9, 10, 11, 12, 13) != sum)
            _exit(1);
        told(i % 100, 1);
    }
    return nothing;
}

int main(void) {
    for (int i = 0; i < 4; i++) {
        pthread_t id;
        pthread_create(&id, NULL, run, NULL);
        run(NULL);
        pthread_join(id, NULL);
    }
    tell();
    return 0;
}
