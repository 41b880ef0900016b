/* SPDX-License-Identifier: Apache-2.0 */
/* Data that other tools keep (DVC, Git LFS, Hugging Face), held against their own digests: what
 * was found, in words and as JSON. Results come one by one, as files are read; the text lists only
 * those that are not as they were. */
#include "layout_words.h"

#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include <string.h>

/* In the order of enum twin_layout_outcome. */
static const char *const words[] = {"same", "changed", "missing", "added", "unknown"};

/* The line of a result that is not as it was. */
static void add_text(struct tw_layout_told *p, const struct twin_layout_result *r)
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

void tw_layout_tell(void *user, const struct twin_layout_result *r)
{
    struct tw_layout_told *p = user;
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

int tw_layout_text(FILE *out, const char *target, const struct tw_layout_told *p, long differences)
{
    char n[32], size[16], *name = tw_printable(target, strlen(target));
    if (differences)
        tw_put_to(out, "DIFFER  %s: %s thing%s not what it says\n", name ? name : "?",
                  tw_human_count((uint64_t)differences, n), differences == 1 ? " is" : "s are");
    else if (twin_layout_together(&p->sum, differences) == TWIN_LAYOUT_UNKNOWN)
        tw_put_to(out, "UNKNOWN  %s: nothing in it could be held against anything\n",
                  name ? name : "?");
    else
        tw_put_to(out, "OK      %s  %s file%s, %s, by %s\n", name ? name : "?",
                  tw_human_count(p->sum.files, n), tw_plural_s(p->sum.files),
                  tw_human_bytes(p->sum.bytes, size), p->sum.scheme);
    if (p->text.data)
        tw_put_lines(out, p->text.data);
    tw_free(name);
    return p->text.failed ? TWIN_ENOMEM : 0;
}

json_t *tw_layout_json(enum twin_layout layout, const char *target, const struct tw_layout_told *p,
                       long differences)
{
    static const char *const outcomes[] = {[TWIN_LAYOUT_SAME] = "same",
                                           [TWIN_LAYOUT_CHANGED] = "differ",
                                           [TWIN_LAYOUT_UNKNOWN] = "inconclusive"};
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:O}", "schema", "twinrun.verify/1", "kind",
                     twin_layout_name(layout), "outcome",
                     outcomes[twin_layout_together(&p->sum, differences)], "target",
                     tw_json_text(target), "files", (json_int_t)p->sum.files, "bytes",
                     (json_int_t)p->sum.bytes, "results", p->list);
}
