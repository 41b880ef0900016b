/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun verify SNAPSHOT: the folder is read again, and what differs from the manifest is named.
 */
#include "verify.h"

#include "json.h"
#include "options.h"
#include "progress.h"
#include "say.h"
#include "snapshot_words.h"
#include "snapshots.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

static bool is(const char *target, const char *head, size_t n)
{
    (void)n;
    return head && twin_snapshot_is(target, head);
}

/* Prints what was found. The exit code. */
static int report(const char *manifest, const char *dir, const struct twin_snapshot *was,
                  const struct twin_snapshot *now, bool json)
{
    int rc = 0;
    if (json)
        rc = tw_json_print(tw_snapshot_verified_json(manifest, dir, was, now));
    else
        tw_snapshot_verified_text(stdout, manifest, dir, was, now);
    if (rc != 0)
        return rc;
    return tw_snapshot_count_differences(was, now) ? TW_EXIT_DIFFER : TW_EXIT_SAME;
}

static int verify(char *const *operands, size_t operand_count, const struct tw_verify_args *a)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_looking looking;
    struct twin_snapshot was, now;
    char *dir = operand_count > 1 ? tw_strdup(operands[1]) : tw_snapshot_folder(operands[0]);
    if (!dir)
        return tw_bad_use("verify",
                          "expected the folder behind %s: its name does not end in .snapshot",
                          operands[0]);
    if (twin_snapshot_read(operands[0], &was, &err) != 0) {
        tw_free(dir);
        return tw_trouble(&err, "verify");
    }
    struct twin_snapshot_options o = tw_snapshot_options(&looking, "verifying");
    o.paranoid = !a->quick;
    o.not_this = operands[0];
    int rc = twin_snapshot_take_again(&was, dir, &o, &now, &err);
    tw_progress_clear();
    if (rc == 0) {
        rc = report(operands[0], dir, &was, &now, a->json);
        twin_snapshot_free(&now);
    } else {
        rc = tw_snapshot_failed(&looking, &err);
    }
    twin_snapshot_free(&was);
    tw_free(dir);
    return rc;
}

const struct tw_verify_kind tw_verify_snapshot = {"a snapshot's manifest", is, 2, verify};
