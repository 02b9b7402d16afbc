#include "script.h"
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static FILE *open_file(const char *name)
{
    FILE *file = fopen(name, "r");

    if (!file)
        fail("cannot open %s: %s", name, strerror(errno));
    return file;
}

static char *read_text(const char *name)
{
    FILE *file = open_file(name);
    size_t used = 0, got;
    char *text = checked(malloc(1));

    do {
        text = checked(realloc(text, used + 4097));
        got = fread(text + used, 1, 4096, file);
        used += got;
    } while (got > 0);
    text[used] = '\0';
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    struct table *table;
    char *script;
    FILE *file;

    if (argc != 3)
        fail("usage: tabulate SCRIPT TABLE.csv");
    script = read_text(argv[1]);
    file = open_file(argv[2]);
    table = table_read(file, argv[2]);
    fclose(file);
    script_run(script, table);
    table_free(table);
    free(script);
    return 0;
}
