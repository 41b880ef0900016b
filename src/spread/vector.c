/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contributions of many ranks, added element by element in many orders (twin_vector_spread): which
 * elements vary, by how much, and how far each order is from the exact sum. src/study/spread.c
 * calls it with files of each rank, src/study/simulate.c with ranks that exist only here.
 *
 * TW_TILE_LANES elements make a tile and go side by side; BLOCK tiles are handed to a thread
 * together. What a block adds to the figures is kept apart, and the blocks are merged in order at
 * the end: floating-point sums depend on their order, which must not depend on threads.
 */
#include "adding.h"
#include "threads.h"

#include "base.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* BLOCK: tiles that are handed out together. MOST_THREADS: the limit of threads.c. */
enum { BLOCK = 16, MOST_THREADS = 64 };
#define MOST_KEPT ((uint64_t)1 << 22) /* elements whose spreads are kept for quantiles */

/* What one block of tiles adds to the whole. */
struct part {
    struct twin_vector_spread sum;
    struct twin_vector_result *result;
};

/* The room of one thread to work in. */
struct workroom {
    char *row, *out; /* [ranks][TW_TILE_LANES], [orders][TW_TILE_LANES] */
    double *column, exact[TW_TILE_LANES], rounded[TW_TILE_LANES];
    /* the column as floats, for the accumulator when that is the held type */
    float *single;
    double *value; /* [orders], of one element */
};

/* What one call of twin_vector_spread works with. */
struct engine {
    const struct twin_vector_job *job;
    const struct tw_adder *add;
    struct tw_program *program; /* [TWIN_ALGORITHMS + 1], the last: the second of two trees */
    struct workroom room[MOST_THREADS];
    struct part *part;
    float *relative, *ulps; /* of every step-th element; NaN: left out */
    uint64_t step, tiles;
};

/* The number of the i-th element that is looked at. */
static uint64_t element_at(const struct twin_vector_job *j, uint64_t i)
{
    return j->element ? j->element[i] : i;
}

/* ---- filling a tile */

/* Fills a tile: the contributions of its elements in rows, and each element's exact sum and rounded
 * sum. finite[lane] is false where a contribution is not, and in lanes beyond the last element,
 * which hold zeros. */
static int fill_tile(struct engine *e, struct workroom *b, uint64_t first, unsigned lanes,
                     bool finite[TW_TILE_LANES], struct twin_error *err)
{
    assert(lanes > 0 && lanes <= TW_TILE_LANES);
    const struct twin_vector_job *j = e->job;
    for (unsigned lane = 0; lane < TW_TILE_LANES; lane++) {
        finite[lane] = lane < lanes;
        if (lane < lanes)
            j->fill(j->user, element_at(j, first + lane), b->column);
        else
            memset(b->column, 0, j->ranks * sizeof *b->column); /* lanes beside the last element */
        for (uint32_t r = 0; r < j->ranks; r++) {
            e->add->set(b->row, (size_t)r * TW_TILE_LANES + lane, b->column[r]);
            b->single[r] = (float)b->column[r];
            finite[lane] = finite[lane] && isfinite(b->column[r]);
        }
        struct twin_acc sum;
        twin_acc_init(&sum);
        const bool wide = e->add->size == 8;
        int rc = twin_acc_add(&sum, wide ? TWIN_F64 : TWIN_F32,
                              wide ? (const void *)b->column : b->single, j->ranks, err);
        if (rc == 0)
            rc = tw_rounded(&sum, j->dtype, &b->rounded[lane], err);
        if (rc != 0)
            return rc;
        b->exact[lane] = twin_acc_f64(&sum);
    }
    return 0;
}

/* ---- adding */

/* Adds the tile in every order. A ring begins in each lane at that element's chunk. Of a double
 * tree the first half of all elements goes by one tree and the second by the other; a tile on the
 * border goes by both, and takes each lane from its own. */
static void add_all(struct engine *e, struct workroom *b, uint64_t first, unsigned lanes)
{
    assert(lanes > 0 && lanes <= TW_TILE_LANES);
    const struct twin_vector_job *j = e->job;
    const size_t bytes = TW_TILE_LANES * e->add->size;
    uint32_t start[TW_TILE_LANES];
    unsigned second = 0; /* lanes before it lie in the first half */
    for (unsigned lane = 0; lane < TW_TILE_LANES; lane++) {
        const uint64_t at = element_at(j, first + (lane < lanes ? lane : lanes - 1));
        start[lane] = tw_chunk_of(at, j->all, j->ranks);
        /* Elements ascend, so the lanes of the first half come before those of the second. */
        second += lane < lanes && at < (j->all + 1) / 2;
    }
    for (size_t i = 0; i < j->orders; i++) {
        const struct twin_vector_order *o = &j->order[i];
        char *out = b->out + i * bytes, other[TW_TILE_LANES * sizeof(double)];
        if (o->algorithm == TWIN_RING) {
            e->add->ring(j->ranks, o->place, start, b->row, out);
            continue;
        }
        if (o->algorithm != TWIN_DOUBLE_TREE || second > 0)
            e->add->rows(&e->program[o->algorithm], o->place, b->row, out);
        if (o->algorithm == TWIN_DOUBLE_TREE && second < lanes) {
            e->add->rows(&e->program[TWIN_ALGORITHMS], o->place, b->row, other);
            memcpy(out + second * e->add->size, other + second * e->add->size,
                   bytes - second * e->add->size);
        }
    }
}

/* ---- judging */

static int by_bits(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(double));
}

/* How many different bit patterns among n results. Mostly all are equal, which is seen before
 * sorting. */
static uint64_t count_distinct(double *x, size_t n)
{
    assert(n > 0);
    uint64_t distinct = 1;
    bool same = true;
    for (size_t i = 1; i < n && same; i++)
        same = by_bits(&x[0], &x[i]) == 0;
    if (same)
        return 1;
    qsort(x, n, sizeof *x, by_bits);
    for (size_t i = 1; i < n; i++)
        distinct += by_bits(&x[i - 1], &x[i]) != 0;
    return distinct;
}

/* Adds one element's results to the figures of its block. Elements with anything that is not finite
 * are counted only. */
static void judge_element(struct engine *e, struct workroom *b, struct part *p, uint64_t at,
                          unsigned lane, bool finite)
{
    assert(at < e->job->elements && lane < TW_TILE_LANES);
    const size_t n = e->job->orders;
    const double exact = b->exact[lane];
    double low = INFINITY, high = -INFINITY;
    struct twin_vector_spread *s = &p->sum;
    for (size_t i = 0; i < n; i++) {
        b->value[i] = e->add->get(b->out, i * TW_TILE_LANES + lane);
        finite = finite && isfinite(b->value[i]);
        low = fmin(low, b->value[i]);
        high = fmax(high, b->value[i]);
    }
    s->elements++;
    if (!finite || !isfinite(exact)) {
        s->not_finite++;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct twin_vector_result *r = &p->result[i];
        /* Sums over elements; hashes make whole vectors comparable without keeping them. */
        const double off = b->value[i] - exact;
        uint64_t bits;
        memcpy(&bits, &b->value[i], 8);
        r->error2 += off * off;
        r->bias += off;
        r->error_max = fmax(r->error_max, fabs(off));
        r->wrong += b->value[i] != b->rounded[lane];
        r->hash[0] += tw_mix64(bits ^ tw_mix64(at)); /* a sum: blocks go together in any order */
        r->hash[1] += tw_mix64(tw_mix64(bits) + at);
    }
    /* How far the orders of this one element lie apart. */
    const double range = high - low;
    const uint64_t distinct = count_distinct(b->value, n);
    s->vary += distinct > 1;
    s->distinct_mean += (double)distinct;
    s->distinct_max = distinct > s->distinct_max ? distinct : s->distinct_max;
    s->exact2 += exact * exact;
    s->range2 += range * range;
    s->range_max = fmax(s->range_max, range);
    s->relative[2] = fmax(s->relative[2], range > 0 ? range / fabs(exact) : 0);
    s->ulps[2] = fmax(s->ulps[2], range / twin_ulp(e->job->dtype, exact));
    /* Each element writes a place of its own, so threads do not meet here. */
    if (at % e->step == 0) {
        e->relative[at / e->step] = range > 0 ? (float)(range / fabs(exact)) : 0;
        e->ulps[at / e->step] = (float)(range / twin_ulp(e->job->dtype, exact));
    }
}

/* The work of a thread: one block, tile by tile. */
static int do_block(void *user, unsigned thread, uint64_t block, struct twin_error *err)
{
    struct engine *e = user;
    struct workroom *b = &e->room[thread];
    const uint64_t n = e->job->elements;
    for (uint64_t tile = block * BLOCK; tile < (block + 1) * BLOCK && tile < e->tiles; tile++) {
        const uint64_t first = tile * TW_TILE_LANES;
        const unsigned lanes = n - first < TW_TILE_LANES ? (unsigned)(n - first) : TW_TILE_LANES;
        bool finite[TW_TILE_LANES];
        int rc = fill_tile(e, b, first, lanes, finite, err);
        if (rc != 0)
            return rc;
        add_all(e, b, first, lanes);
        for (unsigned lane = 0; lane < lanes; lane++)
            judge_element(e, b, &e->part[block], first + lane, lane, finite[lane]);
    }
    return 0;
}

/* ---- the whole */

static int by_float(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median and 95th percentile (nearest rank) of the numbers that are kept. */
static void quantiles(float *x, uint64_t n, double out[3])
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < n; i++)
        if (x[i] >= 0)
            x[kept++] = x[i];
    out[0] = out[1] = NAN;
    if (kept == 0)
        return;
    qsort(x, kept, sizeof *x, by_float);
    out[0] = (double)x[(kept - 1) / 2];
    out[1] = (double)x[(kept * 95 + 99) / 100 - 1];
}

static int by_hash(const void *a, const void *b)
{
    return memcmp(a, b, 2 * sizeof(uint64_t));
}

/* How many different results as a whole: vectors are told apart by 128 bits of hash over all
 * elements. */
static int count_vectors(struct twin_vector_spread *s, struct twin_error *err)
{
    uint64_t(*hash)[2] = tw_calloc(s->results + 1, sizeof *hash);
    if (!hash)
        return tw_no_memory(err, "for %zu results", s->results);
    for (size_t i = 0; i < s->results; i++)
        memcpy(hash[i], s->result[i].hash, sizeof *hash);
    qsort(hash, s->results, sizeof *hash, by_hash);
    s->vectors = s->results > 0;
    for (size_t i = 1; i < s->results; i++)
        s->vectors += by_hash(hash[i - 1], hash[i]) != 0;
    tw_free(hash);
    return 0;
}

/* Adds up the blocks in their order, and makes quantiles and counts of them. */
static int merge_parts(struct engine *e, uint64_t blocks, struct twin_vector_spread *s,
                       struct twin_error *err)
{
    for (uint64_t k = 0; k < blocks; k++) {
        const struct part *p = &e->part[k];
        const struct twin_vector_spread *t = &p->sum;
        s->elements += t->elements;
        s->not_finite += t->not_finite;
        s->vary += t->vary;
        s->distinct_mean += t->distinct_mean;
        s->distinct_max = t->distinct_max > s->distinct_max ? t->distinct_max : s->distinct_max;
        s->exact2 += t->exact2;
        s->range2 += t->range2;
        s->range_max = fmax(s->range_max, t->range_max);
        s->relative[2] = fmax(s->relative[2], t->relative[2]);
        s->ulps[2] = fmax(s->ulps[2], t->ulps[2]);
        for (size_t i = 0; i < s->results; i++) {
            struct twin_vector_result *a = &s->result[i], *b = &p->result[i];
            a->error2 += b->error2;
            a->bias += b->bias;
            a->error_max = fmax(a->error_max, b->error_max);
            a->wrong += b->wrong;
            a->hash[0] += b->hash[0];
            a->hash[1] += b->hash[1];
        }
    }
    s->distinct_mean /= (double)(s->elements - s->not_finite);
    const uint64_t kept = (e->job->elements + e->step - 1) / e->step;
    quantiles(e->relative, kept, s->relative);
    quantiles(e->ulps, kept, s->ulps);
    return count_vectors(s, err);
}

/* All memory is taken before threads start. After an error free_engine() frees what is there. */
static int prepare_engine(struct engine *e, uint64_t blocks, unsigned threads,
                          struct twin_error *err)
{
    const struct twin_vector_job *j = e->job;
    const uint64_t kept = (j->elements + e->step - 1) / e->step;
    bool ok = (e->part = tw_calloc(blocks + 1, sizeof *e->part)) &&
              (e->relative = tw_malloc(kept * sizeof(float) + 1)) &&
              (e->ulps = tw_malloc(kept * sizeof(float) + 1));
    for (uint64_t k = 0; ok && k < blocks; k++)
        ok = (e->part[k].result = tw_calloc(j->orders, sizeof *e->part[k].result)) != NULL;
    for (unsigned t = 0; ok && t < threads; t++) {
        struct workroom *b = &e->room[t];
        ok = (b->row = tw_reallocarray(NULL, (size_t)j->ranks * TW_TILE_LANES, e->add->size)) &&
             (b->out = tw_reallocarray(NULL, j->orders * TW_TILE_LANES, e->add->size)) &&
             (b->column = tw_reallocarray(NULL, j->ranks, sizeof(double))) &&
             (b->single = tw_reallocarray(NULL, j->ranks, sizeof(float))) &&
             (b->value = tw_reallocarray(NULL, j->orders, sizeof(double)));
    }
    for (uint64_t i = 0; ok && i < kept; i++)
        e->relative[i] = e->ulps[i] = NAN;
    int rc = ok ? 0 : tw_no_memory(err, "for %u ranks", j->ranks);
    e->program = rc == 0 ? tw_calloc(TWIN_ALGORITHMS + 1, sizeof *e->program) : NULL;
    if (rc == 0 && !e->program)
        rc = tw_no_memory(err, "for the orders");
    for (size_t i = 0; rc == 0 && i < j->orders; i++) {
        const enum twin_algorithm a = j->order[i].algorithm;
        if (!e->program[a].op)
            rc = tw_program_make(a, j->ranks, 0, &e->program[a], err);
        if (rc == 0 && a == TWIN_DOUBLE_TREE && !e->program[TWIN_ALGORITHMS].op)
            rc = tw_program_make(a, j->ranks, 1, &e->program[TWIN_ALGORITHMS], err);
    }
    return rc;
}

static void free_engine(struct engine *e, uint64_t blocks, unsigned threads)
{
    for (int i = 0; e->program && i <= TWIN_ALGORITHMS; i++)
        tw_program_free(&e->program[i]);
    tw_free(e->program);
    for (uint64_t k = 0; e->part && k < blocks; k++)
        tw_free(e->part[k].result);
    tw_free(e->part);
    tw_free(e->relative);
    tw_free(e->ulps);
    for (unsigned t = 0; t < threads; t++) {
        tw_free(e->room[t].row);
        tw_free(e->room[t].out);
        tw_free(e->room[t].column);
        tw_free(e->room[t].single);
        tw_free(e->room[t].value);
    }
}

int twin_vector_spread(const struct twin_vector_job *job, struct twin_vector_result *result,
                       struct twin_vector_spread *out, struct twin_error *err)
{
    struct engine e = {.job = job,
                       .add = tw_adder_for(job->dtype),
                       .step = job->elements / MOST_KEPT + 1,
                       .tiles = (job->elements + TW_TILE_LANES - 1) / TW_TILE_LANES};
    const uint64_t blocks = (e.tiles + BLOCK - 1) / BLOCK;
    const struct tw_work w = {
        .work = do_block, .user = &e, .after = job->progress, .after_user = job->progress_user};
    *out = (struct twin_vector_spread){.result = result, .results = job->orders};
    if (!e.add || job->ranks < 1 || job->ranks > TWIN_MAX_RANKS || job->elements < 1 ||
        job->elements > job->all || job->orders < 1)
        return twin_error_set(
            err, TWIN_EINVAL,
            "expected a type of f64, f32, f16 and bf16, 1 to %d ranks, and elements and orders",
            TWIN_MAX_RANKS);
    /* Each thread needs room of its own, so their number is fixed here. */
    const unsigned threads = tw_threads(job->threads, blocks);
    memset(result, 0, job->orders * sizeof *result);
    int rc = prepare_engine(&e, blocks, threads, err);
    if (rc == 0)
        rc = tw_work_run(&w, blocks, threads, err);
    if (rc == 0)
        rc = merge_parts(&e, blocks, out, err);
    free_engine(&e, blocks, threads);
    return rc;
}
