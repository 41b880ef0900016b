/* SPDX-License-Identifier: Apache-2.0 */
/* What is written is read back; identities of the value hash. */
#include "trace_helper.h"

#include <errno.h>
#include <math.h>

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(twin_phase_name(TWIN_PHASE_DATA), "data");
    assert_string_equal(twin_phase_name(TWIN_PHASE_OUTPUT), "output");
    assert_string_equal(twin_kind_name(TWIN_KIND_BATCH), "batch");
    assert_string_equal(twin_kind_name(TWIN_KIND_GRADIENT_LOCAL), "gradient (local)");
    assert_string_equal(twin_kind_name(TWIN_KIND_GRADIENT), "gradient");
    assert_string_equal(twin_kind_name(TWIN_KIND_HYPER), "hyper");
    assert_string_equal(twin_phase_name((enum twin_phase)99), "?");
    assert_string_equal(twin_kind_name((enum twin_kind) - 1), "?");
}

static void test_round_trip_of_everything(void **state)
{
    (void)state;
    const char *path = scratch_path("all.twt");
    struct twin_writer *w;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_writer_options o = {.path = path, .rank = 3, .world = 8, .role = "loader worker 0"};
    for (int i = 0; i < 16; i++)
        o.run_id[i] = (uint8_t)(i * 17);
    errno = 1234;
    assert_int_equal(twin_writer_open(&o, &w, &err), 0);
    struct twin_series series = {.phase = TWIN_PHASE_BACKWARD,
                                 .kind = TWIN_KIND_GRADIENT,
                                 .name = string_id(w, "encoder.weight"),
                                 .scope = string_id(w, "encoder"),
                                 .role = string_id(w, "worker 0"),
                                 .op = string_id(w, "aten::mm"),
                                 .site = string_id(w, "a.py:1 in f\nb.py:2 in g")};
    uint32_t s = twin_writer_series(w, &series);
    assert_int_equal(s, twin_writer_series(w, &series));
    const int64_t shape[3] = {2, 3, 5};
    uint32_t l = twin_writer_layout(w, TWIN_BF16, 3, shape);
    assert_int_equal(l, twin_writer_layout(w, TWIN_BF16, 3, shape));
    assert_int_not_equal(l, twin_writer_layout(w, TWIN_BF16, 2, shape));

    struct twin_stats stats = {.count = 30,
                               .nan = 1,
                               .pos_inf = 2,
                               .neg_inf = 3,
                               .zeros = 4,
                               .min = -7.5,
                               .max = 2.25,
                               .absmax = 7.5,
                               .sum = 0.1,
                               .sumsq = 1e300};
    struct twin_sketch sketch = {.k = 16, .skipped = 6};
    for (int i = 0; i < 16; i++)
        sketch.bucket[i] = 0.5 * i - 3;
    uint64_t links[3] = {1, UINT64_MAX, (uint64_t)7 << 32 | 9};
    struct twin_observation ob = {.series = s,
                                  .layout = l,
                                  .digest = {0x1111222233334444u, 0xFFFFEEEEDDDDCCCCu},
                                  .flags = TWIN_REC_STATS | TWIN_REC_SKETCH | TWIN_REC_OFFSET |
                                           TWIN_REC_LINKS | TWIN_REC_NOT_COMPOSABLE |
                                           TWIN_REC_RECOMPUTED | TWIN_REC_PART,
                                  .global_offset = UINT64_C(1) << 40,
                                  .whole = UINT64_C(3) << 41,
                                  .stats = &stats,
                                  .sketch = &sketch,
                                  .links = links,
                                  .link_count = 3};
    assert_int_equal(twin_writer_record(w, &ob), 1);
    ob.flags = TWIN_REC_UNOBSERVED;
    assert_int_equal(twin_writer_record(w, &ob), 2);
    assert_int_equal(twin_writer_step_end(w), 1);
    assert_int_equal(twin_writer_step(w), 1);
    ob.flags = TWIN_REC_STATS | TWIN_REC_SKETCH; /* what is not given is not stored */
    ob.stats = NULL;
    ob.sketch = NULL;
    assert_int_equal(twin_writer_record(w, &ob), (uint64_t)1 << 32 | 1);
    twin_writer_note(w, "armed", "torch, libc");
    twin_writer_note(w, "", "");
    twin_writer_add_observer_ns(w, 12345);
    assert_int_equal(errno, 1234);
    tw_writer_free(w);
    assert_int_equal(errno, 1234);

    struct twin_trace *t = open_trace(path);
    const struct twin_trace_info *i = twin_trace_info(t);
    assert_int_equal(i->version, 1);
    assert_memory_equal(i->run_id, o.run_id, 16);
    assert_int_equal(i->rank, 3);
    assert_int_equal(i->world, 8);
    assert_int_equal(i->pid, getpid());
    assert_string_equal(i->role, "loader worker 0");
    assert_true(i->closed);
    assert_int_equal(i->tail_bytes, 0);
    assert_int_equal(i->records, 3);
    assert_int_equal(i->dropped, 0);
    assert_int_equal(i->steps, 1);
    assert_int_equal(i->observer_ns, 12345);

    struct twin_trace_record *r;
    size_t n;
    assert_int_equal(twin_trace_read(t, 0, 5, 100, &r, &n, &err), 0);
    assert_int_equal(n, 3);
    assert_int_equal(r[0].step, 0);
    assert_int_equal(r[0].seq, 1);
    assert_int_equal(r[0].occurrence, 0);
    assert_int_equal(r[0].flags, TWIN_REC_STATS | TWIN_REC_SKETCH | TWIN_REC_OFFSET |
                                     TWIN_REC_LINKS | TWIN_REC_NOT_COMPOSABLE |
                                     TWIN_REC_RECOMPUTED | TWIN_REC_PART);
    assert_memory_equal(&r[0].digest, &ob.digest, sizeof ob.digest);
    assert_memory_equal(&r[0].stats, &stats, sizeof stats);
    assert_int_equal(r[0].sketch.k, 16);
    assert_int_equal(r[0].sketch.skipped, 6);
    assert_memory_equal(r[0].sketch.bucket, sketch.bucket, 16 * sizeof(double));
    assert_int_equal(r[0].global_offset, UINT64_C(1) << 40);
    assert_int_equal(r[0].whole, UINT64_C(3) << 41);
    assert_int_equal(r[1].whole, 0);
    assert_int_equal(r[0].link_count, 3);
    assert_memory_equal(r[0].links, links, sizeof links);
    assert_int_equal(r[1].occurrence, 1);
    assert_int_equal(r[1].flags, TWIN_REC_UNOBSERVED);
    assert_int_equal(r[1].digest.a | r[1].digest.b, 0);
    assert_int_equal(r[2].step, 1);
    assert_int_equal(r[2].occurrence, 0);
    assert_int_equal(r[2].flags, 0);
    const struct twin_series *back = twin_trace_series(t, r[0].series);
    assert_int_equal(back->phase, TWIN_PHASE_BACKWARD);
    assert_int_equal(back->kind, TWIN_KIND_GRADIENT);
    assert_string_equal(twin_trace_string(t, back->name), "encoder.weight");
    assert_string_equal(twin_trace_string(t, back->scope), "encoder");
    assert_string_equal(twin_trace_string(t, back->role), "worker 0");
    assert_string_equal(twin_trace_string(t, back->op), "aten::mm");
    assert_string_equal(twin_trace_string(t, back->site), "a.py:1 in f\nb.py:2 in g");
    const struct twin_layout *layout = twin_trace_layout(t, r[0].layout);
    assert_int_equal(layout->dtype, TWIN_BF16);
    assert_int_equal(layout->ndim, 3);
    assert_memory_equal(layout->shape, shape, sizeof shape);
    twin_trace_records_free(r);
    assert_int_equal(twin_trace_read(t, 0, 5, 2, &r, &n, &err), TWIN_ELIMIT);
    assert_null(r);

    const char *key, *value;
    assert_true(twin_trace_note(t, 0, &key, &value));
    assert_string_equal(key, "armed");
    assert_string_equal(value, "torch, libc");
    assert_true(twin_trace_note(t, 1, &key, &value));
    assert_string_equal(key, "");
    assert_false(twin_trace_note(t, 2, &key, &value));
    uint32_t step, dropped;
    assert_false(twin_trace_gap(t, 0, &step, &dropped));
    assert_string_equal(twin_trace_string(t, 0), "");
    assert_string_equal(twin_trace_string(t, 4000000000u), "");
    assert_int_equal(twin_trace_series(t, 77)->name, 0);
    assert_int_equal(twin_trace_layout(t, 77)->ndim, 0);
    assert_verified(t);
    twin_trace_close(t);
}

static void test_wrong_use_is_counted_as_lost(void **state)
{
    (void)state;
    struct twin_writer *w = open_writer(scratch_path("lost.twt"), 0);
    struct twin_observation o = {.series = 0};
    assert_int_equal(twin_writer_record(w, &o), 0);
    o.series = 5;
    assert_int_equal(twin_writer_record(w, &o), 0);
    struct twin_series nameless = {.phase = 1, .kind = 1};
    struct twin_series alien = {.phase = 1, .kind = 1, .name = 99};
    struct twin_series phase = {.phase = 200, .name = string_id(w, "x")};
    assert_int_equal(twin_writer_series(w, &nameless), 0);
    assert_int_equal(twin_writer_series(w, &alien), 0);
    assert_int_equal(twin_writer_series(w, &phase), 0);
    assert_int_equal(twin_writer_layout(w, TWIN_F32, TWIN_MAX_NDIM + 1, NULL), 0);
    assert_int_equal(twin_writer_string(w, "", 0), 0);
    assert_int_equal(twin_writer_counts(w).lost, 6);
    twin_writer_close(w);
    assert_int_equal(twin_writer_record(w, &o), 0);
    assert_int_equal(twin_writer_step_end(w), 0);
    assert_int_equal(string_id(w, "late"), 0);
    twin_writer_note(w, "late", "late");
    twin_writer_flush(w);
    twin_writer_close(w);
    tw_writer_free(w);
    struct twin_trace *t = open_trace(scratch_path("lost.twt"));
    assert_int_equal(twin_trace_info(t)->lost, 6);
    assert_verified(t);
    twin_trace_close(t);
    twin_writer_close(NULL);
    twin_trace_close(NULL);
    assert_int_equal(twin_writer_counts(NULL).records, 0);
}

static void test_long_strings_and_zero_bytes(void **state)
{
    (void)state;
    struct twin_writer *w = open_writer(scratch_path("long.twt"), 0);
    size_t n = (64u << 10) + 100;
    char *s = malloc(n);
    memset(s, 'x', n);
    uint32_t cut = twin_writer_string(w, s, n), same = twin_writer_string(w, s, 64u << 10);
    uint32_t shorter = twin_writer_string(w, s, (64u << 10) - 1);
    uint32_t zero = twin_writer_string(w, "a\0b", 3);
    assert_int_equal(cut, same);
    assert_int_not_equal(cut, shorter);
    assert_int_not_equal(zero, twin_writer_string(w, "a\0c", 3));
    struct twin_series with_zero = {.phase = 1, .kind = 1, .name = zero};
    record_value(w, twin_writer_series(w, &with_zero), 0, 1);
    twin_writer_step_end(w);
    tw_writer_free(w);
    struct twin_trace *t = open_trace(scratch_path("long.twt"));
    assert_int_equal(strlen(twin_trace_string(t, cut)), 64u << 10);
    assert_string_equal(twin_trace_string(t, zero), "a");
    assert_verified(t); /* hashes whole strings, zero bytes included */
    twin_trace_close(t);
    free(s);
}

/* Steps' hashes of small jobs, to compare identities of the value hash. */
static struct twin_step_hash hash_of(void (*job)(struct twin_writer *, int), int variant)
{
    const char *path = scratch_path("hash.twt");
    struct twin_writer *w = open_writer(path, 0);
    struct twin_step_hash h;
    job(w, variant);
    twin_writer_step_end(w);
    tw_writer_free(w);
    struct twin_trace *t = open_trace(path);
    assert_verified(t);
    assert_int_equal(twin_trace_step_hash(t, 0, &h, NULL), 0);
    twin_trace_close(t);
    return h;
}

static void pair_job(struct twin_writer *w, int variant)
{
    const int64_t shape[2] = {4, 8}, turned[2] = {8, 4};
    if (variant == 1)
        for (int i = 0; i < 10; i++) /* other ids, same meaning */
            string_id(w, (char[]){'z', (char)('a' + i), 0});
    uint32_t x = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, variant == 6 ? "x'" : "x");
    uint32_t y = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "y");
    uint32_t l = twin_writer_layout(w, variant == 5 ? TWIN_I32 : TWIN_F32, 2,
                                    variant == 4 ? turned : shape);
    struct twin_series sited = {.phase = TWIN_PHASE_FORWARD,
                                .kind = TWIN_KIND_ACTIVATION,
                                .name = string_id(w, "x"),
                                .op = string_id(w, "op"),
                                .site = string_id(w, "f.py:1")};
    /* op and site inform only: the second x is the second occurrence of the same key */
    if (variant == 7)
        x = twin_writer_series(w, &sited);
    if (variant == 2) {
        record_value(w, y, l, 20);
        record_value(w, x, l, 10);
    } else {
        record_value(w, x, l, variant == 3 ? 11 : 10);
        record_value(w, y, l, 20);
    }
    if (variant == 8) {
        struct twin_observation o = {.series = x, .layout = l, .flags = TWIN_REC_UNOBSERVED};
        twin_writer_record(w, &o);
    } else {
        record_value(w,
                     variant == 7 ? series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "x") : x,
                     l, 30);
    }
}

static bool same_value(const struct twin_step_hash *a, const struct twin_step_hash *b)
{
    return memcmp(a->phase, b->phase, sizeof a->phase) == 0 && a->prefix.lo == b->prefix.lo &&
           a->prefix.hi == b->prefix.hi;
}

static void test_value_hash_identities(void **state)
{
    (void)state;
    struct twin_step_hash plain = hash_of(pair_job, 0);
    struct twin_step_hash ids = hash_of(pair_job, 1);
    struct twin_step_hash order = hash_of(pair_job, 2);
    assert_true(same_value(&plain, &ids)); /* strings count, not their ids */
    assert_int_equal(plain.order, ids.order);
    assert_true(same_value(&plain, &order));
    assert_int_not_equal(plain.order, order.order);
    assert_true(order.order_prefix.lo != plain.order_prefix.lo);
    /* value, shape, dtype, name, op and site, unobserved */
    for (int variant = 3; variant <= 8; variant++) {
        struct twin_step_hash h = hash_of(pair_job, variant);
        assert_int_equal(same_value(&plain, &h), variant == 7);
    }
    for (int p = 0; p < TWIN_PHASE_COUNT; p++)
        assert_true((plain.phase[p].lo != 0) == (p == TWIN_PHASE_FORWARD));
}

/*
 * The occurrence is part of what is hashed: values of one key that change places are a difference.
 */
static void occurrence_job(struct twin_writer *w, int variant)
{
    uint32_t x = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "x");
    record_value(w, x, 0, variant ? 2 : 1);
    record_value(w, x, 0, variant ? 1 : 2);
}

static void unordered_job(struct twin_writer *w, int variant)
{
    uint32_t x = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "x");
    uint32_t y = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "y");
    struct twin_observation o = {.flags = TWIN_REC_UNORDERED};
    o.series = variant ? y : x;
    twin_writer_record(w, &o);
    o.series = variant ? x : y;
    twin_writer_record(w, &o);
}

static void empty_job(struct twin_writer *w, int variant)
{
    (void)w;
    (void)variant;
}

static void test_occurrence_order_and_empty_steps(void **state)
{
    (void)state;
    struct twin_step_hash a = hash_of(occurrence_job, 0), b = hash_of(occurrence_job, 1);
    assert_false(same_value(&a, &b));
    a = hash_of(unordered_job, 0);
    b = hash_of(unordered_job, 1);
    assert_true(same_value(&a, &b));
    assert_int_equal(a.order, b.order);
    a = hash_of(empty_job, 0);
    assert_int_equal(a.records, 0);
    assert_true(a.prefix.lo != 0); /* a step without records is not no step */
}

struct walked {
    uint64_t records, steps;
    uint32_t last_step;
};

static int count_record(void *user, const struct twin_trace_record *r)
{
    struct walked *c = user;
    assert_true(r->step >= c->last_step);
    c->last_step = r->step;
    c->records++;
    return 0;
}

static int count_step(void *user, const struct twin_step_hash *h)
{
    struct walked *c = user;
    assert_int_equal(h->step, c->steps);
    c->steps++;
    return c->steps == 2000 ? 77 : 0;
}

static void test_many_blocks(void **state)
{
    (void)state;
    const char *path = scratch_path("many.twt");
    write_job(path, 5000, UINT32_MAX);
    struct twin_trace *t = open_trace(path);
    struct walked c = {0};
    assert_true(twin_trace_info(t)->blocks > 20);
    assert_int_equal(twin_trace_info(t)->steps, 5000);
    assert_verified(t);
    assert_int_equal(twin_trace_walk(t, count_record, count_step, &c, NULL), 77);
    assert_int_equal(c.records, 10000);
    for (uint32_t s = 0; s < 5000; s += 37) {
        struct twin_trace_record *r;
        struct twin_step_hash h;
        size_t n;
        assert_int_equal(twin_trace_step_hash(t, s, &h, NULL), 0);
        assert_int_equal(h.step, s);
        assert_int_equal(h.records, 5);
        assert_int_equal(twin_trace_read(t, s, s + 2, MANY, &r, &n, NULL), 0);
        assert_int_equal(n, s + 2 < 5000 ? 15 : 5 * (5000 - s));
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(r[i].step, s + i / 5);
            assert_int_equal(r[i].seq, 1 + i % 5);
        }
        assert_int_equal(r[0].digest.a, 7 * s);
        twin_trace_records_free(r);
    }
    struct twin_step_hash h;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_trace_step_hash(t, 5000, &h, &err), TWIN_ENOENT);
    assert_non_null(strstr(err.message, "5000 steps"));
    twin_trace_close(t);
}

/* What was sealed is readable while the writer still runs. */
static void test_read_while_writing(void **state)
{
    (void)state;
    const char *path = scratch_path("live.twt");
    struct twin_writer *w = open_writer(path, 0);
    struct twin_trace *t = open_trace(path);
    assert_int_equal(twin_trace_info(t)->blocks, 0);
    assert_int_equal(twin_trace_info(t)->steps, 0);
    assert_verified(t);
    twin_trace_close(t);
    uint32_t x = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "x");
    for (uint32_t s = 0; s < 20; s++) {
        record_value(w, x, 0, s);
        twin_writer_step_end(w);
        record_value(w, x, 0, s);
        twin_writer_flush(w);
        t = open_trace(path);
        assert_int_equal(twin_trace_info(t)->steps, s + 1);
        assert_int_equal(twin_trace_info(t)->records, 2 * s + 2);
        assert_false(twin_trace_info(t)->closed);
        assert_verified(t);
        twin_trace_close(t);
    }
    tw_writer_free(w);
}

/* Without flush or step: after seal_ms, and what a slow machine takes. Else the test's own time-out
 * ends it. */
static void test_seals_by_time(void **state)
{
    (void)state;
    const char *path = scratch_path("timed.twt");
    struct twin_writer *w = open_writer(path, 0);
    record_value(w, series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "x"), 0, 1);
    uint64_t records = 0;
    while (records == 0) {
        usleep(10000);
        struct twin_trace *t = open_trace(path);
        records = twin_trace_info(t)->records;
        twin_trace_close(t);
    }
    assert_int_equal(records, 1);
    tw_writer_free(w);
}

static void test_two_writers_at_once(void **state)
{
    (void)state;
    char a[200], b[200];
    strcpy(a, scratch_path("one.twt"));
    strcpy(b, scratch_path("two.twt"));
    struct twin_writer *x = open_writer(a, 0), *y = open_writer(b, 0);
    uint32_t sx = series_id(x, 1, 1, "x"), sy = series_id(y, 1, 1, "y");
    for (int i = 0; i < 100; i++) {
        record_value(x, sx, 0, 1);
        record_value(y, sy, 0, 1);
        record_value(y, sy, 0, 1);
    }
    assert_int_equal(twin_writer_step(x), 0);
    twin_writer_step_end(y);
    twin_writer_close(x);
    twin_writer_close(y);
    assert_int_equal(twin_writer_counts(x).records, 100);
    assert_int_equal(twin_writer_counts(y).records, 200);
    tw_writer_free(x);
    tw_writer_free(y);
}

static void test_path_taken_or_missing(void **state)
{
    (void)state;
    struct twin_writer *w;
    struct twin_error err = TWIN_ERROR_INIT;
    const char *path = scratch_path("taken.twt");
    write_job(path, 1, 9);
    struct twin_writer_options o = {.path = path};
    assert_int_equal(twin_writer_open(&o, &w, &err), TWIN_EIO);
    assert_null(w);
    assert_non_null(strstr(err.message, "File exists"));
    err = (struct twin_error)TWIN_ERROR_INIT;
    o.path = scratch_path("no/such/folder.twt");
    assert_int_equal(twin_writer_open(&o, &w, &err), TWIN_ENOENT);
    err = (struct twin_error)TWIN_ERROR_INIT;
    struct twin_trace *t;
    assert_int_equal(twin_trace_open(o.path, &t, &err), TWIN_ENOENT);
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(twin_trace_open(scratch, &t, &err), TWIN_EFORMAT);
    o.path = "";
    assert_int_equal(twin_writer_open(&o, &w, NULL), TWIN_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_round_trip_of_everything),
        cmocka_unit_test(test_wrong_use_is_counted_as_lost),
        cmocka_unit_test(test_long_strings_and_zero_bytes),
        cmocka_unit_test(test_value_hash_identities),
        cmocka_unit_test(test_occurrence_order_and_empty_steps),
        cmocka_unit_test(test_many_blocks),
        cmocka_unit_test(test_read_while_writing),
        cmocka_unit_test(test_seals_by_time),
        cmocka_unit_test(test_two_writers_at_once),
        cmocka_unit_test(test_path_taken_or_missing),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
