/* Rows and columns read from a CSV file. A cell is text; columns that a script
   computes hold numbers beside it. */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>
#include <stdio.h>

struct cell {
    char *text;    /* as read; NULL where the row ended early */
    double number; /* the text's value, or a computed one */
};

struct row {
    struct cell *cells; /* one per column of the table */
    size_t line;        /* where the row was in the file */
};

struct table {
    char **names;
    size_t columns;
    struct row *rows;
    size_t count;
    size_t capacity;
};

/* Reads a whole file; the first line names the columns. Exits on bad input. */
struct table *table_read(FILE *file, const char *name);
void table_free(struct table *table);

/* The column's number, or -1. */
int table_column(const struct table *table, const char *name);
/* Adds a column and returns its number. */
int table_add_column(struct table *table, const char *name);

void *checked(void *pointer);
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
