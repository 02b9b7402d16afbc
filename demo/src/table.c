#include "table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("tabulate: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

void *checked(void *pointer)
{
    if (!pointer)
        fail("out of memory");
    return pointer;
}

/* One line of any length, without its end; NULL at the end of the file. */
static char *read_line(FILE *file)
{
    size_t used = 0, size = 64;
    char *line = checked(malloc(size));
    int c;

    while ((c = fgetc(file)) != EOF && c != '\n') {
        if (used + 1 == size)
            line = checked(realloc(line, size *= 2));
        line[used++] = (char)c;
    }
    if (c == EOF && used == 0) {
        free(line);
        return NULL;
    }
    if (used > 0 && line[used - 1] == '\r')
        used--;
    line[used] = '\0';
    return line;
}

/* Cuts the next field off `*rest`, undoing quotes in place. `*rest` becomes
   NULL with the last field. */
static char *next_field(char **rest)
{
    char *from = *rest, *to = *rest, *field = *rest;
    int quoted = 0;

    while (*from && (quoted || *from != ',')) {
        if (*from == '"' && quoted && from[1] == '"') {
            *to++ = '"';
            from += 2;
        } else if (*from == '"') {
            quoted = !quoted;
            from++;
        } else {
            *to++ = *from++;
        }
    }
    *rest = *from ? from + 1 : NULL;
    *to = '\0';
    return field;
}

static void read_header(struct table *table, char *line)
{
    char *rest = line;

    while (rest) {
        char *name = next_field(&rest);
        table->names = checked(realloc(table->names, (table->columns + 1) * sizeof *table->names));
        table->names[table->columns++] = checked(strdup(name));
    }
}

static void read_row(struct table *table, char *line, size_t number)
{
    struct row row = {checked(calloc(table->columns, sizeof *row.cells)), number};
    char *rest = line;
    size_t column = 0;

    while (rest && column < table->columns) {
        char *field = next_field(&rest);
        row.cells[column].text = checked(strdup(field));
        row.cells[column].number = strtod(field, NULL);
        column++;
    }
    if (rest)
        fail("line %zu has more than %zu fields", number, table->columns);
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 16;
        table->rows = checked(realloc(table->rows, table->capacity * sizeof *table->rows));
    }
    table->rows[table->count++] = row;
}

struct table *table_read(FILE *file, const char *name)
{
    struct table *table = checked(calloc(1, sizeof *table));
    char *line = read_line(file);
    size_t number = 1;

    if (!line)
        fail("%s is empty", name);
    read_header(table, line);
    free(line);
    while ((line = read_line(file))) {
        number++;
        if (*line && *line != '#')
            read_row(table, line, number);
        free(line);
    }
    return table;
}

void table_free(struct table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        for (size_t column = 0; column < table->columns; column++)
            free(table->rows[i].cells[column].text);
        free(table->rows[i].cells);
    }
    for (size_t column = 0; column < table->columns; column++)
        free(table->names[column]);
    free(table->names);
    free(table->rows);
    free(table);
}

int table_column(const struct table *table, const char *name)
{
    for (size_t column = 0; column < table->columns; column++)
        if (strcmp(table->names[column], name) == 0)
            return (int)column;
    return -1;
}

int table_add_column(struct table *table, const char *name)
{
    size_t added = table->columns++;

    table->names = checked(realloc(table->names, table->columns * sizeof *table->names));
    table->names[added] = checked(strdup(name));
    for (size_t i = 0; i < table->count; i++) {
        struct row *row = &table->rows[i];
        row->cells = checked(realloc(row->cells, table->columns * sizeof *row->cells));
        row->cells[added] = (struct cell){checked(strdup("")), 0};
    }
    return (int)added;
}
