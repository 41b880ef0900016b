/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement: before anything else is sent, all ranks learn whether they want the same, and
 * whether one of them refuses. One all-reduce with an operation of our own (tw_agree_merge) does
 * it. A rank whose arguments are wrong takes part as well and says so: else the others would wait
 * for it for ever.
 *
 * Two ranks want the same number when the largest of it and of its negative are one: MAX alone
 * tells equality. What a rank contributes is added up and compared with the total that all were
 * told. */
#include <fenv.h>
#include <inttypes.h>
#include <string.h>
#include "inside.h"

/* A number that stands for counts: two lists that differ have different ones with great likelihood
 * (62 bits). 0: there are none, it is an all-reduce. */
static int64_t digest_of_counts(const struct tw_reduction *r)
{
    uint64_t h = 0x9E3779B97F4A7C15u;
    if (!r->what.counts)
        return 0;
    for (int k = 0; k < r->on->ranks; k++)
        h = (h ^ (uint64_t)r->what.counts[k]) * 0x94D049BB133111EBu, h ^= h >> 29;
    return (int64_t)(h >> 2 | 1);
}

/* Fills r->mine. A reduction that cannot run, for its arguments or for the thread's floating-point
 * mode, refuses; the lowest such rank is the one that all hear of. */
void tw_agree_fill(struct tw_reduction *r)
{
    const struct twin_reduce *w = &r->what;
    const int64_t v[TW_AGREE_FIELDS] = {w->n,       w->dtype, w->total,           w->block,
                                        w->divisor, w->way,   digest_of_counts(r)};
    r->err = r->kept;
    if (!r->err.code)
        /* refuses under another floating-point mode than the default one */
        twin_fixed_sum(TWIN_F64, NULL, 0, 0, 1, 1, 1, &r->size, &r->err);
    memset(&r->mine, 0, sizeof r->mine);
    for (int f = 0; f < TW_AGREE_FIELDS; f++) {
        r->mine.high[f] = v[f];
        r->mine.minus_low[f] = -v[f];
    }
    if (r->err.code)
        r->mine.refusal = (int64_t)(r->on->ranks - r->on->rank) << 8 | -r->err.code;
    else
        r->mine.most = r->mine.sum = w->contributions;
}

/* For MAX. */
static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void tw_agree_merge(void *from, void *to, int *count, MPI_Datatype *type)
{
    const struct tw_header *a = from;
    struct tw_header *b = to;
    (void)type;
    for (int i = 0; i < *count; i++, a++, b++) {
        for (int f = 0; f < TW_AGREE_FIELDS; f++) {
            b->high[f] = larger(a->high[f], b->high[f]);
            b->minus_low[f] = larger(a->minus_low[f], b->minus_low[f]);
        }
        b->refusal = larger(a->refusal, b->refusal);
        b->most = larger(a->most, b->most);
        b->sum += a->sum;
    }
}

/* Decides from what came out, the same on every rank: 0 with r->way chosen, or an error that is set
 * in r->err. A rank's own refusal comes first, since its message says most. */
int tw_agree_judge(struct tw_reduction *r)
{
    static const char *const names[TW_AGREE_FIELDS] = {"n",       "dtype", "total", "block",
                                                       "divisor", "way",   "counts"};
    const struct tw_header *h = &r->all;
    if (r->err.code)
        return r->err.code;
    if (h->refusal)
        return twin_error_set(&r->err, -(int)(h->refusal & 0xFF),
                              "all-reduce: rank %d refuses: %s; its own message says what is wrong",
                              r->on->ranks - (int)(h->refusal >> 8),
                              twin_error_name(-(int)(h->refusal & 0xFF)));
    for (int f = 0; f < TW_AGREE_FIELDS; f++) {
        if (h->high[f] == -h->minus_low[f])
            continue;
        if (f == TW_AGREE_COUNTS)
            return twin_error_set(
                &r->err, TWIN_EINVAL,
                "all-reduce: ranks disagree on counts, or some reduce-scatter and some all-reduce");
        if (f == TW_AGREE_DTYPE)
            return twin_error_set(
                &r->err, TWIN_EINVAL, "all-reduce: ranks disagree on dtype: %s here, %s elsewhere",
                twin_dtype_name(r->what.dtype),
                twin_dtype_name((enum twin_dtype)(
                    h->high[f] == (int64_t)r->what.dtype ? -h->minus_low[f] : h->high[f])));
        return twin_error_set(&r->err, TWIN_EINVAL,
                              "all-reduce: ranks disagree on %s: from %" PRId64 " to %" PRId64
                              ", %" PRId64 " here",
                              names[f], -h->minus_low[f], h->high[f], r->mine.high[f]);
    }
    if (h->sum != r->what.total)
        return twin_error_set(&r->err, TWIN_EINVAL,
                              "all-reduce: all ranks' contributions are %" PRId64
                              ", but total is %" PRId64,
                              h->sum, r->what.total);
    const bool one_each = h->most == 1 && h->sum == r->on->ranks;
    if (r->what.way == TWIN_WAY_DIRECT && !one_each)
        return twin_error_set(&r->err, TWIN_EINVAL,
                              "all-reduce: TWIN_WAY_DIRECT is for one contribution from each rank; "
                              "found up to %" PRId64 " from a rank, %" PRId64 " from %d ranks",
                              h->most, h->sum, r->on->ranks);
    if (r->what.way != TWIN_WAY_AUTO)
        r->way = r->what.way;
    else if (one_each)
        r->way = TWIN_WAY_DIRECT;
    else
        r->way = r->on->ranks > TW_OWNERS_MOST ? TWIN_WAY_SUM : TWIN_WAY_OWNERS;
    return 0;
}
