/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a JSON Schema by its own name or by that of a command. */
#include "schemas.h"

#include "base.h"

#include <stdbool.h>
#include <string.h>

/* Is it one of the words of "check, diff, zoom"? */
static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; *at; at += strspn(at, ", ")) {
        size_t word = strcspn(at, ",");
        if (word == n && memcmp(at, name, n) == 0)
            return true;
        at += word;
    }
    return false;
}

const struct tw_schema *tw_schema_find(const char *name)
{
    for (const struct tw_schema *s = tw_schemas; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    for (const struct tw_schema *s = tw_schemas; s->name; s++)
        if (is_listed(s->printed_by, name))
            return s;
    return NULL;
}
