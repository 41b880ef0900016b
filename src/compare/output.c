/* SPDX-License-Identifier: Apache-2.0 */
/* What the job printed: its two streams, as they are stored in the run folders. */
#include "internal.h"

#include <string.h>

#define STREAM_CAP ((size_t)64 << 20)

struct stream {
    char *data;
    size_t bytes;
    bool cut; /* longer than is read here, or stored */
};

static void stream_load(struct tw_cmp *c, const struct twin_run *run, const char *which, bool truncated, struct stream *s)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *path = tw_path_join(run->dir, which);
    *s = (struct stream){.cut = truncated};
    int rc = path ? tw_read_file(path, STREAM_CAP, &s->data, &s->bytes, &err) : TWIN_ENOMEM;
    tw_free(path);
    c->oom |= rc == TWIN_ENOMEM;
    s->cut |= rc != 0 && rc != TWIN_ENOENT;
}

/* A stopped or failed run, or arms, print other things by nature. */
static bool both_ended(const struct tw_side *a, const struct tw_side *b)
{
    return tw_side_complete(a) && tw_side_complete(b) && !tw_side_failed(a) && !tw_side_failed(b);
}

static void compare_stream(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b, const char *which, bool cut_a, bool cut_b,
                           struct tw_last_resort *out)
{
    struct stream x, y;
    stream_load(c, a->run, which, cut_a, &x);
    stream_load(c, b->run, which, cut_b, &y);
    struct tw_lines l = {.name = which, .name_b = which, .kind = TWIN_KIND_LINE, .a = {x.data, x.bytes, a->facts}, .b = {y.data, y.bytes, b->facts},
                         .whole = both_ended(a, b) && !x.cut && !y.cut,
                         .several_writers = a->run->process_count > 1 && b->run->process_count > 1, .shift = out->shift, .other_ends = out->other_ends};
    tw_lines_compare(c, &l, out);
    if (x.cut || y.cut)
        tw_texts_add(c, &out->unknown, tw_cmp_text(c, "%s: longer than the %zu MiB that are compared (--ignore %s leaves it out)", which,
                                                   STREAM_CAP >> 20, which));
    tw_free(x.data);
    tw_free(y.data);
}

int tw_output_compare(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b, struct tw_last_resort *out)
{
    const struct twin_run *x = a->run, *y = b->run;
    if (strcmp(x->stdout_sha256, y->stdout_sha256) != 0 && !tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE, "stdout"))
        compare_stream(c, a, b, "stdout", x->stdout_truncated, y->stdout_truncated, out);
    if (strcmp(x->stderr_sha256, y->stderr_sha256) != 0 && !tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE, "stderr"))
        compare_stream(c, a, b, "stderr", x->stderr_truncated, y->stderr_truncated, out);
    return c->oom ? TWIN_ENOMEM : 0;
}

void tw_last_resort_free(struct tw_last_resort *r)
{
    tw_findings_free(&r->findings);
    tw_findings_free(&r->benign);
    tw_texts_free(&r->unknown);
}
