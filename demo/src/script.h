/* The statements of a script, run one after the other on one table. */
#ifndef SCRIPT_H
#define SCRIPT_H

#include "table.h"

void script_run(const char *script, struct table *table);

#endif
