/* SPDX-License-Identifier: Apache-2.0 */
/* Data that other tools keep, held against their own digests. */
#include "verify.h"

#include "json.h"
#include "layout_words.h"
#include "options.h"
#include "progress.h"
#include "say.h"
#include "snapshots.h"

#include "base.h"

#include "src/snapshot/layout.h"

#include <stdio.h>

static int verify(enum twin_layout layout, char *const *operands, size_t count,
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
    return verify(TWIN_LAYOUT_DVC, operands, count, a);
}

static int verify_lfs(char *const *operands, size_t count, const struct tw_verify_args *a)
{
    return verify(TWIN_LAYOUT_LFS, operands, count, a);
}

static int verify_huggingface(char *const *operands, size_t count, const struct tw_verify_args *a)
{
    return verify(TWIN_LAYOUT_HUGGINGFACE, operands, count, a);
}

const struct tw_verify_kind tw_verify_dvc = {"a .dvc file or dvc.lock", is_dvc, 1, verify_dvc};
const struct tw_verify_kind tw_verify_lfs = {"a pointer of Git LFS", is_lfs, 2, verify_lfs};
const struct tw_verify_kind tw_verify_huggingface = {"a folder of Hugging Face's cache",
                                                     is_huggingface, 1, verify_huggingface};
