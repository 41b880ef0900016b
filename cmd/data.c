/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that a job reads: --data holds each folder against its snapshot before the first run, and
 * says what differs. Nothing is run on data that are not what they are said to be. Also how every
 * command looks at a folder with the person in front.
 */
#include "data.h"

#include "runs.h"
#include "terminal.h"
#include "say.h"
#include "snapshot_words.h"

#include "base.h"
#include "phrase.h"

#include <stdio.h>

struct twin_snapshot_options tw_snapshot_options(struct tw_looking *l, const char *what)
{
    tw_interrupt_hold();
    return tw_looking_options(l, &tw_terminal, what);
}

/* An end that the person wanted is no trouble. */
int tw_snapshot_failed(const struct tw_looking *l, const struct twin_error *err)
{
    tw_looking_failed(l, err);
    return err->code == TWIN_EINTR ? TW_EXIT_INTERRUPTED : TW_EXIT_TROUBLE;
}

/* What differs between a folder and its snapshot. */
static void say_differences(const char *command, const char *dir, const char *manifest,
                            const struct tw_data_held *held)
{
    const size_t n = held->differences;
    size_t modes;
    tw_say("%s: --data %s is not what %s says (%zu difference%s): nothing was run", command, dir,
           manifest, n, tw_plural_s(n));
    tw_snapshot_text_differences(stderr, &held->was, &held->now, 20, &modes);
}

/* -1: the folder is what its snapshot says, and *out is what runs record of it. Else the exit code;
 * said. */
static int verify_one(const char *command, const char *home, const char *dir, const char *manifest,
                      struct twin_run_data *out)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_looking looking;
    struct tw_data_held held;
    const struct twin_snapshot_options o = tw_snapshot_options(&looking, "verifying the data");
    int rc = tw_data_hold(dir, manifest, &o, &held, out, &err);
    tw_progress_clear();
    int code = TW_EXIT_TROUBLE;
    if (rc == 0 && held.differences == 0)
        code = -1;
    else if (rc == 0) {
        say_differences(command, dir, manifest, &held);
        tw_ledger_note_event(home, "snapshot", "mismatch", dir);
    } else if (!held.read)
        tw_trouble(&err, "%s: --data %s: nothing was run", command, dir);
    else if (!held.taken)
        code = tw_snapshot_failed(&looking, &err);
    else
        tw_trouble(&err, "%s: --data", command);
    tw_data_held_free(&held);
    return code;
}

/* What was verified is kept for as long as the process lives, since every launch borrows it. */
int tw_data_verify(const char *command, const struct tw_strings *given, const char *home,
                   bool quiet, struct tw_data *out)
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
            rc = verify_one(command, home, dir, manifest, &item[i]);
        tw_free(dir);
        tw_free(manifest);
    }
    *out = (struct tw_data){item, given->count};
    return rc;
}
