#include "script.h"
#include "expression.h"
#include "token.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int column_here(struct lexer *lexer, const struct table *table)
{
    int column = table_column(table, lexer->now.text);

    if (lexer->now.kind != TOKEN_NAME || column < 0)
        fail("script line %d: no column %s", lexer->now.line, lexer->now.text);
    lexer_next(lexer);
    return column;
}

/* let NAME = EXPRESSION */
static void run_let(struct lexer *lexer, struct table *table)
{
    struct expression *expression;
    char name[64];
    int column;

    strcpy(name, lexer->now.text);
    lexer_next(lexer);
    lexer_expect(lexer, "=");
    expression = expression_parse(lexer, table);
    column = table_add_column(table, name);
    for (size_t i = 0; i < table->count; i++)
        table->rows[i].cells[column].number = expression_value(expression, &table->rows[i]).number;
    expression_free(expression);
}

/* where EXPRESSION */
static void run_where(struct lexer *lexer, struct table *table)
{
    struct expression *expression = expression_parse(lexer, table);
    size_t kept = 0;

    for (size_t i = 0; i < table->count; i++) {
        struct row row = table->rows[i];
        if (expression_true(expression, &row)) {
            table->rows[kept++] = row;
            continue;
        }
        for (size_t column = 0; column < table->columns; column++)
            free(row.cells[column].text);
        free(row.cells);
    }
    table->count = kept;
    expression_free(expression);
}

/* ---- sort NAME [descending] ---- */

static struct {
    int column;
    int descending;
} sorting;

static int compare_text(const char *left, const char *right)
{
    while (*left && tolower((unsigned char)*left) == tolower((unsigned char)*right)) {
        left++;
        right++;
    }
    return tolower((unsigned char)*left) - tolower((unsigned char)*right);
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    const struct cell *x = &left->cells[sorting.column], *y = &right->cells[sorting.column];
    int order = (x->number > y->number) - (x->number < y->number);

    if (order == 0)
        order = compare_text(x->text, y->text);
    if (order == 0)
        return (left->line > right->line) - (left->line < right->line);
    return sorting.descending ? -order : order;
}

static void run_sort(struct lexer *lexer, struct table *table)
{
    sorting.column = column_here(lexer, table);
    sorting.descending = lexer_accept(lexer, "descending");
    qsort(table->rows, table->count, sizeof *table->rows, compare_rows);
}

/* show NAME, NAME, ... */
static void run_show(struct lexer *lexer, struct table *table)
{
    int columns[16], count = 0;

    do {
        if (count == 16)
            fail("script line %d: more than 16 columns", lexer->now.line);
        columns[count++] = column_here(lexer, table);
    } while (lexer_accept(lexer, ","));

    for (int i = 0; i < count; i++)
        printf("%-14s", table->names[columns[i]]);
    printf("\n");
    for (size_t row = 0; row < table->count; row++) {
        for (int i = 0; i < count; i++) {
            const struct cell *cell = &table->rows[row].cells[columns[i]];
            if (cell->text && *cell->text)
                printf("%-14s", cell->text);
            else
                printf("%-14.2f", cell->number);
        }
        printf("\n");
    }
}

/* sum NAME by NAME: the groups in the order in which they first appear */
static void run_sum(struct lexer *lexer, struct table *table)
{
    struct group {
        const char *name;
        double sum;
        size_t rows;
    } *groups = NULL;
    size_t count = 0;
    int column = column_here(lexer, table), by;

    lexer_expect(lexer, "by");
    by = column_here(lexer, table);
    for (size_t i = 0; i < table->count; i++) {
        const struct cell *key = &table->rows[i].cells[by];
        const char *name = key->text ? key->text : "(none)";
        size_t at = 0;

        while (at < count && strcmp(groups[at].name, name) != 0)
            at++;
        if (at == count) {
            groups = checked(realloc(groups, (count + 1) * sizeof *groups));
            groups[count++] = (struct group){name, 0, 0};
        }
        groups[at].sum += table->rows[i].cells[column].number;
        groups[at].rows++;
    }
    for (size_t at = 0; at < count; at++)
        printf("%-14s%-14.2f(%zu rows)\n", groups[at].name, groups[at].sum, groups[at].rows);
    free(groups);
}

static const struct {
    const char *name;
    void (*run)(struct lexer *, struct table *);
} statements[] = {
    {"let", run_let}, {"where", run_where}, {"sort", run_sort}, {"show", run_show}, {"sum", run_sum},
};

void script_run(const char *script, struct table *table)
{
    struct lexer lexer;

    lexer_start(&lexer, script);
    while (lexer.now.kind != TOKEN_END) {
        int line = lexer.now.line, known = 0;

        if (lexer.now.kind == TOKEN_NEWLINE) {
            lexer_next(&lexer);
            continue;
        }
        for (size_t i = 0; !known && i < sizeof statements / sizeof *statements; i++) {
            if (lexer_accept(&lexer, statements[i].name)) {
                statements[i].run(&lexer, table);
                known = 1;
            }
        }
        if (!known)
            fail("script line %d: no statement %s", line, lexer.now.text);
        if (lexer.now.kind != TOKEN_NEWLINE && lexer.now.kind != TOKEN_END)
            fail("script line %d: %s is too much", line, lexer.now.text);
    }
}
