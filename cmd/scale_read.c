/* SPDX-License-Identifier: Apache-2.0 */
/* What the traces of a run say about its speed, and about what came out of it. */
#include "scale.h"

#include "runs.h"

#include "base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <twin/trace.h>

enum { STEPS_MAX = 1 << 24, WEIGHTS_MAX = 1 << 20 };

/* ---- times: a step ends with the last record of it */

struct clock { uint64_t *end_ns; size_t steps; };

static int see_time(void *user, const struct twin_trace_record *r)
{
    struct clock *c = user;
    if (r->step >= c->steps)
        return 0; /* of the step that was going on when the process ended */
    if (r->time_ns > c->end_ns[r->step])
        c->end_ns[r->step] = r->time_ns;
    return 0;
}

/* Seconds that the steps behind the warm-up took. Those without a record, and the one behind them, have no time of their own. */
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

static int read_times(struct twin_trace *t, uint64_t warmup, struct tw_scale_run *out, struct twin_error *err)
{
    const uint64_t steps = twin_trace_info(t)->steps;
    struct clock c = {.steps = steps < STEPS_MAX ? (size_t)steps : STEPS_MAX};
    if (c.steps == 0)
        return 0;
    c.end_ns = tw_calloc(c.steps, sizeof *c.end_ns);
    if (!c.end_ns)
        return twin_error_set(err, TWIN_ENOMEM, "no memory for the times of %zu steps", c.steps);
    out->steps = out->steps == 0 || steps < out->steps ? steps : out->steps;
    int rc = twin_trace_walk(t, see_time, NULL, &c, err);
    if (rc == 0)
        take_times(&c, warmup, out);
    tw_free(c.end_ns);
    return rc;
}

/* ---- what came out: the last weights and the last loss */

struct weight { char *name; uint32_t step; uint32_t layout; struct twin_digest digest; struct twin_sketch sketch; bool measured; };
struct outcome {
    struct twin_trace *t;
    struct weight *weight; size_t weights;
    uint32_t *place; size_t series; /* of each series: its weight's place from 1 on, 0: none yet */
    uint32_t last_step;
    bool loss_seen, failed;
    double loss;
    struct twin_digest loss_digest;
};

static void outcome_free(struct outcome *o)
{
    for (size_t i = 0; i < o->weights; i++)
        tw_free(o->weight[i].name);
    tw_free(o->weight);
    tw_free(o->place);
    *o = (struct outcome){NULL};
}

/* The place of a series' tensor; the same for each of its records. Two series of one name are two tensors here: they were shown at two places. */
static struct weight *weight_of(struct outcome *o, uint32_t series)
{
    if (series >= o->series) {
        const size_t room = 2 * (size_t)series + 64;
        uint32_t *grown = tw_reallocarray(o->place, room, sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + o->series, 0, (room - o->series) * sizeof *grown);
        o->place = grown;
        o->series = room;
    }
    if (o->place[series])
        return &o->weight[o->place[series] - 1];
    const struct twin_series *s = twin_trace_series(o->t, series);
    struct weight *grown = o->weights < WEIGHTS_MAX ? tw_reallocarray(o->weight, o->weights + 1, sizeof *grown) : NULL;
    if (!grown)
        return NULL;
    o->weight = grown;
    grown[o->weights] = (struct weight){.name = tw_printf("%s/%s", twin_trace_string(o->t, s->scope), twin_trace_string(o->t, s->name))};
    if (!grown[o->weights].name)
        return NULL;
    o->place[series] = (uint32_t)++o->weights;
    return &o->weight[o->weights - 1];
}

static int see_outcome(void *user, const struct twin_trace_record *r)
{
    struct outcome *o = user;
    const struct twin_series *s = twin_trace_series(o->t, r->series);
    if (s->kind == TWIN_KIND_LOSS) {
        o->loss_seen = true;
        o->loss_digest = r->digest;
        o->loss = r->flags & TWIN_REC_STATS && r->stats.count ? r->stats.nan ? NAN : r->stats.sum / (double)r->stats.count : NAN;
    }
    if (s->kind != TWIN_KIND_WEIGHT || r->flags & TWIN_REC_UNOBSERVED)
        return 0;
    struct weight *w = weight_of(o, r->series);
    if (!w) {
        o->failed = true;
        return TWIN_ENOMEM;
    }
    const bool measured = r->flags & TWIN_REC_SKETCH, unchanged = memcmp(&w->digest, &r->digest, sizeof w->digest) == 0;
    w->step = r->step;
    w->layout = r->layout;
    w->digest = r->digest;
    if (measured || !unchanged) { /* at the end of a process weights are shown once more, without a sketch */
        w->measured = measured;
        w->sketch = r->sketch;
    }
    o->last_step = r->step > o->last_step ? r->step : o->last_step;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct weight *)a)->name, ((const struct weight *)b)->name);
}

/* What was last shown of the weights, by name. Parts that were shown in an earlier step only are no last state. */
static void settle(struct outcome *o)
{
    size_t kept = 0;
    for (size_t i = 0; i < o->weights; i++) {
        if (o->weight[i].step == o->last_step)
            o->weight[kept++] = o->weight[i];
        else
            tw_free(o->weight[i].name);
    }
    o->weights = kept;
    if (kept)
        qsort(o->weight, kept, sizeof *o->weight, by_name);
}

static char *digest_of(const struct outcome *o)
{
    struct tw_buf b = {0};
    unsigned char bytes[16];
    for (size_t i = 0; i < o->weights; i++) {
        tw_buf_append(&b, o->weight[i].name, strlen(o->weight[i].name) + 1);
        tw_buf_append(&b, &o->weight[i].digest, sizeof o->weight[i].digest);
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

/* Of the first trace that shows weights or losses: rank 0 comes first. */
static int read_outcome(const struct twin_run *r, struct outcome *o, struct twin_trace **kept)
{
    int rc = 0;
    *o = (struct outcome){.loss = NAN};
    *kept = NULL;
    for (size_t i = 0; i < r->trace_count && rc == 0 && !o->weights && !o->loss_seen; i++) {
        if (twin_trace_open(r->traces[i], &o->t, NULL) != 0)
            continue;
        rc = twin_trace_definitions(o->t, NULL) == 0 ? twin_trace_walk(o->t, see_outcome, NULL, o, NULL) : 0;
        if (o->weights || o->loss_seen)
            *kept = o->t;
        else
            twin_trace_close(o->t);
    }
    settle(o);
    return o->failed ? TWIN_ENOMEM : 0;
}

/* ---- one run */

static uint64_t most_ranks(const struct twin_run *r, uint64_t warmup, struct tw_scale_run *out, int *rc, struct twin_error *err)
{
    uint64_t ranks = 0;
    for (size_t i = 0; i < r->trace_count && *rc == 0; i++) {
        struct twin_trace *t = NULL;
        if (twin_trace_open(r->traces[i], &t, NULL) != 0)
            continue;
        const struct twin_trace_info *info = twin_trace_info(t);
        ranks = info->world > 0 && (uint64_t)info->world > ranks ? (uint64_t)info->world : ranks;
        if (strcmp(info->role, "main") == 0)
            *rc = read_times(t, warmup, out, err);
        twin_trace_close(t);
    }
    return ranks;
}

int tw_scale_read_run(const struct twin_run *r, uint64_t warmup, struct tw_scale_run *out, struct twin_error *err)
{
    struct tw_run_totals totals;
    struct outcome o;
    struct twin_trace *t;
    int rc = 0;
    tw_run_totals(r, &totals);
    out->observer = totals.observer;
    out->ranks = most_ranks(r, warmup, out, &rc, err);
    if (rc != 0)
        return rc;
    rc = read_outcome(r, &o, &t);
    if (rc == 0) {
        char loss[16 * 2 + 1];
        tw_hex(&o.loss_digest, sizeof o.loss_digest, loss);
        out->weights = o.weights ? digest_of(&o) : tw_strdup("");
        out->loss = tw_strdup(o.loss_seen ? loss : "");
    }
    outcome_free(&o);
    twin_trace_close(t);
    return rc || !out->weights || !out->loss ? twin_error_set(err, TWIN_ENOMEM, "no memory for what a run shows") : 0;
}

/* ---- the last states of two numbers of workers */

static bool same_layout(const struct outcome *a, const struct weight *x, const struct outcome *b, const struct weight *y)
{
    const struct twin_layout *l = twin_trace_layout(a->t, x->layout), *m = twin_trace_layout(b->t, y->layout);
    return l->ndim == m->ndim && memcmp(l->shape, m->shape, l->ndim * sizeof *l->shape) == 0;
}

static const char *distance(const struct outcome *a, const struct outcome *b, struct tw_scale_result *out)
{
    double d2 = 0, n2 = 0;
    bool measured = true;
    if (!a->weights || !b->weights)
        return "no weights were shown";
    if (a->weights != b->weights)
        return "not the same tensors on rank 0";
    out->equal = true;
    for (size_t i = 0; i < a->weights; i++) {
        const struct weight *x = &a->weight[i], *y = &b->weight[i];
        if (strcmp(x->name, y->name) != 0 || !same_layout(a, x, b, y))
            return "not the same tensors on rank 0";
        out->equal &= memcmp(&x->digest, &y->digest, sizeof x->digest) == 0;
        measured &= x->measured && y->measured && x->sketch.k == y->sketch.k;
        const struct twin_sketch zero = {.k = x->sketch.k}; /* statistics are not taken in every step, sketches are: the norm is the distance from nothing */
        const double d = measured ? twin_sketch_distance(&x->sketch, &y->sketch) : NAN, norm = measured ? twin_sketch_distance(&x->sketch, &zero) : NAN;
        d2 += d * d;
        n2 += norm * norm;
    }
    out->distance = out->equal ? 0 : measured && n2 > 0 ? sqrt(d2 / n2) : NAN;
    out->compared = true;
    return NULL;
}

static const struct tw_scale_run *shows_results(const struct tw_scale *s, uint64_t workers)
{
    const struct tw_scale_run *found = NULL;
    for (size_t i = 0; i < s->runs; i++)
        if (s->run[i].workers == workers && s->run[i].good && (!found || s->run[i].round == 0))
            found = &s->run[i];
    return found;
}

static void count_classes(const struct tw_scale *s, struct tw_scale_result *out)
{
    for (size_t i = 0; i < s->runs; i++) {
        const struct tw_scale_run *r = &s->run[i];
        bool counts = r->workers == out->workers && r->good && r->round > 0 && r->weights && *r->weights, known = false; /* round 0 shows parts where others show all */
        for (size_t k = 0; counts && k < i && !known; k++)
            known = s->run[k].workers == r->workers && s->run[k].good && s->run[k].round > 0 && s->run[k].weights && strcmp(s->run[k].weights, r->weights) == 0;
        out->runs += counts;
        out->classes += counts && !known;
    }
}

static int open_outcome(const struct tw_scale *s, const struct tw_scale_run *of, struct outcome *o, struct twin_trace **t)
{
    char *path = of ? tw_printf("%s/runs/%s", s->home, of->run) : NULL;
    struct twin_run *r = NULL;
    *o = (struct outcome){.loss = NAN};
    *t = NULL;
    int rc = path ? twin_run_load(path, &r, NULL) : TWIN_ENOENT;
    if (rc == 0)
        rc = read_outcome(r, o, t);
    twin_run_free(r);
    tw_free(path);
    return rc;
}

void tw_scale_compare_results(struct tw_scale *s)
{
    struct outcome base = {NULL}, other;
    struct twin_trace *base_trace = NULL, *t;
    bool have_base = false;
    for (size_t i = 0; i < s->counts; i++) {
        struct tw_scale_result *out = &s->result[i];
        *out = (struct tw_scale_result){.workers = s->count[i], .distance = NAN, .loss = NAN, .loss_distance = NAN};
        count_classes(s, out);
        if (open_outcome(s, shows_results(s, s->count[i]), &other, &t) != 0) {
            out->why = tw_strdup(shows_results(s, s->count[i]) ? "its run is gone from the home" : TW_SCALE_NO_RUN);
        } else if (!have_base) {
            out->loss = other.loss;
            base = other;
            base_trace = t;
            have_base = true;
            continue;
        } else {
            const char *why = distance(&base, &other, out);
            out->why = why ? tw_strdup(why) : NULL;
            out->loss = other.loss;
            out->loss_distance = fabs(other.loss - base.loss);
        }
        outcome_free(&other);
        twin_trace_close(t);
    }
    outcome_free(&base);
    twin_trace_close(base_trace);
}
