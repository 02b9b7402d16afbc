/* Words of a script. */
#ifndef TOKEN_H
#define TOKEN_H

enum token_kind {
    TOKEN_END,
    TOKEN_NEWLINE,
    TOKEN_NUMBER,
    TOKEN_TEXT, /* 'quoted' */
    TOKEN_NAME,
    TOKEN_OPERATOR, /* one or two characters, in `text` */
};

struct token {
    enum token_kind kind;
    char text[64];
    double number;
    int line;
};

struct lexer {
    const char *at;
    int line;
    struct token now; /* the token under the cursor */
};

void lexer_start(struct lexer *lexer, const char *script);
void lexer_next(struct lexer *lexer);
/* Steps over the token if it is this operator or name. */
int lexer_accept(struct lexer *lexer, const char *text);
void lexer_expect(struct lexer *lexer, const char *text);

#endif
