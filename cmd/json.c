/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include "base.h"
#include "options.h"
#include "say.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *tw_json_text(const char *s)
{
    if (!s)
        return json_null();
    char *safe = tw_printable(s, strlen(s));
    json_t *j = safe ? json_string(safe) : NULL;
    tw_free(safe);
    return j;
}

json_t *tw_json_texts(char *const *items, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, tw_json_text(items[i]));
    return list;
}

json_t *tw_json_number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static int print(json_t *j, size_t digits)
{
    int rc = 0;
    char *dumped = j ? json_dumps(j, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits)) : NULL;
    char *shown = dumped ? tw_printable_json(dumped) : NULL;
    if (!shown || fputs(shown, stdout) < 0 || putchar('\n') < 0) {
        tw_say("cannot write the JSON answer%s", shown ? "" : ": out of memory");
        rc = TW_EXIT_TROUBLE;
    }
    tw_free(shown);
    free(dumped);
    json_decref(j);
    return rc;
}

int tw_json_print(json_t *j)
{
    return print(j, 9);
}

int tw_json_print_exact(json_t *j)
{
    return print(j, 17);
}
