/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a run, read again from its folder. */
#include "provenance_inside.h"

#include "base.h"
#include "json_load.h"

#include <string.h>

int twin_provenance_load(const char *run_dir, struct json_t **out, struct twin_error *err)
{
    enum { CAP = 64 << 20 };
    char *path = tw_path_join(run_dir, "provenance.json"), *text = NULL;
    size_t n = 0;
    json_error_t where;
    *out = NULL;
    if (!path)
        return tw_no_memory(err, "reading a run's provenance");
    int rc = tw_read_file(path, CAP, &text, &n, err);
    json_t *o = rc == 0 ? tw_json_load(text, n, JSON_REJECT_DUPLICATES, &where) : NULL;
    const char *schema = json_string_value(json_object_get(o, "schema"));
    if (rc == 0 && !o)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: line %d, column %d: %s", path, where.line,
                            where.column, where.text);
    else if (rc == 0 && !schema)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: expected a JSON object with a \"schema\", found none", path);
    else if (rc == 0 && strcmp(schema, TW_PROVENANCE_SCHEMA) != 0)
        rc = twin_error_set(err, TWIN_EVERSION,
                            "%s: expected schema %s, found %.60s: a newer twinrun reads it", path,
                            TW_PROVENANCE_SCHEMA, schema);
    if (rc == 0)
        *out = o;
    else
        json_decref(o);
    tw_free(text);
    tw_free(path);
    return rc;
}
