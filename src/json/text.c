/* SPDX-License-Identifier: Apache-2.0 */
/* Values of C as JSON. */
#include "json_text.h"

#include "base.h"

#include <math.h>
#include <string.h>

json_t *tw_json_text(const char *s)
{
    if (!s)
        return json_null();
    char *safe = tw_printable(s, strlen(s));
    json_t *text = safe ? json_string(safe) : NULL;
    tw_free(safe);
    return text;
}

json_t *tw_json_split(const char *text)
{
    json_t *list = json_array();
    for (const char *at = text; list && *at;) {
        const size_t n = strcspn(at, ",");
        if (json_array_append_new(list, json_stringn(at, n)) != 0) {
            json_decref(list);
            return NULL;
        }
        at += n + (at[n] == ',');
    }
    return list;
}

json_t *tw_json_texts(char *const *items, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) {
        if (json_array_append_new(list, tw_json_text(items[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *tw_json_number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

json_t *tw_json_128(uint64_t high, uint64_t low)
{
    char hex[33];
    return json_string(tw_hex_128(high, low, hex));
}

json_t *tw_json_count(uint64_t n)
{
    return json_integer((json_int_t)(n <= INT64_MAX ? n : INT64_MAX));
}
