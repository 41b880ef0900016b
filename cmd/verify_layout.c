/* SPDX-License-Identifier: Apache-2.0 */
/* Data that other tools keep, held against their own digests. */
#include "verify.h"

#include "json.h"
#include "options.h"
#include "progress.h"
#include "say.h"
#include "snapshots.h"

#include "base.h"

#include "src/snapshot/layout.h"

#include <stdio.h>
#include <string.h>

static const char *const words[] = {"same", "changed", "missing", "added", "unknown"};

struct report {
    bool json;
    json_t *list;
    struct twin_layout_sum sum;
    struct tw_buf text; /* lines: the verdict goes above them */
};

static void add_text(struct report *p, const struct twin_layout_result *r)
{
    char *path = tw_printable(r->path, strlen(r->path));
    tw_buf_printf(&p->text, "  %-7s  %s", words[r->outcome], path ? path : "?");
    if (r->expected && r->found)
        tw_buf_printf(&p->text, "  %s %.12s... -> %.12s...", r->scheme, r->expected, r->found);
    if (r->why)
        tw_buf_printf(&p->text, "  (%s)", r->why);
    tw_buf_puts(&p->text, "\n");
    tw_free(path);
}

static void visit(void *user, const struct twin_layout_result *r)
{
    struct report *p = user;
    twin_layout_add(&p->sum, r);
    if (p->json)
        json_array_append_new(
            p->list, json_pack("{s:s, s:o, s:s, s:o, s:o, s:I, s:I, s:o}", "outcome",
                               words[r->outcome], "path", tw_json_text(r->path), "scheme",
                               r->scheme, "expected", tw_json_text(r->expected), "found",
                               tw_json_text(r->found), "files", (json_int_t)r->files, "bytes",
                               (json_int_t)r->bytes, "why", tw_json_text(r->why)));
    else if (r->outcome != TWIN_LAYOUT_SAME)
        add_text(p, r);
}

static int print_text(const char *target, const struct report *p, long differences)
{
    char n[32], size[16], *name = tw_printable(target, strlen(target));
    if (differences)
        tw_put("DIFFER  %s: %s thing%s not what it says\n", name ? name : "?",
               tw_human_count((uint64_t)differences, n), differences == 1 ? " is" : "s are");
    else if (twin_layout_together(&p->sum, differences) == TWIN_LAYOUT_UNKNOWN)
        tw_put("UNKNOWN  %s: nothing in it could be held against anything\n", name ? name : "?");
    else
        tw_put("OK      %s  %s file%s, %s, by %s\n", name ? name : "?",
               tw_human_count(p->sum.files, n), p->sum.files == 1 ? "" : "s",
               tw_human_bytes(p->sum.bytes, size), p->sum.scheme);
    if (p->text.data)
        tw_put_lines(stdout, p->text.data);
    tw_free(name);
    return p->text.failed ? tw_trouble(NULL, "out of memory") : 0;
}

static int verify(enum twin_layout layout, char *const *operands, size_t count,
                  const struct tw_verify_args *a)
{
    static const char *const outcomes[] = {[TWIN_LAYOUT_SAME] = "same",
                                           [TWIN_LAYOUT_CHANGED] = "differ",
                                           [TWIN_LAYOUT_UNKNOWN] = "inconclusive"};
    static const int exits[] = {[TWIN_LAYOUT_SAME] = TW_EXIT_SAME,
                                [TWIN_LAYOUT_CHANGED] = TW_EXIT_DIFFER,
                                [TWIN_LAYOUT_UNKNOWN] = TW_EXIT_INCONCLUSIVE};
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_looking looking;
    struct report p = {
        .json = a->json, .list = a->json ? json_array() : NULL, .text = {.cap = (size_t)1 << 30}};
    struct twin_snapshot_options o = tw_snapshot_options(&looking, "verifying");
    o.paranoid = !a->quick;
    const long n = twin_layout_verify(layout, operands[0], count > 1 ? operands[1] : NULL, &o,
                                      visit, &p, &err);
    tw_progress_clear();
    const enum twin_layout_outcome outcome = twin_layout_together(&p.sum, n);
    int rc = n < 0 ? tw_snapshot_failed(&looking, &err) : 0;
    if (rc == 0 && a->json)
        rc = tw_json_print(json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:O}", "schema",
                                     "twinrun.verify/1", "kind", twin_layout_name(layout),
                                     "outcome", outcomes[outcome], "target",
                                     tw_json_text(operands[0]), "files", (json_int_t)p.sum.files,
                                     "bytes", (json_int_t)p.sum.bytes, "results", p.list));
    else if (rc == 0)
        rc = print_text(operands[0], &p, n);
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
