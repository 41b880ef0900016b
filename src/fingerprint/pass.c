/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of the kernels. A span is taken chunk by chunk, so that the second reader finds it in
 * the first-level cache. Whole lane groups go to the fast kernels, which know only finite values; a
 * span with others in it is done again by the careful ones. Ragged ends go element by element, into
 * the same lanes.
 */
#include "pass.h"
#include "convert.h"

/* The type of the parts of complex numbers, else the type itself. */
static enum twin_dtype part_of(enum twin_dtype dtype)
{
    if (dtype == TWIN_C64)
        return TWIN_F32;
    return dtype == TWIN_C128 ? TWIN_F64 : dtype;
}

/* first: index of the first element in the global tensor. A complex number is two parts, each an
 * element of its own here. */
void tw_pass_init(struct tw_pass *s, enum twin_dtype dtype, bool stats, struct twin_sketch *sketch,
                  uint64_t first)
{
    bool complex = dtype == TWIN_C64 || dtype == TWIN_C128;
    s->k = tw_fingerprint_kernels();
    s->statistics = tw_statistics_kernels();
    s->dtype = part_of(dtype);
    s->part_bytes = twin_dtype_size(s->dtype);
    s->moments = (stats || sketch) && dtype != TWIN_BYTES;
    s->sum = (struct twin_digest){0, 0};
    s->stats = (struct twin_stats){.min = __builtin_inf(), .max = -__builtin_inf()};
    s->sketch = sketch;
    s->next = complex ? 2 * first : first;
    s->lanes = (struct tw_lanes){{0}, {0}};
    s->rows = (struct tw_rows){{0}, NULL, 0};
    if (sketch) {
        s->rows.bucket = sketch->bucket;
        s->rows.k = sketch->k;
        sketch->skipped = 0;
        for (uint32_t j = 0; j < TWIN_SKETCH_MAX; j++)
            sketch->bucket[j] = 0;
    }
}

/* -0 counts below +0, so the result does not depend on which of them comes first. */
static void merge_min(struct twin_stats *t, double x)
{
    if (tw_order_key(x) < tw_order_key(t->min))
        t->min = x;
}

static void merge_max(struct twin_stats *t, double x)
{
    if (tw_order_key(x) > tw_order_key(t->max))
        t->max = x;
}

/* The sign bits of the elements of this size in 8 bytes. */
static uint64_t sign_bits(size_t size)
{
    switch (size) {
    case 2: return 0x8000800080008000u;
    case 4: return 0x8000000080000000u;
    default: return 0x8000000000000000u;
    }
}

/* Is a sign bit set (or, with set 0, clear) in any of these elements? */
static bool any_sign(const unsigned char *p, size_t bytes, size_t size, int set)
{
    const uint64_t mask = sign_bits(size);
    uint64_t all = ~0ull, any = 0;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t w;
        memcpy(&w, p + i, 8);
        all &= w;
        any |= w;
    }
    return set ? (any & mask) != 0 : (all & mask) != mask;
}

/* Takes the extremes of a span of finite elements. Vector minima do not tell -0 from +0: when a
 * zero could be the new extreme, the sign bits of the span are looked at. */
static void merge_extremes(struct twin_stats *t, struct tw_extremes e, const void *p, size_t n,
                           size_t size)
{
    /* A zero matters only when no number below it has been seen. */
    if (e.min == 0) {
        const bool matters = t->min > 0 || tw_order_key(t->min) == 0;
        e.min = matters && any_sign(p, n * size, size, 1) ? -0.0 : 0.0;
    }
    if (e.max == 0) {
        const bool matters = t->max < 0 || t->max == 0;
        e.max = matters && any_sign(p, n * size, size, 0) ? 0.0 : -0.0;
    }
    merge_min(t, e.min);
    merge_max(t, e.max);
    t->zeros += e.zeros;
}

/* Takes what a careful kernel has counted. */
static void merge_careful(struct twin_stats *t, const struct tw_careful *c)
{
    t->nan += c->nan;
    t->pos_inf += c->pos_inf;
    t->neg_inf += c->neg_inf;
    t->zeros += c->zeros;
    merge_min(t, c->min);
    merge_max(t, c->max);
}

/* Were all elements finite? The factor keeps the sum of 16 large squares below infinity. */
static bool lanes_finite(const struct tw_lanes *l)
{
    double sum = 0; /* squares: only an overflow, an infinity or a NaN makes this one not finite */
    for (int j = 0; j < TW_LANES; j++)
        sum += l->sumsq[j] * 0x1p-8;
    return sum < __builtin_inf();
}

/* What of a sketch of at most TW_LANES buckets a kernel changes. */
struct kept_rows {
    double lane[TW_LANES], bucket[TW_LANES];
};

static void keep_rows(struct kept_rows *to, const struct tw_rows *from)
{
    memcpy(to->lane, from->lane, sizeof to->lane);
    memcpy(to->bucket, from->bucket, from->k * sizeof *to->bucket);
}

static void put_rows_back(const struct kept_rows *from, struct tw_rows *to)
{
    memcpy(to->lane, from->lane, sizeof from->lane);
    memcpy(to->bucket, from->bucket, to->k * sizeof *to->bucket);
}

/* Whole lane groups by the fast kernels; index is a multiple of TW_LANES. False, and nothing is
 * added, when an element is not finite. */
static bool fast_groups(struct tw_pass *s, enum tw_kind kind, size_t size, const unsigned char *p,
                        size_t n, uint64_t index)
{
    /* Kept, because the kernels change them before it is known whether they may. */
    const struct tw_lanes before = s->lanes;
    const bool both = s->sketch && s->rows.k <= TW_LANES;
    /* Statistics of f64 widen nothing: those are as fast with the digest's set. */
    const struct tw_kernels *k = kind == TW_F64 && !s->sketch ? s->k : s->statistics;
    struct kept_rows rows;
    struct tw_extremes e;
    if (both) {
        keep_rows(&rows, &s->rows);
        e = k->both[kind](p, n, index, &s->lanes, &s->rows);
    } else {
        e = k->moments[kind](p, n, &s->lanes);
    }
    if (!lanes_finite(&s->lanes)) {
        s->lanes = before;
        if (both)
            put_rows_back(&rows, &s->rows);
        return false;
    }
    merge_extremes(&s->stats, e, p, n, size);
    if (s->sketch && !both)
        k->sketch[kind](p, n, index, &s->rows);
    return true;
}

/* Whole lane groups; index is a multiple of TW_LANES. A span with elements that are not finite is
 * done again piece by piece, and those are counted and taken as zero. */
static void groups(struct tw_pass *s, enum tw_kind kind, size_t size, const unsigned char *p,
                   size_t n, uint64_t index)
{
    if (fast_groups(s, kind, size, p, n, index))
        return;
    for (size_t i = 0; i < n; i += TW_PIECE) {
        size_t m = n - i < TW_PIECE ? n - i : TW_PIECE;
        struct tw_careful c;
        tw_careful_init(&c);
        s->statistics->careful[kind](p + i * size, m, s->cleaned, &c);
        merge_careful(&s->stats, &c);
        s->statistics->moments[TW_F64](s->cleaned, m, &s->lanes);
        if (s->sketch)
            s->statistics->sketch[TW_F64](s->cleaned, m, index + i, &s->rows);
    }
}

/* Fewer elements than a lane group, in lanes index mod TW_LANES and following. */
static void ragged(struct tw_pass *s, enum tw_kind kind, const unsigned char *p, size_t n,
                   uint64_t index)
{
    struct tw_careful c;
    double x[TW_LANES];
    tw_careful_init(&c);
    s->statistics->careful[kind](p, n, x, &c);
    merge_careful(&s->stats, &c);
    for (size_t i = 0; i < n; i++, index++) {
        s->lanes.sum[index % TW_LANES] += x[i];
        s->lanes.sumsq[index % TW_LANES] += x[i] * x[i];
        if (!s->sketch)
            continue;
        s->rows.lane[index % TW_SKETCH_LANES(s->rows.k)] += tw_sketch_minus(index) ? -x[i] : x[i];
        if (index % TW_ROW == TW_ROW - 1)
            tw_rows_fold(&s->rows, index);
    }
}

/* n elements from index on: up to the next lane group one by one, then whole groups, then the rest.
 */
static void moments(struct tw_pass *s, enum tw_kind kind, size_t size, const unsigned char *p,
                    size_t n, uint64_t index)
{
    /* Elements before the next lane group. */
    size_t head = (size_t)(-index % TW_LANES);
    if (head > n)
        head = n;
    if (head)
        ragged(s, kind, p, head, index);
    size_t whole = (n - head) / TW_LANES * TW_LANES;
    if (whole)
        groups(s, kind, size, p + head * size, whole, index + head);
    if (head + whole < n)
        ragged(s, kind, p + (head + whole) * size, n - head - whole, index + head + whole);
}

/* Converts element by element; ends the case that it stands in. */
#define EACH(type, expression)                  \
    for (size_t i = 0; i < n; i++) {            \
        type v;                                 \
        memcpy(&v, p + i * sizeof v, sizeof v); \
        out[i] = (expression);                  \
    }                                           \
    break

/* Types without kernels of their own, to f64. Exact but for large 64-bit integers. */
static void convert_elements(enum twin_dtype dtype, const unsigned char *p, size_t n, double *out)
{
    switch (dtype) {
    case TWIN_U8: EACH(uint8_t, v);
    case TWIN_I8: EACH(int8_t, v);
    case TWIN_BOOL: EACH(uint8_t, v != 0);
    case TWIN_U16: EACH(uint16_t, v);
    case TWIN_I16: EACH(int16_t, v);
    case TWIN_U32: EACH(uint32_t, v);
    case TWIN_I32: EACH(int32_t, v);
    case TWIN_U64: EACH(uint64_t, (double)v);
    case TWIN_I64: EACH(int64_t, (double)v);
    case TWIN_F8_E4M3FN: EACH(uint8_t, tw_e4m3fn_value(v));
    case TWIN_F8_E5M2: EACH(uint8_t, tw_e5m2_value(v));
    default: break; /* the kernels read the others themselves */
    }
}

/* n elements of one chunk, by the kernels of their type, or converted piece by piece. */
static void chunk_part(struct tw_pass *s, const unsigned char *p, size_t n)
{
    switch (s->dtype) {
    case TWIN_F16: moments(s, TW_F16, 2, p, n, s->next); break;
    case TWIN_BF16: moments(s, TW_BF16, 2, p, n, s->next); break;
    case TWIN_F32: moments(s, TW_F32, 4, p, n, s->next); break;
    case TWIN_F64: moments(s, TW_F64, 8, p, n, s->next); break;
    default:
        for (size_t i = 0, m; i < n; i += m) {
            uint64_t index = s->next + i;
            m = TW_PIECE - index % TW_PIECE; /* pieces end on lane groups */
            m = n - i < m ? n - i : m;
            convert_elements(s->dtype, p + i * s->part_bytes, m, s->converted);
            moments(s, TW_F64, 8, (const unsigned char *)s->converted, m, index);
        }
    }
}

/* The lanes of a chunk in a fixed tree: lane j and j + 8, then j and j + 4, and so on. This order
 * is part of the format. */
static double tree_sum(const double lane[TW_LANES])
{
    double t[TW_LANES];
    memcpy(t, lane, sizeof t);
    for (int width = TW_LANES / 2; width > 0; width /= 2)
        for (int j = 0; j < width; j++)
            t[j] += t[j + width];
    return t[0];
}

/* Adds the lanes to the totals and empties them. Chunks follow each other in the order of the
 * tensor. */
static void fold_chunk(struct tw_pass *s)
{
    s->stats.sum += tree_sum(s->lanes.sum);
    s->stats.sumsq += tree_sum(s->lanes.sumsq);
    s->lanes = (struct tw_lanes){{0}, {0}};
}

/* Without statistics the digest takes the span as a whole; else both take it piece by piece. */
void tw_pass_span(struct tw_pass *s, const unsigned char *p, size_t n)
{
    s->stats.count += n;
    if (!s->moments) {
        tw_digest_add(s->k, p, n * s->part_bytes, s->next * s->part_bytes, &s->sum);
        s->next += n;
        return;
    }
    while (n) {
        /* at most 16 KiB: half of a first-level cache */
        size_t most = s->part_bytes == 8 ? TW_CHUNK / 2 : TW_CHUNK;
        size_t m = (size_t)(most - s->next % most);
        if (m > n)
            m = n;
        tw_digest_add(s->k, p, m * s->part_bytes, s->next * s->part_bytes, &s->sum);
        chunk_part(s, p, m);
        s->next += m;
        p += m * s->part_bytes;
        n -= m;
        if (s->next % TW_CHUNK == 0)
            fold_chunk(s);
    }
}

/* Results that are not numbers get one NaN, whatever the processor made. */
void tw_pass_finish(struct tw_pass *s)
{
    struct twin_stats *t = &s->stats;
    const double nan = tw_f64_from_bits(0x7FF8000000000000u); /* one NaN on every machine */
    if (!s->moments) {
        *t = (struct twin_stats){.count = t->count};
        return;
    }
    /* What is open at the end: the last chunk and the last row. */
    if (s->next % TW_CHUNK)
        fold_chunk(s);
    if (s->sketch) {
        if (s->next % TW_ROW)
            tw_rows_fold(&s->rows, s->next - 1);
        s->sketch->skipped = t->nan + t->pos_inf + t->neg_inf;
        for (uint32_t j = 0; j < s->rows.k; j++)
            if (s->sketch->bucket[j] != s->sketch->bucket[j])
                s->sketch->bucket[j] = nan;
    }
    if (t->sum != t->sum) /* lanes that overflowed to both sides */
        t->sum = nan;
    /* The largest magnitude is at one of the two ends. */
    double low = __builtin_fabs(t->min), high = __builtin_fabs(t->max);
    t->absmax = low > high ? low : high;
    if (t->nan == t->count)
        t->min = t->max = t->absmax = nan;
}
