/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a JSON text will cost in memory once it is a tree, before anything is allocated: "{}," has
 * three bytes and becomes an object of more than two hundred. The figures are those of jansson 2.14
 * with glibc's malloc on 64 bits.
 */
#include "base.h"

#include <string.h>

/* What jansson allocates for one of each. */
enum {
    OBJECT_BYTES = 224, /* with its first eight buckets */
    PAIR_BYTES = 112,   /* a key, without its letters, and its share of the buckets */
    ARRAY_BYTES = 136,  /* with its first eight places */
    ITEM_BYTES = 12,    /* a further place; tables grow by doubling */
    STRING_BYTES = 64,  /* without its letters */
    NUMBER_BYTES = 32,
};

/* Behind the string that begins at p; its letters are counted in *letters. */
static const char *skip_string(const char *p, const char *end, uint64_t *letters)
{
    const char *start = ++p;
    while (p < end && *p != '"')
        p += *p == '\\' && p + 1 < end ? 2 : 1;
    *letters += (uint64_t)(p - start);
    return p < end ? p + 1 : end;
}

/* Counts by characters, without parsing: text that is no JSON gives some number, too. */
uint64_t tw_json_cost(const char *text, size_t n)
{
    uint64_t cost = 0;
    const char *end = text + n;
    for (const char *p = text; p < end;) {
        char c = *p;
        if (c == '"') {
            cost += STRING_BYTES;
            p = skip_string(p, end, &cost);
            continue;
        }
        if (c == '{')
            cost += OBJECT_BYTES;
        else if (c == '[')
            cost += ARRAY_BYTES;
        else if (c == ':')
            cost += PAIR_BYTES - STRING_BYTES; /* what stood before it was no value of its own */
        else if (c == ',')
            cost += ITEM_BYTES;
        else if ((c >= '0' && c <= '9') || c == '-') {
            cost += NUMBER_BYTES;
            while (p + 1 < end && strchr("0123456789+-.eE", p[1]) && p[1])
                p++;
        }
        p++;
    }
    return cost;
}

bool tw_json_too_costly(const char *text, size_t n)
{
    return tw_json_cost(text, n) > TW_JSON_FREE_BYTES + TW_JSON_BYTES_EACH * (uint64_t)n;
}
