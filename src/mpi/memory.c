/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what one rank wants, shares the elements among the ranks, and takes the memory for it,
 * once: runs of a reduction allocate nothing, but for marks of NaN and infinities. Buffers are
 * tw_calloc'ed and freed by tw_reduction_release(). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base.h"
#include "inside.h"

/* Elements of a chunk, for tests; 0: the constants of inside.h. */
int64_t tw_chunk;

/* All that this rank alone can find wrong, in words. */
static int check_rank(const struct tw_reduction *r, struct twin_error *err)
{
    const struct twin_reduce *w = &r->what;
    if (twin_fixed_exponent_bytes(w->dtype) < 0)
        return twin_error_set(
            err, TWIN_EINVAL,
            "all-reduce: elements of type %s (%d); expected f64, f32, f16 or bf16",
            twin_dtype_name(w->dtype), (int)w->dtype);
    if (w->n < 0 || w->contributions < 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "all-reduce: %" PRId64 " contributions of %" PRId64
                              " elements; expected 0 or more",
                              w->contributions, w->n);
    if (w->n > TW_ANY_MOST)
        return twin_error_set(err, TWIN_ELIMIT,
                              "all-reduce: %" PRId64
                              " elements; at most 2^31 - 1 in a call: reduce them in parts",
                              w->n);
    if (w->total < 1 || w->total > TWIN_FIXED_MAX_TOTAL || w->contributions > w->total)
        return twin_error_set(err, TWIN_EINVAL,
                              "all-reduce: %" PRId64 " contributions here of %" PRId64
                              " in all; expected at most as many, 1 to 2^31 in all",
                              w->contributions, w->total);
    if (w->block < 1 || w->block > TWIN_FIXED_MAX_BLOCK || w->divisor < 1 ||
        w->divisor > TWIN_FIXED_MAX_TOTAL)
        return twin_error_set(err, TWIN_EINVAL,
                              "all-reduce: blocks of %" PRId64 " elements, divisor %" PRId64
                              "; expected to 2^30 and to 2^31",
                              w->block, w->divisor);
    if ((unsigned)w->way > TWIN_WAY_SUM)
        return twin_error_set(err, TWIN_EINVAL,
                              "all-reduce: way %d; expected one of enum twin_reduce_way",
                              (int)w->way);
    if (w->n > 0 && w->contributions > 0 && !w->x)
        return twin_error_set(err, TWIN_EINVAL, "all-reduce: x is NULL");
    int64_t got = w->n;
    if (w->counts) {
        int64_t left = w->n;
        for (int k = 0; k < r->on->ranks; k++) {
            if (w->counts[k] < 0 || w->counts[k] > left)
                return twin_error_set(err, TWIN_EINVAL,
                                      "all-reduce: counts[%d] is %" PRId64 ", when %" PRId64
                                      " of %" PRId64 " elements are left",
                                      k, w->counts[k], left, w->n);
            left -= w->counts[k];
        }
        if (left)
            return twin_error_set(err, TWIN_EINVAL,
                                  "all-reduce: counts end %" PRId64 " before n, %" PRId64, left,
                                  w->n);
        got = w->counts[r->on->rank];
    }
    if (got > 0 && !w->out)
        return twin_error_set(err, TWIN_EINVAL, "all-reduce: out is NULL");
    const uintptr_t x = (uintptr_t)w->x, out = (uintptr_t)w->out, size = twin_dtype_size(w->dtype);
    const uintptr_t x_bytes = (uintptr_t)(w->contributions * w->n) * size;
    const uintptr_t out_bytes = (uintptr_t)got * size;
    if (x_bytes && out_bytes && x < out + out_bytes && out < x + x_bytes && (x != out || w->counts))
        return twin_error_set(
            err, TWIN_EINVAL,
            "all-reduce: x and out overlap; out may be x itself%s, or apart from it",
            w->counts ? " only in an all-reduce" : "");
    return 0;
}

/* Zeroed memory; NULL with r->kept set. */
static void *take_memory(struct tw_reduction *r, int64_t count, size_t size)
{
    void *p = tw_calloc(count > 0 ? (size_t)count : 1, size);
    if (!p)
        tw_no_memory(&r->kept, "for an all-reduce of %" PRId64 " x %zu bytes", count, size);
    return p;
}

/* Whether a reduction that is not DIRECT goes by MPI's own all-reduce. */
static bool by_sum(const struct tw_reduction *r)
{
    return r->what.way == TWIN_WAY_SUM ||
           (r->what.way == TWIN_WAY_AUTO && r->on->ranks > TW_OWNERS_MOST);
}

/* Who owns what: whole blocks, shared evenly; in a reduce-scatter the whole blocks around what each
 * rank is to get, so that parts may overlap at their ends. Then how wide a chunk is and how many
 * there are. */
static void share_blocks(struct tw_reduction *r)
{
    const struct twin_reduce *w = &r->what;
    const int ranks = r->on->ranks;
    int64_t most = 0, given = 0;
    for (int k = 0; k < ranks; k++) {
        int64_t low = r->blocks * k / ranks * w->block;
        int64_t high = r->blocks * (k + 1) / ranks * w->block;
        if (w->counts) {
            low = given / w->block * w->block;
            given += w->counts[k];
            high = w->counts[k] ? (given + w->block - 1) / w->block * w->block : low;
        }
        r->bounds[2 * k] = low < w->n ? low : w->n;
        r->bounds[2 * k + 1] = high < w->n ? high : w->n;
        most = tw_high(r, k) - tw_low(r, k) > most ? tw_high(r, k) - tw_low(r, k) : most;
    }
    /* A chunk is whole blocks of each part, and as many chunks for all. */
    int64_t wide = ranks * (int64_t)TW_CHUNK > TW_CHUNK_ALL ? TW_CHUNK_ALL / ranks : TW_CHUNK;
    if (by_sum(r)) {
        wide = TW_CHUNK_ALL;
        most = w->n;
    }
    wide = tw_chunk ? tw_chunk : wide;
    r->wide = (wide / w->block + (wide % w->block != 0)) * w->block;
    if (r->wide >= most)
        r->wide = most > 0 ? most : 1;
    r->chunks = (most + r->wide - 1) / r->wide;
}

/* Buffers for every way that this rank may have to go: which one it is, the agreement says later.
 */
static int take_all(struct tw_reduction *r)
{
    const int ranks = r->on->ranks;
    const int64_t part = tw_high(r, r->on->rank) - tw_low(r, r->on->rank);
    const int64_t integers = by_sum(r) ? r->wide : r->wide * ranks;
    /* two lists of them; each rank's part of what is summed, and each of my contributions */
    if (!(r->exponents = take_memory(r, r->blocks, 2 * 2)) ||
        !(r->requests = take_memory(r, 2 * ranks, sizeof(MPI_Request))) ||
        !(r->parts = take_memory(r, ranks, sizeof *r->parts)) ||
        !(r->held = take_memory(r, r->what.contributions, sizeof *r->held)))
        return TWIN_ENOMEM;
    for (int s = 0; s < TW_SLOTS; s++)
        if (!(r->slot[s].integers = take_memory(r, integers, sizeof(int64_t))) ||
            !(r->slot[s].received = take_memory(r, integers, sizeof(int64_t))) ||
            !(r->slot[s].requests = take_memory(r, 2 * ranks, sizeof(MPI_Request))))
            return TWIN_ENOMEM;
    if (r->what.counts && !(r->segment = take_memory(r, part, r->size)))
        return TWIN_ENOMEM;
    if (r->what.contributions == 1 && r->what.total == ranks && r->what.way <= TWIN_WAY_DIRECT)
        if (!(r->slices = take_memory(r, part * (ranks - 1), r->size)))
            return TWIN_ENOMEM;
    return 0;
}

/* What MPI calls the elements; those of 16 bits it does not know. */
static MPI_Datatype type_of(enum twin_dtype dtype)
{
    if (dtype == TWIN_F64)
        return MPI_DOUBLE;
    return dtype == TWIN_F32 ? MPI_FLOAT : MPI_UINT16_T;
}

/* Fills in defaults, checks, and takes the memory. The result is in r->kept. */
int tw_reduction_prepare(struct tw_reduction *r)
{
    struct twin_reduce *w = &r->what;
    w->block = w->block ? w->block : TWIN_FIXED_BLOCK;
    w->divisor = w->divisor ? w->divisor : 1;
    if (check_rank(r, &r->kept) != 0) {
        w->counts = NULL; /* the caller's: not ours to look at later */
        return r->kept.code;
    }
    r->size = twin_dtype_size(w->dtype);
    r->type = type_of(w->dtype);
    r->exponent_type = w->dtype == TWIN_F64 ? MPI_INT16_T : MPI_INT8_T;
    r->blocks = twin_fixed_blocks(w->n, w->block);
    if (w->counts) {
        int64_t *counts = take_memory(r, r->on->ranks, sizeof *counts);
        if (counts)
            memcpy(counts, w->counts, (size_t)r->on->ranks * sizeof *counts);
        w->counts = counts;
        if (!counts)
            return TWIN_ENOMEM;
    }
    r->ready = true; /* counts are ours */
    if (!(r->bounds = take_memory(r, 2 * (int64_t)r->on->ranks, sizeof *r->bounds)))
        return TWIN_ENOMEM;
    share_blocks(r);
    return take_all(r);
}

/* Frees what prepare has taken, as far as it came. */
void tw_reduction_release(struct tw_reduction *r)
{
    if (r->ready)
        free((void *)(uintptr_t)r->what.counts);
    free(r->bounds);
    free(r->exponents);
    free(r->specials);
    free(r->slices);
    free(r->parts);
    free(r->held);
    free(r->segment);
    free(r->requests);
    for (int s = 0; s < TW_SLOTS; s++) {
        free(r->slot[s].integers);
        free(r->slot[s].received);
        free(r->slot[s].requests);
    }
}
