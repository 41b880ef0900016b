/* SPDX-License-Identifier: Apache-2.0 */
#include "signed.h"

#include "say.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *tw_signed_inside(const char *folder, const char *file)
{
    const char *base = tw_base_name(file);
    char *parent = tw_strndup(file, (size_t)(base - file)), *root = realpath(folder, NULL), *above = parent ? realpath(*parent ? parent : ".", NULL) : NULL, *out = NULL;
    const size_t n = root ? strlen(root) : 0;
    if (root && above && strncmp(root, above, n) == 0 && (above[n] == '/' || above[n] == '\0'))
        out = above[n] ? tw_printf("%s/%s", above + n + 1, base) : tw_strdup(base);
    tw_free(parent);
    free(root);
    free(above);
    return out;
}

int tw_signed_folder(const char *folder, const char *but, struct twin_subjects *out, struct twin_error *err)
{
    char *skip = but ? tw_signed_inside(folder, but) : NULL;
    const char *list[] = {skip};
    int rc = twin_subject_folder(folder, list, skip ? 1 : 0, false, out, err);
    tw_free(skip);
    return rc;
}

int tw_signed_found(const struct twin_statement *st, const char *envelope_path, char *const *operands, size_t count, struct twin_subjects *found, bool *by_name,
                    struct twin_error *err)
{
    const char *kind = json_string_value(json_object_get(st->predicate, "kind"));
    const bool ours = strcmp(st->predicate_type, TWIN_PREDICATE_SIGNED) == 0;
    int rc = 0;
    *by_name = ours && kind && strcmp(kind, "folder") == 0;
    if (*by_name && count == 1 && is_folder(operands[0]))
        return tw_signed_folder(operands[0], envelope_path, found, err);
    if (*by_name)
        return twin_error_set(err, TWIN_EINVAL, "expected the folder that was signed, found %s", count == 1 ? "a file" : "more than one thing");
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = is_folder(operands[i]) ? twin_error_set(err, TWIN_EINVAL, "%s: expected the file that was signed, found a folder", operands[i])
                                    : twin_subject_file(operands[i], tw_base_name(operands[i]), found, err);
    return rc;
}
