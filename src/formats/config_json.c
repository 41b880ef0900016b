/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations in JSON, as the one tree that all formats are read into (config_values.h).
 * Duplicate keys are refused, because readers differ in which one counts; integers beyond 2^53 get
 * a tag, since the canonical form has no number for them; keys that look like our tags are refused.
 */
#include "config_values.h"

#include "base.h"
#include "jcs.h"
#include "json_load.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Integers up to this are doubles, too; beyond it RFC 8785 has no form for them. */
#define SAFE_INTEGER 9007199254740991LL

json_t *tw_config_integer(long long value)
{
    char text[24];
    if (value <= SAFE_INTEGER && value >= -SAFE_INTEGER)
        return json_integer(value);
    snprintf(text, sizeof text, "%lld", value);
    return json_pack("{s:s}", TW_TAG "integer", text);
}

/* Brings a value into the form that the canonical form needs: large integers get their tag,
 * reserved keys are refused unless tags are ours (`tags`). Takes over *value and may replace it by
 * another one; containers are changed in place. */
static int settle_value(json_t **value, const char *name, int depth, bool tags,
                        struct twin_error *err)
{
    int rc = 0;
    json_t *v = *value, *item;
    const char *key;
    size_t i;
    if (depth > TW_JCS_DEPTH)
        return twin_error_set(err, TWIN_ELIMIT, "%s: values nested more than %d deep", name,
                              TW_JCS_DEPTH);
    if (json_is_integer(v)) {
        *value = tw_config_integer(json_integer_value(v));
        json_decref(v);
        return *value ? 0 : tw_no_memory(err, "for the values of %s", name);
    }
    /* settle_value() takes a reference over, so each item gets one more first. */
    json_array_foreach (v, i, item) {
        json_t *settled = json_incref(item);
        rc = rc ? rc : settle_value(&settled, name, depth + 1, tags, err);
        if (rc == 0 && settled != item)
            json_array_set(v, i, settled);
        json_decref(settled);
    }
    json_object_foreach (v, key, item) {
        json_t *settled = json_incref(item);
        if (rc == 0 && !tags && tw_starts(key, TW_TAG))
            rc = twin_error_set(err, TWIN_EFORMAT,
                                "%s: the key \"%s\": keys that begin with %s are reserved for what "
                                "JSON has no form for",
                                name, key, TW_TAG);
        rc = rc ? rc : settle_value(&settled, name, depth + 1, tags, err);
        if (rc == 0 && settled != item)
            json_object_set(v, key, settled);
        json_decref(settled);
    }
    return rc;
}

/* A new reference, or NULL with err set. */
static json_t *from_json(const char *data, size_t n, const char *name, bool tags,
                         struct twin_error *err)
{
    json_error_t e;
    json_t *value = tw_json_load(data, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
                                 &e);
    if (!value) {
        char *text = tw_printable(e.text, strlen(e.text));
        twin_error_set(err, TWIN_EFORMAT, "%s: line %d: %s", name, e.line,
                       text ? text : "not JSON");
        tw_free(text);
        return NULL;
    }
    if (settle_value(&value, name, 0, tags, err) == 0)
        return value;
    json_decref(value);
    return NULL;
}

json_t *tw_config_from_json(const char *data, size_t n, const char *name, struct twin_error *err)
{
    return from_json(data, n, name, false, err);
}

json_t *tw_config_from_python(const char *data, size_t n, const char *name, struct twin_error *err)
{
    return from_json(data, n, name, true, err);
}
