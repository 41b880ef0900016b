/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed-point sums on their way to the owner of a part, in few bytes (struct twin_fixed_wire of
 * <twin/reduce.h>).
 *
 * The integers of fixed.c count units of 2^(E-B), of which the lowest bits are zero in most blocks:
 * every element is a whole multiple of u, the last place of the block's smallest one. Where u is
 * not below the unit, integers count u's instead, so that none is rounded and the sum is the same
 * number. They have high - low + F + 1 bits (`bits`), with high and low the exponents of the
 * block's largest and smallest elements and F the bits of the type's fraction; sums of k have
 * ceil(log2 k) more, and a sign. If that is at most 48, they travel in 4, 5 or 6 bytes. They are
 * then small enough to be summed in f64, exactly. All other blocks travel as the 64-bit integers
 * that they are.
 *
 * A packed block: the lower 4 bytes of each element, then what is above them of each. */
#include "fixed_inside.h"
#include "fpenv.h"

/* How a block travels. */
struct travel {
    bool special;
    uint32_t field; /* of its largest finite element */
    int64_t base;   /* where its specials lie */
    int bits;       /* of its largest element as an integer */
    int bytes;      /* of each element of it on its way: 0, 4, 5, 6 or 8 */
};

/* The arguments of one call, checked. */
struct parcel {
    struct tw_fixed_job job;
    const struct twin_fixed_wire *wire;
    const struct tw_fixed_set *set;
    int bits; /* B of the definition */
};

/* t->special and t->field are known. A width is that of the largest sum of `most`, either way. What
 * was rounded to a unit may have grown to the power of two above it: one bit more. */
static void choose_width(const struct parcel *p, uint32_t depth, struct travel *t)
{
    t->bits = p->bits;
    t->bytes = 8;
    if (t->special || p->job.kind == TW_F64)
        return;
    if (depth == 0) {
        t->bytes = 0;
        return;
    }
    const int fraction = tw_float_formats[p->job.kind].fraction;
    const int smallest = (int)p->job.special - (int)depth;
    const int low = smallest > 1 ? smallest : 1, high = t->field > 1 ? (int)t->field : 1;
    const int needed = (high > low ? high - low : 0) + fraction + 1;
    if (needed > p->bits)
        return;
    const int width = needed + tw_fixed_ceil_log2(p->wire->most) + 1;
    t->bits = needed;
    if (width <= 48)
        t->bytes = width <= 32 ? 4 : 5 + (width > 40);
}

/* Block b of the part; `w` steps on from block to block. */
static struct travel travel_of(const struct parcel *p, struct tw_fixed_walk *w, int64_t b)
{
    struct travel t = {0};
    t.special = tw_fixed_walk_block(&p->job, w, b, &t.field, &t.base);
    choose_width(p, tw_fixed_mark(&p->job, p->wire->depths, b), &t);
    return t;
}

static int begin(struct parcel *p, const struct twin_fixed_wire *wire, int64_t n, bool present,
                 struct twin_error *err)
{
    const bool lists = wire->exponents && wire->depths;
    int rc = tw_fixed_job_init(&p->job, wire->dtype, n, wire->block, present && lists, err);
    if (!rc)
        rc = tw_fixed_check_total(wire->total, 1, err);
    if (!rc && (wire->most < 1 || wire->most > wire->total))
        rc = twin_error_set(err, TWIN_EINVAL,
                            "order-free sum: up to %lld contributions in a packed part, of %lld in "
                            "all; expected 1 to all",
                            (long long)wire->most, (long long)wire->total);
    if (!rc) {
        p->wire = wire;
        p->set = tw_fixed_set_in_use();
        p->bits = twin_fixed_bits(wire->total);
    }
    return rc;
}

static int check_contributions(const void *const *x, int64_t count, int64_t most, int64_t n,
                               struct twin_error *err)
{
    if (count < 0 || count > most)
        return twin_error_set(err, TWIN_EINVAL,
                              "order-free sum: %lld contributions where at most %lld can be",
                              (long long)count, (long long)most);
    for (int64_t c = 0; n > 0 && c < count; c++)
        if (!x || !x[c])
            return twin_error_set(err, TWIN_EINVAL, "order-free sum: contribution %lld is NULL",
                                  (long long)c);
    return 0;
}

/* Of elements that lie in block b, or in a part of it. */
static void raise_extents(const struct tw_fixed_set *set, const struct tw_fixed_job *j,
                          const char *from, int64_t length, int64_t b, void *exponents,
                          void *depths)
{
    struct tw_fixed_extent e = {0, 0};
    if (j->kind == TW_F64)
        e.largest = set->exponent[TW_F64](from, (size_t)length);
    else
        e = set->extent[j->kind](from, (size_t)length);
    tw_fixed_raise(j, exponents, b, e.largest);
    if (e.smallest <= j->special)
        tw_fixed_raise(j, depths, b, j->special - e.smallest);
}

int twin_fixed_extents(enum twin_dtype dtype, const void *x, int64_t n, int64_t block,
                       void *exponents, void *depths, struct twin_error *err)
{
    struct tw_fixed_job j;
    const int rc = tw_fixed_job_init(&j, dtype, n, block, x && exponents && depths, err);
    if (rc)
        return rc;
    const struct tw_fixed_set *set = tw_fixed_set_in_use();
    for (int64_t b = 0; b * block < n; b++)
        raise_extents(set, &j, tw_fixed_number_at(&j, x, b * block), tw_fixed_block_length(&j, b),
                      b, exponents, depths);
    return 0;
}

/* Copied a piece at a time, so that what is looked at is in the cache. */
int twin_fixed_take(enum twin_dtype dtype, const void *x, int64_t n, int64_t at, int64_t block,
                    void *to, void *exponents, void *depths, struct twin_error *err)
{
    struct tw_fixed_job j;
    const int rc = tw_fixed_job_init(&j, dtype, n, block, x && to && exponents && depths, err);
    if (rc)
        return rc;
    if (at < 0 || at > INT64_MAX - n)
        return twin_error_set(err, TWIN_EINVAL,
                              "order-free sum: %lld elements to element %lld; expected 0 or more",
                              (long long)n, (long long)at);
    const struct tw_fixed_set *set = tw_fixed_set_in_use();
    for (int64_t i = 0, m; i < n; i += m) {
        const int64_t b = (at + i) / block, left = block - (at + i) % block;
        m = left < TW_FIXED_CHUNK ? left : TW_FIXED_CHUNK;
        m = m < n - i ? m : n - i;
        const char *from = tw_fixed_number_at(&j, x, i);
        memcpy((char *)to + (size_t)(at + i) * j.size, from, (size_t)m * j.size);
        raise_extents(set, &j, from, m, b, exponents, depths);
    }
    return 0;
}

int64_t twin_fixed_packed_bytes(const struct twin_fixed_wire *wire, int64_t n)
{
    struct parcel p;
    if (begin(&p, wire, n, true, NULL) != 0)
        return TWIN_EINVAL;
    int64_t bytes = 0;
    for (int64_t b = 0; b * wire->block < n; b++) {
        struct travel t = {.field = tw_fixed_mark(&p.job, wire->exponents, b)};
        t.special = t.field == p.job.special;
        choose_width(&p, tw_fixed_mark(&p.job, wire->depths, b), &t);
        bytes += t.bytes * tw_fixed_block_length(&p.job, b);
    }
    return bytes;
}

/* ---- to the owner */
/* The sums of a block as 64-bit integers, which lie at any address. */
static void pack_integers(const struct parcel *p, const struct travel *t, const void *const *x,
                          int64_t count, int64_t first, int64_t length, char *to)
{
    const struct tw_fixed_unit u = tw_fixed_unit_of(p->job.kind, t->field, t->bits);
    int64_t sum[TW_FIXED_CHUNK];
    for (int64_t i = 0; i < length; i += TW_FIXED_CHUNK) {
        const int64_t m = length - i < TW_FIXED_CHUNK ? length - i : TW_FIXED_CHUNK;
        memset(sum, 0, (size_t)m * sizeof *sum);
        for (int64_t c = 0; c < count; c++)
            tw_fixed_add_block(p->set, &p->job, tw_fixed_number_at(&p->job, x[c], first + i), m, &u,
                               t->special, sum);
        memcpy(to + (size_t)i * sizeof *sum, sum, (size_t)m * sizeof *sum);
    }
}

/* The sums of a block that f64 holds, in fewer bytes. */
static void pack_narrow(const struct parcel *p, const struct travel *t, const void *const *x,
                        int64_t count, int64_t first, int64_t length, char *to)
{
    const struct tw_fixed_unit u = tw_fixed_unit_of(p->job.kind, t->field, t->bits);
    char *const high = to + 4 * length;
    double sum[TW_FIXED_IN_L1];
    for (int64_t i = 0; i < length; i += TW_FIXED_IN_L1) {
        const int64_t m = length - i < TW_FIXED_IN_L1 ? length - i : TW_FIXED_IN_L1;
        p->set->gather[p->job.kind](x, (size_t)count, (size_t)(first + i), (size_t)m, sum);
        p->set->pack[t->bytes - 4](sum, (size_t)m, u.scale, to + 4 * i, high + (t->bytes - 4) * i);
    }
}

int twin_fixed_pack(const struct twin_fixed_wire *wire, const void *const *x, int64_t count,
                    int64_t n, void *packed, struct twin_error *err)
{
    struct parcel p;
    int rc = begin(&p, wire, n, packed != NULL, err);
    if (!rc)
        rc = check_contributions(x, count, wire->most, n, err);
    if (!rc)
        rc = tw_fixed_need_specials(&p.job, wire->dtype, wire->exponents, wire->specials, err);
    if (rc)
        return rc;
    const struct tw_fpenv env = tw_fpenv_enter();
    const bool standard = tw_fpenv_is_standard(env);
    struct tw_fixed_walk w = {wire->exponents, wire->specials, 0};
    char *to = packed;
    for (int64_t b = 0; standard && b * wire->block < n; b++) {
        const struct travel t = travel_of(&p, &w, b);
        const int64_t length = tw_fixed_block_length(&p.job, b);
        if (t.bytes == 8)
            pack_integers(&p, &t, x, count, b * wire->block, length, to);
        else if (t.bytes)
            pack_narrow(&p, &t, x, count, b * wire->block, length, to);
        to += t.bytes * length;
    }
    tw_fpenv_leave(env);
    return standard ? 0 : tw_fixed_refuse_mode(err);
}

/* ---- at the owner */
/* All that there is to a block of the part. */
struct arrived {
    const void *const *x;
    int64_t count;
    const void *const *packed;
    int64_t senders;
    int64_t first, length; /* elements */
    int64_t at;            /* where the block begins in each packed part */
};

/* What sender k has sent of the block, from element i on. */
static const char *low_of(const struct arrived *a, int64_t k, int64_t i)
{
    return (const char *)a->packed[k] + a->at + 4 * i;
}

static const char *high_of(const struct arrived *a, const struct travel *t, int64_t k, int64_t i)
{
    return (const char *)a->packed[k] + a->at + 4 * a->length + (t->bytes - 4) * i;
}

/* In f64, where all sums are exact; a chunk is read before any of it is written. */
static void finish_narrow(const struct parcel *p, const struct travel *t, const struct arrived *a,
                          int64_t divisor, char *out)
{
    const double unit = 1 / tw_fixed_unit_of(p->job.kind, t->field, t->bits).scale;
    double sum[TW_FIXED_IN_L1];
    for (int64_t i = 0; i < a->length; i += TW_FIXED_IN_L1) {
        const int64_t m = a->length - i < TW_FIXED_IN_L1 ? a->length - i : TW_FIXED_IN_L1;
        p->set->gather[p->job.kind](a->x, (size_t)a->count, (size_t)(a->first + i), (size_t)m, sum);
        for (int64_t k = 0; t->bytes && k < a->senders; k++)
            p->set->unpack[t->bytes - 4](low_of(a, k, i), high_of(a, t, k, i), (size_t)m, unit,
                                         sum);
        p->set->finish[p->job.kind](sum, (size_t)m, 1 / (double)divisor,
                                    out + (size_t)(a->first + i) * p->job.size);
    }
}

/* 64-bit integers that one sender has sent, from any address. */
static void add_integers(const char *from, int64_t n, int64_t *restrict sum)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t v;
        memcpy(&v, from + 8 * i, 8);
        sum[i] += v;
    }
}

/* In integers, whose sum is divided and rounded once. */
static void finish_integers(const struct parcel *p, const struct travel *t, const struct arrived *a,
                            int64_t divisor, char *out)
{
    const struct tw_fixed_unit u = tw_fixed_unit_of(p->job.kind, t->field, t->bits);
    const int exponent = tw_fixed_unit_exponent(p->job.kind, t->field, t->bits);
    int64_t sum[TW_FIXED_CHUNK];
    for (int64_t i = 0; i < a->length; i += TW_FIXED_CHUNK) {
        const int64_t m = a->length - i < TW_FIXED_CHUNK ? a->length - i : TW_FIXED_CHUNK;
        memset(sum, 0, (size_t)m * sizeof *sum);
        for (int64_t c = 0; c < a->count; c++)
            tw_fixed_add_block(p->set, &p->job, tw_fixed_number_at(&p->job, a->x[c], a->first + i),
                               m, &u, t->special, sum);
        for (int64_t k = 0; t->bytes && k < a->senders; k++) {
            if (t->bytes == 8)
                add_integers((const char *)a->packed[k] + a->at + 8 * i, m, sum);
            else
                p->set->unpack_integers[t->bytes - 4](low_of(a, k, i), high_of(a, t, k, i),
                                                      (size_t)m, sum);
        }
        tw_fixed_round_block(p->set, &p->job, sum, m, divisor, exponent,
                             out + (size_t)(a->first + i) * p->job.size);
    }
}

/* Whether f64 holds every sum of the block's elements, in any order, as whole numbers of its unit,
 * and the divisor takes nothing from it (fixed.c, `narrow`). */
static bool sums_in_f64(const struct parcel *p, const struct travel *t, int64_t divisor)
{
    return t->bytes != 8 && (divisor & (divisor - 1)) == 0 &&
           (t->bytes == 0 || t->bits + tw_fixed_ceil_log2(p->wire->total) <= 53);
}

int twin_fixed_finish(const struct twin_fixed_wire *wire, const void *const *x, int64_t count,
                      const void *const *packed, int64_t senders, int64_t n, int64_t divisor,
                      void *out, struct twin_error *err)
{
    struct parcel p;
    int rc = begin(&p, wire, n, out != NULL, err);
    if (!rc)
        rc = tw_fixed_check_total(wire->total, divisor, err);
    if (!rc)
        rc = check_contributions(x, count, wire->total, n, err);
    if (!rc)
        rc = check_contributions(packed, senders, TWIN_FIXED_MAX_TOTAL, n, err);
    if (!rc)
        rc = tw_fixed_need_specials(&p.job, wire->dtype, wire->exponents, wire->specials, err);
    if (rc)
        return rc;
    const struct tw_fpenv env = tw_fpenv_enter();
    const bool standard = tw_fpenv_is_standard(env);
    struct tw_fixed_walk w = {wire->exponents, wire->specials, 0};
    struct arrived a = {.x = x, .count = count, .packed = packed, .senders = senders};
    for (int64_t b = 0; standard && b * wire->block < n; b++) {
        const struct travel t = travel_of(&p, &w, b);
        a.first = b * wire->block;
        a.length = tw_fixed_block_length(&p.job, b);
        if (sums_in_f64(&p, &t, divisor))
            finish_narrow(&p, &t, &a, divisor, out);
        else
            finish_integers(&p, &t, &a, divisor, out);
        if (t.special)
            tw_fixed_put_marks(&p.job, wire->specials, t.base, a.length,
                               (char *)out + (size_t)a.first * p.job.size);
        a.at += t.bytes * a.length;
    }
    tw_fpenv_leave(env);
    return standard ? 0 : tw_fixed_refuse_mode(err);
}
