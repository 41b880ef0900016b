/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order-free sums of which parts travel packed (struct twin_fixed_wire), against MPFR: imagined
 * processes hold contributions, each packs what it holds of each owner's part, and the owner
 * finishes. Numbers of all kinds; and blocks whose sums take just as many bits as a width has, or
 * one more or less, with every element as large as it can be. TWINRUN_FULL=1: more of all.
 */
#include <fenv.h>
#include "fixed_oracle.h"

#define WIDTHS_SEEN 9

static int64_t seen[WIDTHS_SEEN]; /* blocks of so many bytes an element */

/* A packed part lies at any address, and nothing is written beyond it. */
static char packed_memory[MOST][8 * LONGEST + 128];

/* Contributions as ranks hold them: rank k those from first[k] to first[k + 1] of r->x. */
struct deal {
    int64_t ranks, most;
    int64_t first[MOST + 2];
};

static struct deal deal_out(struct reduction *r, uint64_t *seed)
{
    struct deal d = {.ranks = 1 + (int64_t)(random_bits(seed) % 5), .most = 1};
    shuffle((char *)r->x, (size_t)r->count, sizeof *r->x, seed);
    for (int64_t k = 0; k < d.ranks; k++) {
        const int64_t left = r->count - d.first[k];
        const int64_t mine = k + 1 == d.ranks ? left
                                              : (int64_t)(random_bits(seed) % (uint64_t)(left + 1));
        d.first[k + 1] = d.first[k] + mine;
        d.most = mine > d.most ? mine : d.most;
    }
    return d;
}

/* One contribution, copied in pieces of any length, as gradients of several tensors are. */
static void take_in_pieces(const struct reduction *r, const char *x, uint16_t *exponents,
                           uint16_t *depths, uint64_t *seed)
{
    static char copy[8 * LONGEST + 8];
    memset(copy, 0x33, sizeof copy);
    for (int64_t at = 0, m; at < r->n; at += m) {
        m = 1 + (int64_t)(random_bits(seed) % (random_bits(seed) % 2 ? 5 : 1200));
        m = m < r->n - at ? m : r->n - at;
        assert_int_equal(twin_fixed_take(r->dtype, x + (size_t)at * r->size, m, at, r->block, copy,
                                         exponents, depths, NULL),
                         0);
    }
    assert_memory_equal(copy, x, (size_t)r->n * r->size);
    assert_int_equal(copy[(size_t)r->n * r->size], 0x33);
}

static void merge_extents(const struct reduction *r, const struct deal *d, uint16_t *exponents,
                          uint16_t *depths, uint64_t *seed)
{
    static uint16_t mine[2][LONGEST];
    const int bytes = twin_fixed_exponent_bytes(r->dtype);
    const int64_t blocks = twin_fixed_blocks(r->n, r->block);
    for (int64_t k = 0; k < d->ranks; k++) {
        memset(mine, 0, sizeof mine);
        for (int64_t c = d->first[k]; c < d->first[k + 1]; c++)
            if (random_bits(seed) % 2)
                assert_int_equal(
                    twin_fixed_extents(r->dtype, r->x[c], r->n, r->block, mine[0], mine[1], NULL),
                    0);
            else
                take_in_pieces(r, r->x[c], mine[0], mine[1], seed);
        max_into(exponents, mine[0], blocks, bytes);
        max_into(depths, mine[1], blocks, bytes);
    }
}

/* One owner's part, from element `first` on, n elements: rank `owner` finishes what the others
 * send. A rank with a single contribution may send it as it is. */
static void finish_part(const struct reduction *r, const struct deal *d,
                        const struct twin_fixed_wire *wire, int64_t owner, int64_t first, int64_t n,
                        char *out, uint64_t *seed)
{
    const void *x[MOST], *packed[MOST];
    int64_t count = 0, senders = 0;
    const int64_t bytes = twin_fixed_packed_bytes(wire, n);
    assert_true(bytes >= 0 && bytes <= 8 * n);
    for (int64_t k = 0; k < d->ranks; k++) {
        const void *held[MOST];
        const int64_t holds = d->first[k + 1] - d->first[k];
        for (int64_t c = 0; c < holds; c++)
            held[c] = r->x[d->first[k] + c] + (size_t)first * r->size;
        if (k == owner || (holds == 1 && random_bits(seed) % 2)) {
            for (int64_t c = 0; c < holds; c++)
                x[count++] = held[c];
            continue;
        }
        char *to = packed_memory[senders] + random_bits(seed) % 64;
        memset(packed_memory[senders], 0xA5, sizeof packed_memory[senders]);
        assert_int_equal(twin_fixed_pack(wire, held, holds, n, to, NULL), 0);
        for (int64_t i = 0; i < 8; i++)
            assert_int_equal((unsigned char)to[bytes + i], 0xA5);
        packed[senders++] = to;
    }
    if (random_bits(seed) % 4 == 0 && count) { /* in place of one of them */
        memcpy(out, x[count - 1], (size_t)n * r->size);
        x[count - 1] = out;
    }
    assert_int_equal(twin_fixed_finish(wire, x, count, packed, senders, n, r->divisor, out, NULL),
                     0);
}

static void over_the_wire(struct reduction *r, char *out, uint64_t *seed)
{
    static uint16_t exponents[LONGEST], depths[LONGEST], mine[3 * LONGEST + 2],
        specials[3 * LONGEST + 2];
    const struct deal d = deal_out(r, seed);
    const int64_t blocks = twin_fixed_blocks(r->n, r->block);
    const int bytes = twin_fixed_exponent_bytes(r->dtype);
    memset(exponents, 0, sizeof exponents);
    memset(depths, 0, sizeof depths);
    memset(specials, 0, sizeof specials);
    merge_extents(r, &d, exponents, depths, seed);
    const int64_t marks = twin_fixed_specials_count(r->dtype, r->block, exponents, blocks);
    assert_true((size_t)marks * 2 <= sizeof specials);
    for (int64_t c = 0; marks && c < r->count; c++) {
        memset(mine, 0, sizeof mine);
        assert_int_equal(
            twin_fixed_specials(r->dtype, r->x[c], r->n, r->block, exponents, mine, NULL), 0);
        max_into(specials, mine, marks, bytes);
    }
    const int64_t cut = blocks ? (int64_t)(random_bits(seed) % (uint64_t)(blocks + 1)) : 0;
    const int64_t first = cut * r->block < r->n ? cut * r->block : r->n;
    const struct twin_fixed_wire whole = {.dtype = r->dtype,
                                          .block = r->block,
                                          .total = r->total,
                                          .most = d.most,
                                          .exponents = exponents,
                                          .depths = depths,
                                          .specials = marks ? specials : NULL};
    struct twin_fixed_wire later = whole;
    later.exponents = (char *)exponents + cut * bytes;
    later.depths = (char *)depths + cut * bytes;
    later.specials = (char *)specials + twin_fixed_specials_count(r->dtype, r->block, exponents,
                                                                  cut < blocks ? cut : blocks) *
                                            bytes;
    finish_part(r, &d, &whole, (int64_t)(random_bits(seed) % (uint64_t)d.ranks), 0, first, out,
                seed);
    char *rest = out + (size_t)first * r->size; /* the part before it was finished: no harm to it */
    finish_part(r, &d, &later, (int64_t)(random_bits(seed) % (uint64_t)d.ranks), first,
                r->n - first, rest, seed);
    if (r->n > 0 && r->n <= r->block)
        seen[twin_fixed_packed_bytes(&whole, r->n) / r->n]++;
}

static void compare_on_all_sets(struct reduction *r, const char *way, uint64_t *seed)
{
    static double expected[LONGEST];
    static char out[8 * LONGEST + 8];
    for (int64_t i = 0; i < r->n; i++) {
        double error, bound;
        expected[i] = expect(r, i, block_top(r, i), &error, &bound);
    }
    const char *set;
    for (size_t k = 0; (set = use_fixed(k)); k++) {
        memset(out, 0x5A, sizeof out);
        over_the_wire(r, out, seed);
        compare(r, set, way, out, expected);
        assert_int_equal(out[(size_t)r->n * r->size], 0x5A);
    }
    tw_fixed_use(NULL);
}

static void test_against_mpfr(void **state)
{
    (void)state;
    static struct reduction r;
    uint64_t seed = 21;
    for (size_t t = 0; t < DTYPES; t++)
        for (int how = 0; how < HOWS; how++)
            for (int round = 0; round < (FULL ? 1000 : 25); round++) {
                draw_reduction(&r, dtypes[t], (enum how)how, &seed);
                compare_on_all_sets(&r, "packed", &seed);
            }
}

/* All elements have all bits set and the largest exponent, but for one that has the smallest one
 * and its last bit set: sums are as large as they can be, and their last place counts. */
static void fill_full(struct reduction *r, int high, int low, uint64_t *seed)
{
    const struct shape s = shape_of(r->dtype);
    const uint64_t ones = ((uint64_t)1 << s.fraction) - 1;
    const uint64_t minus = (uint64_t)1 << (s.fraction + s.exponent);
    for (int64_t c = 0; c < r->count; c++) {
        r->x[c] = r->memory[c] + random_bits(seed) % 64;
        for (int64_t i = 0; i < r->n; i++) {
            const uint64_t field = (uint64_t)(i % 3 == 2 ? low : high);
            const uint64_t bits = field << s.fraction | (i % 3 == 2 ? 1 : ones) |
                                  (i % 2 ? minus : 0);
            memcpy(r->x[c] + (size_t)i * r->size, &bits, r->size);
        }
    }
}

/* Widths of 32, 40 and 48 bits, the end of what f64 holds, and the integers' unit. */
static void test_edge_of_widths(void **state)
{
    (void)state;
    static struct reduction r;
    static const int widths[] = {32, 40, 48, 54, 62};
    static const int64_t totals[] = {0, 0, 24, 1000, 1 << 22, TWIN_FIXED_MAX_TOTAL};
    uint64_t seed = 31;
    for (size_t t = 1; t < DTYPES; t++)
        for (int round = 0; round < (FULL ? 20000 : 1200); round++) {
            const struct shape s = shape_of(dtypes[t]);
            const int most = (1 << s.exponent) - 2;
            r.dtype = dtypes[t];
            r.size = twin_dtype_size(r.dtype);
            r.how = HOWS; /* none of those of fill */
            r.n = 3 + (int64_t)(random_bits(&seed) % 60);
            r.block = random_bits(&seed) % 4 ? 1024 : 16;
            r.count = 1 + (int64_t)(random_bits(&seed) % 9);
            r.total = totals[random_bits(&seed) % 6];
            r.total = r.total ? r.total : r.count;
            r.divisor = round % 3 == 0   ? r.total
                        : round % 3 == 1 ? (int64_t)1 << random_bits(&seed) % 32
                                         : 1;
            int apart = widths[random_bits(&seed) % 5] - s.fraction - 2 -
                        (int)(random_bits(&seed) % 6) + 1;
            apart = apart < 0 ? 0 : apart > most - 1 ? most - 1 : apart;
            int low = (int)(random_bits(&seed) % (uint64_t)(most - apart));
            low = round % 5 == 1 ? (int)(random_bits(&seed) % 2) : low; /* subnormals */
            if (round % 2)
                fill_full(&r, low + apart, low, &seed);
            else
                fill_edge(&r, low + apart, low, &seed);
            if (round % 16 == 7)
                put_special(&r, &seed);
            compare_on_all_sets(&r, "packed, at the edge of a width", &seed);
        }
    for (int bytes = 4; bytes <= 8; bytes++) /* each of them was there, often */
        assert_true(bytes == 7 || seen[bytes] > 100);
    assert_int_equal(seen[7], 0);
}

/* What real gradients take: blocks of 1,024 normally distributed numbers, of 8 contributions. */
static void test_bytes_of_like_sized(void **state)
{
    (void)state;
    enum { N = 4096, G = 8 };
    static float x[G][N];
    uint8_t exponents[4] = {0}, depths[4] = {0};
    uint64_t seed = 3;
    for (int c = 0; c < G; c++) {
        for (int i = 0; i < N; i++) {
            double v = 0;
            for (int k = 0; k < 12; k++)
                v += (double)(random_bits(&seed) >> 11) * 0x1p-53;
            x[c][i] = (float)((v - 6) * 1e-3);
        }
        assert_int_equal(twin_fixed_extents(TWIN_F32, x[c], N, 1024, exponents, depths, NULL), 0);
    }
    const struct twin_fixed_wire wire = {TWIN_F32, 1024, G, 4, exponents, depths, NULL};
    assert_true(twin_fixed_packed_bytes(&wire, N) <= 6 * N);
    static const float zeros[N];
    memset(exponents, 0, sizeof exponents);
    memset(depths, 0, sizeof depths);
    assert_int_equal(twin_fixed_extents(TWIN_F32, zeros, N, 1024, exponents, depths, NULL), 0);
    assert_int_equal(twin_fixed_packed_bytes(&wire, N), 0);
}

/* Rows of n f32 each, every one packed by itself; the result of all. */
static void sum_of_rows(const float *rows, int64_t count, int64_t n, int64_t divisor, float *out)
{
    uint8_t exponent = 0, depth = 0;
    const void *packed[128];
    for (int64_t c = 0; c < count; c++)
        assert_int_equal(
            twin_fixed_extents(TWIN_F32, rows + c * n, n, 1024, &exponent, &depth, NULL), 0);
    const struct twin_fixed_wire wire = {TWIN_F32, 1024, count, 1, &exponent, &depth, NULL};
    const int64_t bytes = twin_fixed_packed_bytes(&wire, n);
    assert_true(bytes > 0 && bytes < 8 * n);
    for (int64_t c = 0; c < count; c++) {
        const void *row = rows + c * n;
        char *to = test_malloc((size_t)bytes);
        assert_int_equal(twin_fixed_pack(&wire, &row, 1, n, to, NULL), 0);
        packed[c] = to;
    }
    assert_int_equal(twin_fixed_finish(&wire, NULL, 0, packed, count, n, divisor, out, NULL), 0);
    for (int64_t c = 0; c < count; c++)
        test_free((void *)(uintptr_t)packed[c]);
}

/* So many numbers that f64 does not hold their sum, though each travels in 6 bytes: it lies beside
 * the middle of two results by the last bit of the smallest. */
static void test_many_narrow_ones(void **state)
{
    (void)state;
    enum { COUNT = 102 };
    float rows[COUNT][1], out[1];
    for (int c = 0; c < COUNT - 2; c++)
        rows[c][0] = 0x1.8p23f;
    rows[COUNT - 2][0] = 63;
    rows[COUNT - 1][0] = 1 + 0x1p-23f;
    for (size_t k = 0; use_fixed(k); k++) {
        sum_of_rows(rows[0], COUNT, 1, 1, out);
        assert_true(out[0] == 150 * 0x1p23f + 128);
    }
    tw_fixed_use(NULL);
}

/* Quotients in the middle of two results: multiplications by 1 / divisor would miss some. */
static void test_odd_divisors(void **state)
{
    (void)state;
    enum { N = 100 };
    static float rows[2][N], out[N];
    for (int64_t divisor = 3; divisor < 100; divisor += 2) {
        for (int64_t i = 0; i < N; i++) {
            rows[0][i] = (float)divisor * 0x1p25f;
            rows[1][i] = (float)(-divisor * (2 * i + 65));
        }
        for (size_t k = 0; use_fixed(k); k++) {
            sum_of_rows(rows[0], 2, N, divisor, out);
            for (int64_t i = 0; i < N; i++)
                assert_true(out[i] == (float)(((int64_t)1 << 25) - (2 * i + 65)));
        }
    }
    tw_fixed_use(NULL);
}

static void test_wrong_use(void **state)
{
    (void)state;
    const float x[4] = {1, 2, INFINITY, 4};
    const void *p[2] = {x, NULL};
    uint8_t e[2] = {0}, depths[2] = {0};
    char packed[32];
    float out[4] = {9, 9, 9, 9};
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_fixed_extents(TWIN_F32, x, 4, 2, e, NULL, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_extents(TWIN_F32, NULL, 4, 2, e, depths, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_extents(TWIN_I32, x, 4, 2, e, depths, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_extents(TWIN_F32, x, 4, 2, e, depths, NULL), 0);
    assert_true(e[0] == 128 && e[1] == 255 && depths[0] == 255 - 127);
    assert_int_equal(twin_fixed_take(TWIN_F32, x, 4, -1, 2, out, e, depths, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_take(TWIN_F32, x, 4, 0, 2, NULL, e, depths, NULL), TWIN_EINVAL);
    struct twin_fixed_wire wire = {TWIN_F32, 2, 2, 2, e, depths, NULL};
    assert_int_equal(twin_fixed_packed_bytes(&wire, 4), 2 * 4 + 2 * 8);
    assert_int_equal(twin_fixed_packed_bytes(&wire, -1), TWIN_EINVAL);
    assert_int_equal(twin_fixed_pack(&wire, p, 1, 4, packed, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "1 of 2 blocks"));
    assert_int_equal(twin_fixed_pack(&wire, p, 2, 2, packed, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_pack(&wire, p, 3, 2, packed, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_pack(&wire, p, -1, 2, packed, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_pack(&wire, p, 1, 2, NULL, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_pack(&wire, NULL, 1, 2, packed, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_pack(&wire, NULL, 0, 2, packed, NULL), 0);
    const void *sent[2] = {packed, NULL};
    assert_int_equal(twin_fixed_finish(&wire, p, 1, sent, 2, 2, 1, out, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_finish(&wire, p, 1, sent, 1, 2, 0, out, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_finish(&wire, p, 1, sent, 1, 4, 1, out, NULL), TWIN_EINVAL);
    assert_int_equal(twin_fixed_finish(&wire, p, 1, sent, 1, 2, 1, NULL, NULL), TWIN_EINVAL);
    assert_true(out[0] == 9);
    fesetround(FE_UPWARD);
    const int rc = twin_fixed_pack(&wire, p, 1, 2, packed, NULL);
    const int rc2 = twin_fixed_finish(&wire, p, 1, sent, 1, 2, 1, out, NULL);
    fesetround(FE_TONEAREST);
    assert_true(rc == TWIN_EINVAL && rc2 == TWIN_EINVAL && out[0] == 9);
    assert_int_equal(twin_fixed_finish(&wire, p, 1, sent, 1, 2, 1, out, NULL), 0);
    assert_true(out[0] == 1 && out[1] == 2 && out[2] == 9);
    wire.most = 3;
    assert_int_equal(twin_fixed_packed_bytes(&wire, 2), TWIN_EINVAL);
    wire.most = 0;
    assert_int_equal(twin_fixed_packed_bytes(&wire, 2), TWIN_EINVAL);
    wire.most = 1;
    wire.depths = NULL;
    assert_int_equal(twin_fixed_pack(&wire, p, 1, 2, packed, NULL), TWIN_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_use),        cmocka_unit_test(test_bytes_of_like_sized),
        cmocka_unit_test(test_many_narrow_ones), cmocka_unit_test(test_odd_divisors),
        cmocka_unit_test(test_against_mpfr),     cmocka_unit_test(test_edge_of_widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
