/* SPDX-License-Identifier: Apache-2.0 */
/* What the traces of a run say about its speed, and about what came out of it. */
#include "scale_runs.h"

#include "run_state.h"

#include "base.h"

#include "src/provenance/ends.h"
#include "src/trace/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 1 << 24 };

/* ---- times: a step ends with the last record of it */

struct clock {
    uint64_t *end_ns;
    size_t steps;
};

/* For twin_trace_walk; user is a struct clock. */
static int see_time(void *user, const struct twin_trace_record *r)
{
    struct clock *c = user;
    if (r->step >= c->steps)
        return 0; /* of the step that was going on when the process ended */
    if (r->time_ns > c->end_ns[r->step])
        c->end_ns[r->step] = r->time_ns;
    return 0;
}

/* Seconds that the steps behind the warm-up took. Those without a record, and the one behind them,
 * have no time of their own. */
static void take_times(const struct clock *c, uint64_t warmup, struct tw_scale_run *out)
{
    const size_t first = warmup < 1 ? 1 : (size_t)warmup;
    if (c->steps <= first || !c->end_ns[first - 1] || !c->end_ns[c->steps - 1])
        return;
    const double took = (double)(c->end_ns[c->steps - 1] - c->end_ns[first - 1]) * 1e-9;
    const uint64_t timed = c->steps - first, stride = (timed + TW_SCALE_STEPS - 1) / TW_SCALE_STEPS;
    if (took / (double)timed <= out->timed_s / (double)(out->timed ? out->timed : 1))
        return; /* another rank is slower */
    double *step = tw_reallocarray(out->step, (size_t)(timed / stride + 1), sizeof *step);
    if (!step)
        return;
    out->step = step;
    out->step_count = 0;
    out->timed = timed;
    out->timed_s = took;
    for (size_t i = first; i < c->steps; i += stride)
        if (c->end_ns[i - 1] && c->end_ns[i] > c->end_ns[i - 1])
            out->step[out->step_count++] = (double)(c->end_ns[i] - c->end_ns[i - 1]) * 1e-9;
}

/* The times of one process; those of the slowest rank stay in out. */
static int read_times(struct twin_trace *t, uint64_t warmup, struct tw_scale_run *out,
                      struct twin_error *err)
{
    const uint64_t steps = twin_trace_info(t)->steps;
    struct clock c = {.steps = steps < STEPS_MAX ? (size_t)steps : STEPS_MAX};
    if (c.steps == 0)
        return 0;
    c.end_ns = tw_calloc(c.steps, sizeof *c.end_ns);
    if (!c.end_ns)
        return tw_no_memory(err, "for the times of %zu steps", c.steps);
    out->steps = out->steps == 0 || steps < out->steps ? steps : out->steps;
    int rc = twin_trace_walk(t, see_time, NULL, &c, err);
    if (rc == 0)
        take_times(&c, warmup, out);
    tw_free(c.end_ns);
    return rc;
}

/* ---- what came out: the last weights, as one digest */

static char *digest_of(const struct twin_ends *e)
{
    struct tw_buf b = {0};
    unsigned char bytes[16];
    for (size_t i = 0; i < e->weight_count; i++) {
        tw_buf_append(&b, e->weight[i].name, strlen(e->weight[i].name) + 1);
        tw_buf_append(&b, &e->weight[i].digest, sizeof e->weight[i].digest);
    }
    const struct tw_hash128 h = tw_hash_bytes(b.data ? b.data : "", b.len, 0);
    const bool failed = b.failed != 0;
    tw_buf_free(&b);
    memcpy(bytes, &h.a, 8);
    memcpy(bytes + 8, &h.b, 8);
    char *text = failed ? NULL : tw_malloc(33);
    if (text)
        tw_hex(bytes, sizeof bytes, text);
    return text;
}

/* ---- one run */

/* The largest world of its processes; takes the times of the main ones by the way. */
static uint64_t most_ranks(const struct twin_run *r, uint64_t warmup, struct tw_scale_run *out,
                           int *rc, struct twin_error *err)
{
    uint64_t ranks = 0;
    for (size_t i = 0; i < r->trace_count && *rc == 0; i++) {
        struct twin_trace *t = NULL;
        if (twin_trace_open(r->traces[i], &t, NULL) != 0)
            continue;
        twin_trace_definitions(t, NULL); /* for a rank that was told late */
        const struct twin_trace_info *info = twin_trace_info(t);
        ranks = info->world > 0 && (uint64_t)info->world > ranks ? (uint64_t)info->world : ranks;
        if (strcmp(info->role, "main") == 0)
            *rc = read_times(t, warmup, out, err);
        twin_trace_close(t);
    }
    return ranks;
}

int tw_scale_read_run(const struct twin_run *r, uint64_t warmup, struct tw_scale_run *out,
                      struct twin_error *err)
{
    struct tw_run_totals totals;
    struct twin_ends e;
    int rc = 0;
    tw_run_totals(r, &totals);
    out->observer = totals.observer;
    out->ranks = most_ranks(r, warmup, out, &rc, err);
    if (rc != 0)
        return rc;
    rc = twin_ends_read_first(r, &e, err);
    if (rc == 0) {
        char loss[16 * 2 + 1];
        tw_hex(&e.loss_digest, sizeof e.loss_digest, loss);
        out->weights = e.weight_count ? digest_of(&e) : tw_strdup("");
        out->loss = tw_strdup(e.losses ? loss : "");
        twin_ends_free(&e);
    }
    return rc || !out->weights || !out->loss ? tw_no_memory(err, "for what a run shows") : 0;
}

/* ---- the last states of two numbers of workers */

static bool same_layout(const struct twin_layout *l, const struct twin_layout *m)
{
    return l->ndim == m->ndim && memcmp(l->shape, m->shape, l->ndim * sizeof *l->shape) == 0;
}

/* How far the last weights of b are from those of a. NULL, or (static) why they cannot be compared.
 */
static const char *distance_of_ends(const struct twin_ends *a, const struct twin_ends *b,
                                    struct tw_scale_result *out)
{
    double d2 = 0, n2 = 0;
    bool measured = true;
    if (!a->weight_count || !b->weight_count)
        return "no weights were shown";
    if (a->weight_count != b->weight_count)
        return "not the same tensors on rank 0";
    out->equal = true;
    for (size_t i = 0; i < a->weight_count; i++) {
        const struct twin_end_weight *x = &a->weight[i], *y = &b->weight[i];
        if (strcmp(x->name, y->name) != 0 || !same_layout(&x->layout, &y->layout))
            return "not the same tensors on rank 0";
        out->equal &= memcmp(&x->digest, &y->digest, sizeof x->digest) == 0;
        measured &= x->measured && y->measured && x->sketch.k == y->sketch.k;
        /* statistics are not taken in every step, sketches are: the norm is the distance from
         * nothing */
        const struct twin_sketch zero = {.k = x->sketch.k};
        const double d = measured ? twin_sketch_distance(&x->sketch, &y->sketch) : NAN;
        const double norm = measured ? twin_sketch_distance(&x->sketch, &zero) : NAN;
        d2 += d * d;
        n2 += norm * norm;
    }
    if (out->equal)
        out->distance = 0;
    else
        out->distance = measured && n2 > 0 ? sqrt(d2 / n2) : NAN;
    out->compared = true;
    return NULL;
}

/* The run that stands for a number of workers: of round 0, where that ended well. NULL: none did.
 */
static const struct tw_scale_run *shows_results(const struct tw_scale *s, uint64_t workers)
{
    const struct tw_scale_run *found = NULL;
    for (size_t i = 0; i < s->runs; i++)
        if (s->run[i].workers == workers && s->run[i].good && (!found || s->run[i].round == 0))
            found = &s->run[i];
    return found;
}

/* How many runs of a number of workers show weights, and how many different ones. */
static void count_classes(const struct tw_scale *s, struct tw_scale_result *out)
{
    for (size_t i = 0; i < s->runs; i++) {
        const struct tw_scale_run *r = &s->run[i];
        /* round 0 shows parts where others show all */
        bool counts = r->workers == out->workers && r->good && r->round > 0 && r->weights &&
                      *r->weights;
        bool known = false;
        for (size_t k = 0; counts && k < i && !known; k++)
            known = s->run[k].workers == r->workers && s->run[k].good && s->run[k].round > 0 &&
                    s->run[k].weights && strcmp(s->run[k].weights, r->weights) == 0;
        out->runs += counts;
        out->classes += counts && !known;
    }
}

/* The last states of a run of the study. Non-zero: they cannot be had. */
static int open_ends(const struct tw_scale *s, const struct tw_scale_run *of, struct twin_ends *e)
{
    char *path = of ? tw_printf("%s/runs/%s", s->home, of->run) : NULL;
    struct twin_run *r = NULL;
    int rc = path ? twin_run_load(path, &r, NULL) : TWIN_ENOENT;
    if (rc == 0)
        rc = twin_ends_read_first(r, e, NULL);
    twin_run_free(r);
    tw_free(path);
    return rc;
}

void tw_scale_compare_results(struct tw_scale *s)
{
    struct twin_ends base = {.loss = NAN}, other;
    bool have_base = false;
    for (size_t i = 0; i < s->counts; i++) {
        struct tw_scale_result *out = &s->result[i];
        *out = (struct tw_scale_result){
            .workers = s->count[i], .distance = NAN, .loss = NAN, .loss_distance = NAN};
        count_classes(s, out);
        if (open_ends(s, shows_results(s, s->count[i]), &other) != 0) {
            out->why = tw_strdup(shows_results(s, s->count[i]) ? "its run is gone from the home"
                                                               : TW_SCALE_NO_RUN);
        } else if (!have_base) {
            out->loss = other.loss;
            out->broken_step = (uint64_t)(other.nonfinite_step + 1);
            base = other;
            have_base = true;
        } else {
            const char *why = distance_of_ends(&base, &other, out);
            out->why = why ? tw_strdup(why) : NULL;
            out->loss = other.loss;
            out->loss_distance = fabs(other.loss - base.loss);
            out->broken_step = (uint64_t)(other.nonfinite_step + 1);
            twin_ends_free(&other);
        }
    }
    twin_ends_free(&base);
}
