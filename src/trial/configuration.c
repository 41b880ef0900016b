/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a figure was measured with: code, versions, precision, workers and the first batch, as the
 * run recorded them (configuration.h). What was not recorded is left out, or said not to be known.
 */
#include "configuration.h"

#include "base.h"
#include "phrase.h"

#include "src/provenance/provenance.h"
#include "src/trace/trace.h"

#include <jansson.h>
#include <string.h>

/* What decides about speed and bits, as the run's provenance has it: code, versions, precision,
 * flags. */
static void put_provenance(struct tw_buf *b, const struct twin_run *r)
{
    static const char *const versions[] = {"python", "torch", "cuda", "cudnn",
                                           "nccl",   "mpi",   "numpy"};
    static const char *const settings[] = {
        "default_dtype", "autocast",        "float32_matmul_precision", "deterministic_algorithms",
        "threads",       "cudnn.benchmark", "matmul.allow_tf32",        "cudnn.allow_tf32"};
    json_t *p = NULL;
    if (twin_provenance_load(r->dir, &p, NULL) != 0) {
        tw_buf_puts(b, ", provenance not known");
        return;
    }
    const json_t *code = json_object_get(p, "code");
    const json_t *rank = json_array_get(json_object_get(p, "ranks"), 0);
    const char *commit = json_string_value(json_object_get(code, "commit"));
    if (commit)
        tw_buf_printf(b, ", commit %.12s%s", commit,
                      json_is_true(json_object_get(code, "dirty")) ? " with changes" : "");
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        const char *value = json_string_value(
            json_object_get(json_object_get(rank, "versions"), versions[i]));
        if (value)
            tw_buf_printf(b, ", %s %s", versions[i], value);
    }
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const char *value = json_string_value(
            json_object_get(json_object_get(rank, "settings"), settings[i]));
        if (value)
            tw_buf_printf(b, ", %s %s", settings[i], value);
    }
    json_decref(p);
}

/* ---- workers, and the first batch that was shown */

/* A trace that is walked through, and the layout of its first batch; NULL: none yet. */
struct seen {
    struct twin_trace *t;
    const struct twin_layout *batch;
};

static int first_batch(void *user, const struct twin_trace_record *r)
{
    struct seen *s = user;
    if (twin_trace_series(s->t, r->series)->kind != TWIN_KIND_BATCH)
        return 0;
    s->batch = twin_trace_layout(s->t, r->layout);
    return 1;
}

static void put_batch(struct tw_buf *b, struct twin_trace *t)
{
    struct seen s = {t, NULL};
    if (twin_trace_definitions(t, NULL) != 0 ||
        twin_trace_walk(t, first_batch, NULL, &s, NULL) != 1 || !s.batch || s.batch->ndim == 0)
        return;
    tw_buf_puts(b, ", batch ");
    for (size_t i = 0; i < s.batch->ndim; i++)
        tw_buf_printf(b, "%s%lld", i ? "x" : "", (long long)s.batch->shape[i]);
    tw_buf_printf(b, " %s%s", twin_dtype_name((enum twin_dtype)s.batch->dtype),
                  twin_trace_info(t)->world > 1 ? " on a rank" : "");
}

/* The number of ranks is the largest that any process was told. The first batch of any trace stands
 * for all. */
static void put_workers(struct tw_buf *b, const struct twin_run *r)
{
    unsigned world = 0;
    struct tw_buf batch = {0};
    for (size_t i = 0; i < r->trace_count; i++) {
        struct twin_trace *t = NULL;
        if (twin_trace_open(r->traces[i], &t, NULL) != 0)
            continue;
        twin_trace_definitions(t, NULL); /* for a rank that was told late */
        const struct twin_trace_info *info = twin_trace_info(t);
        world = info->world > 0 && (unsigned)info->world > world ? (unsigned)info->world : world;
        if (!batch.len)
            put_batch(&batch, t);
        twin_trace_close(t);
    }
    if (world)
        tw_buf_printf(b, ", %u rank%s", world, tw_plural_s(world));
    tw_buf_puts(b, batch.data ? batch.data : "");
    tw_buf_free(&batch);
}

static char *put_all(struct tw_buf *b, const struct twin_run *r, bool workers)
{
    if (workers)
        put_workers(b, r);
    put_provenance(b, r);
    tw_buf_printf(b, ", on %s", r->host);
    return tw_buf_steal(b);
}

char *tw_configuration(const struct twin_run *r)
{
    struct tw_buf b = {0};
    char *command = tw_shell_quote(r->argv, r->argc);
    tw_buf_puts(&b, command ? command : "");
    tw_free(command);
    return put_all(&b, r, true);
}

char *tw_configuration_of_world(const struct twin_run *r, bool workers)
{
    struct tw_buf b = {0};
    char *text = put_all(&b, r, workers);
    char *trimmed = NULL;
    if (text)
        trimmed = tw_strdup(tw_starts(text, ", ") ? text + strlen(", ") : text);
    tw_free(text);
    return trimmed;
}
