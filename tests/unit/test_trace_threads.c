/* SPDX-License-Identifier: Apache-2.0 */
/* Many recorders, thread exit, full rings, waiting; to be run under ThreadSanitizer too. */
#include "trace_helper.h"

#include <pthread.h>
#include <sys/resource.h>

#define THREADS 6

struct crew {
    struct twin_writer *w;
    uint32_t series[THREADS], layout, rounds;
    pthread_barrier_t barrier;
};

struct member {
    struct crew *crew;
    int number;
};

static void *work(void *arg)
{
    struct member *m = arg;
    struct crew *c = m->crew;
    for (uint32_t i = 0; i < c->rounds; i++)
        record_value(c->w, c->series[m->number], c->layout, i * 31 + (uint32_t)m->number);
    return NULL;
}

static void series_for(struct crew *c)
{
    for (int i = 0; i < THREADS; i++) {
        char role[32];
        snprintf(role, sizeof role, "worker %d", i);
        struct twin_series s = {.phase = TWIN_PHASE_DATA,
                                .kind = TWIN_KIND_BATCH,
                                .name = string_id(c->w, "batch"),
                                .role = string_id(c->w, role)};
        c->series[i] = twin_writer_series(c->w, &s);
    }
}

/* Threads come and go in every step; values depend on role and order within the thread only. */
static struct twin_step_hash many_threads(const char *path, size_t ring_bytes, uint64_t *dropped)
{
    struct crew c = {.w = open_writer(path, ring_bytes), .rounds = 500};
    series_for(&c);
    for (int step = 0; step < 20; step++) {
        pthread_t thread[THREADS];
        struct member member[THREADS];
        for (int i = 0; i < THREADS; i++) {
            member[i] = (struct member){&c, i};
            assert_int_equal(pthread_create(&thread[i], NULL, work, &member[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        twin_writer_step_end(c.w);
    }
    twin_writer_close(c.w);
    assert_int_equal(twin_writer_counts(c.w).records, 20 * THREADS * 500);
    *dropped = twin_writer_counts(c.w).dropped;
    tw_writer_free(c.w);
    struct twin_trace *t = open_trace(path);
    struct twin_step_hash h;
    assert_verified(t);
    assert_int_equal(twin_trace_info(t)->records, 20 * THREADS * 500);
    assert_int_equal(twin_trace_info(t)->dropped, *dropped);
    assert_int_equal(twin_trace_step_hash(t, 19, &h, NULL), 0);
    assert_int_equal(h.records, THREADS * 500);
    twin_trace_close(t);
    return h;
}

static void test_same_hash_however_threads_interleave(void **state)
{
    (void)state;
    uint64_t none, some;
    struct twin_step_hash a = many_threads(scratch_path("t0.twt"), 0, &none);
    /* the smallest rings */
    struct twin_step_hash b = many_threads(scratch_path("t1.twt"), 1, &some);
    assert_int_equal(none, 0);
    assert_memory_equal(a.phase, b.phase, sizeof a.phase);
    assert_memory_equal(&a.prefix, &b.prefix, sizeof a.prefix);
    assert_int_equal(a.order, b.order);
}

/* One thread closes steps while others record all the time: each record counts for one step, in
 * bytes and hash alike. */
static atomic_bool halt;

static void *record_until_halted(void *arg)
{
    struct member *m = arg;
    uint64_t i = 0;
    while (!atomic_load(&halt))
        record_value(m->crew->w, m->crew->series[m->number], 0, i++);
    return NULL;
}

static void test_steps_closed_while_others_record(void **state)
{
    (void)state;
    const char *path = scratch_path("race.twt");
    struct crew c = {.w = open_writer(path, 1u << 20)};
    struct member member[3];
    pthread_t thread[3];
    series_for(&c);
    for (int i = 0; i < 3; i++) {
        member[i] = (struct member){&c, i};
        assert_int_equal(pthread_create(&thread[i], NULL, record_until_halted, &member[i]), 0);
    }
    for (int step = 0; step < 3000; step++)
        assert_int_equal(twin_writer_step_end(c.w), step + 1);
    atomic_store(&halt, true);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    twin_writer_step_end(c.w);
    twin_writer_close(c.w);
    uint64_t records = twin_writer_counts(c.w).records;
    tw_writer_free(c.w);
    struct twin_trace *t = open_trace(path);
    assert_verified(t);
    assert_int_equal(twin_trace_info(t)->steps, 3001);
    assert_int_equal(twin_trace_info(t)->records, records);
    uint64_t sum = 0;
    for (uint32_t s = 0; s < 3001; s++) {
        struct twin_step_hash h;
        assert_int_equal(twin_trace_step_hash(t, s, &h, NULL), 0);
        sum += h.records;
    }
    assert_int_equal(sum, records);
    twin_trace_close(t);
}

static void *intern_all(void *arg)
{
    struct crew *c = arg;
    pthread_barrier_wait(&c->barrier);
    uint32_t *ids = malloc(3000 * sizeof *ids);
    for (int i = 0; i < 3000; i++) {
        char name[32];
        int64_t shape = i;
        snprintf(name, sizeof name, "tensor %d", i);
        ids[i] = series_id(c->w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, name);
        assert_int_not_equal(twin_writer_layout(c->w, TWIN_F32, 1, &shape), 0);
        record_value(c->w, ids[i], 0, 1);
    }
    return ids;
}

static void test_interning_from_many_threads(void **state)
{
    (void)state;
    const char *path = scratch_path("intern.twt");
    struct crew c = {.w = open_writer(path, 0)};
    pthread_t thread[4];
    uint32_t *ids[4];
    pthread_barrier_init(&c.barrier, NULL, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, intern_all, &c), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], (void **)&ids[i]);
    for (int i = 1; i < 4; i++)
        assert_memory_equal(ids[0], ids[i], 3000 * sizeof **ids);
    twin_writer_step_end(c.w);
    tw_writer_free(c.w);
    struct twin_trace *t = open_trace(path);
    assert_verified(t);
    assert_string_equal(twin_trace_string(t, twin_trace_series(t, ids[0][2999])->name),
                        "tensor 2999");
    twin_trace_close(t);
    for (int i = 0; i < 4; i++)
        free(ids[i]);
    pthread_barrier_destroy(&c.barrier);
}

/* A full ring is a gap: the value is known, the details are not, and the trace says so. */
static void test_full_ring_is_a_gap(void **state)
{
    (void)state;
    const char *path = scratch_path("gap.twt"), *whole = scratch_path("whole.twt");
    struct twin_sketch sketch = {.k = 64};
    uint64_t dropped[2];
    for (int lossless = 0; lossless < 2; lossless++) {
        struct twin_writer_options o = {
            .path = lossless ? whole : path, .world = 1, .ring_bytes = 1, .lossless = lossless};
        struct twin_writer *w;
        assert_int_equal(twin_writer_open(&o, &w, NULL), 0);
        struct twin_observation ob = {
            .series = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "x"),
            .flags = TWIN_REC_SKETCH,
            .sketch = &sketch};
        for (int step = 0; step < 3; step++) {
            for (int i = 0; i < 2000; i++) {
                ob.digest.a = (uint64_t)i;
                assert_int_equal(twin_writer_record(w, &ob),
                                 (uint64_t)step << 32 | (uint64_t)(i + 1));
            }
            if (step < 2)
                twin_writer_step_end(w);
        }
        twin_writer_close(w);
        dropped[lossless] = twin_writer_counts(w).dropped;
        assert_int_equal(twin_writer_counts(w).records, 6000);
        tw_writer_free(w);
    }
    assert_true(dropped[0] > 0);
    assert_int_equal(dropped[1], 0);

    struct twin_trace *gaps = open_trace(path), *full = open_trace(whole);
    assert_verified(gaps);
    assert_verified(full);
    bool found;
    uint32_t step, n;
    uint64_t compared, told = 0;
    assert_int_equal(
        twin_trace_first_difference(gaps, full, 0, 0, UINT32_MAX, &found, &step, &compared, NULL),
        0);
    assert_false(found);
    assert_int_equal(compared, 2);
    for (size_t i = 0; twin_trace_gap(gaps, i, &step, &n); i++) {
        struct twin_step_hash h;
        if (twin_trace_step_hash(gaps, step, &h, NULL) == 0)
            assert_int_equal(h.dropped, n);
        else
            assert_int_equal(step, 2);
        told += n;
    }
    assert_int_equal(told, dropped[0]);
    assert_false(twin_trace_gap(full, 0, &step, &n));
    twin_trace_close(gaps);
    twin_trace_close(full);
}

static void *flush_often(void *arg)
{
    for (int i = 0; i < 50; i++)
        twin_writer_flush(arg);
    return NULL;
}

static void test_flush_from_many_threads(void **state)
{
    (void)state;
    struct crew c = {.w = open_writer(scratch_path("flush.twt"), 0), .rounds = 2000};
    pthread_t thread[4], recorder;
    struct member m = {&c, 0};
    series_for(&c);
    assert_int_equal(pthread_create(&recorder, NULL, work, &m), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, flush_often, c.w), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    pthread_join(recorder, NULL);
    twin_writer_flush(c.w);
    assert_int_equal(twin_writer_counts(c.w).records, 2000);
    tw_writer_free(c.w);
}

/* Limits of one resource as they are at the start of a program, and after it as they were. */
static void start_under(int resource, rlim_t limit)
{
    struct rlimit before, under;
    assert_int_equal(getrlimit(resource, &before), 0);
    under = before;
    under.rlim_cur = limit;
    assert_int_equal(setrlimit(resource, &under), 0);
    tw_room_limit();
    assert_int_equal(setrlimit(resource, &before), 0);
}

struct crowd {
    struct twin_writer *w;
    uint32_t series;
    pthread_barrier_t all_recorded, looked;
};

static void *record_and_stay(void *arg)
{
    struct crowd *c = arg;
    for (uint64_t i = 0; i < 10; i++)
        record_value(c->w, c->series, 0, i);
    pthread_barrier_wait(&c->all_recorded);
    pthread_barrier_wait(&c->looked);
    return NULL;
}

/* What so many threads that record at once take, and how many of their records are stored or lost.
 */
static struct twin_writer_counts crowd_of(int threads, uint64_t *most)
{
    struct crowd c = {.w = open_writer(scratch_path("crowd.twt"), 0)};
    pthread_t *thread = calloc((size_t)threads, sizeof *thread);
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 256 << 10);
    c.series = series_id(c.w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch");
    pthread_barrier_init(&c.all_recorded, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&c.looked, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&thread[i], &a, record_and_stay, &c), 0);
    pthread_barrier_wait(&c.all_recorded);
    *most = tw_room_used();
    pthread_barrier_wait(&c.looked);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    twin_writer_step_end(c.w);
    twin_writer_close(c.w);
    struct twin_writer_counts counts = twin_writer_counts(c.w);
    tw_writer_free(c.w);
    struct twin_trace *t = open_trace(scratch_path("crowd.twt"));
    assert_verified(t);
    assert_int_equal(twin_trace_info(t)->records, counts.records);
    assert_int_equal(twin_trace_info(t)->lost, counts.lost);
    twin_trace_close(t);
    pthread_barrier_destroy(&c.all_recorded);
    pthread_barrier_destroy(&c.looked);
    pthread_attr_destroy(&a);
    free(thread);
    return counts;
}

/* Where memory is limited, threads and names take an eighth of it together. A thread that gets no
 * ring counts in the values and drops the details; one that gets nothing loses its records, and
 * each is counted. Everything is given back. */
static void test_an_eighth_of_what_is_allowed(void **state)
{
    (void)state;
    static const int resources[] = {RLIMIT_AS, RLIMIT_DATA};
    static const int threads[] = {1, 7, 60, 300};
    uint64_t none = tw_room_used();
    for (size_t r = 0; r < 2; r++)
        for (int mib = 1; mib <= 4096; mib *= 4)
            for (size_t i = 0; i < 4; i++) {
                uint64_t most, limit = (uint64_t)mib << 20;
                start_under(resources[r], limit);
                struct twin_writer_counts c = crowd_of(threads[i], &most);
                assert_in_range(most - none, 0, limit / 8);
                /* Where not even the series' name finds room, that is one loss more. */
                uint64_t all = (uint64_t)threads[i] * 10;
                assert_in_range(c.records + c.lost, all, all + 1);
                /* Two pages of each thread find room even where rings take half of it. */
                bool fits = (uint64_t)threads[i] * 8192 + (256u << 10) <= limit / 8;
                assert_true(c.lost == 0 || !fits);
                assert_true(c.lost > 0 || mib > 1 || threads[i] < 60);
                assert_true(c.dropped == 0 || mib <= 256);
                assert_true(c.dropped > 0 || c.lost > 0 || mib > 64 || threads[i] < 300);
                assert_int_equal(tw_room_used(), none);
            }
    start_under(RLIMIT_DATA, RLIM_INFINITY);
    assert_true(tw_room_left() == UINT64_MAX);
}

/* Without a limit each ring is as large as was asked for, and nothing is lost. */
static void test_rings_where_nothing_is_limited(void **state)
{
    (void)state;
    uint64_t most, none = tw_room_used();
    struct twin_writer_counts c = crowd_of(300, &most);
    assert_int_equal(c.records, 3000);
    assert_int_equal(c.lost, 0);
    assert_true(most - none >= 300 * (UINT64_C(4) << 20));
    assert_int_equal(tw_room_used(), none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_hash_however_threads_interleave),
        cmocka_unit_test(test_steps_closed_while_others_record),
        cmocka_unit_test(test_interning_from_many_threads),
        cmocka_unit_test(test_full_ring_is_a_gap),
        cmocka_unit_test(test_flush_from_many_threads),
        cmocka_unit_test(test_rings_where_nothing_is_limited),
        cmocka_unit_test(test_an_eighth_of_what_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
