/* SPDX-License-Identifier: Apache-2.0 */
/* The agent in its own process: the environment protocol, records against the fingerprint library
 * as the oracle, threads, steps, every allocation made to fail. The process-level behaviour is in
 * tests/agents/test_native_*.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <twin/twin.h>
#include <unistd.h>
#include "agents/common/state.h"
#include "src/base/base.h"

/* ---- configuration */

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void test_levels_and_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *level;
        int expected;
    } levels[] = {{"steps", TW_LEVEL_STEPS},     {"tensors", TW_LEVEL_TENSORS},
                  {"modules", TW_LEVEL_MODULES}, {"ops", TW_LEVEL_OPS},
                  {NULL, TW_LEVEL_TENSORS},      {"", TW_LEVEL_TENSORS},
                  {"OPS", TW_LEVEL_TENSORS}};
    static const struct {
        const char *text;
        bool given;
        uint32_t first, last;
    } windows[] = {{"3:9", true, 3, 9},
                   {"0:4294967295", true, 0, UINT32_MAX},
                   {"5:5", true, 5, 5},
                   {NULL, false, 0, 0},
                   {"", false, 0, 0},
                   {"9:3", false, 0, 0},
                   {"3", false, 0, 0},
                   {":", false, 0, 0},
                   {"3:", false, 0, 0},
                   {":3", false, 0, 0},
                   {"3:4294967296", false, 0, 0},
                   {"-1:3", false, 0, 0},
                   {"1:2:3", false, 0, 0},
                   {"00000000000000000000001:2", false, 0, 0}};
    struct tw_agent_config c;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        set("TWINRUN_LEVEL", levels[i].level);
        assert_true(tw_config_read(&c));
        assert_int_equal(c.level, levels[i].expected);
    }
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        set("TWINRUN_WINDOW", windows[i].text);
        assert_true(tw_config_read(&c));
        assert_int_equal(c.window, windows[i].given);
        if (c.window) {
            assert_int_equal(c.window_first, windows[i].first);
            assert_int_equal(c.window_last, windows[i].last);
        }
    }
    set("TWINRUN_STEPS", "12");
    set("TWINRUN_SKETCH_EVERY", "0");
    set("TWINRUN_LOSSLESS", "1");
    assert_true(tw_config_read(&c));
    assert_int_equal(c.max_steps, 12);
    assert_int_equal(c.sketch_every, 0);
    assert_true(c.lossless);
    set("TWINRUN_STEPS", "-1");
    set("TWINRUN_SKETCH_EVERY", "often");
    set("TWINRUN_LOSSLESS", "yes");
    assert_true(tw_config_read(&c));
    assert_int_equal(c.max_steps, 0);
    assert_int_equal(c.sketch_every, 10);
    assert_false(c.lossless);
}

static void test_run_folder_and_id(void **state)
{
    (void)state;
    struct tw_agent_config c;
    char *keep = tw_strdup(getenv("TWINRUN_RUN_DIR")), long_path[PATH_MAX + 10];
    static const uint8_t id[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                   0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10};
    static const uint8_t none[16];
    set("TWINRUN_RUN_ID", "0123456789abcdefFEDCBA9876543210");
    assert_true(tw_config_read(&c));
    assert_memory_equal(c.run_id, id, 16);
    set("TWINRUN_RUN_ID", "0123456789abcdefFEDCBA987654321g");
    assert_true(tw_config_read(&c));
    assert_memory_equal(c.run_id, none, 16);
    set("TWINRUN_RUN_DIR", "relative");
    assert_false(tw_config_read(&c));
    memset(long_path, 'x', sizeof long_path);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    set("TWINRUN_RUN_DIR", long_path);
    assert_false(tw_config_read(&c));
    set("TWINRUN_RUN_DIR", NULL);
    assert_false(tw_config_read(&c));
    set("TWINRUN_RUN_DIR", keep);
    tw_free(keep);
}

/* ---- records */

enum { THREADS = 4, STEPS = 50, PER_STEP = 20 };

static pthread_barrier_t barrier;

static void fill(float *x, int thread, int step, int i)
{
    for (int k = 0; k < 64; k++)
        x[k] = (float)(thread * 1000003 + step * 1009 + i * 13 + k) / 7.0f;
}

static void *record_steps(void *p)
{
    int thread = (int)(intptr_t)p;
    float x[64];
    char role[16];
    snprintf(role, sizeof role, "t%d", thread);
    twin_thread_role(role);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < PER_STEP; i++) {
            fill(x, thread, step, i);
            twin_record("weight:w", TWIN_F32, 2, (int64_t[]){8, 8},
                        i % 2 ? (int64_t[]){1, 8} : NULL, x, 0);
        }
        pthread_barrier_wait(&barrier);
        if (thread == 0)
            twin_step();
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* Allocations of the first record (opening, the thread's ring and context) fail one by one: nothing
 * visible happens. */
static void test_failing_allocations_before_the_first_record(void **state)
{
    (void)state;
    float x = 1;
    /* Interning and layouts fail inside an open writer; failing to open would switch recording off
     * for good. */
    assert_true(twin_open());
    for (uint64_t n = 1; n <= 12; n++) {
        char name[32];
        snprintf(name, sizeof name, "failing %d", (int)n);
        tw_alloc_fail_at(n, true);
        errno = 77;
        twin_record(name, TWIN_F32, 1, (int64_t[]){1}, NULL, &x, 0);
        twin_scope_push("scope");
        twin_scope_pop();
        tw_agent_note(name, "value");
        assert_int_equal(errno, 77);
        tw_alloc_fail_at(0, false);
    }
    assert_true(twin_on());
    twin_step();
}

static void test_threads_and_steps(void **state)
{
    (void)state;
    pthread_t t[THREADS];
    assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, record_steps, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    pthread_barrier_destroy(&barrier);
    assert_int_equal(tw_agent_step(), STEPS + 1);
}

/* A thread that looked while another one was still opening the trace comes here when it is open: no
 * clone, its record counts. */
static void test_the_second_of_two_first_records(void **state)
{
    (void)state;
    struct tw_guard g;
    assert_true(tw_guard_enter(&g));
    assert_non_null(tw_agent_open());
    assert_ptr_equal(tw_agent_open_slow(), tw_agent_writer);
    tw_guard_leave(&g);
    assert_int_equal(atomic_load(&tw_agent_state), TW_STATE_OPEN);
}

static void test_batches_of_items(void **state)
{
    (void)state;
    int64_t big[] = {3}, shape[] = {2, 2};
    uint8_t bytes[12] = "eleven chars";
    double d[4] = {1, -2, 3, -4};
    uint64_t links[TWIN_MAX_LINKS + 5] = {1, 2, 3};
    struct tw_agent_item items[3] = {{.data = d,
                                      .shape = shape,
                                      .count = 4,
                                      .series = tw_agent_series(TWIN_PHASE_DATA, TWIN_KIND_BATCH,
                                                                "many", NULL, NULL, NULL, NULL),
                                      .layout = tw_agent_layout(TWIN_F64, 2, shape),
                                      .flags = TW_ITEM_STATS | TW_ITEM_SKETCH,
                                      .dtype = TWIN_F64,
                                      .ndim = 2},
                                     {.data = d,
                                      .count = 3,
                                      .series = tw_agent_series(TWIN_PHASE_DATA, TWIN_KIND_BATCH,
                                                                "flat", NULL, NULL, NULL, NULL),
                                      .layout = tw_agent_layout(TWIN_F64, 1, big),
                                      .dtype = TWIN_F64,
                                      .flags = (uint32_t)TWIN_REC_RECOMPUTED << 8},
                                     {.series = tw_agent_series(TWIN_PHASE_DATA, TWIN_KIND_BATCH,
                                                                "unseen", NULL, NULL, NULL, NULL),
                                      .flags = (uint32_t)TWIN_REC_UNOBSERVED << 8}};
    assert_true(items[0].series && items[1].series && items[2].series && items[0].layout &&
                items[1].layout);
    assert_int_equal(tw_agent_records(items, 3, links, TWIN_MAX_LINKS + 5), 3);
    assert_true(items[0].link && items[1].link == items[0].link + 1 &&
                items[2].link == items[0].link + 2);
    assert_int_equal(items[0].link >> 32, tw_agent_step());
    assert_true(tw_agent_bytes(items[0].series, bytes, sizeof bytes, 0) > items[2].link);
    struct twin_digest raw = twin_digest_bytes(bytes, sizeof bytes, 0);
    assert_true(tw_agent_quick_digest(bytes, sizeof bytes) ==
                (raw.a ^ (raw.b << 32 | raw.b >> 32)));
    uint64_t regions[] = {(uintptr_t)bytes, sizeof bytes, (uintptr_t)bytes + 1, sizeof bytes - 1};
    uint64_t digests[2];
    tw_agent_quick_digests(regions, 2, digests);
    assert_true(digests[0] == tw_agent_quick_digest(bytes, sizeof bytes));
    assert_true(digests[1] ==
                tw_agent_quick_digest((const char *)(const void *)bytes + 1, sizeof bytes - 1));
    assert_int_equal(tw_agent_records(NULL, 3, NULL, 0), 0);
    assert_int_equal(tw_agent_series(TWIN_PHASE_COUNT, 1, "x", NULL, NULL, NULL, NULL), 0);
    assert_int_equal(tw_agent_series(1, TWIN_KIND_COUNT, "x", NULL, NULL, NULL, NULL), 0);
    assert_int_equal(tw_agent_series(1, 1, NULL, NULL, NULL, NULL, NULL), 0);
    assert_int_equal(tw_agent_layout(TWIN_DTYPE_COUNT, 1, big), 0);
    assert_int_equal(tw_agent_layout(TWIN_F32, TWIN_MAX_NDIM + 1, big), 0);
    assert_int_equal(tw_agent_layout(TWIN_F32, 1, NULL), 0);
    twin_step();
}

static void test_window(void **state)
{
    (void)state;
    uint32_t step = tw_agent_step(), first = 0, last = 0;
    assert_int_equal(tw_agent_window(&first, &last), 0);
    tw_agent_config.level = TW_LEVEL_OPS;
    assert_int_equal(tw_agent_in_window(), 1);
    tw_agent_config.window = true;
    tw_agent_config.window_first = step + 1;
    tw_agent_config.window_last = step + 1;
    assert_int_equal(tw_agent_window(&first, &last), 1);
    assert_int_equal(first, step + 1);
    assert_int_equal(tw_agent_in_window(), 0);
    twin_step();
    assert_int_equal(tw_agent_in_window(), 1);
    twin_step();
    assert_int_equal(tw_agent_in_window(), 0);
    tw_agent_config.level = TW_LEVEL_TENSORS;
}

/* ---- what is in the file */

static void check_threads(struct twin_trace *t)
{
    static int seen[THREADS][STEPS];
    struct twin_error err = TWIN_ERROR_INIT;
    for (uint32_t step = 1; step <= STEPS; step++) {
        struct twin_trace_record *r;
        size_t n;
        assert_int_equal(twin_trace_read(t, step, step, 100000, &r, &n, &err), 0);
        assert_int_equal(n, THREADS * PER_STEP);
        for (size_t i = 0; i < n; i++) {
            const struct twin_series *s = twin_trace_series(t, r[i].series);
            const char *role = twin_trace_string(t, s->role);
            int thread = role[1] - '0', k = (int)r[i].occurrence;
            float x[64];
            struct twin_digest digest;
            struct twin_stats stats;
            assert_true(thread >= 0 && thread < THREADS && k >= 0 && k < PER_STEP);
            fill(x, thread, (int)step - 1, k);
            struct twin_tensor view = {.data = x,
                                       .dtype = TWIN_F32,
                                       .ndim = 2,
                                       .shape = (int64_t[]){8, 8},
                                       .strides = k % 2 ? (int64_t[]){1, 8} : NULL};
            assert_int_equal(twin_fingerprint(&view, &digest, &stats, NULL, NULL), 0);
            assert_true(digest.a == r[i].digest.a && digest.b == r[i].digest.b);
            assert_true(stats.sum == r[i].stats.sum && r[i].stats.count == 64);
            assert_int_equal(r[i].flags & TWIN_REC_UNORDERED, TWIN_REC_UNORDERED);
            seen[thread][step - 1]++;
        }
        twin_trace_records_free(r);
    }
    for (int i = 0; i < THREADS; i++)
        for (int s = 0; s < STEPS; s++)
            assert_int_equal(seen[i][s], PER_STEP);
}

static void check_items(struct twin_trace *t)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trace_record *r;
    size_t n;
    assert_int_equal(twin_trace_read(t, STEPS + 1, STEPS + 1, 1000, &r, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_int_equal(r[0].flags, TWIN_REC_STATS | TWIN_REC_LINKS); /* no sketch: not a tenth step */
    assert_int_equal(r[0].link_count, TWIN_MAX_LINKS);
    assert_true(r[0].stats.sum == -2 && r[0].stats.min == -4 && r[0].stats.max == 3);
    assert_int_equal(r[1].flags, TWIN_REC_RECOMPUTED | TWIN_REC_LINKS);
    assert_int_equal(r[2].flags, TWIN_REC_UNOBSERVED | TWIN_REC_LINKS);
    assert_int_equal(r[3].occurrence, 1);
    assert_int_equal(twin_trace_layout(t, r[3].layout)->dtype, TWIN_BYTES);
    assert_int_equal(twin_trace_layout(t, r[3].layout)->shape[0], 12);
    twin_trace_records_free(r);
}

static void test_what_was_recorded(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trace *t;
    twin_close();
    assert_false(twin_on());
    assert_int_equal(tw_agent_records((struct tw_agent_item[]){{.series = 1}}, 1, NULL, 0), 0);
    snprintf(path, sizeof path, "%s/ranks/0.%ld.twt", getenv("TWINRUN_RUN_DIR"), (long)getpid());
    assert_int_equal(twin_trace_open(path, &t, &err), 0);
    assert_int_equal(twin_trace_verify(t, &err), 0);
    assert_true(twin_trace_info(t)->closed);
    assert_int_equal(twin_trace_info(t)->dropped, 0);
    assert_true(twin_trace_info(t)->observer_ns > 0);
    check_threads(t);
    check_items(t);
    twin_trace_close(t);
}

/* The agent reads its environment in a constructor: the program starts itself again inside a run
 * folder. */
/* ---- memory that cannot be read */

static bool readable(const void *data, int64_t rows, int64_t columns, int64_t row_stride)
{
    const int64_t shape[] = {rows, columns}, strides[] = {row_stride, 1};
    struct tw_agent_item item = {.data = data,
                                 .shape = shape,
                                 .strides = row_stride ? strides : NULL,
                                 .dtype = TWIN_F32,
                                 .ndim = 2,
                                 .count = 1};
    return tw_agent_readable(&item, false);
}

static void test_memory_that_cannot_be_read(void **state)
{
    enum { PAGES = 9, FLOATS = 1024 };
    (void)state;
    char *m = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(m != MAP_FAILED);
    sigset_t before, after;
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    sigprocmask(SIG_BLOCK, NULL, &before);
    assert_true(readable(m, PAGES, FLOATS, 0));
    assert_true(readable(m + PAGES * 4096 - 4, 1, 1, 0));
    assert_true(readable(m + (PAGES - 1) * 4096, PAGES, FLOATS, -FLOATS));
    for (int kind = 0; kind < 2; kind++) /* forbidden, then not there at all */
        for (int page = 0; page < PAGES; page++) {
            char *at = m + page * 4096;
            assert_int_equal(kind ? munmap(at, 4096) : mprotect(at, 4096, PROT_NONE), 0);
            assert_false(readable(m, PAGES, FLOATS, 0));
            assert_false(readable(m + (PAGES - 1) * 4096, PAGES, FLOATS, -FLOATS));
            if (page > 0)
                assert_true(readable(m, page, FLOATS, 0));
            assert_false(readable(at + 2000, 1, 1, 0));
            if (kind)
                assert_true(mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                                 0) == at);
            else
                assert_int_equal(mprotect(at, 4096, PROT_READ), 0);
        }
    assert_false(readable(m, INT64_MAX, INT64_MAX, 0));
    assert_false(readable(m, INT64_MAX / 8, 1, INT64_MAX / 8));
    assert_false(readable((void *)8, 1, 1, 0));
    assert_false(readable((void *)(UINTPTR_MAX - 7), 1, 4, 0));
    assert_true(readable((void *)8, 0, 5, 0)); /* nothing to read */
    sigprocmask(SIG_BLOCK, NULL, &after);
    assert_memory_equal(&before, &after, sizeof before);
    munmap(m, PAGES * 4096);
}

int main(int argc, char **argv)
{
    if (!getenv("TWINRUN_RUN_DIR")) {
        char dir[] = "/tmp/twinrun-test-agent-XXXXXX", ranks[64];
        (void)argc;
        if (!mkdtemp(dir))
            return 99;
        snprintf(ranks, sizeof ranks, "%s/ranks", dir);
        mkdir(ranks, 0777);
        setenv("TWINRUN_RUN_DIR", dir, 1);
        setenv("TWINRUN_LOSSLESS", "1", 1);
        unsetenv("RANK");
        execv("/proc/self/exe", argv);
        return 99;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_and_numbers),
        cmocka_unit_test(test_run_folder_and_id),
        cmocka_unit_test(test_failing_allocations_before_the_first_record),
        cmocka_unit_test(test_threads_and_steps),
        cmocka_unit_test(test_the_second_of_two_first_records),
        cmocka_unit_test(test_batches_of_items),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_memory_that_cannot_be_read),
        cmocka_unit_test(test_what_was_recorded),
    };
    char *dir = tw_strdup(getenv("TWINRUN_RUN_DIR"));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tw_remove_tree(dir, NULL, NULL);
    tw_free(dir);
    return failed;
}
