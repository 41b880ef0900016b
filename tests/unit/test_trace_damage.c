/* SPDX-License-Identifier: Apache-2.0 */
/* Cut, flipped, overwritten traces, and memory that runs out. */
#include "trace_helper.h"

#include <fcntl.h>

struct image {
    unsigned char *bytes;
    size_t n;
};

static struct image load(const char *path)
{
    struct image i;
    char *bytes;
    assert_int_equal(tw_read_file(path, 1u << 30, &bytes, &i.n, NULL), 0);
    i.bytes = (unsigned char *)bytes;
    return i;
}

static void store(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(tw_write_all(fd, bytes, n), 0);
    close(fd);
}

/* Everything a reader may ask, whatever the answers are. */
static int ask_everything(struct twin_trace *t)
{
    struct twin_trace_record *r;
    struct twin_step_hash h;
    struct twin_error err = TWIN_ERROR_INIT;
    size_t n;
    const char *k, *v;
    uint32_t step, dropped;
    uint64_t compared;
    bool found;
    for (uint32_t s = 0; s < 4; s++)
        twin_trace_step_hash(t, s, &h, NULL);
    if (twin_trace_read(t, 0, UINT32_MAX, 100000, &r, &n, NULL) == 0) {
        for (size_t i = 0; i < n; i++) {
            twin_trace_string(t, twin_trace_series(t, r[i].series)->name);
            twin_trace_layout(t, r[i].layout);
        }
        twin_trace_records_free(r);
    }
    twin_trace_walk(t, NULL, NULL, NULL, NULL);
    for (size_t i = 0; twin_trace_note(t, i, &k, &v); i++)
        ;
    for (size_t i = 0; twin_trace_gap(t, i, &step, &dropped); i++)
        ;
    twin_trace_first_difference(t, t, 0, 0, UINT32_MAX, &found, &step, &compared, NULL);
    int rc = twin_trace_verify(t, &err);
    assert_true(rc == 0 || err.message[0]);
    return rc;
}

/* Three flushed stretches: several blocks of every type in a few kilobytes. */
static void small_trace(const char *path)
{
    struct twin_writer *w = open_writer(path, 0);
    struct twin_stats stats = {.count = 3, .min = 1, .max = 2, .absmax = 2, .sum = 3, .sumsq = 5};
    const int64_t shape[1] = {3};
    uint64_t link = 0;
    for (int step = 0; step < 3; step++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", step);
        struct twin_observation o = {
            .series = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, name),
            .layout = twin_writer_layout(w, TWIN_F32, 1, shape),
            .stats = &stats,
            .flags = TWIN_REC_STATS | (link ? TWIN_REC_LINKS : 0u),
            .links = &link,
            .link_count = 1};
        for (int i = 0; i < 2; i++) {
            o.digest.a = (uint64_t)(step * 10 + i);
            link = twin_writer_record(w, &o);
        }
        twin_writer_note(w, name, "noted");
        twin_writer_step_end(w);
        twin_writer_flush(w);
    }
    tw_writer_free(w);
}

/* Offsets right behind each block, and what is finished by then. */
struct mark {
    size_t end;
    uint64_t steps, records;
};

static size_t marks_of(const struct image *i, struct mark *m)
{
    size_t n = 0, at = sizeof(struct tw_file_header);
    m[n++] = (struct mark){at, 0, 0};
    while (at < i->n) {
        struct tw_block b;
        memcpy(&b, i->bytes + at, sizeof b);
        at += tw_block_span(&b);
        m[n++] = (struct mark){at, b.steps, b.records_total};
    }
    return n;
}

static void test_cut_at_every_byte(void **state)
{
    (void)state;
    const char *path = scratch_path("cut.twt");
    struct mark mark[64];
    small_trace(path);
    struct image i = load(path);
    size_t marks = marks_of(&i, mark), lost = 0;
    /* header, three times definitions and data, end; more when the drain thread woke in between */
    assert_in_range(marks, 8, 64);
    for (size_t n = 0; n <= i.n; n++) {
        struct twin_trace *t;
        struct twin_error err = TWIN_ERROR_INIT;
        store(path, i.bytes, n);
        if (n < sizeof(struct tw_file_header)) {
            assert_int_equal(twin_trace_open(path, &t, &err), TWIN_EFORMAT);
            continue;
        }
        assert_int_equal(twin_trace_open(path, &t, &err), 0);
        size_t k = marks - 1;
        while (mark[k].end > n)
            k--;
        const struct twin_trace_info *info = twin_trace_info(t);
        assert_int_equal(info->tail_bytes, n - mark[k].end);
        assert_int_equal(info->steps, mark[k].steps);
        assert_int_equal(info->records, mark[k].records);
        assert_int_equal(info->closed, n == i.n);
        lost += ask_everything(t) != 0;
        assert_int_equal(twin_trace_verify(t, NULL) == 0, n == mark[k].end);
        struct twin_trace_record *r;
        size_t count;
        assert_int_equal(twin_trace_read(t, 0, UINT32_MAX, 100, &r, &count, NULL), 0);
        assert_int_equal(count, mark[k].records);
        twin_trace_records_free(r);
        twin_trace_close(t);
    }
    assert_int_equal(lost, i.n + 1 - sizeof(struct tw_file_header) - marks);
    tw_free(i.bytes);
}

static void test_every_flipped_byte_is_seen(void **state)
{
    (void)state;
    const char *path = scratch_path("flip.twt");
    small_trace(path);
    struct image i = load(path);
    for (size_t n = 0; n < i.n; n++) {
        const unsigned char flips[2] = {(unsigned char)(1u << n % 8), 0xFF};
        for (int f = 0; f < 2; f++) {
            struct twin_trace *t;
            i.bytes[n] ^= flips[f];
            store(path, i.bytes, i.n);
            i.bytes[n] ^= flips[f];
            if (twin_trace_open(path, &t, NULL) != 0)
                continue;
            if (ask_everything(t) == 0)
                fail_msg("byte %zu of %zu xor %02x went unseen", n, i.n, flips[f]);
            twin_trace_close(t);
        }
    }
    tw_free(i.bytes);
}

/* Damage in the middle costs what it covers: the steps before and after stay readable. */
static void test_damaged_middle(void **state)
{
    (void)state;
    const char *path = scratch_path("middle.twt");
    write_job(path, 20000, UINT32_MAX);
    struct image i = load(path);
    struct twin_trace *whole, *t;
    store(scratch_path("whole.twt"), i.bytes, i.n);
    whole = open_trace(scratch_path("whole.twt"));
    srand(5);
    for (int round = 0; round < 12; round++) {
        size_t from = 2000 + (size_t)rand() % (i.n - 300000), n = 1 + (size_t)rand() % 200000;
        unsigned char *copy = malloc(i.n);
        memcpy(copy, i.bytes, i.n);
        memset(copy + from, round % 3 == 0 ? 0 : 0xA5, n);
        store(path, copy, i.n);
        free(copy);
        t = open_trace(path);
        assert_int_equal(twin_trace_info(t)->steps, 20000);
        assert_int_equal(twin_trace_verify(t, NULL), TWIN_EFORMAT);
        uint32_t unknown = 0;
        for (uint32_t s = 0; s < 20000; s++) {
            struct twin_step_hash h, true_h;
            int rc = twin_trace_step_hash(t, s, &h, NULL);
            assert_true(rc == 0 || rc == TWIN_ENOENT);
            unknown += rc != 0;
            if (rc == 0 && s % 97 == 0) {
                assert_int_equal(twin_trace_step_hash(whole, s, &true_h, NULL), 0);
                assert_memory_equal(&h, &true_h, sizeof h);
            }
        }
        assert_true(unknown > 0);
        assert_true(unknown <= n / 400 + 2 * 164); /* 408 bytes a step; the blocks at both ends */
        bool found;
        uint32_t step;
        uint64_t compared;
        assert_int_equal(
            twin_trace_first_difference(t, whole, 0, 0, UINT32_MAX, &found, &step, &compared, NULL),
            0);
        assert_false(found);
        struct twin_trace_record *r;
        size_t count;
        assert_int_equal(twin_trace_read(t, 0, UINT32_MAX, MANY, &r, &count, NULL), 0);
        assert_true(count >= 5 * (20000 - unknown) - 5 * 200 && count < 100000);
        twin_trace_records_free(r);
        twin_trace_close(t);
    }
    twin_trace_close(whole);
    tw_free(i.bytes);
}

/* The search goes around what is unknown, and finds the step when the damage is elsewhere. */
static void test_search_around_damage(void **state)
{
    (void)state;
    const char *path = scratch_path("around.twt"), *other = scratch_path("around-b.twt");
    write_job(path, 20000, UINT32_MAX);
    write_job(other, 20000, 17000);
    struct image i = load(path);
    memset(i.bytes + i.n / 2, 0, 150000);
    store(path, i.bytes, i.n);
    tw_free(i.bytes);
    struct twin_trace *a = open_trace(path), *b = open_trace(other);
    bool found;
    uint32_t step;
    uint64_t compared;
    assert_int_equal(
        twin_trace_first_difference(a, b, 0, 0, UINT32_MAX, &found, &step, &compared, NULL), 0);
    assert_true(found);
    assert_int_equal(step, 17000);
    twin_trace_close(a);
    twin_trace_close(b);
}

static void test_header_versions(void **state)
{
    (void)state;
    const char *path = scratch_path("version.twt");
    small_trace(path);
    struct image i = load(path);
    struct tw_file_header h;
    struct twin_trace *t;
    struct twin_error err = TWIN_ERROR_INIT;
    memcpy(&h, i.bytes, sizeof h);
    struct {
        const char *what;
        int code;
    } cases[] = {{"reader", TWIN_EVERSION}, {"feature", TWIN_EVERSION}, {"endian", TWIN_EVERSION},
                 {"magic", TWIN_EFORMAT},   {"role", TWIN_EFORMAT},     {"optional feature", 0}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct tw_file_header x = h;
        switch (n) {
        case 0: x.version = 2, x.min_reader = 2; break;
        case 1: x.features = 1u << 7; break;
        case 2: x.endian = 0x04030201; break;
        case 3: x.magic[0] = 'X'; break;
        case 4: x.role_bytes = TW_ROLE_MAX + 1; break;
        default: x.features = UINT64_C(1) << 60; break;
        }
        x.crc = tw_crc32c(0, &x, offsetof(struct tw_file_header, crc));
        store(path, &x, sizeof x);
        err = (struct twin_error)TWIN_ERROR_INIT;
        int rc = twin_trace_open(path, &t, &err);
        if (rc != cases[n].code)
            fail_msg("%s: %d %s", cases[n].what, rc, err.message);
        twin_trace_close(t);
        if (rc != 0)
            t = NULL;
    }
    tw_free(i.bytes);
}

/* Random edits whose checksums are made good again reach the code behind the checksums. */
static void test_wrong_bytes_with_right_checksums(void **state)
{
    (void)state;
    const char *path = scratch_path("forged.twt");
    small_trace(path);
    struct image i = load(path);
    struct mark mark[64];
    size_t marks = marks_of(&i, mark);
    uint32_t seed;
    memcpy(&seed, i.bytes + offsetof(struct tw_file_header, crc), sizeof seed);
    srand(11);
    for (int round = 0; round < 6000; round++) {
        unsigned char copy[1u << 14];
        memcpy(copy, i.bytes, i.n);
        size_t k = (size_t)rand() % (marks - 1);
        size_t start = mark[k].end;
        size_t span = mark[k + 1].end - start;
        for (int edits = 1 + rand() % 3; edits > 0; edits--) {
            size_t at = start + (size_t)rand() % span;
            copy[at] = (unsigned char)(rand() % 3 == 0 ? (unsigned)rand()
                                                       : copy[at] ^ 1u << rand() % 8);
        }
        struct tw_block b;
        memcpy(&b, copy + start, sizeof b);
        if (b.payload_bytes <= span - sizeof b)
            b.payload_crc = tw_crc32c(seed, copy + start + sizeof b, b.payload_bytes);
        b.crc = tw_crc32c(seed, &b, offsetof(struct tw_block, crc));
        memcpy(copy + start, &b, sizeof b);
        store(path, copy, i.n);
        struct twin_trace *t = open_trace(path);
        ask_everything(t);
        twin_trace_close(t);
    }
    tw_free(i.bytes);
}

static void test_reader_survives_every_failed_allocation(void **state)
{
    (void)state;
    const char *path = scratch_path("memory.twt");
    small_trace(path);
    for (int forever = 0; forever < 2; forever++) {
        bool went_through = false;
        for (uint64_t n = 1; !went_through; n++) {
            struct twin_trace *t;
            struct twin_error err = TWIN_ERROR_INIT;
            uint64_t before = tw_alloc_count();
            tw_alloc_fail_at(n, forever);
            int rc = twin_trace_open(path, &t, &err);
            if (rc == 0) {
                ask_everything(t);
                twin_trace_close(t);
            } else {
                assert_int_equal(rc, TWIN_ENOMEM);
            }
            tw_alloc_fail_at(0, false);
            went_through = tw_alloc_count() - before < n;
            assert_true(n < 10000);
        }
    }
}

static void test_writer_survives_every_failed_allocation(void **state)
{
    (void)state;
    const char *path = scratch_path("wmemory.twt");
    for (int forever = 0; forever < 2; forever++) {
        bool went_through = false;
        for (uint64_t n = 1; !went_through; n++) {
            struct twin_writer *w;
            struct twin_error err = TWIN_ERROR_INIT;
            struct twin_writer_options o = {.path = path, .world = 1};
            const int64_t shape[2] = {1, 2};
            unlink(path);
            uint64_t before = tw_alloc_count();
            tw_alloc_fail_at(n, forever);
            int rc = twin_writer_open(&o, &w, &err);
            if (rc == 0) {
                uint32_t layout = twin_writer_layout(w, TWIN_F32, 2, shape);
                record_value(w, series_id(w, 1, 1, "x"), layout, 1);
                record_value(w, series_id(w, 1, 1, "y"), layout, 1);
                twin_writer_note(w, "k", "v");
                twin_writer_step_end(w);
                tw_writer_free(w);
            } else {
                assert_int_equal(rc, TWIN_ENOMEM);
                assert_int_not_equal(err.message[0], 0);
            }
            tw_alloc_fail_at(0, false);
            went_through = tw_alloc_count() - before < n;
            if (rc == 0) {
                struct twin_trace *t = open_trace(path);
                assert_true(twin_trace_info(t)->closed);
                assert_true(went_through || twin_trace_info(t)->lost > 0);
                assert_verified(t);
                twin_trace_close(t);
            }
            assert_true(n < 10000);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_every_flipped_byte_is_seen),
        cmocka_unit_test(test_damaged_middle),
        cmocka_unit_test(test_search_around_damage),
        cmocka_unit_test(test_header_versions),
        cmocka_unit_test(test_wrong_bytes_with_right_checksums),
        cmocka_unit_test(test_reader_survives_every_failed_allocation),
        cmocka_unit_test(test_writer_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
