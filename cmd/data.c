/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --data: each folder is held against its snapshot before the first run, and what differs is said.
 */
#include "data.h"

#include "progress.h"
#include "say.h"
#include "snapshots.h"

#include "base.h"

#include <stdio.h>

static int verify_one(const char *command, const char *dir, const char *manifest,
                      struct twin_run_data *out)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_looking looking;
    struct twin_snapshot was, now;
    size_t modes;
    if (twin_snapshot_read(manifest, &was, &err) != 0)
        return tw_trouble(&err, "%s: --data %s: nothing was run", command, dir);
    struct twin_snapshot_options o = tw_snapshot_options(&looking, "verifying the data");
    o.not_this = manifest;
    int rc = twin_snapshot_take_again(&was, dir, &o, &now, &err);
    if (rc) {
        rc = tw_snapshot_failed(&looking, &err);
    } else {
        const size_t n = tw_snapshot_count_differences(&was, &now);
        tw_progress_clear();
        rc = n ? TW_EXIT_TROUBLE : -1;
        if (n) {
            tw_say("%s: --data %s is not what %s says (%zu difference%s): nothing was run", command,
                   dir, manifest, n, n == 1 ? "" : "s");
            tw_snapshot_print_differences(stderr, &was, &now, 20, &modes);
        }
        twin_snapshot_free(&now);
    }
    if (rc < 0 && tw_data_record(dir, manifest, &was, out, &err) != 0)
        rc = tw_trouble(&err, "%s: --data", command);
    twin_snapshot_free(&was);
    return rc;
}

int tw_data_verify(const char *command, const struct tw_strings *given, bool quiet,
                   struct tw_data *out)
{
    struct twin_run_data *item = tw_calloc(given->count + 1, sizeof *item);
    int rc = item ? -1 : tw_bad_use(command, "out of memory");
    if (given->count)
        tw_progress_setup(quiet);
    for (size_t i = 0; i < given->count && rc < 0; i++) {
        char *dir = NULL, *manifest = NULL;
        if (!tw_data_split(given->items[i], &dir, &manifest))
            rc = tw_bad_use(command, "out of memory");
        else if (!*dir || !*manifest)
            rc = tw_bad_use(command, "--data: expected DIR=SNAPSHOT, found \"%s\"",
                            given->items[i]);
        else
            rc = verify_one(command, dir, manifest, &item[i]);
        tw_free(dir);
        tw_free(manifest);
    }
    *out = (struct tw_data){item, given->count};
    return rc;
}
