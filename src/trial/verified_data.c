/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --data names, and what a run records of data that are as their snapshot says. Called by the
 * commands that make runs, before the first run; looking at the folder is theirs.
 */
#include "verified_data.h"

#include "base.h"
#include "looking.h"

#include <assert.h>
#include <string.h>

bool tw_data_split(const char *given, char **dir, char **manifest)
{
    const char *cut = strrchr(given, '=');
    size_t n = cut ? (size_t)(cut - given) : strlen(given);
    *dir = tw_strndup(given, n);
    /* "data/" and "data" name one folder. */
    while (!cut && n > 1 && given[n - 1] == '/')
        n--;
    *manifest = cut ? tw_strdup(cut + 1) : tw_printf("%.*s.snapshot", (int)n, given);
    return *dir && *manifest;
}

int tw_data_record(const char *dir, const char *manifest, const struct twin_snapshot *was,
                   struct twin_run_data *out, struct twin_error *err)
{
    assert(sizeof out->root == sizeof was->root);
    memcpy(out->root, was->root, sizeof out->root);
    out->files = was->files;
    out->bytes = was->bytes;
    out->folder = tw_path_absolute(dir, err);
    out->manifest = out->folder ? tw_path_absolute(manifest, err) : NULL;
    return out->manifest ? 0 : err->code;
}

int tw_data_hold(const char *dir, const char *manifest, const struct twin_snapshot_options *o,
                 struct tw_data_held *held, struct twin_run_data *out, struct twin_error *err)
{
    struct twin_snapshot_options but_manifest = *o;
    *held = (struct tw_data_held){.read = false};
    int rc = twin_snapshot_read(manifest, &held->was, err);
    held->read = rc == 0;
    if (rc != 0)
        return rc;
    but_manifest.not_this = manifest;
    rc = twin_snapshot_take_again(&held->was, dir, &but_manifest, &held->now, err);
    held->taken = rc == 0;
    if (rc != 0)
        return rc;
    held->differences = tw_snapshot_count_differences(&held->was, &held->now);
    return held->differences ? 0 : tw_data_record(dir, manifest, &held->was, out, err);
}

void tw_data_held_free(struct tw_data_held *held)
{
    if (held->taken)
        twin_snapshot_free(&held->now);
    if (held->read)
        twin_snapshot_free(&held->was);
    *held = (struct tw_data_held){.read = false};
}
