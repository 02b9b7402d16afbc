/* COUNT threads, four at a time. With a second argument each thread has a stack
 * of another size, so that no stack is used again as it is. Prints how many
 * memory mappings there are more than after the first ones. */
#include "count.h"

static void *run(void *number) {
    count_many((uint64_t)(uintptr_t)number, 1000);
    return NULL;
}

static int mappings(void) {
    int lines = 0, byte;
    FILE *maps = fopen("/proc/self/maps", "r");
    while ((byte = getc(maps)) != EOF)
        lines += byte == '\n';
    fclose(maps);
    return lines;
}

int main(int argc, char **argv) {
    int count = atoi(argv[1]), before = 0;
    for (int i = 0; i < count; i += 4) {
        pthread_t ids[4];
        for (int j = 0; j < 4; j++) {
            pthread_attr_t attributes;
            pthread_attr_init(&attributes);
            if (argc > 2)
                pthread_attr_setstacksize(&attributes, (size_t)(64 << 20) + (size_t)(i + j) * 8192);
            if (pthread_create(&ids[j], &attributes, run, (void *)(uintptr_t)(i + j)))
                return 3;
        }
        for (int j = 0; j < 4; j++)
            pthread_join(ids[j], NULL);
        if (i == 40)
            before = mappings();
    }
    printf("%d\n", mappings() - before);
    tell();
    return 0;
}
