/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying a trace: alone, with a thread that reads ahead, several at once; every vector width;
 * what is known afterwards, and what need not be read again. To be run under ThreadSanitizer too.
 */
#include "trace_helper.h"

#include "reader.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>

enum { STEPS = 20000 }; /* 8 MB: many batches of blocks */

struct image {
    char *bytes;
    size_t n;
};

static struct image load(const char *path)
{
    struct image i;
    assert_int_equal(tw_read_file(path, 1u << 30, &i.bytes, &i.n, NULL), 0);
    return i;
}

/* One byte of the file, changed and changed back. */
static void flip(const char *path, size_t at, unsigned char by)
{
    unsigned char byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= by;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

/* The offset of the block that byte `at` lies in, by its header. */
static uint64_t block_of(const struct image *i, size_t at)
{
    uint64_t offset = sizeof(struct tw_file_header);
    for (;;) {
        struct tw_block b;
        memcpy(&b, i->bytes + offset, sizeof b);
        if (at < offset + tw_block_span(&b))
            return offset;
        offset += tw_block_span(&b);
    }
}

static void expect_fault(const char *path, bool beside, uint64_t block, size_t at,
                         struct twin_error *first)
{
    struct twin_trace *t = open_trace(path);
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(tw_trace_verify(t, beside, &err), TWIN_EFORMAT);
    const char *place = strstr(err.message, "at byte ");
    assert_non_null(place);
    const uint64_t found = strtoull(place + 8, NULL, 10);
    if (found != block && found != at)
        fail_msg("byte %zu, block at %llu: %s", at, (unsigned long long)block, err.message);
    if (first->code)
        assert_string_equal(first->message, err.message);
    *first = err;
    assert_null(twin_trace_summary(t));
    assert_false(twin_trace_observed(t, 1));
    twin_trace_close(t);
}

/* Whoever reads, the first damaged block is found, and told in the same words. */
static void test_damage_is_found_either_way(void **state)
{
    (void)state;
    const char *path = scratch_path("damage.twt");
    write_job(path, STEPS, UINT32_MAX);
    struct image i = load(path);
    srand(3);
    for (int round = 0; round < 60; round++) {
        /* behind the first block; a later fault must not be told in place of an earlier one */
        const size_t at = 1024 + (size_t)rand() % (i.n / 2), later = i.n / 2 + i.n / 4;
        struct twin_error first = TWIN_ERROR_INIT;
        const unsigned char by = (unsigned char)(1u << rand() % 8);
        flip(path, at, by);
        flip(path, later, 1);
        for (unsigned bits = 0; bits <= 512; bits += 256) {
            tw_trace_vector_bits = bits;
            expect_fault(path, false, block_of(&i, at), at, &first);
            expect_fault(path, true, block_of(&i, at), at, &first);
        }
        flip(path, at, by);
        flip(path, later, 1);
    }
    tw_trace_vector_bits = 512;
    struct twin_trace *t = open_trace(path);
    assert_int_equal(tw_trace_verify(t, true, NULL), 0);
    twin_trace_close(t);
    tw_free(i.bytes);
}

/* Right checksums do not hide wrong contents: the seal is computed from the payload. */
static void test_changed_block_with_right_checksums(void **state)
{
    (void)state;
    const char *path = scratch_path("seal.twt");
    write_job(path, STEPS, UINT32_MAX);
    struct image i = load(path);
    uint32_t seed;
    memcpy(&seed, i.bytes + offsetof(struct tw_file_header, crc), sizeof seed);
    for (size_t at = i.n / 9; at + 200000 < i.n; at += i.n / 9) {
        const uint64_t offset = block_of(&i, at);
        struct tw_block b, was;
        memcpy(&b, i.bytes + offset, sizeof b);
        was = b;
        if (b.payload_bytes < 1024)
            continue;
        char *payload = i.bytes + offset + sizeof b;
        /* the time of a record: no hash but the seal covers it */
        payload[32] ^= 1;
        b.payload_crc = tw_crc32c(seed, payload, b.payload_bytes);
        b.crc = tw_crc32c(seed, &b, offsetof(struct tw_block, crc));
        memcpy(i.bytes + offset, &b, sizeof b);
        int fd = open(path, O_WRONLY | O_TRUNC);
        assert_int_equal(tw_write_all(fd, i.bytes, i.n), 0);
        close(fd);
        memcpy(i.bytes + offset, &was, sizeof was);
        payload[32] ^= 1;
        for (int beside = 0; beside < 2; beside++) {
            struct twin_trace *t = open_trace(path);
            struct twin_error err = TWIN_ERROR_INIT;
            assert_int_equal(tw_trace_verify(t, beside, &err), TWIN_EFORMAT);
            assert_non_null(strstr(err.message, "seal, first half"));
            twin_trace_close(t);
        }
    }
    tw_free(i.bytes);
}

/* Many small blocks: more than one batch has room for. */
static void test_small_blocks(void **state)
{
    (void)state;
    const char *path = scratch_path("small.twt");
    struct twin_writer *w = open_writer(path, 0);
    uint32_t x = series_id(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x");
    for (uint32_t s = 0; s < 1000; s++) {
        record_value(w, x, 0, s);
        twin_writer_step_end(w);
        twin_writer_flush(w);
    }
    tw_writer_free(w);
    struct twin_trace *t = open_trace(path);
    assert_true(twin_trace_info(t)->blocks > 1000);
    for (int beside = 0; beside < 2; beside++)
        assert_int_equal(tw_trace_verify(t, beside, NULL), 0);
    assert_int_equal(twin_trace_summary(t)->records, 1000);
    twin_trace_close(t);
}

/* A file that becomes shorter while it is verified gives a fault and no crash. */
static void test_file_that_shrinks(void **state)
{
    (void)state;
    const char *path = scratch_path("shrinks.twt");
    const off_t sizes[] = {5000001, 1000000, 70000, 600, 512, 100};
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        write_job(path, STEPS, UINT32_MAX);
        struct twin_trace *t = open_trace(path);
        assert_int_equal(truncate(path, sizes[i / 2]), 0);
        assert_int_equal(tw_trace_verify(t, i % 2, NULL), TWIN_EFORMAT);
        twin_trace_close(t);
    }
}

/* The hashes of payloads of unlike lengths side by side are those of one at a time. */
static void test_payloads_side_by_side(void **state)
{
    (void)state;
    static char bytes[TW_SIDES][4096];
    srand(7);
    for (unsigned bits = 0; bits <= 512; bits += 256) {
        tw_trace_vector_bits = bits;
        for (int round = 0; round < 300; round++) {
            const char *payload[TW_SIDES];
            uint32_t n[TW_SIDES];
            struct tw_hash128 hash[TW_SIDES];
            for (int k = 0; k < TW_SIDES; k++) {
                payload[k] = bytes[k] + 8 * (rand() % 3);
                n[k] = 8 * (uint32_t)(round < 20 ? rand() % 6 : rand() % 500);
                for (size_t i = 0; i < sizeof bytes[k]; i++)
                    bytes[k][i] = (char)rand();
            }
            tw_trace_payload_hashes(payload, n, hash);
            for (int k = 0; k < TW_SIDES; k++) {
                struct tw_block b = {.payload_bytes = n[k]};
                struct tw_hash128 x = tw_trace_seal(&b, payload[k]);
                struct tw_hash128 y = tw_trace_seal_of(&b, hash[k]);
                assert_true(x.a == y.a && x.b == y.b);
            }
        }
    }
    tw_trace_vector_bits = 512;
}

struct job {
    char path[200];
    int rc;
};

static void *verify_one(void *arg)
{
    struct job *j = arg;
    struct twin_trace *t = NULL;
    j->rc = twin_trace_open(j->path, &t, NULL);
    if (j->rc == 0)
        j->rc = twin_trace_verify(t, NULL);
    twin_trace_close(t);
    return NULL;
}

static void test_several_at_once(void **state)
{
    (void)state;
    enum { N = 4 };
    pthread_t thread[N];
    struct job job[N];
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "many-%d.twt", i);
        strcpy(job[i].path, scratch_path(name));
        write_job(job[i].path, STEPS / 4, UINT32_MAX);
        if (i == 2)
            flip(job[i].path, 100000, 4);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, verify_one, &job[i]), 0);
    for (int i = 0; i < N; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(job[i].rc, i == 2 ? TWIN_EFORMAT : 0);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    const char *path = scratch_path("memory.twt");
    write_job(path, 2000, UINT32_MAX);
    for (int beside = 0; beside < 2; beside++) {
        bool went_through = false;
        for (uint64_t n = 1; !went_through; n++) {
            struct twin_trace *t = open_trace(path);
            struct twin_error err = TWIN_ERROR_INIT;
            tw_alloc_fail_at(n, true);
            int rc = tw_trace_verify(t, beside, &err);
            tw_alloc_fail_at(0, false);
            assert_true(rc == 0 || rc == TWIN_ENOMEM);
            assert_int_equal(twin_trace_summary(t) != NULL, rc == 0);
            went_through = rc == 0;
            twin_trace_close(t);
        }
    }
}

/* ---- what is known afterwards */

struct kinds {
    uint32_t count[8];
    uint64_t asked, steps;
};

static bool wants_gradients(void *user, uint32_t id, const struct twin_series *s)
{
    (void)id;
    ((struct kinds *)user)->asked++;
    return s->kind == TWIN_KIND_GRADIENT;
}

static bool wants_nothing(void *user, uint32_t id, const struct twin_series *s)
{
    (void)user, (void)id, (void)s;
    return false;
}

static int count_series(void *user, const struct twin_trace_record *r)
{
    ((struct kinds *)user)->count[r->series % 8]++;
    return 0;
}

static int count_steps(void *user, const struct twin_step_hash *h)
{
    struct kinds *k = user;
    return h->step == k->steps++ ? 0 : 1;
}

static void test_walk_of_some_series(void **state)
{
    (void)state;
    const char *path = scratch_path("some.twt");
    write_job(path, STEPS, UINT32_MAX);
    struct twin_trace *t = open_trace(path);
    struct kinds k = {{0}, 0, 0};
    assert_int_equal(twin_trace_walk_some(t, wants_gradients, count_series, count_steps, &k, NULL),
                     0);
    assert_int_equal(k.steps, STEPS);
    for (uint32_t i = 0; i < 8; i++) /* series 3 is the gradient */
        assert_int_equal(k.count[i], i == 3 ? STEPS : 0);
    /* nothing is wanted of a trace of which nothing is known: it is read, damage would be noted */
    uint64_t before = twin_trace_bytes_read(t);
    assert_int_equal(twin_trace_walk_some(t, wants_nothing, count_series, NULL, &k, NULL), 0);
    assert_true(twin_trace_bytes_read(t) - before > twin_trace_info(t)->file_bytes / 2);
    assert_verified(t);
    before = twin_trace_bytes_read(t);
    assert_int_equal(twin_trace_walk_some(t, wants_nothing, count_series, NULL, &k, NULL), 0);
    assert_int_equal(twin_trace_bytes_read(t), before);
    k = (struct kinds){{0}, 0, 0};
    assert_int_equal(twin_trace_walk(t, NULL, count_steps, &k, NULL), 0);
    assert_int_equal(k.steps, STEPS);
    twin_trace_close(t);
    /* a damaged one is read, whatever is wanted, and the hole is noted */
    flip(path, 3000000, 8);
    t = open_trace(path);
    struct twin_trace_hole hole;
    assert_int_equal(twin_trace_verify(t, NULL), TWIN_EFORMAT);
    assert_false(twin_trace_hole(t, 0, &hole));
    assert_int_equal(twin_trace_walk_some(t, wants_nothing, count_series, NULL, &k, NULL), 0);
    assert_true(twin_trace_hole(t, 0, &hole));
    twin_trace_close(t);
}

/* Steps of many blocks: an intact trace is read where steps end, and nowhere else. */
static void test_ends_of_long_steps(void **state)
{
    (void)state;
    const char *path = scratch_path("long.twt");
    struct twin_writer *w = open_writer(path, 8u << 20);
    uint32_t x = series_id(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x");
    for (uint32_t s = 0; s < 5; s++) {
        for (uint32_t i = 0; i < 20000; i++)
            record_value(w, x, 0, i);
        twin_writer_flush(w);
        twin_writer_step_end(w);
    }
    tw_writer_free(w);
    struct twin_trace *t = open_trace(path);
    struct kinds k = {{0}, 0, 0};
    uint64_t before = twin_trace_bytes_read(t);
    assert_int_equal(twin_trace_walk(t, NULL, count_steps, &k, NULL), 0);
    assert_int_equal(k.steps, 5);
    const uint64_t all = twin_trace_bytes_read(t) - before;
    assert_verified(t);
    k.steps = 0;
    before = twin_trace_bytes_read(t);
    assert_int_equal(twin_trace_walk(t, NULL, count_steps, &k, NULL), 0);
    assert_int_equal(k.steps, 5);
    assert_true(twin_trace_bytes_read(t) - before < all / 5);
    twin_trace_close(t);
}

static void test_summary(void **state)
{
    (void)state;
    const char *path = scratch_path("summary.twt");
    for (int odd = 0; odd < 4; odd++) {
        struct twin_writer *w = open_writer(path, 0);
        uint32_t x = series_id(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x");
        uint32_t y = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "y");
        uint32_t never = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "z");
        struct twin_stats stats = {.count = 4, .min = 1, .max = 2, .sum = 3, .sumsq = 4};
        struct twin_observation o = {.series = x, .flags = TWIN_REC_STATS, .stats = &stats};
        twin_writer_record(w, &o);
        twin_writer_step_end(w);
        stats.nan = odd == 1;
        stats.neg_inf = odd == 2;
        twin_writer_record(w, &o);
        o = (struct twin_observation){.series = y, .flags = TWIN_REC_UNOBSERVED};
        twin_writer_record(w, &o);
        twin_writer_step_end(w);
        for (int i = 0; i < odd; i++)
            record_value(w, x, 0, 1);
        tw_writer_free(w);
        struct twin_trace *t = open_trace(path);
        assert_null(twin_trace_summary(t));
        assert_verified(t);
        const struct twin_trace_summary *s = twin_trace_summary(t);
        assert_non_null(s);
        assert_int_equal(s->records, 3 + odd);
        assert_int_equal(s->unfinished, odd);
        assert_int_equal(s->unobserved, 1);
        assert_int_equal(s->nonfinite, odd == 1 || odd == 2);
        assert_false(s->threads);
        assert_true(twin_trace_observed(t, x));
        assert_false(twin_trace_observed(t, y));
        assert_false(twin_trace_observed(t, never));
        assert_false(twin_trace_observed(t, 0));
        assert_false(twin_trace_observed(t, UINT32_MAX));
        twin_trace_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage_is_found_either_way),
        cmocka_unit_test(test_changed_block_with_right_checksums),
        cmocka_unit_test(test_small_blocks),
        cmocka_unit_test(test_file_that_shrinks),
        cmocka_unit_test(test_payloads_side_by_side),
        cmocka_unit_test(test_several_at_once),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_walk_of_some_series),
        cmocka_unit_test(test_ends_of_long_steps),
        cmocka_unit_test(test_summary),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
