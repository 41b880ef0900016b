/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_BASE_JSON_LOAD_H
#define TW_BASE_JSON_LOAD_H
/*
 * The one way in which foreign JSON becomes a tree: json_loadb, but a text whose tree would be out
 * of all proportion to it is refused first, as one that is no JSON is. For rooms that link jansson;
 * base itself does not.
 */
#include "base.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* e may be NULL. */
static inline json_t *tw_json_load(const char *text, size_t n, size_t flags, json_error_t *e)
{
    if (!tw_json_too_costly(text, n))
        return json_loadb(text, n, flags, e);
    if (e) {
        memset(e, 0, sizeof *e);
        e->line = 1;
        snprintf(e->text, sizeof e->text - 1,
                 "its %zu bytes would need %llu MiB of memory: too much for their number", n,
                 (unsigned long long)(tw_json_cost(text, n) >> 20));
    }
    return NULL;
}
#endif
