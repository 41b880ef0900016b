/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the mixer good enough to be summed? Families of small changes that training makes (one bit,
 * one step of a float, two places, exchanged words and blocks, lengths) are turned into the
 * differences that they make in the raw sums. Two equal differences are two changes that cancel
 * each other: there must be none in 64 bits, and in each 32-bit half no more than chance has.
 * Mixers with known faults go through the same tests and must be caught: they test the tests.
 * TWINRUN_FULL=1 takes the families from about 60,000 members to a million.
 */
#include "fingerprint_test.h"
#include <math.h>
#include <stdbool.h>
#include "mixer.h"

struct pair {
    uint64_t a, b;
};
typedef struct pair mixer(uint64_t w0, uint64_t w1, uint64_t block);

static struct pair ours(uint64_t w0, uint64_t w1, uint64_t block)
{
    struct pair p = {0, 0};
    tw_mix_block(w0, w1, tw_block_key(block), &p.a, &p.b);
    return p;
}

/* ---- mixers with faults */

/* NH: products of halves under keys that grow linearly with the position. */
static struct pair nh_linear(uint64_t w0, uint64_t w1, uint64_t block)
{
    uint64_t k = block * TW_KEY_STEP, l = block * TW_KEY_BASE;
    uint64_t a = (uint64_t)(uint32_t)((uint32_t)w0 + (uint32_t)k) *
                 (uint32_t)((w0 >> 32) + (k >> 32));
    uint64_t b = (uint64_t)(uint32_t)((uint32_t)w1 + (uint32_t)l) *
                 (uint32_t)((w1 >> 32) + (l >> 32));
    return (struct pair){a + b, a - (b << 1)};
}

static unsigned char sbox[256];

static unsigned char times2(unsigned char x)
{
    return (unsigned char)(x << 1 ^ (x & 0x80 ? 0x1B : 0));
}

static void make_sbox(void)
{
    unsigned char p = 1, q = 1;
    do { /* p runs through the powers of 3, q through their inverses */
        p = (unsigned char)(p ^ times2(p));
        q = (unsigned char)(q ^ q << 1);
        q = (unsigned char)(q ^ q << 2);
        q = (unsigned char)(q ^ q << 4);
        q = (unsigned char)(q ^ (q & 0x80 ? 0x09 : 0));
        unsigned char r = q;
        for (int i = 1; i < 5; i++)
            r = (unsigned char)(r ^ (q << i | q >> (8 - i)));
        sbox[p] = r ^ 0x63;
    } while (p != 1);
    sbox[0] = 0x63;
}

static void aes_round(unsigned char s[16])
{
    unsigned char t[16];
    for (int c = 0; c < 4; c++)
        for (int r = 0; r < 4; r++)
            t[4 * c + r] = sbox[s[4 * ((c + r) % 4) + r]];
    for (int c = 0; c < 4; c++)
        for (int r = 0; r < 4; r++) {
            unsigned char x = t[4 * c + r], y = t[4 * c + (r + 1) % 4];
            s[4 * c + r] = (unsigned char)(times2(x) ^ times2(y) ^ y ^ t[4 * c + (r + 2) % 4] ^
                                           t[4 * c + (r + 3) % 4]);
        }
}

static struct pair aes_two_rounds(uint64_t w0, uint64_t w1, uint64_t block)
{
    uint64_t s[2] = {w0 ^ (block * TW_KEY_STEP), w1 ^ (block * TW_KEY_BASE)};
    aes_round((unsigned char *)s);
    s[0] ^= TW_KEY_STEP, s[1] ^= TW_KEY_BASE;
    aes_round((unsigned char *)s);
    return (struct pair){s[0], s[1]};
}

/* Only two of our five rounds. */
static struct pair two_rounds(uint64_t w0, uint64_t w1, uint64_t block)
{
    uint64_t key = tw_block_key(block), x = w0 + key, y = w1 ^ key;
    x += tw_halves_product(y);
    y = tw_swap_halves(y) ^ tw_halves_product(x);
    return (struct pair){x, y};
}

/* A good mix of each block, but blind to where it stands. */
static struct pair no_position(uint64_t w0, uint64_t w1, uint64_t block)
{
    (void)block;
    return ours(w0, w1, 1);
}

/* ---- counting coincidences */

static void sort_bits(uint64_t *v, uint64_t *scratch, size_t n, int bits)
{
    for (int shift = 0; shift < bits; shift += 16) {
        static size_t start[65537];
        memset(start, 0, sizeof start);
        for (size_t i = 0; i < n; i++)
            start[(v[i] >> shift & 0xFFFF) + 1]++;
        for (size_t d = 0; d < 65536; d++)
            start[d + 1] += start[d];
        for (size_t i = 0; i < n; i++)
            scratch[start[v[i] >> shift & 0xFFFF]++] = v[i];
        memcpy(v, scratch, n * sizeof *v);
    }
}

struct family {
    size_t n, room;
    struct pair *change;
};

static size_t coincidences(const struct family *f, int which) /* 0, 1: a, b; 2 to 5: their halves */
{
    uint64_t *v = malloc(f->n * sizeof *v), *scratch = malloc(f->n * sizeof *v);
    size_t same = 0;
    for (size_t i = 0; i < f->n; i++) {
        uint64_t w = which % 2 ? f->change[i].b : f->change[i].a;
        v[i] = which < 2 ? w : which < 4 ? w & 0xFFFFFFFF : w >> 32;
    }
    sort_bits(v, scratch, f->n, which < 2 ? 64 : 32);
    for (size_t i = 1; i < f->n; i++)
        same += v[i] == v[i - 1];
    free(v);
    free(scratch);
    return same;
}

/* Empties the family. Returns true when its members differ as much as random numbers do. */
static bool random_like(struct family *f, const char *name, bool loud)
{
    double expected = (double)f->n * (double)f->n / 0x1p33;
    double most = expected + 6 * sqrt(expected) + 12;
    bool good = true;
    for (int which = 0; which < 6; which++) {
        size_t same = coincidences(f, which);
        if ((which < 2 && same) || (double)same > most) {
            good = false;
            if (loud)
                print_message(
                    "%s: %zu of %zu coincide in %s\n", name, same, f->n,
                    (const char *[]){"a", "b", "a low", "b low", "a high", "b high"}[which]);
            break;
        }
    }
    f->n = 0;
    return good;
}

static void put(struct family *f, struct pair x, struct pair y, int sign)
{
    if (f->n == f->room)
        fail_msg("family of more than %zu", f->room);
    f->change[f->n++] = sign > 0 ? (struct pair){x.a - y.a, x.b - y.b}
                                 : (struct pair){y.a - x.a, y.b - x.b};
}

/* ---- the families. Bases: zeros; ones in f32; random f32 around one. */

static uint64_t base_word(int base, uint64_t *seed)
{
    return base == 0   ? 0
           : base == 1 ? 0x3F8000003F800000u
                       : 0x3F800000BF800000u + (random_bits(seed) & 0x7FFFFF007FFFFFu);
}

static bool single_bits(mixer *f, struct family *m, size_t size, bool loud)
{
    bool good = true;
    for (int base = 0; base < 3; base++) {
        uint64_t seed = 1;
        for (uint64_t block = 0; block < size / 128; block++) {
            uint64_t w0 = base_word(base, &seed), w1 = base_word(base, &seed);
            for (int bit = 0; bit < 128; bit++)
                put(m,
                    f(w0 ^ (bit < 64 ? 1ull << bit : 0), w1 ^ (bit < 64 ? 0 : 1ull << (bit - 64)),
                      block),
                    f(w0, w1, block), 1);
        }
        good &= random_like(m, "single bits", loud);
    }
    return good;
}

/* x + d here and x - d there: what an optimizer or a rounding error does. A cancelling pair shows
 * as a coincidence. */
static bool additive(mixer *f, struct family *m, size_t size, bool loud)
{
    static const uint64_t steps[] = {1, 2, 0x100, 0x800000, 0x80000000};
    bool good = true;
    for (int base = 0; base < 3; base++)
        for (int word = 0; word < 2; word++) {
            uint64_t seed = 2;
            for (uint64_t i = 0; i < size / 2; i++) {
                uint64_t w0 = base_word(base, &seed), w1 = base_word(base, &seed), block = i / 10;
                uint64_t d = steps[i % 5] << (i / 5 % 2 ? 32 : 0);
                put(m, word ? f(w0, w1 + d, block) : f(w0 + d, w1, block), f(w0, w1, block), 1);
                if (d << 1) /* flipping the top bit is its own opposite */
                    put(m, word ? f(w0, w1 - d, block) : f(w0 - d, w1, block), f(w0, w1, block),
                        -1);
            }
            good &= random_like(m, "additive", loud);
        }
    return good;
}

static bool two_places(mixer *f, struct family *m, size_t size, bool loud)
{
    size_t places = (size_t)sqrt(2.0 * (double)size) - 1, n = 0;
    struct pair *one = malloc(places * sizeof *one);
    bool good = true;
    for (size_t i = 0; i < places; i++) {
        uint64_t w = 0x3F800000BF800000u, d = 1ull << (i % 20 * 3);
        struct pair x = f(w ^ d, w, i / 20), y = f(w, w, i / 20);
        one[n++] = (struct pair){x.a - y.a, x.b - y.b};
    }
    for (int sign = -1; sign <= 1; sign += 2) {
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < i; j++) {
                struct pair minus = {0 - one[j].a, 0 - one[j].b};
                put(m, one[i], sign > 0 ? one[j] : minus, 1);
            }
        good &= random_like(m, "two places", loud);
    }
    free(one);
    return good;
}

static bool word_swaps(mixer *f, struct family *m, size_t size, bool loud)
{
    for (uint64_t i = 0; i < size / 2; i++) {
        uint64_t w0 = 0x3F80000000000000u + i % 64;
        uint64_t w1 = 0x3F80000000000000u + 64 + i / 64 % 64;
        uint64_t block = i / 4096;
        put(m, f(w1, w0, block), f(w0, w1, block), 1);
        struct pair x = f(w0, w1, block);
        struct pair y = f(w1, w0, block + 1);
        struct pair u = f(w0, w0, block);
        struct pair v = f(w1, w1, block + 1);
        /* between neighbours */
        put(m, (struct pair){x.a + y.a, x.b + y.b}, (struct pair){u.a + v.a, u.b + v.b}, 1);
    }
    return random_like(m, "word swaps", loud);
}

static bool block_swaps(mixer *f, struct family *m, size_t size, bool loud)
{
    for (uint64_t i = 0; i < size; i++) {
        uint64_t p = i % 32, q = 32 + i / 32 % 32, far = 1 + i / 1024;
        struct pair a = f(p, 0, far), b = f(q, 0, 0), c = f(p, 0, 0), d = f(q, 0, far);
        put(m, (struct pair){a.a + b.a, a.b + b.b}, (struct pair){c.a + d.a, c.b + d.b}, 1);
        if (m->change[m->n - 1].a == 0 && m->change[m->n - 1].b == 0) {
            m->n = 0;
            return false;
        }
    }
    return random_like(m, "block swaps", loud);
}

static bool zero_tensors(mixer *f, struct family *m, size_t size, bool loud)
{
    struct pair sum = {0, 0};
    for (uint64_t block = 0; block < size; block++) {
        struct pair x = f(0, 0, block);
        sum.a += x.a;
        sum.b += x.b;
        put(m, sum, (struct pair){0, 0}, 1);
    }
    return random_like(m, "zero tensors", loud);
}

/* Few bits in use: small integers, exponents only. */
static bool plain_values(mixer *f, struct family *m, size_t size, bool loud)
{
    bool good = true;
    uint64_t side = (uint64_t)sqrt((double)size);
    for (int shift = 0; shift <= 54; shift += 18) {
        for (uint64_t i = 0; i < side * side; i++)
            put(m, f((i % side) << shift, (i / side) << shift, 5), (struct pair){0, 0}, 1);
        good &= random_like(m, "plain values", loud);
    }
    return good;
}

/* Each output bit should turn with each input bit half of the time. */
static bool avalanche(mixer *f, struct family *m, size_t size, bool loud)
{
    static int turned[128][128];
    int trials = size > 100000 ? 4000 : 1000, biased = 0;
    uint64_t seed = 3;
    (void)m;
    memset(turned, 0, sizeof turned);
    for (int t = 0; t < trials; t++) {
        uint64_t w0 = random_bits(&seed);
        uint64_t w1 = random_bits(&seed);
        uint64_t block = random_bits(&seed) % 1000000;
        struct pair x = f(w0, w1, block);
        for (int in = 0; in < 128; in++) {
            struct pair y = f(w0 ^ (in < 64 ? 1ull << in : 0),
                              w1 ^ (in < 64 ? 0 : 1ull << (in - 64)), block);
            for (int out = 0; out < 64; out++) {
                turned[in][out] += (int)((x.a ^ y.a) >> out & 1);
                turned[in][64 + out] += (int)((x.b ^ y.b) >> out & 1);
            }
        }
    }
    for (int in = 0; in < 128; in++)
        for (int out = 0; out < 128; out++)
            biased += fabs(turned[in][out] - trials / 2.0) > trials * 0.1;
    if (loud)
        print_message("avalanche: %.2f%% of the cells turn in less than 40%% or more than 60%% of "
                      "%d trials\n",
                      biased / 163.84, trials);
    return biased < 164; /* 1% */
}

typedef bool family_test(mixer *, struct family *, size_t, bool);
static family_test *const families[] = {single_bits, additive,     two_places,   word_swaps,
                                        block_swaps, zero_tensors, plain_values, avalanche};
enum { SINGLE, ADDITIVE, TWO, WORDS, BLOCKS, ZEROS, PLAIN, AVALANCHE, FAMILIES };

static bool passes(mixer *f, int family, size_t size, bool loud)
{
    struct family m = {0, size + 256, malloc((size + 256) * sizeof(struct pair))};
    bool good = families[family](f, &m, size, loud);
    free(m.change);
    return good;
}

static void test_ours_is_good(void **state)
{
    (void)state;
    for (int family = 0; family < FAMILIES; family++)
        assert_true(passes(ours, family, full_run() ? 1 << 20 : 1 << 16, true));
}

/* The faults of old are caught by the tests that should catch them. */
static void test_bad_mixers_are_caught(void **state)
{
    (void)state;
    const size_t size = 1 << 16;
    make_sbox();
    assert_int_equal(sbox[0x53], 0xED); /* FIPS 197 */
    assert_false(passes(nh_linear, TWO, size, false));
    assert_false(passes(nh_linear, AVALANCHE, size, false));
    assert_false(passes(aes_two_rounds, SINGLE, size, false));
    assert_false(passes(two_rounds, SINGLE, size, false));
    assert_false(passes(two_rounds, AVALANCHE, size, false));
    assert_false(passes(no_position, BLOCKS, size, false));
}

/* ---- whole digests of small float tensors: edits that must show */

typedef struct pair whole(const float *x, size_t n);

static struct pair ours_finished(const float *x, size_t n)
{
    int64_t shape = (int64_t)n;
    struct twin_digest d = twin_digest_finish(twin_digest_bytes(x, 4 * n, 0), 4 * n, TWIN_F32, 1,
                                              &shape, 0);
    return (struct pair){d.a, d.b};
}

static struct pair ours_without_length(const float *x, size_t n)
{
    struct twin_digest d = twin_digest_bytes(x, 4 * n, 0);
    return (struct pair){d.a, d.b};
}

static struct pair xor_fold(const float *x, size_t n)
{
    struct pair p = {0, 0};
    for (size_t i = 0; i < n; i++) {
        uint32_t w;
        memcpy(&w, x + i, 4);
        p.a ^= tw_scatter(w);
        p.b ^= tw_scatter(w + TW_KEY_STEP);
    }
    return p;
}

static struct pair l1_norm(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += fabs((double)x[i]);
    struct pair p = {0, 0};
    memcpy(&p.a, &sum, 8);
    return p;
}

enum edit {
    SWAP_ELEMENTS,
    FLIP_SIGN,
    FLIP_TWO_SIGNS,
    SAME_PAIR,
    APPEND_ZERO,
    NEGATIVE_ZERO,
    EDITS
};

static bool shows(whole *f, enum edit edit)
{
    for (size_t n = 5; n < 200; n++) {
        float x[201], y[201];
        size_t length = n, i = n / 3, j = n - 2;
        for (size_t e = 0; e <= n; e++)
            x[e] = y[e] = (float)e + 0.5f;
        x[n] = y[n] = 0;
        switch (edit) {
        case SWAP_ELEMENTS: y[i] = x[j], y[j] = x[i]; break;
        case FLIP_SIGN: y[i] = -x[i]; break;
        case FLIP_TWO_SIGNS: y[i] = -x[i], y[j] = -x[j]; break;
        case SAME_PAIR: x[i] = x[j] = 3, y[i] = y[j] = 7; break;
        case APPEND_ZERO: length = n + 1; break;
        default: x[i] = 0.0f, y[i] = -0.0f; break;
        }
        struct pair p = f(x, n), q = f(y, length);
        if (p.a == q.a && p.b == q.b)
            return false;
    }
    return true;
}

static void test_edits_show(void **state)
{
    (void)state;
    for (int edit = 0; edit < EDITS; edit++)
        assert_true(shows(ours_finished, (enum edit)edit));
    assert_false(shows(xor_fold, SWAP_ELEMENTS));
    assert_false(shows(xor_fold, SAME_PAIR));
    assert_false(shows(l1_norm, FLIP_SIGN));
    assert_false(shows(l1_norm, SWAP_ELEMENTS));
    assert_false(shows(ours_without_length, APPEND_ZERO));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ours_is_good),
        cmocka_unit_test(test_bad_mixers_are_caught),
        cmocka_unit_test(test_edits_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
