/* COUNT threads one after another, a few at a time; prints how many memory
 * mappings there are more than after the first ones. */
#include "event.h"
#include <pthread.h>

UNIT(unit, 1, 1 << 20);

static void *run(void *number) {
    for (uint32_t i = 0; i < 5; i++)
        LOG(unit, (uint32_t)(uintptr_t)number + i);
    tell();
    free(kept);
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
    (void)argc;
    int count = atoi(argv[1]), before = 0;
    LOG(unit, 7);
    for (int i = 0; i < count; i += 4) {
        pthread_t ids[4];
        for (int j = 0; j < 4; j++)
            pthread_create(&ids[j], NULL, run, (void *)(uintptr_t)(i * 10 + j));
        for (int j = 0; j < 4; j++)
            pthread_join(ids[j], NULL);
        if (i == 40)
            before = mappings();
    }
    printf("%d\n", mappings() - before);
    tell();
    return 0;
}
