#include "token.h"
#include "table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void lexer_start(struct lexer *lexer, const char *script)
{
    lexer->at = script;
    lexer->line = 1;
    lexer_next(lexer);
}

static void take(struct lexer *lexer, const char *from, size_t length)
{
    if (length >= sizeof lexer->now.text)
        fail("script line %d: a word is too long", lexer->line);
    memcpy(lexer->now.text, from, length);
    lexer->now.text[length] = '\0';
}

static int is_word(int c)
{
    return isalnum(c) || c == '_';
}

void lexer_next(struct lexer *lexer)
{
    const char *start;

    while (*lexer->at == ' ' || *lexer->at == '\t')
        lexer->at++;
    if (*lexer->at == '#')
        while (*lexer->at && *lexer->at != '\n')
            lexer->at++;

    start = lexer->at;
    lexer->now.line = lexer->line;
    lexer->now.text[0] = '\0';
    if (*start == '\0') {
        lexer->now.kind = TOKEN_END;
    } else if (*start == '\n') {
        lexer->now.kind = TOKEN_NEWLINE;
        lexer->at++;
        lexer->line++;
    } else if (isdigit((unsigned char)*start)) {
        char *end;
        lexer->now.kind = TOKEN_NUMBER;
        lexer->now.number = strtod(start, &end);
        take(lexer, start, (size_t)(end - start));
        lexer->at = end;
    } else if (*start == '\'') {
        const char *end = strchr(start + 1, '\'');
        if (!end)
            fail("script line %d: the quote is not closed", lexer->line);
        lexer->now.kind = TOKEN_TEXT;
        take(lexer, start + 1, (size_t)(end - start - 1));
        lexer->at = end + 1;
    } else if (is_word((unsigned char)*start)) {
        while (is_word((unsigned char)*lexer->at))
            lexer->at++;
        lexer->now.kind = TOKEN_NAME;
        take(lexer, start, (size_t)(lexer->at - start));
    } else {
        lexer->now.kind = TOKEN_OPERATOR;
        lexer->at += strchr("<>=!", *start) && start[1] == '=' ? 2 : 1;
        take(lexer, start, (size_t)(lexer->at - start));
    }
}

int lexer_accept(struct lexer *lexer, const char *text)
{
    int word = lexer->now.kind == TOKEN_OPERATOR || lexer->now.kind == TOKEN_NAME;

    if (!word || strcmp(lexer->now.text, text) != 0)
        return 0;
    lexer_next(lexer);
    return 1;
}

void lexer_expect(struct lexer *lexer, const char *text)
{
    if (!lexer_accept(lexer, text))
        fail("script line %d: expected %s", lexer->now.line, text);
}
