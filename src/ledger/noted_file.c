/* SPDX-License-Identifier: Apache-2.0 */
/* The small JSON files of a home and of its run folders. */
#include "noted_inside.h"

#include "base.h"
#include "json_load.h"

#include <stdlib.h>
#include <string.h>

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

int tw_noted_save(const char *home, const char *folder, const char *id, const json_t *j,
                  struct twin_error *err)
{
    char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
    char *dir = tw_path_join(home, folder);
    char *path = dir ? tw_printf("%s/%s.json", dir, id) : NULL;
    int rc = text && path ? twin_home_make(home, err) : tw_no_memory(err, "for a file of the home");
    if (rc == 0)
        rc = tw_mkdirs(dir, err);
    if (rc == 0)
        rc = tw_write_file_atomic(path, text, strlen(text), err);
    free(text);
    tw_free(dir);
    tw_free(path);
    return rc;
}
