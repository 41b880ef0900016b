/* SPDX-License-Identifier: Apache-2.0 */
/* Digest and views against a second, naive implementation of docs/format/fingerprint.md;
 * composition; wrong use. */
#include "fingerprint_test.h"
#include <pthread.h>

/* ---- the oracle: one byte at a time, straight from the definition */

static void oracle_block(const unsigned char block[16], uint64_t number, struct twin_digest *sum)
{
    uint64_t w[2] = {0, 0}, key = number * 11400714819323198485u + 15111065706836454659u;
    for (int i = 15; i >= 0; i--)
        w[i / 8] = w[i / 8] << 8 | block[i];
    uint64_t word[2] = {w[0] + key, w[1] ^ key};
    for (int round = 0; round < 5; round++) {
        uint64_t from = word[1 - round % 2], *to = &word[round % 2];
        uint64_t product = (from & 0xFFFFFFFF) * (from >> 32);
        *to = round % 2 ? *to ^ product : *to + product;
        if (round < 4)
            word[1 - round % 2] = from << 32 | from >> 32;
    }
    sum->a += word[0];
    sum->b += word[1];
}

/* The elements of a view in logical order, packed; to must have room. Returns the bytes. */
static size_t oracle_pack(const struct twin_tensor *t, unsigned char *to)
{
    int64_t at[TWIN_MAX_NDIM] = {0};
    size_t size = twin_dtype_size(t->dtype), bytes = 0;
    int64_t total = 1;
    for (uint32_t d = 0; d < t->ndim; d++)
        total *= t->shape[d];
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, offset = 0, natural = 1;
        for (uint32_t d = t->ndim; d-- > 0;) {
            at[d] = rest % t->shape[d];
            rest /= t->shape[d];
            offset += at[d] * (t->strides ? t->strides[d] : natural);
            natural *= t->shape[d];
        }
        memcpy(to + bytes, (const unsigned char *)t->data + offset * (int64_t)size, size);
        bytes += size;
    }
    return bytes;
}

static struct twin_digest oracle_digest(const unsigned char *p, size_t bytes, uint64_t offset)
{
    struct twin_digest sum = {0, 0};
    for (size_t i = 0; i < bytes;) {
        unsigned char block[16] = {0};
        uint64_t number = (offset + i) / 16;
        for (; i < bytes && (offset + i) / 16 == number; i++)
            block[(offset + i) % 16] = p[i];
        oracle_block(block, number, &sum);
    }
    return sum;
}

static void assert_digest(struct twin_digest x, struct twin_digest y)
{
    assert_int_equal(x.a, y.a);
    assert_int_equal(x.b, y.b);
}

/* ---- tests */

static void test_bytes(void **state)
{
    (void)state;
    uint64_t seed = 1;
    unsigned char buffer[3000];
    for (size_t i = 0; i < sizeof buffer; i++)
        buffer[i] = (unsigned char)random_bits(&seed);
    for (size_t s = 0; kernel_set(s); s++) {
        tw_fingerprint_use(kernel_set(s));
        for (size_t n = 0; n < 600; n++) {
            size_t shift = n % 23;
            uint64_t offset = n % 5 == 0   ? random_bits(&seed) % 100000
                              : n % 5 == 1 ? 0x7FFFFFFFFFFFFF00u
                                           : 0;
            assert_digest(twin_digest_bytes(buffer + shift, n, offset),
                          oracle_digest(buffer + shift, n, offset));
        }
        assert_digest(twin_digest_bytes(buffer, sizeof buffer, 0),
                      oracle_digest(buffer, sizeof buffer, 0));
    }
    assert_digest(twin_digest_bytes(NULL, 0, 0), (struct twin_digest){0, 0});
}

/* Random views of up to five dimensions: strides of both signs, zero, permuted; offsets; sizes that
 * merge. */
static void test_views(void **state)
{
    (void)state;
    uint64_t seed = 2;
    const size_t room = 1 << 20;
    unsigned char *memory = malloc(room), *packed = malloc(room);
    for (size_t i = 0; i < room; i++)
        memory[i] = (unsigned char)random_bits(&seed);
    int rounds = full_run() ? 20000 : 2000, done = 0;
    for (int round = 0; round < rounds; round++) {
        int64_t shape[5], strides[5], low = 0, high = 0;
        uint32_t ndim = (uint32_t)(random_bits(&seed) % 6), order[5] = {0, 1, 2, 3, 4};
        enum twin_dtype dtype = (enum twin_dtype)(random_bits(&seed) % TWIN_DTYPE_COUNT);
        size_t size = twin_dtype_size(dtype);
        int64_t step = 1, elements = 1;
        for (uint32_t d = 0; d < ndim; d++) {
            uint32_t other = d + (uint32_t)(random_bits(&seed) % (ndim - d)), swap = order[d];
            order[d] = order[other];
            order[other] = swap;
        }
        for (uint32_t i = 0; i < ndim; i++) {
            uint32_t d = round % 3 ? ndim - 1 - i : order[i];
            int64_t most = round % 7 == 0 && i == 0 ? 4000 : ndim < 3 ? 60 : 9;
            shape[d] = 1 + (int64_t)(random_bits(&seed) % (uint64_t)most);
            strides[d] = step * (random_bits(&seed) % 6 == 0 ? -1 : 1) *
                         (random_bits(&seed) % 9 ? 1 : 0);
            step *= shape[d] + (random_bits(&seed) % 4 == 0 ? 3 : 0);
            *(strides[d] < 0 ? &low : &high) += strides[d] * (shape[d] - 1);
            elements *= shape[d];
        }
        if ((uint64_t)(high - low + 1) * size > room || (uint64_t)elements * size > room)
            continue;
        struct twin_tensor t = {memory - low * (int64_t)size,
                                dtype,
                                ndim,
                                shape,
                                round % 11 ? strides : NULL,
                                random_bits(&seed) % 3 ? 0 : random_bits(&seed) % 1000};
        if (!t.strides)
            t.data = memory;
        struct twin_digest d;
        struct twin_stats stats;
        size_t bytes = oracle_pack(&t, packed);
        tw_fingerprint_use(kernel_set(random_bits(&seed) % 2 && kernel_set(1) ? 1 : 0));
        assert_int_equal(twin_fingerprint(&t, &d, NULL, NULL, NULL), 0);
        assert_digest(d, oracle_digest(packed, bytes, t.global_offset * size));
        /* with statistics: the same digest, and the statistics of the packed copy */
        struct twin_stats expected;
        struct twin_tensor copy = {packed, dtype, 1, &elements, NULL, t.global_offset};
        assert_int_equal(twin_fingerprint(&t, &d, &stats, NULL, NULL), 0);
        assert_digest(d, oracle_digest(packed, bytes, t.global_offset * size));
        assert_int_equal(twin_fingerprint(&copy, NULL, &expected, NULL, NULL), 0);
        assert_memory_equal(&stats, &expected, sizeof stats);
        done++;
    }
    assert_true(done > rounds * 9 / 10); /* few are too large for the memory */
    free(memory);
    free(packed);
}

static void test_shards_compose(void **state)
{
    (void)state;
    uint64_t seed = 3;
    const size_t bytes = 40000;
    unsigned char *p = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)random_bits(&seed);
    struct twin_digest whole = twin_digest_bytes(p, bytes, 0);
    for (int round = 0; round < 200; round++) {
        struct twin_digest sum = {0, 0};
        for (size_t at = 0; at < bytes;) {
            size_t n = 16 * (random_bits(&seed) % 200);
            n = n > bytes - at ? bytes - at : n;
            tw_fingerprint_use(kernel_set(random_bits(&seed) % 2 && kernel_set(1) ? 1 : 0));
            struct twin_digest d = twin_digest_bytes(p + at, n, at);
            sum.a += d.a;
            sum.b += d.b;
            at += n;
        }
        assert_digest(sum, whole);
    }
    /* cut inside a block: must not compose, and says so */
    struct twin_digest left = twin_digest_bytes(p, 8, 0), right = twin_digest_bytes(p + 8, 8, 8);
    struct twin_digest both = twin_digest_bytes(p, 16, 0);
    assert_true(left.a + right.a != both.a);
    assert_int_equal(twin_digest_composable(TWIN_F32, 4), 1);
    assert_int_equal(twin_digest_composable(TWIN_F32, 2), 0);
    assert_int_equal(twin_digest_composable(TWIN_C128, 1), 1);
    assert_int_equal(twin_digest_composable(TWIN_BYTES, 0), 1);
    free(p);
}

struct share {
    const unsigned char *p;
    size_t bytes, first, step;
    struct twin_digest sum;
};

static void *digest_share(void *argument)
{
    struct share *s = argument;
    for (size_t at = s->first; at < s->bytes; at += s->step) {
        struct twin_digest d = twin_digest_bytes(s->p + at, 4096, at);
        s->sum.a += d.a;
        s->sum.b += d.b;
    }
    return NULL;
}

static void test_threads_in_any_order(void **state)
{
    (void)state;
    const size_t bytes = 4096 * 512;
    uint64_t seed = 4;
    unsigned char *p = malloc(bytes);
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t w = random_bits(&seed);
        memcpy(p + i, &w, 8);
    }
    pthread_t thread[4];
    struct share share[4];
    struct twin_digest sum = {0, 0};
    tw_fingerprint_use(NULL); /* the threads race to choose the set */
    for (size_t i = 0; i < 4; i++) {
        share[i] = (struct share){p, bytes, 4096 * i, 4 * 4096, {0, 0}};
        assert_int_equal(pthread_create(&thread[i], NULL, digest_share, &share[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        sum.a += share[i].sum.a;
        sum.b += share[i].sum.b;
    }
    assert_digest(sum, twin_digest_bytes(p, bytes, 0));
    assert_digest(sum, oracle_digest(p, bytes, 0));
    free(p);
}

static void test_finish_tells_apart(void **state)
{
    (void)state;
    struct twin_digest raw = {1, 2}, seen[16];
    int64_t shape[3] = {2, 3, 4}, other[3] = {3, 2, 4}, flat[1] = {24};
    seen[0] = twin_digest_finish(raw, 96, TWIN_F32, 3, shape, 0);
    seen[1] = twin_digest_finish(raw, 96, TWIN_F32, 3, other, 0);
    seen[2] = twin_digest_finish(raw, 96, TWIN_F32, 1, flat, 0);
    seen[3] = twin_digest_finish(raw, 96, TWIN_I32, 3, shape, 0);
    seen[4] = twin_digest_finish(raw, 96, TWIN_F32, 3, shape, 1);
    seen[5] = twin_digest_finish(raw, 95, TWIN_F32, 3, shape, 0);
    seen[6] = twin_digest_finish((struct twin_digest){2, 1}, 96, TWIN_F32, 3, shape, 0);
    seen[7] = twin_digest_finish((struct twin_digest){1, 3}, 96, TWIN_F32, 3, shape, 0);
    seen[8] = twin_digest_finish((struct twin_digest){0, 2}, 96, TWIN_F32, 3, shape, 0);
    seen[9] = twin_digest_finish(raw, 96, TWIN_F32, 0, NULL, 0);
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < i; j++) {
            assert_true(seen[i].a != seen[j].a);
            assert_true(seen[i].b != seen[j].b);
        }
    assert_digest(seen[0], twin_digest_finish(raw, 96, TWIN_F32, 3, shape, 0));
}

/*
 * Frozen: the same numbers stand in docs/format/fingerprint.md and are recomputed there in Python.
 */
static void test_vectors(void **state)
{
    (void)state;
    unsigned char p[100];
    for (int i = 0; i < 100; i++)
        p[i] = (unsigned char)i;
    int64_t shape = 100;
    for (size_t s = 0; kernel_set(s); s++) {
        tw_fingerprint_use(kernel_set(s));
        struct twin_digest one = twin_digest_bytes("", 1, 0), raw = twin_digest_bytes(p, 100, 0);
        struct twin_digest shard = twin_digest_bytes(p, 100, 1600);
        struct twin_digest inside = twin_digest_bytes(p, 100, 5);
        struct twin_digest final = twin_digest_finish(raw, 100, TWIN_U8, 1, &shape, 0);
        assert_digest(one, (struct twin_digest){0x95A7D0E95311BB3Cu, 0x06D6ACF260C8FB5Du});
        assert_digest(raw, (struct twin_digest){0x9A381604D62ACBA4u, 0x5C1E69A261DD3F02u});
        assert_digest(shard, (struct twin_digest){0x7B1D7E9604E1AFB5u, 0xEC3A0EBB04CB330Du});
        assert_digest(inside, (struct twin_digest){0xE7447510B84235DDu, 0x0E4C20E555F1E701u});
        assert_digest(final, (struct twin_digest){0x03B3ECE72CD7F99Cu, 0xDC25EA45904B282Fu});
    }
}

static void assert_refused(const struct twin_tensor *t, struct twin_sketch *k, const char *because)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_digest d = {7, 7};
    assert_int_equal(twin_fingerprint(t, &d, NULL, k, &err), TWIN_EINVAL);
    assert_int_equal(twin_fingerprint(t, &d, NULL, k, NULL), TWIN_EINVAL);
    assert_int_equal(err.code, TWIN_EINVAL);
    if (!strstr(err.message, because))
        fail_msg("\"%s\" does not say \"%s\"", err.message, because);
    assert_digest(d, (struct twin_digest){7, 7});
}

static void test_wrong_use(void **state)
{
    (void)state;
    float x[4] = {0};
    int64_t four = 4, minus = -1, huge[2] = {INT64_MAX, 4}, nothing[3] = {INT64_MAX, INT64_MAX, 0};
    struct twin_tensor good = {x, TWIN_F32, 1, &four, NULL, 0}, t = good;
    struct twin_sketch k = {.k = 16};
    assert_int_equal(twin_fingerprint(&good, NULL, NULL, &k, NULL), 0);
    t.dtype = (enum twin_dtype)99;
    assert_refused(&t, NULL, "dtype 99");
    t.dtype = (enum twin_dtype) - 1;
    assert_refused(&t, NULL, "dtype -1");
    t = good, t.ndim = 65;
    assert_refused(&t, NULL, "65 dimensions");
    t = good, t.shape = &minus;
    assert_refused(&t, NULL, "negative size -1");
    t = good, t.shape = NULL;
    assert_refused(&t, NULL, "shape is NULL");
    t = good, t.data = NULL;
    assert_refused(&t, NULL, "data is NULL for 4");
    t = good, t.shape = huge, t.ndim = 2;
    assert_refused(&t, NULL, "beyond 2^63");
    t = good, t.shape = huge;
    assert_refused(&t, NULL, "beyond 2^63");
    t = good, t.global_offset = UINT64_MAX;
    assert_refused(&t, NULL, "beyond 2^63");
    t = good, t.global_offset = INT64_MAX / 4;
    assert_refused(&t, NULL, "beyond 2^63");
    for (uint32_t bad = 0; bad <= 130; bad++)
        if (bad == 0 || bad > 64 || (bad & (bad - 1))) {
            k.k = bad;
            assert_refused(&good, &k, "power of two");
        }
    /* no elements is fine, however large the other dimensions, and data may be NULL */
    struct twin_stats s;
    struct twin_digest d = {7, 7};
    t = good, t.data = NULL, t.shape = nothing, t.ndim = 3;
    assert_int_equal(twin_fingerprint(&t, &d, &s, NULL, NULL), 0);
    assert_digest(d, (struct twin_digest){0, 0});
    assert_int_equal(s.count, 0);
    assert_int_equal(twin_fingerprint(&t, &d, NULL, NULL, NULL), 0);
    /* no dimensions is one element */
    t = good, t.ndim = 0, t.shape = NULL;
    assert_int_equal(twin_fingerprint(&t, &d, &s, NULL, NULL), 0);
    assert_int_equal(s.count, 1);
    assert_digest(d, oracle_digest((unsigned char *)x, 4, 0));
    assert_int_equal(twin_dtype_size((enum twin_dtype)18), 0);
    assert_string_equal(twin_dtype_name((enum twin_dtype) - 3), "?");
    assert_string_equal(twin_dtype_name(TWIN_BF16), "bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_shards_compose),
        cmocka_unit_test(test_threads_in_any_order),
        cmocka_unit_test(test_finish_tells_apart),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_wrong_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
