/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Would a recorded run, made again here and now, still be the same job? Its code, programs,
 * configuration and data are looked at again (now.c) and held against its record (diff.c).
 */
#include "provenance.h"

#include "base.h"

#include <jansson.h>
#include <string.h>

bool twin_provenance_wrote(const struct twin_run *r, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    const char *below = path;
    const size_t folder = strlen(r->cwd);
    if (strncmp(path, r->cwd, folder) == 0 && path[folder] == '/') {
        below = path + folder + 1;
        n -= folder + 1;
    }
    if (n > 2 && below[0] == '.' && below[1] == '/') {
        below += 2;
        n -= 2;
    }
    for (size_t i = 0; i < r->file_count; i++) {
        const char *f = r->files[i].path;
        if (strncmp(f, below, n) == 0 && (!f[n] || f[n] == '/'))
            return true;
    }
    return false;
}

/* The words for the first difference that decides about numbers and is not of the run's own making.
 */
static int first_change(const struct twin_run *run, const struct twin_world_differences *d,
                        char **why, struct twin_error *err)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct twin_world_difference *x = &d->item[i];
        const char *what = "configuration has";
        struct tw_buf b = {0};
        if (x->power != TWIN_POWER_HIGH || twin_provenance_wrote(run, x->what))
            continue;
        if (strcmp(x->group, "code") == 0)
            what = "code has";
        else if (strcmp(x->group, "data") == 0)
            what = "data have";
        tw_buf_printf(&b, "%s changed: ", what);
        char *safe = tw_printable(x->what, strlen(x->what));
        tw_buf_puts(&b, safe ? safe : "");
        tw_free(safe);
        *why = tw_buf_steal(&b);
        return *why ? 0 : tw_no_memory(err, "for a reason");
    }
    return 0;
}

int twin_provenance_changed(const struct twin_run *run, const json_t *world, const char *home,
                            const char *folder, char **why, struct twin_error *err)
{
    struct twin_world_differences d = {0};
    json_t *now = NULL, *was = NULL;
    *why = NULL;
    int rc = tw_mkdirs(folder, err);
    rc = rc ? rc : twin_provenance_now(run, home, folder, &now, err);
    if (rc == 0) /* what is not looked at now is no difference */
        was = json_pack("{s:O?, s:O?, s:O?, s:O?}", "code", json_object_get(world, "code"),
                        "programs", json_object_get(world, "programs"), "config",
                        json_object_get(world, "config"), "data", json_object_get(world, "data"));
    if (rc == 0 && !was)
        rc = tw_no_memory(err, "looking at the code");
    rc = rc ? rc : twin_provenance_diff(was, now, &d, err);
    rc = rc ? rc : first_change(run, &d, why, err);
    twin_world_differences_free(&d);
    json_decref(was);
    json_decref(now);
    tw_remove_tree(folder, NULL, NULL);
    return rc;
}
