#include "expression.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum node_kind {
    NODE_CONSTANT,
    NODE_COLUMN,
    NODE_NEGATE,
    NODE_ARITHMETIC,
    NODE_COMPARE,
    NODE_LOGIC,
    NODE_CALL,
    NODE_KINDS
};

typedef double (*function)(double, double);

struct expression {
    enum node_kind kind;
    char operator[3];
    int column;
    double number;
    char *text;
    function call;
    struct expression *left, *right;
};

static struct value number_value(double number)
{
    return (struct value){NULL, number};
}

/* ---- evaluation: one visitor per kind of node ---- */

static struct value visit_constant(const struct expression *node, const struct row *row)
{
    (void)row;
    return (struct value){node->text, node->number};
}

static struct value visit_column(const struct expression *node, const struct row *row)
{
    const struct cell *cell = &row->cells[node->column];
    char *end;

    if (!cell->text || *cell->text == '\0')
        return number_value(cell->number);
    strtod(cell->text, &end);
    return *end ? (struct value){cell->text, 0} : number_value(cell->number);
}

static struct value visit_negate(const struct expression *node, const struct row *row)
{
    return number_value(-expression_value(node->left, row).number);
}

static struct value visit_arithmetic(const struct expression *node, const struct row *row)
{
    double left = expression_value(node->left, row).number;
    double right = expression_value(node->right, row).number;

    switch (node->operator[0]) {
    case '+': return number_value(left + right);
    case '-': return number_value(left - right);
    case '*': return number_value(left * right);
    case '/': return number_value(right == 0 ? 0 : left / right);
    default: return number_value(right == 0 ? 0 : fmod(left, right));
    }
}

static struct value visit_compare(const struct expression *node, const struct row *row)
{
    struct value left = expression_value(node->left, row);
    struct value right = expression_value(node->right, row);
    int order;

    if (left.text && right.text)
        order = strcmp(left.text, right.text);
    else if (left.text || right.text)
        order = left.text ? 1 : -1; /* numbers before texts */
    else
        order = (left.number > right.number) - (left.number < right.number);

    switch (node->operator[0]) {
    case '=': return number_value(order == 0);
    case '!': return number_value(order != 0);
    case '<': return number_value(node->operator[1] ? order <= 0 : order < 0);
    default: return number_value(node->operator[1] ? order >= 0 : order > 0);
    }
}

static struct value visit_logic(const struct expression *node, const struct row *row)
{
    int left = expression_true(node->left, row);

    if (node->operator[0] == 'a')
        return number_value(left && expression_true(node->right, row));
    return number_value(left || expression_true(node->right, row));
}

static struct value visit_call(const struct expression *node, const struct row *row)
{
    double right = node->right ? expression_value(node->right, row).number : 0;

    return number_value(node->call(expression_value(node->left, row).number, right));
}

typedef struct value (*visitor)(const struct expression *, const struct row *);

static const visitor visitors[NODE_KINDS] = {
    [NODE_CONSTANT] = visit_constant,     [NODE_COLUMN] = visit_column,
    [NODE_NEGATE] = visit_negate,         [NODE_ARITHMETIC] = visit_arithmetic,
    [NODE_COMPARE] = visit_compare,       [NODE_LOGIC] = visit_logic,
    [NODE_CALL] = visit_call,
};

struct value expression_value(const struct expression *expression, const struct row *row)
{
    return visitors[expression->kind](expression, row);
}

int expression_true(const struct expression *expression, const struct row *row)
{
    struct value value = expression_value(expression, row);

    return value.text ? *value.text != '\0' : value.number != 0;
}

/* ---- functions that scripts may call ---- */

static double call_abs(double x, double unused)
{
    (void)unused;
    return fabs(x);
}

static double call_round(double x, double digits)
{
    double scale = pow(10, digits);

    return floor(x * scale + 0.5) / scale;
}

static double call_max(double x, double y)
{
    return x > y ? x : y;
}

static const struct {
    const char *name;
    function call;
} functions[] = {{"abs", call_abs}, {"round", call_round}, {"max", call_max}};

/* ---- parsing: one function per level of precedence ---- */

struct parser {
    struct lexer *lexer;
    const struct table *table;
};

static struct expression *parse_or(struct parser *parser);

static struct expression *new_node(enum node_kind kind, const char *operator,
                                   struct expression *left, struct expression *right)
{
    struct expression *node = checked(calloc(1, sizeof *node));

    node->kind = kind;
    strncpy(node->operator, operator, sizeof node->operator - 1);
    node->left = left;
    node->right = right;
    return node;
}

static struct expression *parse_call(struct parser *parser, const char *name, int line)
{
    struct expression *node = new_node(NODE_CALL, "", NULL, NULL);

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            node->call = functions[i].call;
    if (!node->call)
        fail("script line %d: no function %s", line, name);
    node->left = parse_or(parser);
    if (lexer_accept(parser->lexer, ","))
        node->right = parse_or(parser);
    lexer_expect(parser->lexer, ")");
    return node;
}

static struct expression *parse_primary(struct parser *parser)
{
    struct token token = parser->lexer->now;
    struct expression *node;

    switch (token.kind) {
    case TOKEN_NUMBER:
    case TOKEN_TEXT:
        node = new_node(NODE_CONSTANT, "", NULL, NULL);
        node->number = token.number;
        if (token.kind == TOKEN_TEXT)
            node->text = checked(strdup(token.text));
        lexer_next(parser->lexer);
        return node;
    case TOKEN_NAME:
        lexer_next(parser->lexer);
        if (lexer_accept(parser->lexer, "("))
            return parse_call(parser, token.text, token.line);
        node = new_node(NODE_COLUMN, "", NULL, NULL);
        node->column = table_column(parser->table, token.text);
        if (node->column < 0)
            fail("script line %d: no column %s", token.line, token.text);
        return node;
    default:
        if (lexer_accept(parser->lexer, "-"))
            return new_node(NODE_NEGATE, "-", parse_primary(parser), NULL);
        lexer_expect(parser->lexer, "(");
        node = parse_or(parser);
        lexer_expect(parser->lexer, ")");
        return node;
    }
}

/* A left-associative level: operands of the level below, any of `operators` between. */
static struct expression *parse_level(struct parser *parser, enum node_kind kind,
                                      const char *const *operators,
                                      struct expression *(*below)(struct parser *))
{
    struct expression *node = below(parser);

    for (size_t i = 0; operators[i];) {
        if (lexer_accept(parser->lexer, operators[i])) {
            node = new_node(kind, operators[i], node, below(parser));
            i = 0;
        } else {
            i++;
        }
    }
    return node;
}

static struct expression *parse_product(struct parser *parser)
{
    static const char *const operators[] = {"*", "/", "%", NULL};
    return parse_level(parser, NODE_ARITHMETIC, operators, parse_primary);
}

static struct expression *parse_sum(struct parser *parser)
{
    static const char *const operators[] = {"+", "-", NULL};
    return parse_level(parser, NODE_ARITHMETIC, operators, parse_product);
}

static struct expression *parse_compare(struct parser *parser)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "<", ">", NULL};
    return parse_level(parser, NODE_COMPARE, operators, parse_sum);
}

static struct expression *parse_and(struct parser *parser)
{
    static const char *const operators[] = {"and", NULL};
    return parse_level(parser, NODE_LOGIC, operators, parse_compare);
}

static struct expression *parse_or(struct parser *parser)
{
    static const char *const operators[] = {"or", NULL};
    return parse_level(parser, NODE_LOGIC, operators, parse_and);
}

struct expression *expression_parse(struct lexer *lexer, const struct table *table)
{
    struct parser parser = {lexer, table};

    return parse_or(&parser);
}

void expression_free(struct expression *expression)
{
    if (!expression)
        return;
    expression_free(expression->left);
    expression_free(expression->right);
    free(expression->text);
    free(expression);
}
