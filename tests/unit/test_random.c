/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds, draws and orders. Oracles: Random123 1.14 (its three published vectors, seven more
 * computed by its header), hashlib's BLAKE2b, mpmath's erfinv at 40 digits, enumeration,
 * chi-square. tests/agents/test_seeds.py compares C with Python. */
#include "src/stats/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <twin/random.h>

#include "base.h"
#include "internal.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
/* A fixed seed gives a fixed p: this bound is about the generator, not about luck. */
#define PLAUSIBLE(p) assert_true((p) > .001 && (p) < .999)

static double chi_square(const uint64_t *seen, size_t cells, double total)
{
    double chi2 = 0, expected = total / (double)cells;
    for (size_t i = 0; i < cells; i++)
        chi2 += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
    return twin_stats_chi2_upper(chi2, (double)cells - 1);
}

static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } vectors[] = {
        {{0x00000000, 0x00000000, 0x00000000, 0x00000000},
         {0x00000000, 0x00000000},
         {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
        {{0x00000001, 0x00000000, 0x00000000, 0x00000000},
         {0x00000000, 0x00000000},
         {0xf8e4cca4, 0x5cb200db, 0xb1a574eb, 0x097eff67}},
        {{0x00000000, 0x00000001, 0x00000000, 0x00000000},
         {0x00000000, 0x00000000},
         {0x6ad0c5ec, 0xea236249, 0x73a459f5, 0x074944b3}},
        {{0x00000000, 0x00000000, 0x00000001, 0x00000000},
         {0x00000000, 0x00000000},
         {0x844515e1, 0xf08d6eaa, 0x0f19c053, 0x83f875f0}},
        {{0x00000000, 0x00000000, 0x00000000, 0x00000001},
         {0x00000000, 0x00000000},
         {0x2dce73e5, 0x1348e23f, 0xfcf8e0ec, 0xa287aadb}},
        {{0x00000000, 0x00000000, 0x00000000, 0x00000000},
         {0x00000001, 0x00000000},
         {0xe3e80670, 0xe50a0ebc, 0x95f222c0, 0xb615aa27}},
        {{0x00000000, 0x00000000, 0x00000000, 0x00000000},
         {0x00000000, 0x00000001},
         {0xfdde3e0b, 0xfa7e58b6, 0x3380ec46, 0xd8d55c4f}},
        {{0xdeadbeef, 0x0000002a, 0x00000007, 0x00000001},
         {0x12345678, 0x9abcdef0},
         {0x8dc0121c, 0x018fe2b9, 0x18c761ae, 0x513772cb}},
    };
    for (size_t i = 0; i < COUNT(vectors); i++) {
        uint32_t out[4];
        twin_philox4x32(vectors[i].counter, vectors[i].key, out);
        assert_memory_equal(out, vectors[i].out, sizeof out);
    }
    /* a draw is the half of a block: the first vector again */
    assert_int_equal(twin_random_u64(0, 0), 0xe169c58d6627e8d5u);
    assert_int_equal(twin_random_u64(0, 1), 0x9b00dbd8bc57ac4cu);
    assert_int_equal(twin_random_u64(0, 2), 0x5cb200dbf8e4cca4u);
    assert_int_equal(twin_random_u64(1, 0), 0xe50a0ebce3e80670u); /* key {1, 0} */
}

static void seed_tree(void **state)
{
    (void)state;
    static const struct {
        uint64_t parent;
        const char *name;
        size_t times;
        uint64_t seed;
    } known[] = {
        {0x0u, "a", 1, 0x3a030daba6ec79b9u},
        {0x7u, "data", 1, 0x428c88c817e0e364u},
        {0x7u, "epoch=3", 1, 0xbfef77b801381121u},
        {UINT64_MAX, "sample=17", 1, 0x55e9078119be5faeu},
        {0x1u, "x", 127, 0xfc61fc0ae00641aau}, /* around the length of a block */
        {0x1u, "x", 128, 0x49dd40a15c9aabb4u},
        {0x1u, "x", 129, 0xe55fa734f57ed04au},
        {0x1u, "y", 256, 0x4b6f1a5621bb31c6u},
        {0x1u, "y", 300, 0x918f9309b761cf2cu},
    };
    char text[512];
    for (size_t i = 0; i < COUNT(known); i++) {
        text[0] = '\0';
        for (size_t k = 0; k < known[i].times; k++)
            strcat(text, known[i].name);
        assert_int_equal(twin_seed(known[i].parent, text), known[i].seed);
    }
    uint64_t branch = twin_seed(7, "data");
    assert_int_equal(twin_seed(branch, "epoch=3"), twin_seed(7, "data/epoch=3"));
    assert_int_equal(twin_seed(7, "//data///epoch=3/"), twin_seed(7, "data/epoch=3"));
    assert_int_equal(twin_seed_index(branch, "epoch", 3), twin_seed(7, "data/epoch=3"));
    assert_int_equal(twin_seed_index(7, "/data/epoch", 3), twin_seed(7, "data/epoch=3"));
    assert_int_equal(twin_seed_index(7, "n", UINT64_MAX), twin_seed(7, "n=18446744073709551615"));
    assert_int_equal(twin_seed_index(7, "n", 0), twin_seed(7, "n=0"));
    assert_int_equal(twin_seed_index(7, "", 5), twin_seed(7, "=5"));
    /* a suffix that goes over the end of a block */
    memset(text, 'x', 126);
    strcpy(text + 126, "=123");
    uint64_t whole = twin_seed(1, text);
    text[126] = '\0';
    assert_int_equal(twin_seed_index(1, text, 123), whole);
    assert_int_equal(twin_seed(7, ""), 7);
    assert_int_equal(twin_seed(7, "///"), 7);
}

static void uniform_draws(void **state)
{
    (void)state;
    enum { N = 1 << 18, CELLS = 256 };
    static double u[N];
    static uint64_t seen[CELLS], pairs[CELLS];
    uint64_t seed = twin_seed(1, "uniform");
    twin_random_fill_uniform(seed, 0, N, u);
    double sum = 0, lag[3] = {0};
    for (size_t i = 0; i < N; i++) {
        assert_true(u[i] >= 0 && u[i] < 1);
        seen[(size_t)(u[i] * CELLS)]++;
        sum += u[i] - .5;
    }
    for (size_t i = 0; i + 1 < N; i += 2)
        pairs[(size_t)(u[i] * 16) * 16 + (size_t)(u[i + 1] * 16)]++;
    PLAUSIBLE(chi_square(seen, CELLS, N));
    PLAUSIBLE(chi_square(pairs, CELLS, N / 2.));
    assert_true(fabs(sum / sqrt(N / 12.)) < 3.3);
    for (size_t k = 0; k < 3; k++) { /* serial correlation at lags 1 to 3 */
        for (size_t i = 0; i + k + 1 < N; i++)
            lag[k] += (u[i] - .5) * (u[i + k + 1] - .5);
        assert_true(fabs(lag[k] * 12 / sqrt(N)) < 3.3);
    }
    /* at one index over many seeds of a tree, where a weak hash would show */
    memset(seen, 0, sizeof seen);
    for (uint64_t i = 0; i < N / 4; i++)
        seen[(size_t)(twin_random_uniform(twin_seed_index(seed, "sample", i), 0) * CELLS)]++;
    PLAUSIBLE(chi_square(seen, CELLS, N / 4.));
}

static void fills_are_the_draws(void **state)
{
    (void)state;
    uint64_t whole[9];
    double uniform[9], normal[9];
    for (uint64_t first = UINT64_MAX - 3; first != 3; first++) { /* indices go round */
        for (size_t n = 0; n <= 9; n++) {
            twin_random_fill_u64(5, first, n, whole);
            twin_random_fill_uniform(5, first, n, uniform);
            twin_random_fill_normal(5, first, n, normal);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(whole[i], twin_random_u64(5, first + i));
                assert_true(uniform[i] == twin_random_uniform(5, first + i));
                assert_true(normal[i] == twin_random_normal(5, first + i));
            }
        }
    }
}

static void bounded_draws(void **state)
{
    (void)state;
    static const uint64_t bounds[] = {1, 2, 3, 7, 10, 100};
    for (size_t b = 0; b < COUNT(bounds); b++) {
        uint64_t seen[100] = {0}, n = bounds[b];
        for (uint64_t i = 0; i < 20000; i++) {
            uint64_t x = twin_random_below(9, i, n);
            assert_true(x < n);
            seen[x]++;
        }
        if (n > 1)
            PLAUSIBLE(chi_square(seen, n, 20000));
    }
    /* With n = 3 * 2^62 a product's high half alone would give every third result twice as often; a
     * quarter is drawn anew. */
    uint64_t thirds[3] = {0}, n = (uint64_t)3 << 62, same = 0;
    for (uint64_t i = 0; i < 30000; i++) {
        uint64_t x = twin_random_below(9, i, n);
        assert_true(x < n);
        thirds[x % 3]++;
        __extension__ unsigned __int128 plain = (unsigned __int128)twin_random_u64(9, i) * n;
        same += x == (uint64_t)(plain >> 64);
    }
    PLAUSIBLE(chi_square(thirds, 3, 30000));
    assert_true(same > 30000 * .74 && same < 30000 * .76);
    assert_int_equal(twin_random_below(9, 0, 0), TWIN_NO_INDEX);
    uint64_t yes = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        assert_false(twin_random_bernoulli(3, i, 0));
        assert_false(twin_random_bernoulli(3, i, NAN));
        assert_true(twin_random_bernoulli(3, i, 1));
        yes += twin_random_bernoulli(3, i, .3);
    }
    assert_true(fabs((double)yes - 3000) < 3.3 * sqrt(10000 * .3 * .7));
}

static void normal_quantile(void **state)
{
    (void)state;
    static const struct {
        uint64_t bits;
        double z;
    } known[] = {
        {0x0000000000000000u, -8.2095361516013868556}, /* the ends */
        {0x0000000000001000u, -8.0765710041301246502},
        {0x8000000000000000u, 2.7829164246717669222e-16},
        {0xffffffffffffffffu, 8.2095361516013868556},
        {0x123456789abcdef0u, -1.4675657313132976454},
        {0x0800000000000000u, -1.8627318674216498781},
        {0xf7ffffffffffffffu, 1.8627318674216498781},
        /* where one pair of polynomials takes over from the other */
        {0x13333333333333ffu, -1.4395314709384554448},
        {0x1333333333334000u, -1.4395314709384538762},
        {0x00000012c7000000u, -5.7534528908607595386},
        {0xfffffffff0000000u, 6.651036502650908615},
    };
    for (size_t i = 0; i < COUNT(known); i++)
        assert_true(fabs(tw_normal_of(known[i].bits) - known[i].z) <= 2e-15 * fabs(known[i].z));
}

static void normal_draws(void **state)
{
    (void)state;
    enum { N = 100000, CELLS = 50 };
    static double z[N];
    uint64_t seen[CELLS] = {0}, seed = twin_seed(1, "normal");
    double moment[5] = {0};
    twin_random_fill_normal(seed, 0, N, z);
    for (size_t i = 0; i < N; i++) {
        size_t cell = (size_t)(twin_stats_normal_cdf(z[i]) * CELLS);
        seen[cell < CELLS ? cell : CELLS - 1]++;
        for (int k = 1; k <= 4; k++)
            moment[k] += pow(z[i], k) / N;
    }
    PLAUSIBLE(chi_square(seen, CELLS, N));
    assert_true(fabs(moment[1]) < 3.3 * sqrt(1. / N) && fabs(moment[2] - 1) < 3.3 * sqrt(2. / N));
    assert_true(fabs(moment[3]) < 3.3 * sqrt(15. / N) && fabs(moment[4] - 3) < 3.3 * sqrt(96. / N));
}

static void permutations(void **state)
{
    (void)state;
    struct twin_shuffle p;
    static bool seen[400];
    for (uint64_t n = 0; n < COUNT(seen); n++) { /* each is one, and find is its inverse */
        twin_shuffle_init(&p, n, n + 1);
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t x = twin_shuffle_at(&p, i);
            assert_true(x < n && !seen[x]);
            seen[x] = true;
            assert_int_equal(twin_shuffle_find(&p, x), i);
        }
        assert_int_equal(twin_shuffle_at(&p, n), TWIN_NO_INDEX);
        assert_int_equal(twin_shuffle_find(&p, n), TWIN_NO_INDEX);
    }
    static const uint64_t large[] = {1u << 16,       60000,        1281167,       0xffffffffu,
                                     0x100000000u,   0x100000001u, 1000000000000, (uint64_t)1 << 63,
                                     UINT64_MAX - 1, UINT64_MAX};
    for (size_t k = 0; k < COUNT(large); k++) {
        twin_shuffle_init(&p, large[k], 3);
        for (uint64_t i = 0; i < 500; i++) {
            uint64_t at = i % 2 ? large[k] - 1 - i : i, x = twin_shuffle_at(&p, at);
            assert_true(x < large[k]);
            assert_int_equal(twin_shuffle_find(&p, x), at);
        }
    }
}

/* Number of an order of n among all n! (Lehmer's code). */
static size_t number_of(const uint64_t *order, size_t n)
{
    size_t code = 0;
    for (size_t i = 0; i < n; i++) {
        size_t smaller = 0;
        for (size_t k = i + 1; k < n; k++)
            smaller += order[k] < order[i];
        code = code * (n - i) + smaller;
    }
    return code;
}

static void permutations_are_random(void **state)
{
    (void)state;
    struct twin_shuffle p;
    size_t orders = 1;
    for (size_t n = 1; n <= 6; n++) { /* all n! orders equally often */
        static uint64_t seen[720];
        orders *= n;
        size_t total = orders * 40;
        memset(seen, 0, sizeof seen);
        for (size_t s = 0; s < total; s++) {
            uint64_t order[6];
            twin_shuffle_init(&p, n, twin_seed_index(11, "trial", s));
            for (size_t i = 0; i < n; i++)
                order[i] = twin_shuffle_at(&p, i);
            seen[number_of(order, n)]++;
        }
        if (n > 1)
            PLAUSIBLE(chi_square(seen, orders, (double)total));
    }
    /* a long one: neighbours are unrelated, and a place's value is over many seeds */
    enum { N = 100003, CELLS = 100 };
    uint64_t steps[CELLS] = {0}, values[CELLS] = {0}, fixed = 0;
    double lag = 0;
    twin_shuffle_init(&p, N, 5);
    for (uint64_t i = 0, before = twin_shuffle_at(&p, N - 1); i < N; i++) {
        uint64_t x = twin_shuffle_at(&p, i);
        steps[(x + N - before) % N * CELLS / N]++;
        lag += ((double)x / N - .5) * ((double)before / N - .5);
        fixed += x == i;
        before = x;
    }
    PLAUSIBLE(chi_square(steps, CELLS, N));
    assert_true(fabs(lag * 12 / sqrt(N)) < 3.3);
    assert_true(fixed < 8); /* Poisson, mean 1 */
    for (uint64_t s = 0; s < 20000; s++) {
        twin_shuffle_init(&p, N, s);
        values[twin_shuffle_at(&p, 1) * CELLS / N]++;
    }
    PLAUSIBLE(chi_square(values, CELLS, 20000));
}

/* Holds one step of all ranks against one rank alone: the same samples in the same order, none of
 * the ranks more than its share. */
static void same_for_all(const struct twin_order *order, uint64_t step, uint64_t world)
{
    uint64_t alone[64], together[64], n = 0;
    struct twin_order_part one, part;
    assert_int_equal(twin_order_part(order, step, 0, 1, &one, NULL), 0);
    assert_true(one.count <= COUNT(alone));
    twin_order_take(order, &one, alone);
    for (uint64_t rank = 0; rank < world; rank++) {
        assert_int_equal(twin_order_part(order, step, rank, world, &part, NULL), 0);
        assert_true(part.epoch == one.epoch && part.first == one.first + n);
        assert_true(part.count <= (one.count + world - 1) / world &&
                    part.count >= one.count / world);
        twin_order_take(order, &part, together + n);
        n += part.count;
    }
    assert_int_equal(n, one.count);
    assert_memory_equal(alone, together, n * sizeof *alone);
}

static void orders(void **state)
{
    (void)state;
    static const uint64_t worlds[] = {1, 2, 3, 4, 6, 8, 100};
    static const uint64_t sizes[][2] = {{1, 1}, {10, 10}, {103, 10}, {96, 24}, {97, 24}, {5, 64}};
    for (size_t k = 0; k < COUNT(sizes) * 4; k++) {
        struct twin_order o = {sizes[k / 4][0], sizes[k / 4][1], 21, k & 1, k & 2};
        uint64_t steps = twin_order_steps(&o);
        assert_int_equal(steps,
                         o.drop_last ? o.samples / o.batch : (o.samples + o.batch - 1) / o.batch);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint64_t seen[128] = {0}, taken = 0, batch[64];
            for (uint64_t s = epoch * steps; s < (epoch + 1) * steps; s++) {
                struct twin_order_part part;
                for (size_t w = 0; w < COUNT(worlds); w++)
                    same_for_all(&o, s, worlds[w]);
                assert_int_equal(twin_order_part(&o, s, 0, 1, &part, NULL), 0);
                assert_int_equal(part.epoch, epoch);
                twin_order_take(&o, &part, batch);
                for (uint64_t i = 0; i < part.count; i++)
                    /* every sample at most once in an epoch ... */
                    assert_int_equal(seen[batch[i]]++, 0);
                taken += part.count;
            }
            /* ... and all of them */
            assert_int_equal(taken, o.drop_last ? steps * o.batch : o.samples);
        }
    }
}

static void wrong_orders(void **state)
{
    (void)state;
    struct twin_order_part part = {7, 7, 7};
    static const struct twin_order bad[] = {
        {0, 4, 1, true, false}, {4, 0, 1, true, false}, {3, 4, 1, true, true}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        assert_int_equal(twin_order_steps(&bad[i]), 0);
        assert_int_equal(twin_order_part(&bad[i], 0, 0, 1, &part, &err), TWIN_EINVAL);
        assert_non_null(strstr(err.message, "make no step"));
    }
    struct twin_order good = {4, 2, 1, true, false};
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_order_part(&good, 0, 2, 2, &part, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "rank 2 of 2"));
    assert_int_equal(twin_order_part(&good, 0, 0, 0, &part, NULL), TWIN_EINVAL);
    assert_true(part.epoch == 7 && part.first == 7 && part.count == 7);
    /* the largest numbers do not overflow */
    struct twin_order vast = {UINT64_MAX, UINT64_MAX - 5, 1, true, false};
    assert_int_equal(twin_order_part(&vast, 1, UINT64_MAX - 1, UINT64_MAX, &part, NULL), 0);
    assert_true(part.first == UINT64_MAX - 1 && part.count == 1);
    assert_int_equal(twin_order_part(&vast, UINT64_MAX, 0, 1, &part, NULL), 0);
    assert_true(part.epoch == UINT64_MAX / 2 && part.count == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(seed_tree),
        cmocka_unit_test(uniform_draws),
        cmocka_unit_test(fills_are_the_draws),
        cmocka_unit_test(bounded_draws),
        cmocka_unit_test(normal_draws),
        cmocka_unit_test(normal_quantile),
        cmocka_unit_test(permutations),
        cmocka_unit_test(permutations_are_random),
        cmocka_unit_test(orders),
        cmocka_unit_test(wrong_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
