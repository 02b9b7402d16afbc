/* Expressions over the cells of a row: parsed once, evaluated per row. */
#ifndef EXPRESSION_H
#define EXPRESSION_H

#include "table.h"
#include "token.h"

struct value {
    const char *text; /* NULL for a number */
    double number;
};

struct expression;

struct expression *expression_parse(struct lexer *lexer, const struct table *table);
struct value expression_value(const struct expression *expression, const struct row *row);
int expression_true(const struct expression *expression, const struct row *row);
void expression_free(struct expression *expression);

#endif
