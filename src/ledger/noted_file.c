/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the small JSON files of a home and of its run folders. */
#include "noted_inside.h"

#include "base.h"
#include "json_load.h"

json_t *tw_noted_load(const char *dir, const char *name, size_t most)
{
    char *path = tw_path_join(dir, name), *text = NULL;
    size_t n = 0;
    json_t *j = path && tw_read_file(path, most, &text, &n, NULL) == 0
                    ? tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL)
                    : NULL;
    tw_free(text);
    tw_free(path);
    return j;
}

const char *tw_noted_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}
