/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a precision policy. What is accepted has rules, each of which allows something. Built
 * with libFuzzer (-Dfuzz=true), or with replay.c. */
#include "precision_inside.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_precision_policy *p;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (tw_precision_parse(text, size, "policy.toml", &p, &err) == 0) {
        must(p->count > 0);
        for (size_t i = 0; i < p->count; i++) {
            const struct tw_precision_rule *r = &p->rule[i];
            must(r->about != TW_ABOUT_NOTHING && r->allowed_count > 0 &&
                 (r->about == TW_ABOUT_DTYPES) == (r->dtypes != 0) && (!r->pattern || r->dtypes));
        }
        twin_precision_free(p);
    } else
        must(!p && err.code < 0 && err.message[0] != '\0');
    free(text);
    return 0;
}
