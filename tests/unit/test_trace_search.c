/* SPDX-License-Identifier: Apache-2.0 */
/* First differences: against a plain comparison of every step, shifted, in windows, and cheap. */
#include "trace_helper.h"

static void expect(struct twin_trace *a, struct twin_trace *b, int64_t shift, uint32_t from,
                   uint32_t limit, bool differs, uint32_t where, uint64_t range)
{
    bool found;
    uint32_t step;
    uint64_t compared;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_trace_first_difference(a, b, shift, from, limit, &found, &step, &compared, &err) != 0)
        fail_msg("%s", err.message);
    assert_int_equal(found, differs);
    if (differs)
        assert_int_equal(step, where);
    assert_int_equal(compared, range);
}

static void test_every_parting_step(void **state)
{
    (void)state;
    char whole[160];
    strcpy(whole, scratch_path("whole.twt"));
    write_job(whole, 300, UINT32_MAX);
    struct twin_trace *a = open_trace(whole);
    for (uint32_t parts = 0; parts < 300; parts += 7) {
        const char *path = scratch_path("parted.twt");
        write_job(path, 300, parts);
        struct twin_trace *b = open_trace(path);
        expect(a, b, 0, 0, UINT32_MAX, true, parts, 300);
        expect(b, a, 0, 0, UINT32_MAX, true, parts, 300);
        expect(a, b, 0, 0, parts, false, 0, parts);
        expect(a, b, 0, parts / 2, 300, true, parts, 300 - parts / 2);
        if (parts < 299) /* a window that starts after the parting: its own first step */
            expect(a, b, 0, parts + 1, 300, true, parts + 1, 299 - parts);
        twin_trace_close(b);
    }
    expect(a, a, 0, 0, UINT32_MAX, false, 0, 300);
    expect(a, a, 0, 400, 500, false, 0, 0);
    expect(a, a, 0, 7, 7, false, 0, 0);
    twin_trace_close(a);
}

/* A run resumed at step 100 numbers its steps from 0: b's step = a's step - 100. */
static void test_shifted(void **state)
{
    (void)state;
    const char *path = scratch_path("from0.twt");
    const char *resumed = scratch_path("from100.twt");
    const char *parted = scratch_path("parted100.twt");
    write_job(path, 400, UINT32_MAX);
    write_job_from(resumed, 100, 300, UINT32_MAX);
    write_job_from(parted, 100, 300, 250);
    struct twin_trace *a = open_trace(path), *b = open_trace(resumed), *c = open_trace(parted);
    expect(a, b, -100, 0, UINT32_MAX, false, 0, 300);
    expect(b, a, 100, 0, UINT32_MAX, false, 0, 300);
    expect(a, c, -100, 0, UINT32_MAX, true, 250, 300);
    expect(c, a, 100, 0, UINT32_MAX, true, 150, 300);
    expect(a, b, -99, 0, UINT32_MAX, true, 99, 300); /* the wrong shift differs at once */
    expect(a, b, -100, 0, 50, false, 0, 0);
    expect(a, b, 1000, 0, UINT32_MAX, false, 0, 0);
    bool found;
    uint32_t step;
    uint64_t compared;
    assert_int_equal(
        twin_trace_first_difference(a, b, INT64_MIN, 0, 9, &found, &step, &compared, NULL),
        TWIN_EINVAL);
    twin_trace_close(a);
    twin_trace_close(b);
    twin_trace_close(c);
}

/* A single step that differs, then equal again: windows after it agree (the benign difference). */
static void write_blip(const char *path, uint32_t steps, uint32_t at, bool swapped)
{
    struct twin_writer *w = open_writer(path, 0);
    uint32_t x = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "x");
    uint32_t y = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "y");
    for (uint32_t s = 0; s < steps; s++) {
        bool here = s == at;
        record_value(w, here && swapped ? y : x, 0, here && !swapped ? 1 : 0);
        record_value(w, here && swapped ? x : y, 0, 0);
        twin_writer_step_end(w);
    }
    tw_writer_free(w);
}

static void test_blip_and_order(void **state)
{
    (void)state;
    const char *plain = scratch_path("plain.twt");
    const char *blip = scratch_path("blip.twt");
    const char *turned = scratch_path("turned.twt");
    write_blip(plain, 100, UINT32_MAX, false);
    write_blip(blip, 100, 40, false);
    write_blip(turned, 100, 60, true);
    struct twin_trace *a = open_trace(plain), *b = open_trace(blip), *c = open_trace(turned);
    expect(a, b, 0, 0, 100, true, 40, 100);
    expect(a, b, 0, 41, 100, false, 0, 59);
    expect(a, c, 0, 0, 100, false, 0, 100);
    bool found;
    uint32_t step;
    uint64_t compared;
    assert_int_equal(
        twin_trace_first_order_difference(a, c, 0, 0, 100, &found, &step, &compared, NULL), 0);
    assert_true(found);
    assert_int_equal(step, 60);
    assert_int_equal(
        twin_trace_first_order_difference(a, b, 0, 0, 100, &found, &step, &compared, NULL), 0);
    assert_false(found);
    twin_trace_close(a);
    twin_trace_close(b);
    twin_trace_close(c);
}

/* 40,000 steps in some hundred blocks: a search reads little. */
static void test_reads_little(void **state)
{
    (void)state;
    const char *path = scratch_path("long-a.twt"), *other = scratch_path("long-b.twt");
    write_job(path, 40000, UINT32_MAX);
    write_job(other, 40000, 12345);
    struct twin_trace *a = open_trace(path), *b = open_trace(other);
    expect(a, b, 0, 0, UINT32_MAX, true, 12345, 40000);
    uint64_t read = twin_trace_bytes_read(a), size = twin_trace_info(a)->file_bytes;
    assert_true(size > 12000000);
    assert_true(read < 24u * (64u << 10) + (64u << 10));
    twin_trace_close(a);
    twin_trace_close(b);
}

/* The window hash against its definition: P(s) = P(s-1) R + H(s), so windows of equal elements are
 * equal wherever they lie. */
static void test_prefix_window(void **state)
{
    (void)state;
    struct twin_value_hash p[301] = {{0, 0}}, q[201] = {{0, 0}};
    srand(7);
    struct twin_value_hash element[300];
    for (int i = 0; i < 300; i++) {
        element[i].lo = (uint64_t)rand() << 40 ^ (uint64_t)rand() << 20 ^ (uint64_t)rand();
        element[i].hi = ((uint64_t)rand() << 40 ^ (uint64_t)rand()) >> 1;
        if (i == 5)
            element[i] = (struct twin_value_hash){UINT64_MAX - 1, UINT64_MAX >> 1}; /* p - 1 */
        p[i + 1] = tw_prefix_push(p[i], element[i]);
    }
    for (int i = 0; i < 200; i++)
        q[i + 1] = tw_prefix_push(q[i], element[i + 100]);
    for (int from = 0; from < 200; from += 3)
        for (int to = from; to <= 200; to += 13) {
            struct twin_value_hash x = tw_prefix_window(p[100 + to], p[100 + from],
                                                        (uint64_t)(to - from));
            struct twin_value_hash y = tw_prefix_window(q[to], q[from], (uint64_t)(to - from));
            assert_memory_equal(&x, &y, sizeof x);
        }
    struct twin_value_hash one = tw_prefix_window(p[6], p[5], 1);
    assert_memory_equal(&one, &element[5], sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_parting_step), cmocka_unit_test(test_shifted),
        cmocka_unit_test(test_blip_and_order),     cmocka_unit_test(test_reads_little),
        cmocka_unit_test(test_prefix_window),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
