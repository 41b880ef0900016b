/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of a recorded run, as service levels need them: to whom it belongs, what it was made
 * from, whether it was meant to be deterministic and what it called all the same, its last loss.
 * They are read from the run folder (run.json, provenance.json, the traces), so that any ledger can
 * catch up with them.
 */
#include "noted_inside.h"

#include "base.h"

#include "src/trace/trace.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_BYTES = 64 << 20 };
/* A longer trace is not searched for its loss while a command waits: the loss is not known. */
static const uint64_t LOSS_BYTES = (uint64_t)64 << 20;

/* ---- what a run was made from */

/* Configuration files: path and canonical digest, raw where the format has none. */
static void put_configuration(struct tw_buf *b, const json_t *config)
{
    size_t i;
    json_t *file;
    tw_buf_printf(b, " argv:%s",
                  tw_noted_text(json_object_get(config, "argv_digest"), "canonical"));
    json_array_foreach (json_object_get(config, "files"), i, file) {
        const char *canonical = tw_noted_text(file, "canonical");
        tw_buf_printf(b, " config:%s=%s", tw_noted_text(file, "path"),
                      *canonical ? canonical : tw_noted_text(file, "raw"));
    }
}

/* Data that were named: those whose contents are known by a digest. */
static void put_named_data(struct tw_buf *b, const json_t *data)
{
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(data, "named"), i, item)
        if (*tw_noted_text(item, "sha256"))
            tw_buf_printf(b, " data:%s=%s", tw_noted_text(item, "path"),
                          tw_noted_text(item, "sha256"));
}

/* What was held still or shaken: a pinned run is another job than a free one. */
static void put_pins(struct tw_buf *b, const struct twin_run *run)
{
    json_t *run_json = tw_noted_load(run->dir, "run.json", JSON_BYTES);
    char *text = json_dumps(json_object_get(run_json, "factors"), JSON_COMPACT | JSON_SORT_KEYS);
    if (text) {
        const struct tw_hash128 h = tw_hash_bytes(text, strlen(text), 0);
        tw_buf_printf(b, " pins:%016llx%016llx", (unsigned long long)h.a, (unsigned long long)h.b);
    }
    free(text);
    json_decref(run_json);
}

/*
 * Code, command, configuration and data in one text; "": not known, since the code is not.
 * Untracked files besides the program are left out: what a run writes would make its repeat another
 * job.
 */
static void describe_inputs(struct tw_buf *b, const struct twin_run *run, const json_t *p)
{
    const json_t *code = json_object_get(p, "code");
    const json_t *entry = json_object_get(json_object_get(p, "programs"), "entry");
    const char *commit = tw_noted_text(code, "commit"), *program = tw_noted_text(entry, "sha256");
    tw_buf_puts(b, "");
    if (!*commit && !*program)
        return;
    tw_buf_printf(b, "commit:%s diff:%s program:%s", commit,
                  tw_noted_text(json_object_get(code, "diff"), "sha256"), program);
    put_configuration(b, json_object_get(p, "config"));
    put_named_data(b, json_object_get(p, "data"));
    for (size_t i = 0; i < run->data_count; i++)
        tw_buf_printf(b, " snapshot:%s", run->data[i].root);
    put_pins(b, run);
}

/* The project of a run that nobody named one for: the folder of its repository, or the one in which
 * it was launched. malloc'ed; NULL: no memory. */
static char *default_project(const json_t *p)
{
    const char *top = tw_noted_text(json_object_get(p, "code"), "top");
    if (!*top)
        top = tw_noted_text(json_object_get(p, "launch"), "launched_from");
    const char *name = *top ? tw_base_name(top) : "";
    return tw_printable(name, strlen(name));
}

/* ---- what traces say */

/* The sum of the "COUNT NAME" lines of a note. */
static int64_t sum_of_counts(const char *text)
{
    int64_t sum = 0;
    for (const char *line = text; line && *line;) {
        const unsigned long long n = strtoull(line, NULL, 10);
        sum = n > (unsigned long long)(INT64_MAX - sum) ? INT64_MAX : sum + (int64_t)n;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return sum;
}

/* Of one trace while it is walked. */
struct last_loss {
    struct twin_trace *t;
    double value;
};

static bool is_loss(void *user, uint32_t id, const struct twin_series *s)
{
    (void)user, (void)id;
    return s->kind == TWIN_KIND_LOSS;
}

static int see_loss(void *user, const struct twin_trace_record *r)
{
    struct last_loss *l = user;
    if (twin_trace_series(l->t, r->series)->kind != TWIN_KIND_LOSS ||
        !(r->flags & TWIN_REC_STATS) || !r->stats.count)
        return 0;
    const bool finite = r->stats.nan + r->stats.pos_inf + r->stats.neg_inf == 0;
    l->value = finite ? r->stats.sum / (double)r->stats.count : NAN;
    return 0;
}

/* Adds what the notes of one trace say. A count that is written at the orderly end of a process is
 * 0 where it is missing behind such an end, and not known elsewhere. */
static void add_notes(struct twin_trace *t, struct twin_ledger_facts *f)
{
    const char *key, *value, *calls = NULL;
    bool meant = false, said = false;
    for (size_t i = 0; twin_trace_note(t, i, &key, &value); i++) {
        if (strcmp(key, "setting") == 0 && tw_starts(value, "deterministic_algorithms ")) {
            meant = tw_ends(value, " True");
            said = true;
        } else if (strcmp(key, "nondeterministic.alerts") == 0) {
            calls = value;
        }
    }
    if (!said)
        return; /* a process without PyTorch */
    if (f->deterministic < 1)
        f->deterministic = meant;
    if (f->nondeterministic == -2 || (!calls && !twin_trace_info(t)->closed)) {
        f->nondeterministic = -2; /* one process that is not known makes the sum so */
        return;
    }
    if (f->nondeterministic < 0)
        f->nondeterministic = 0;
    const int64_t more = calls ? sum_of_counts(calls) : 0;
    f->nondeterministic = more > INT64_MAX - f->nondeterministic ? INT64_MAX
                                                                 : f->nondeterministic + more;
}

/* The loss is that of the first trace that has any: rank 0 comes first. */
static void read_traces(const struct twin_run *run, struct twin_ledger_facts *f)
{
    for (size_t i = 0; i < run->trace_count; i++) {
        struct last_loss l = {.value = NAN};
        if (twin_trace_open(run->traces[i], &l.t, NULL) != 0)
            continue;
        if (twin_trace_definitions(l.t, NULL) == 0) {
            add_notes(l.t, f);
            if (isnan(f->loss) && twin_trace_info(l.t)->file_bytes <= LOSS_BYTES) {
                twin_trace_walk_some(l.t, is_loss, see_loss, NULL, &l, NULL);
                f->loss = l.value;
            }
        }
        twin_trace_close(l.t);
    }
    if (f->nondeterministic < 0)
        f->nondeterministic = -1;
}

/* ---- the whole */

/* A text of run.json, which an older one lacks. */
static const char *said(const char *s)
{
    return s ? s : "";
}

int tw_ledger_put_facts_of(struct twin_ledger *l, const struct twin_run *run,
                           struct twin_error *err)
{
    const struct twin_run_belongs *to = &run->belongs;
    struct tw_buf inputs = {0};
    json_t *p = tw_noted_load(run->dir, "provenance.json", JSON_BYTES);
    char *project = default_project(p);
    struct twin_ledger_facts f = {
        .run_id = run->id,
        .project = *said(to->project) ? to->project : project,
        .family = to->family,
        .contributor = to->contributor,
        .sweep = to->sweep,
        .ci = to->ci,
        .snapshots = (int64_t)run->data_count,
        .deterministic = -1,
        .nondeterministic = -1,
        .loss = NAN,
    };
    describe_inputs(&inputs, run, p);
    f.inputs = inputs.data;
    read_traces(run, &f);
    int rc = project && inputs.data ? twin_ledger_put_facts(l, &f, err)
                                    : tw_no_memory(err, "writing to the ledger");
    tw_buf_free(&inputs);
    tw_free(project);
    json_decref(p);
    return rc;
}
