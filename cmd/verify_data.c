/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun verify of data: a folder is read again and held against our own snapshot of it, or data
 * of other tools against the digests that those keep. What differs is named.
 */
#include "verify.h"

#include "data.h"
#include "layout_words.h"
#include "options.h"
#include "say.h"
#include "snapshot_words.h"
#include "terminal.h"

#include "base.h"

#include "src/snapshot/layout.h"

#include <stdio.h>
#include <string.h>

/* ---- our snapshots */

static bool is_snapshot(const char *target, const char *head, size_t n)
{
    (void)n;
    return head && twin_snapshot_is(target, head);
}

/* Prints what was found. The exit code. */
static int report_snapshot(const char *manifest, const char *dir, const struct twin_snapshot *was,
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

/* The folder is the one that was given, or the manifest's name without .snapshot. The exit code. */
static int verify_snapshot(char *const *operands, size_t operand_count,
                           const struct tw_verify_args *a)
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
        rc = report_snapshot(operands[0], dir, &was, &now, a->json);
        twin_snapshot_free(&now);
    } else {
        rc = tw_snapshot_failed(&looking, &err);
    }
    twin_snapshot_free(&was);
    tw_free(dir);
    return rc;
}

const struct tw_verify_kind tw_verify_snapshot = {"a snapshot's manifest", is_snapshot, 2,
                                                  verify_snapshot};

/* ---- data of other tools */

/* The exit code: data whose digests are not known are neither the same nor changed. */
static int verify_layout(enum twin_layout layout, char *const *operands, size_t count,
                         const struct tw_verify_args *a)
{
    static const int exits[] = {[TWIN_LAYOUT_SAME] = TW_EXIT_SAME,
                                [TWIN_LAYOUT_CHANGED] = TW_EXIT_DIFFER,
                                [TWIN_LAYOUT_UNKNOWN] = TW_EXIT_INCONCLUSIVE};
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_looking looking;
    struct tw_layout_told p = {
        .json = a->json, .list = a->json ? json_array() : NULL, .text = {.cap = (size_t)1 << 30}};
    struct twin_snapshot_options o = tw_snapshot_options(&looking, "verifying");
    o.paranoid = !a->quick;
    const long n = twin_layout_verify(layout, operands[0], count > 1 ? operands[1] : NULL, &o,
                                      tw_layout_tell, &p, &err);
    tw_progress_clear();
    const enum twin_layout_outcome outcome = twin_layout_together(&p.sum, n);
    int rc = n < 0 ? tw_snapshot_failed(&looking, &err) : 0;
    if (rc == 0 && a->json)
        rc = tw_json_print(tw_layout_json(layout, operands[0], &p, n));
    else if (rc == 0 && tw_layout_text(stdout, operands[0], &p, n) != 0)
        rc = tw_trouble(NULL, "out of memory");
    json_decref(p.list);
    tw_buf_free(&p.text);
    return rc ? rc : exits[outcome];
}

static bool is_dvc(const char *target, const char *head, size_t n)
{
    return twin_layout_of(target, head, n) == TWIN_LAYOUT_DVC;
}

static bool is_lfs(const char *target, const char *head, size_t n)
{
    return twin_layout_of(target, head, n) == TWIN_LAYOUT_LFS;
}

static bool is_huggingface(const char *target, const char *head, size_t n)
{
    return twin_layout_of(target, head, n) == TWIN_LAYOUT_HUGGINGFACE;
}

static int verify_dvc(char *const *operands, size_t count, const struct tw_verify_args *a)
{
    return verify_layout(TWIN_LAYOUT_DVC, operands, count, a);
}

static int verify_lfs(char *const *operands, size_t count, const struct tw_verify_args *a)
{
    return verify_layout(TWIN_LAYOUT_LFS, operands, count, a);
}

static int verify_huggingface(char *const *operands, size_t count, const struct tw_verify_args *a)
{
    return verify_layout(TWIN_LAYOUT_HUGGINGFACE, operands, count, a);
}

const struct tw_verify_kind tw_verify_dvc = {"a .dvc file or dvc.lock", is_dvc, 1, verify_dvc};
const struct tw_verify_kind tw_verify_lfs = {"a pointer of Git LFS", is_lfs, 2, verify_lfs};
const struct tw_verify_kind tw_verify_huggingface = {"a folder of Hugging Face's cache",
                                                     is_huggingface, 1, verify_huggingface};
