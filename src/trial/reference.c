/* SPDX-License-Identifier: Apache-2.0 */
/* The file by which a series tells what each of its runs is compared with while it goes on. */
#include "reference.h"

#include "base.h"
#include "json_load.h"
#include "json_text.h"

#include <stdlib.h>
#include <string.h>

#define FILE_NAME "reference.json"
#define SCHEMA "twinrun.reference/1"
enum { FILE_BYTES_MAX = 64 << 10 };

void tw_reference_write(const char *run_dir, const struct twin_run *reference, bool diverged,
                        uint32_t step)
{
    char *path = tw_path_join(run_dir, FILE_NAME);
    json_t *o = json_pack("{s:s, s:o, s:o, s:o}", "schema", SCHEMA, "run",
                          tw_json_text(reference->id), "folder",
                          tw_json_text(tw_base_name(reference->dir)), "diverged_step",
                          diverged ? json_integer(step) : json_null());
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    if (path && text)
        (void)tw_write_file_atomic(path, text, strlen(text), NULL);
    free(text);
    json_decref(o);
    tw_free(path);
}

bool tw_reference_read(const char *run_dir, struct tw_run_reference *out)
{
    char *path = tw_path_join(run_dir, FILE_NAME), *data = NULL;
    size_t n = 0;
    *out = (struct tw_run_reference){0};
    if (path && tw_read_file(path, FILE_BYTES_MAX, &data, &n, NULL) == 0) {
        json_t *o = tw_json_load(data, n, JSON_REJECT_DUPLICATES, NULL);
        const char *schema = json_string_value(json_object_get(o, "schema"));
        const char *id = json_string_value(json_object_get(o, "run"));
        const char *name = json_string_value(json_object_get(o, "folder"));
        const json_t *step = json_object_get(o, "diverged_step");
        const json_int_t number = json_integer_value(step);
        if (schema && strcmp(schema, SCHEMA) == 0 && id && name) {
            out->id = tw_strdup(id);
            out->name = tw_strdup(name);
            out->diverged = json_is_integer(step) && number >= 0 && number <= UINT32_MAX;
            out->step = out->diverged ? (uint32_t)number : 0;
        }
        json_decref(o);
    }
    tw_free(data);
    tw_free(path);
    if (out->id && out->name)
        return true;
    tw_reference_free(out);
    return false;
}

void tw_reference_free(struct tw_run_reference *r)
{
    tw_free(r->id);
    tw_free(r->name);
    *r = (struct tw_run_reference){0};
}
