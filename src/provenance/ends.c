/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run was given and where it ended: one pass over its traces.
 *
 * What was given is summed, not kept: a sum over records in which each record's place is mixed in,
 * so that order within a step does not count and place among the steps does. Weights are kept as
 * their last sketch, from which the distance of two ends is estimated; the exact one needs the
 * files.
 */
#include "src/provenance/ends.h"

#include "base.h"
#include "ulp.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a tensor that are read at a time. */
enum { PIECE = 1 << 18 };

const char *twin_given_name(enum twin_given g)
{
    assert((unsigned)g < TWIN_GIVEN_COUNT);
    static const char *const names[TWIN_GIVEN_COUNT] = {"initial weights", "batches", "generators"};
    return names[g];
}

/* Which of them a series belongs to; -1: none. */
static int given_of(const struct twin_series *s)
{
    switch (s->kind) {
    case TWIN_KIND_BATCH:
    case TWIN_KIND_INDICES: return TWIN_GIVEN_BATCHES;
    case TWIN_KIND_STATE: return TWIN_GIVEN_GENERATORS;
    case TWIN_KIND_WEIGHT: return s->phase == TWIN_PHASE_INIT ? TWIN_GIVEN_WEIGHTS : -1;
    default: return -1;
    }
}

/* ---- one trace */

/* One trace that is being read, and where its series go. */
struct reading {
    struct twin_trace *t;
    const struct twin_trace_info *info;
    struct twin_ends *out;
    size_t *slot, slots;          /* of each series in out->given or out->weight, plus 1 */
    bool takes_loss;              /* no lower rank had one */
    bool alone;                   /* the only trace that is read: its rank is no part of names */
    uint64_t first_end, last_end; /* ns */
};

/* "batch of DataLoader": as a person says it, and the same in every run. */
static char *stream_name(const struct reading *r, const struct twin_series *s)
{
    struct tw_buf b = {0};
    const char *scope = twin_trace_string(r->t, s->scope), *role = twin_trace_string(r->t, s->role);
    tw_buf_puts(&b, twin_trace_string(r->t, s->name));
    if (*scope)
        tw_buf_printf(&b, " of %s", scope);
    if (*role)
        tw_buf_printf(&b, ", %s", role);
    if (strcmp(r->info->role, "main") != 0)
        tw_buf_printf(&b, ", %s", r->info->role);
    if (r->info->world > 1 && !r->alone)
        tw_buf_printf(&b, ", rank %d", r->info->rank);
    if (s->phase == TWIN_PHASE_INIT && s->kind == TWIN_KIND_STATE)
        tw_buf_puts(&b, " at the start");
    return tw_buf_steal(&b);
}

/* The slot of a series, 0 at first. 0 or TWIN_ENOMEM. */
static int slot_of(struct reading *r, uint32_t series, size_t **slot)
{
    if (series >= r->slots) {
        const size_t more = (size_t)series + 64;
        size_t *grown = tw_reallocarray(r->slot, more, sizeof *grown);
        if (!grown)
            return TWIN_ENOMEM;
        memset(grown + r->slots, 0, (more - r->slots) * sizeof *grown);
        r->slot = grown;
        r->slots = more;
    }
    *slot = &r->slot[series];
    return 0;
}

/* Room for one more item of `size` bytes in a list that grows by doubling. */
static void *one_more(void *list, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0)
        return list;
    return tw_reallocarray(list, count ? 2 * count : 1, size);
}

/* Adds a record to a sum. Order within a step means nothing here, place among the steps does; equal
 * records at two places do not cancel out, as sums are not exclusive-ors. */
static void add_record(struct twin_digest *sum, uint64_t key, const struct twin_trace_record *r)
{
    const uint64_t place = tw_mix64(key ^ tw_mix64(((uint64_t)r->step << 32) | r->occurrence));
    sum->a += tw_mix64(r->digest.a ^ place);
    sum->b += tw_mix64(r->digest.b + place);
}

/* Counts a record of what was given, in its stream and in the sum of its kind. 0 or TWIN_ENOMEM. */
static int take_given(struct reading *x, enum twin_given what, const struct twin_series *s,
                      const struct twin_trace_record *r)
{
    assert((unsigned)what < TWIN_GIVEN_COUNT);
    size_t *slot;
    if (slot_of(x, r->series, &slot) != 0)
        return TWIN_ENOMEM;
    if (!*slot) {
        struct twin_given_stream *grown = one_more(x->out->given, x->out->given_count,
                                                   sizeof *grown);
        if (!grown)
            return TWIN_ENOMEM;
        x->out->given = grown;
        grown[x->out->given_count] = (struct twin_given_stream){stream_name(x, s), what, 0, {0, 0}};
        if (!grown[x->out->given_count].name)
            return TWIN_ENOMEM;
        *slot = ++x->out->given_count;
    }
    struct twin_given_stream *g = &x->out->given[*slot - 1];
    const uint64_t key = tw_hash_bytes(g->name, strlen(g->name), (uint64_t)what).a;
    g->records++;
    add_record(&g->sum, key, r);
    add_record(&x->out->sum[what], key, r);
    x->out->records[what]++;
    return 0;
}

/* Keeps the weight as it was shown last, and its last sketch. A record without contents
 * (UNOBSERVED) only says that it exists. */
static int take_weight(struct reading *x, const struct twin_series *s,
                       const struct twin_trace_record *r)
{
    size_t *slot;
    if (slot_of(x, r->series, &slot) != 0)
        return TWIN_ENOMEM;
    if (!*slot) {
        struct twin_end_weight *grown = one_more(x->out->weight, x->out->weight_count,
                                                 sizeof *grown);
        if (!grown)
            return TWIN_ENOMEM;
        x->out->weight = grown;
        grown[x->out->weight_count] = (struct twin_end_weight){.name = stream_name(x, s)};
        if (!grown[x->out->weight_count].name)
            return TWIN_ENOMEM;
        *slot = ++x->out->weight_count;
    }
    struct twin_end_weight *w = &x->out->weight[*slot - 1];
    if (r->flags & TWIN_REC_UNOBSERVED)
        return 0;
    const struct twin_layout *layout = twin_trace_layout(x->t, r->layout);
    const bool sketched = r->flags & TWIN_REC_SKETCH;
    const bool changed = memcmp(&w->digest, &r->digest, sizeof w->digest) != 0;
    /* at the end of a process weights are shown once more, without a sketch */
    if (sketched || changed)
        w->measured = sketched;
    w->shown = true;
    w->last_step = r->step;
    w->digest = r->digest;
    w->layout = *layout;
    if (!sketched)
        return 0;
    w->step = r->step;
    w->sketch = r->sketch;
    w->elements = 1;
    for (uint8_t i = 0; i < layout->ndim; i++)
        w->elements *= (uint64_t)layout->shape[i];
    return 0;
}

/* The last loss, and the first step at which one was no finite number. A loss per element counts as
 * their mean. */
static void take_loss(struct reading *x, const struct twin_trace_record *r)
{
    if (!x->takes_loss)
        return;
    x->out->loss_digest = r->digest;
    x->out->losses++;
    if (!(r->flags & TWIN_REC_STATS) || r->stats.count == 0)
        return;
    const bool broken = r->stats.nan || r->stats.pos_inf || r->stats.neg_inf;
    x->out->loss = broken ? NAN : r->stats.sum / (double)r->stats.count;
    x->out->loss_step = r->step;
    if (broken && x->out->nonfinite_step < 0)
        x->out->nonfinite_step = r->step;
}

/* Called for each record of a trace. */
static int on_record(void *user, const struct twin_trace_record *r)
{
    struct reading *x = user;
    const struct twin_series *s = twin_trace_series(x->t, r->series);
    const int given = given_of(s);
    int rc = 0;
    if (r->step == 0 && r->time_ns > x->first_end)
        x->first_end = r->time_ns;
    if (r->step < x->info->steps && r->time_ns > x->last_end)
        x->last_end = r->time_ns;
    if (given >= 0)
        rc = take_given(x, (enum twin_given)given, s, r);
    else if (s->kind == TWIN_KIND_WEIGHT)
        rc = take_weight(x, s, r);
    else if (s->kind == TWIN_KIND_LOSS)
        take_loss(x, r);
    if (s->kind == TWIN_KIND_WEIGHT || s->kind == TWIN_KIND_LOSS) {
        add_record(&x->out->bits,
                   tw_hash_bytes(twin_trace_string(x->t, s->name),
                                 strlen(twin_trace_string(x->t, s->name)), (uint64_t)x->info->rank)
                       .a,
                   r);
        x->out->bits_records++;
    }
    return rc;
}

bool tw_is_watched(struct twin_trace *t, const char *begin)
{
    const char *key, *line;
    for (size_t i = 0; twin_trace_note(t, i, &key, &line); i++)
        while (strcmp(key, "armed") == 0 && *line) {
            if (tw_starts(line, begin))
                return true;
            line += strcspn(line, "\n");
            line += *line == '\n';
        }
    return false;
}

static unsigned uses_of(struct twin_trace *t)
{
    static const struct {
        const char *begin;
        unsigned uses;
    } known[] = {{"backward", TWIN_USES_TORCH},
                 {"tensorflow ", TWIN_USES_TENSORFLOW},
                 {"jax ", TWIN_USES_JAX}};
    unsigned uses = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (tw_is_watched(t, known[i].begin))
            uses |= known[i].uses;
    return uses;
}

/* Adds one trace to out. Its loop lasts from the end of the first step to that of the last; of
 * several processes the slowest one counts, and of steps the fewest. */
static int read_trace(const char *path, bool alone, struct twin_ends *out, struct twin_error *err)
{
    struct reading x = {.out = out, .takes_loss = out->losses == 0, .alone = alone};
    int rc = twin_trace_open(path, &x.t, err);
    if (rc != 0)
        return rc;
    x.info = twin_trace_info(x.t);
    rc = twin_trace_definitions(x.t, err);
    if (rc == 0)
        rc = twin_trace_walk(x.t, on_record, NULL, &x, err);
    if (rc == TWIN_ENOMEM)
        tw_no_memory(err, "for what %s shows", path);
    if (rc == 0) {
        const double loop = x.info->steps >= 2 && x.last_end > x.first_end
                                ? (double)(x.last_end - x.first_end) / 1e9
                                : NAN;
        if (!(loop <= out->loop_s))
            out->loop_s = isnan(loop) ? out->loop_s : loop;
        if (x.info->steps && (out->steps == 0 || x.info->steps < out->steps) &&
            strcmp(x.info->role, "main") == 0)
            out->steps = x.info->steps;
        out->lost += x.info->dropped + x.info->lost;
        out->uses |= uses_of(x.t);
    }
    tw_free(x.slot);
    twin_trace_close(x.t);
    return rc;
}

/* ---- all traces of a run */

static int by_name(const void *a, const void *b)
{
    const struct twin_given_stream *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (int)x->what - (int)y->what;
}

static int weight_by_name(const void *a, const void *b)
{
    return strcmp(((const struct twin_end_weight *)a)->name,
                  ((const struct twin_end_weight *)b)->name);
}

/* Two series may share a key (one operation seen from two sites): they are one stream. */
static void join_streams(struct twin_ends *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->given_count; i++) {
        struct twin_given_stream *to = kept ? &e->given[kept - 1] : NULL, *from = &e->given[i];
        if (to && by_name(to, from) == 0) {
            to->records += from->records;
            to->sum.a += from->sum.a;
            to->sum.b += from->sum.b;
            tw_free(from->name);
        } else {
            e->given[kept++] = *from;
        }
    }
    e->given_count = kept;
}

/* Both lists in the order of their names, each stream once. */
static void sort_streams(struct twin_ends *e)
{
    if (e->given_count)
        qsort(e->given, e->given_count, sizeof *e->given, by_name);
    if (e->weight_count)
        qsort(e->weight, e->weight_count, sizeof *e->weight, weight_by_name);
    join_streams(e);
}

int twin_ends_read(const struct twin_run *run, struct twin_ends *out, struct twin_error *err)
{
    *out = (struct twin_ends){.loss = NAN, .loop_s = NAN, .nonfinite_step = -1};
    for (size_t i = 0; i < run->trace_count; i++) {
        int rc = read_trace(run->traces[i], false, out, err);
        if (rc != 0) {
            twin_ends_free(out);
            return rc;
        }
    }
    sort_streams(out);
    return 0;
}

/* Parts that were shown in an earlier step only are no last state. */
static void keep_last(struct twin_ends *e)
{
    uint32_t last = 0;
    size_t kept = 0;
    for (size_t i = 0; i < e->weight_count; i++)
        last = e->weight[i].shown && e->weight[i].last_step > last ? e->weight[i].last_step : last;
    for (size_t i = 0; i < e->weight_count; i++) {
        if (e->weight[i].shown && e->weight[i].last_step == last)
            e->weight[kept++] = e->weight[i];
        else
            tw_free(e->weight[i].name);
    }
    e->weight_count = kept;
}

int twin_ends_read_first(const struct twin_run *run, struct twin_ends *out, struct twin_error *err)
{
    *out = (struct twin_ends){.loss = NAN, .loop_s = NAN, .nonfinite_step = -1};
    for (size_t i = 0; i < run->trace_count; i++) {
        const int rc = read_trace(run->traces[i], true, out, NULL);
        if (rc == TWIN_ENOMEM) {
            twin_ends_free(out);
            return tw_no_memory(err, "for what %s shows", run->traces[i]);
        }
        keep_last(out);
        if (out->weight_count || out->losses)
            break;
        twin_ends_free(out);
    }
    sort_streams(out);
    return 0;
}

void twin_ends_free(struct twin_ends *e)
{
    for (size_t i = 0; i < e->given_count; i++)
        tw_free(e->given[i].name);
    for (size_t i = 0; i < e->weight_count; i++)
        tw_free(e->weight[i].name);
    tw_free(e->given);
    tw_free(e->weight);
    *e = (struct twin_ends){.loss = NAN, .loop_s = NAN, .nonfinite_step = -1};
}

/* Which comes first; NULL, a list's end, comes last. */
static int order_of(const struct twin_given_stream *x, const struct twin_given_stream *y)
{
    if (!x)
        return 1;
    return y ? by_name(x, y) : -1;
}

const struct twin_given_stream *
/* Both lists are sorted and walked in step. */
twin_ends_given_differ(const struct twin_ends *a, const struct twin_ends *b, enum twin_given what)
{
    for (size_t i = 0, j = 0; i < a->given_count || j < b->given_count;) {
        const struct twin_given_stream *x = i < a->given_count ? &a->given[i] : NULL;
        const struct twin_given_stream *y = j < b->given_count ? &b->given[j] : NULL;
        const int order = order_of(x, y);
        i += order <= 0;
        j += order >= 0;
        const struct twin_given_stream *one = order <= 0 ? x : y;
        if (one->what == what && (order != 0 || x->records != y->records || x->sum.a != y->sum.a ||
                                  x->sum.b != y->sum.b))
            return one;
    }
    return NULL;
}

/* ---- distances */

static double loss_gap(const struct twin_ends *a, const struct twin_ends *b)
{
    return a->loss_step == b->loss_step ? fabs(a->loss - b->loss) : NAN;
}

/* Squares of distances add up over weights. Two sketches count only where they are of the same
 * step. */
void twin_gap_estimate(const struct twin_ends *a, const struct twin_ends *b, struct twin_gap *out)
{
    double sum = 0;
    size_t counted = 0;
    *out = (struct twin_gap){.loss = loss_gap(a, b), .l2 = NAN, .relative = NAN, .max_ulp = NAN};
    out->equal = a->bits_records && a->bits_records == b->bits_records && a->bits.a == b->bits.a &&
                 a->bits.b == b->bits.b;
    for (size_t i = 0, j = 0; i < a->weight_count && j < b->weight_count;) {
        const struct twin_end_weight *x = &a->weight[i], *y = &b->weight[j];
        const int order = weight_by_name(x, y);
        i += order <= 0;
        j += order >= 0;
        if (order != 0 || x->step != y->step || !x->sketch.k || !y->sketch.k)
            continue;
        const double d = twin_sketch_distance(&x->sketch, &y->sketch);
        sum += d * d;
        counted++;
        out->step = x->step > out->step ? x->step : out->step;
    }
    if (counted)
        out->l2 = sqrt(sum);
}

/* What the comparison of two files of weights adds up. of: whose weights count; NULL: all. */
struct exact {
    const struct twin_ends *of;
    double squares;
    double max_ulp;
    bool differ, unmeasured;
};

/* Is the tensor's name that of a weight, or a path that ends in it? "model/conv1.weight" is
 * "conv1.weight of Net". */
static bool is_weight(const struct twin_ends *of, const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < of->weight_count; i++) {
        const char *w = of->weight[i].name, *end = strstr(w, " of ");
        size_t length = end ? (size_t)(end - w) : strcspn(w, ",");
        const char *part = memchr(w, '[', length); /* only some elements of it were recorded */
        length = part ? (size_t)(part - w) : length;
        if (length && n >= length && memcmp(name + n - length, w, length) == 0 &&
            (n == length || strchr("/.]", name[n - length - 1])))
            return true;
    }
    return false;
}

static bool any_weight(const struct twin_ends *of, const struct twin_content *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (is_weight(of, c->tensor[i].entry->name))
            return true;
    return false;
}

/* One tensor that differs. A weight that only one file has, or with another shape, has no distance:
 * then the whole has none. */
static int add_tensor(void *user, const struct twin_content_difference *d)
{
    struct exact *x = user;
    if (x->of && !is_weight(x->of, d->name))
        return 0;
    if (d->values && isnan(d->max_ulp)) /* integers: a counter is no weight */
        return 0;
    x->differ = true;
    x->unmeasured |= !d->values; /* other shapes have no distance */
    if (!d->values)
        return 0;
    x->squares += d->l2 * d->l2;
    x->max_ulp = fmax(x->max_ulp, d->max_ulp);
    return 0;
}

static bool is_float(enum twin_dtype t)
{
    return t == TWIN_F16 || t == TWIN_BF16 || t == TWIN_F32 || t == TWIN_F64 || t == TWIN_C64 ||
           t == TWIN_C128;
}

/* L2 norm of the weights of a file. */
static int norm_of(const struct twin_ends *of, const struct twin_content *c, double *out,
                   struct twin_error *err)
{
    struct tw_exact sum = {0};
    char *piece = tw_malloc(PIECE);
    int rc = piece ? 0 : tw_no_memory(err, "for weights");
    for (size_t i = 0; i < c->count && rc == 0; i++) {
        const struct twin_tensors_entry *e = c->tensor[i].entry;
        if ((of && !is_weight(of, e->name)) || !is_float(e->dtype) || e->count == 0)
            continue;
        const uint64_t most = PIECE / (e->bytes / e->count);
        for (uint64_t at = 0, n; at < e->count && rc == 0; at += n) {
            n = e->count - at < most ? e->count - at : most;
            rc = twin_tensors_read(c->tensors, c->tensor[i].index, at, n, piece, err);
            if (rc == 0)
                tw_exact_add(&sum, piece, piece, n, e->dtype);
        }
    }
    tw_free(piece);
    *out = sqrt(sum.norm);
    return rc;
}

int twin_gap_exact(const struct twin_ends *of, const struct twin_content *a,
                   const struct twin_content *b, struct twin_gap *out, struct twin_error *err)
{
    struct exact x = {.of = any_weight(of, a) ? of : NULL};
    double norm = NAN;
    long n = twin_content_compare(a, b, add_tensor, &x, err);
    int rc = n < 0 ? (int)n : norm_of(x.of, a, &norm, err);
    if (rc != 0)
        return rc;
    out->exact = true;
    out->equal = !x.differ;
    out->l2 = x.unmeasured ? NAN : sqrt(x.squares);
    out->max_ulp = x.max_ulp;
    out->relative = out->l2 == 0 ? 0 : out->l2 / norm;
    return 0;
}
