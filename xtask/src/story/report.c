#include <stdio.h>
#include "sqlite3.h"

static void step(sqlite3_context *context, int count, sqlite3_value **values) {
    long long *sum = sqlite3_aggregate_context(context, sizeof *sum);
    if (sum)
        *sum += count > 0 ? sqlite3_value_int64(values[0]) : 1;
}

static void done(sqlite3_context *context) {
    long long *sum = sqlite3_aggregate_context(context, 0);
    sqlite3_result_int64(context, sum ? *sum : 0);
}

static int row(void *out, int count, char **values, char **names) {
    for (int i = 0; i < count; i++)
        fprintf(out, "%s=%s\n", names[i], values[i] ? values[i] : "");
    return 0;
}

int main(int count, char **words) {
    sqlite3 *db;
    char *message = 0;
    if (count < 2 || sqlite3_open(":memory:", &db) != SQLITE_OK)
        return 2;
    sqlite3_create_function(db, "score", 1, SQLITE_UTF8, 0, 0, step, done);
    sqlite3_exec(db, "CREATE TABLE sales(x); INSERT INTO sales VALUES(3),(4)", 0, 0, 0);
    if (sqlite3_exec(db, words[1], row, stdout, &message) != SQLITE_OK)
        fprintf(stderr, "%s\n", message);
    sqlite3_close(db);
    return 0;
}
