/* SPDX-License-Identifier: Apache-2.0 */
/* The phases after the agreement: the numbers to those who sum them, the results to those who want
 * them. There are three ways, all with the same bits as result, because sums are exact integers
 * (numerics/fixed.c):
 *
 * - DIRECT, one contribution from each rank: each sends the owner of a part its numbers as they
 *   are; the owner sums and rounds.
 * - OWNERS, any number of contributions: all agree on the exponents and depths of the blocks; each
 *   adds up its own contributions and sends the sums to the owners, as integers of as few bytes as
 *   hold them (struct twin_fixed_wire), chunk by chunk. With one contribution from each rank these
 *   are what is shortest: they travel as they are, and nothing has to be agreed on.
 * - SUM, for many ranks: as OWNERS, but MPI's own all-reduce adds the integers, and every rank
 *   rounds.
 *
 * Most functions here are steps (tw_step), or parts of one: a step posts operations, or returns the
 * error that it has set in r->err. */
#include <stdlib.h>
#include <string.h>
#include "base.h"
#include "inside.h"

/* `next` runs when these requests have ended. */
static int wait_for(struct tw_reduction *r, MPI_Request *requests, int count, tw_step *next)
{
    r->pending = requests;
    r->pending_count = count;
    r->next = next;
    return 0;
}

/* The first failure counts; what was posted is then left to MPI. */
static bool posted(struct tw_reduction *r, int rc, const char *what)
{
    if (rc != MPI_SUCCESS)
        tw_mpi_failed(&r->err, rc, what);
    return rc == MPI_SUCCESS;
}

/* Every other rank, beginning with the next one: so that not all send to the same one at first. */
static int other(const struct tw_reduction *r, int i)
{
    return (r->on->rank + i) % r->on->ranks;
}

/* Where the owner's part of the result goes. */
static char *own_result(const struct tw_reduction *r)
{
    return r->segment ? r->segment : (char *)r->what.out + (size_t)tw_low(r, r->on->rank) * r->size;
}

/* ---- results */
/* The last step: nothing is next. */
static int finish_way(struct tw_reduction *r)
{
    free(r->specials);
    r->specials = NULL;
    r->next = NULL;
    return 0;
}

/* All-reduce: every owner sends its part to all. Reduce-scatter: what lies in my range of the whole
 * blocks. */
static int give_results(struct tw_reduction *r)
{
    const int me = r->on->rank;
    int count = 0;
    if (r->what.counts) {
        int64_t begin = 0;
        for (int k = 0; k < me; k++)
            begin += r->what.counts[k];
        if (r->what.counts[me])
            memcpy(r->what.out, tw_element(r, r->segment, begin - tw_low(r, me)),
                   (size_t)r->what.counts[me] * r->size);
        return finish_way(r);
    }
    for (int i = 1; i < r->on->ranks; i++) {
        const int from = other(r, r->on->ranks - i);
        char *to = (char *)r->what.out + (size_t)tw_low(r, from) * r->size;
        if (tw_high(r, from) > tw_low(r, from) &&
            !posted(r,
                    MPI_Irecv(to, (int)(tw_high(r, from) - tw_low(r, from)), r->type, from,
                              TW_TAG_RESULTS, r->on->comm, &r->requests[count++]),
                    "MPI_Irecv"))
            return TWIN_EIO;
    }
    for (int i = 1; i < r->on->ranks; i++)
        if (tw_high(r, me) > tw_low(r, me) &&
            !posted(r,
                    MPI_Isend(own_result(r), (int)(tw_high(r, me) - tw_low(r, me)), r->type,
                              other(r, i), TW_TAG_RESULTS, r->on->comm, &r->requests[count++]),
                    "MPI_Isend"))
            return TWIN_EIO;
    return wait_for(r, r->requests, count, finish_way);
}

/* ---- one contribution from each rank: the numbers as they are, to the owner */
/* All numbers of my part are here: sum and round. */
static int sum_slices(struct tw_reduction *r)
{
    const struct twin_reduce *w = &r->what;
    const int me = r->on->rank;
    const int64_t part = tw_high(r, me) - tw_low(r, me);
    for (int k = 0, at = 0; k < r->on->ranks; k++)
        r->parts[k] = k == me ? tw_element(r, w->x, tw_low(r, me))
                              : tw_element(r, r->slices, part * at++);
    if (twin_fixed_sum(w->dtype, r->parts, r->on->ranks, part, w->block, w->total, w->divisor,
                       own_result(r), &r->err) != 0)
        return r->err.code;
    return give_results(r);
}

/* Receives are posted before sends. */
int tw_begin_direct(struct tw_reduction *r)
{
    const int me = r->on->rank;
    const int64_t part = tw_high(r, me) - tw_low(r, me);
    int count = 0;
    for (int k = 0, at = 0; part > 0 && k < r->on->ranks; k++)
        if (k != me &&
            !posted(r,
                    MPI_Irecv(r->slices + (size_t)(part * at++) * r->size, (int)part, r->type, k,
                              TW_TAG_NUMBERS, r->on->comm, &r->requests[count++]),
                    "MPI_Irecv"))
            return TWIN_EIO;
    for (int i = 1; i < r->on->ranks; i++) {
        const int to = other(r, i);
        if (tw_high(r, to) > tw_low(r, to) &&
            !posted(r,
                    MPI_Isend(tw_element(r, r->what.x, tw_low(r, to)),
                              (int)(tw_high(r, to) - tw_low(r, to)), r->type, to, TW_TAG_NUMBERS,
                              r->on->comm, &r->requests[count++]),
                    "MPI_Isend"))
            return TWIN_EIO;
    }
    return wait_for(r, r->requests, count, sum_slices);
}

/* ---- any number of contributions: exponents first, then integers, in chunks of which two are
 * under way */

/* The marks of the blocks from element low on, which begins one; NULL: there are none at all. */
static const void *specials_from(const struct tw_reduction *r, int64_t low)
{
    const struct twin_reduce *w = &r->what;
    if (!r->specials)
        return NULL;
    return r->specials +
           twin_fixed_specials_count(w->dtype, w->block, r->exponents, low / w->block) *
               twin_fixed_exponent_bytes(w->dtype);
}

static const unsigned char *exponents_from(const struct tw_reduction *r, int64_t low)
{
    return r->exponents + low / r->what.block * twin_fixed_exponent_bytes(r->what.dtype);
}

/* How elements from low on travel to their owner. */
static struct twin_fixed_wire wire_from(const struct tw_reduction *r, int64_t low)
{
    const struct twin_reduce *w = &r->what;
    const int64_t list = r->blocks * twin_fixed_exponent_bytes(w->dtype);
    return (struct twin_fixed_wire){.dtype = w->dtype,
                                    .block = w->block,
                                    .total = w->total,
                                    .most = r->all.most,
                                    .exponents = exponents_from(r, low),
                                    .depths = exponents_from(r, low) + list,
                                    .specials = specials_from(r, low)};
}

/* OWNERS with one contribution from each rank: numbers travel as they are. */
static bool as_they_are(const struct tw_reduction *r)
{
    return r->way == TWIN_WAY_OWNERS && r->all.most == 1 && r->all.sum == r->on->ranks;
}

/* Where my contributions to the elements from low on lie. */
static const void *const *mine_from(struct tw_reduction *r, int64_t low)
{
    for (int64_t c = 0; c < r->what.contributions; c++)
        r->held[c] = tw_element(r, r->what.x, c * r->what.n + low);
    return r->held;
}

/* Chunk number `chunk` of rank k's part, or, when MPI sums, of everything. */
static void range_of_chunk(const struct tw_reduction *r, int k, int64_t chunk, int64_t *low,
                           int64_t *high)
{
    const int64_t begin = r->way == TWIN_WAY_SUM ? 0 : tw_low(r, k);
    const int64_t end = r->way == TWIN_WAY_SUM ? r->what.n : tw_high(r, k);
    *low = begin + chunk * r->wide < end ? begin + chunk * r->wide : end;
    *high = *low + r->wide < end ? *low + r->wide : end;
}

/* How many of `type` elements [low, high) are on their way. What is packed is counted in integers,
 * of which the last may not be full: so many bytes an int might not count. */
static int units_on_the_way(const struct tw_reduction *r, int64_t low, int64_t high)
{
    if (as_they_are(r))
        return (int)(high - low);
    const struct twin_fixed_wire wire = wire_from(r, low);
    return (int)((twin_fixed_packed_bytes(&wire, high - low) + 7) / 8);
}

/* Sends one owner its elements [low, high): packed just before, where that is needed. */
static int send_to_owner(struct tw_reduction *r, int to, int64_t low, int64_t high,
                         struct tw_slot *s)
{
    const void *from = tw_element(r, r->what.x, low);
    if (!as_they_are(r)) {
        const struct twin_fixed_wire wire = wire_from(r, low);
        int64_t *packed = s->integers + to * r->wide;
        if (twin_fixed_pack(&wire, mine_from(r, low), r->what.contributions, high - low, packed,
                            &r->err) != 0)
            return r->err.code;
        from = packed;
    }
    return posted(r,
                  MPI_Isend(from, units_on_the_way(r, low, high),
                            as_they_are(r) ? r->type : MPI_INT64_T, to, TW_TAG_NUMBERS, r->on->comm,
                            &s->requests[s->count++]),
                  "MPI_Isend")
               ? 0
               : TWIN_EIO;
}

/* Posts one chunk: receives for my part, then for each owner its elements. */
static int post_owners(struct tw_reduction *r, int64_t chunk, struct tw_slot *s)
{
    const int me = r->on->rank;
    int64_t low, high;
    range_of_chunk(r, me, chunk, &low, &high);
    for (int k = 0, at = 0; high > low && k < r->on->ranks; k++)
        if (k != me &&
            !posted(r,
                    MPI_Irecv(s->received + at++ * r->wide, units_on_the_way(r, low, high),
                              as_they_are(r) ? r->type : MPI_INT64_T, k, TW_TAG_NUMBERS,
                              r->on->comm, &s->requests[s->count++]),
                    "MPI_Irecv"))
            return TWIN_EIO;
    for (int i = 1; i < r->on->ranks; i++) {
        const int to = other(r, i);
        range_of_chunk(r, to, chunk, &low, &high);
        if (high > low && send_to_owner(r, to, low, high, s) != 0)
            return r->err.code;
    }
    return 0;
}

/* My contributions to elements [low, high), added up as integers. low begins a block. */
static int quantise(struct tw_reduction *r, int64_t low, int64_t high, int64_t *integers)
{
    const struct twin_reduce *w = &r->what;
    memset(integers, 0, (size_t)(high - low) * sizeof *integers);
    for (int64_t c = 0; c < w->contributions; c++)
        if (twin_fixed_add(w->dtype, tw_element(r, w->x, c * w->n + low), high - low, w->block,
                           w->total, exponents_from(r, low), specials_from(r, low), integers,
                           &r->err) != 0)
            return r->err.code;
    return 0;
}

/* Posts one chunk as an all-reduce of integers. */
static int post_sum(struct tw_reduction *r, int64_t chunk, struct tw_slot *s)
{
    int64_t low, high;
    range_of_chunk(r, 0, chunk, &low, &high);
    if (quantise(r, low, high, s->integers) != 0)
        return r->err.code;
    return posted(r,
                  MPI_Iallreduce(s->integers, s->received, (int)(high - low), MPI_INT64_T, MPI_SUM,
                                 r->on->comm, &s->requests[s->count++]),
                  "MPI_Iallreduce")
               ? 0
               : TWIN_EIO;
}

/* A chunk beyond the last posts nothing. */
static int post(struct tw_reduction *r, int64_t chunk)
{
    struct tw_slot *s = &r->slot[chunk % TW_SLOTS];
    s->count = 0;
    if (chunk >= r->chunks)
        return 0;
    return r->way == TWIN_WAY_SUM ? post_sum(r, chunk, s) : post_owners(r, chunk, s);
}

/* All of my part of the chunk is here. */
static int end_owners(struct tw_reduction *r, struct tw_slot *s)
{
    const struct twin_reduce *w = &r->what;
    const int me = r->on->rank;
    int64_t low, high;
    range_of_chunk(r, me, r->chunk, &low, &high);
    if (high <= low)
        return 0;
    char *out = own_result(r) + (size_t)(low - tw_low(r, me)) * r->size;
    int others = 0;
    for (int k = 0; k + 1 < r->on->ranks; k++)
        r->parts[others++] = s->received + k * r->wide;
    if (as_they_are(r)) {
        r->parts[others++] = tw_element(r, w->x, low);
        return twin_fixed_sum(w->dtype, r->parts, others, high - low, w->block, w->total,
                              w->divisor, out, &r->err);
    }
    const struct twin_fixed_wire wire = wire_from(r, low);
    return twin_fixed_finish(&wire, mine_from(r, low), w->contributions, r->parts, others,
                             high - low, w->divisor, out, &r->err);
}

/* The sums of elements [low, high) as floating-point numbers. */
static int round_to(struct tw_reduction *r, int64_t low, int64_t high, const int64_t *integers,
                    char *out)
{
    const struct twin_reduce *w = &r->what;
    return twin_fixed_round(w->dtype, integers, high - low, w->block, w->total, w->divisor,
                            exponents_from(r, low), specials_from(r, low), out, &r->err);
}

/* Everybody has the whole sum: each rounds what it is to get. Chunks and parts begin at whole
 * blocks, both. */
static int end_sum(struct tw_reduction *r, struct tw_slot *s)
{
    int64_t low, high;
    range_of_chunk(r, 0, r->chunk, &low, &high);
    if (!r->what.counts)
        return round_to(r, low, high, s->received, (char *)r->what.out + (size_t)low * r->size);
    const int64_t mine = tw_low(r, r->on->rank), begin = low > mine ? low : mine;
    const int64_t until = tw_high(r, r->on->rank), stop = high < until ? high : until;
    return begin < stop ? round_to(r, begin, stop, s->received + (begin - low),
                                   r->segment + (size_t)(begin - mine) * r->size)
                        : 0;
}

/* One chunk has ended: its results are made, its slot takes the chunk after next, and the other
 * slot's is waited for. */
static int end_chunk(struct tw_reduction *r)
{
    struct tw_slot *s = &r->slot[r->chunk % TW_SLOTS];
    const int rc = r->way == TWIN_WAY_SUM ? end_sum(r, s) : end_owners(r, s);
    if (rc || post(r, r->chunk + TW_SLOTS) != 0)
        return r->err.code;
    if (++r->chunk < r->chunks)
        return wait_for(r, r->slot[r->chunk % TW_SLOTS].requests,
                        r->slot[r->chunk % TW_SLOTS].count, end_chunk);
    return r->way == TWIN_WAY_SUM && !r->what.counts ? finish_way(r) : give_results(r);
}

/* Posts the first two chunks. */
static int begin_chunks(struct tw_reduction *r)
{
    r->chunk = 0;
    for (int64_t k = 0; k < TW_SLOTS; k++)
        if (post(r, k) != 0)
            return r->err.code;
    return wait_for(r, r->slot[0].requests, r->slot[0].count, end_chunk);
}

/*
 * MAX of the exponents, and of the specials, which are numbers of the same type. Some MPIs compare
 * unsigned integers as if they were signed (MPICH 4.0.2: issue 6083; Open MPI 4.1: 10276, 10648),
 * so they travel as signed ones of the same order.
 */
static void flip(const struct tw_reduction *r, unsigned char *numbers, int64_t count)
{
    /* those of f64 stay below 2^15 */
    for (int64_t i = 0; r->exponent_type == MPI_INT8_T && i < count; i++)
        numbers[i] ^= 0x80;
}

/* The largest of each number over all ranks, in place; more than an int counts in two halves. */
static int post_max(struct tw_reduction *r, unsigned char *numbers, int64_t count, tw_step *next)
{
    const int64_t half = count > TW_ANY_MOST ? count / 2 : count;
    const int bytes = twin_fixed_exponent_bytes(r->what.dtype);
    int posted_count = 0;
    flip(r, numbers, count);
    for (int64_t at = 0; at < count; at += half)
        if (!posted(r,
                    MPI_Iallreduce(MPI_IN_PLACE, numbers + at * bytes, (int)half, r->exponent_type,
                                   MPI_MAX, r->on->comm, &r->requests[posted_count++]),
                    "MPI_Iallreduce"))
            return TWIN_EIO;
    return wait_for(r, r->requests, posted_count, next);
}

/* ---- NaN and infinities */
static int have_specials(struct tw_reduction *r)
{
    flip(r, r->specials, r->specials_count);
    return begin_chunks(r);
}

/* Marks of NaN and infinities, for the blocks that have any. A rank without memory makes all of
 * them give up together. */
static int exchange_specials(struct tw_reduction *r)
{
    const struct twin_reduce *w = &r->what;
    if (r->anyone_short) {
        free(r->specials);
        r->specials = NULL;
        return tw_no_memory(&r->err,
                            "for an all-reduce, on this rank or another, for the marks of NaN and "
                            "infinities");
    }
    for (int64_t c = 0; c < w->contributions; c++)
        if (twin_fixed_specials(w->dtype, tw_element(r, w->x, c * w->n), w->n, w->block,
                                r->exponents, r->specials, &r->err) != 0)
            return r->err.code;
    return post_max(r, r->specials, r->specials_count, have_specials);
}

/* SUM sends integers of 64 bits, and so needs no depths. */
static int lists_of_blocks(const struct tw_reduction *r)
{
    return r->way == TWIN_WAY_SUM ? 1 : 2;
}

/* The step when exponents are known to all. All ranks have the same ones, and so come to the same
 * conclusion. */
static int look_for_specials(struct tw_reduction *r)
{
    const struct twin_reduce *w = &r->what;
    flip(r, r->exponents, lists_of_blocks(r) * r->blocks);
    r->specials_count = twin_fixed_specials_count(w->dtype, w->block, r->exponents, r->blocks);
    if (r->specials_count == 0)
        return begin_chunks(r);
    if (r->specials_count > TW_ANY_MOST)
        return twin_error_set(&r->err, TWIN_ELIMIT,
                              "all-reduce: NaN or infinities in so many blocks that their marks do "
                              "not fit a message; reduce in parts");
    r->specials = tw_calloc((size_t)r->specials_count, (size_t)twin_fixed_exponent_bytes(w->dtype));
    r->short_of_memory = !r->specials;
    if (!posted(r,
                MPI_Iallreduce(&r->short_of_memory, &r->anyone_short, 1, MPI_INT, MPI_MAX,
                               r->on->comm, &r->requests[0]),
                "MPI_Iallreduce"))
        return TWIN_EIO;
    return wait_for(r, r->requests, 1, exchange_specials);
}

/* First the exponents, and the depths: the largest of each block, over my contributions and then
 * over all ranks. Depths lie behind exponents. */
int tw_begin_general(struct tw_reduction *r)
{
    const struct twin_reduce *w = &r->what;
    const int64_t list = r->blocks * twin_fixed_exponent_bytes(w->dtype);
    int rc = 0;
    if (as_they_are(r))
        return begin_chunks(r);
    memset(r->exponents, 0, 2 * (size_t)list);
    for (int64_t c = 0; !rc && c < w->contributions; c++) {
        const char *x = tw_element(r, w->x, c * w->n);
        if (r->way == TWIN_WAY_SUM)
            rc = twin_fixed_exponents(w->dtype, x, w->n, w->block, r->exponents, &r->err);
        else
            rc = twin_fixed_extents(w->dtype, x, w->n, w->block, r->exponents, r->exponents + list,
                                    &r->err);
    }
    return rc ? rc : post_max(r, r->exponents, lists_of_blocks(r) * r->blocks, look_for_specials);
}
