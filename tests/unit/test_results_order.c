/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of results: files of processes read, put into the folder of another run, held against what
 * that run recorded; and files that are not sound, which are never an order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "results_order.h"

#include "base.h"

#include "src/trace/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MOST = 4096 };

/* A process' file in the making. */
struct made {
    char data[FILE_MOST];
    size_t bytes;
    uint32_t seed;
};

static char home[64];
static int runs;

/* Bit by bit, where the reader has a table. */
static uint32_t crc(uint32_t c, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    c = ~c;
    for (size_t i = 0; i < bytes; i++) {
        c ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1;
    }
    return ~c;
}

static void begin(struct made *m, const char *role)
{
    struct tw_results_head head = {.version = TW_RESULTS_VERSION, .pid = 7};
    memcpy(head.magic, TW_RESULTS_MAGIC, sizeof head.magic);
    snprintf(head.role, sizeof head.role, "%s", role);
    head.check = m->seed = crc(0, &head, offsetof(struct tw_results_head, check));
    memcpy(m->data, &head, sizeof head);
    m->bytes = sizeof head;
}

static void put(struct made *m, struct tw_results_entry e, const char *text)
{
    char padded[TW_RESULTS_TEXT_MOST] = {0};
    snprintf(padded, sizeof padded, "%s", text);
    e.bytes = (uint16_t)((strlen(text) + 3) / 4 * 4);
    e.check = crc(m->seed, &e, offsetof(struct tw_results_entry, check));
    e.check = crc(e.check, padded, e.bytes);
    assert_true(m->bytes + sizeof e + e.bytes <= FILE_MOST);
    memcpy(m->data + m->bytes, &e, sizeof e);
    memcpy(m->data + m->bytes + sizeof e, padded, e.bytes);
    m->bytes += sizeof e + e.bytes;
}

static void call(struct made *m, uint8_t kind, uint32_t number, uint32_t count, const char *site)
{
    put(m,
        (struct tw_results_entry){
            .what = TW_RESULTS_CALL, .kind = kind, .call = number, .value = count},
        site);
}

/* places: "201" */
static void results(struct made *m, uint32_t number, const char *places)
{
    for (; *places; places++)
        put(m,
            (struct tw_results_entry){
                .what = TW_RESULTS_RESULT, .call = number, .value = (uint32_t)(*places - '0')},
            "");
}

static void end(struct made *m)
{
    put(m, (struct tw_results_entry){.what = TW_RESULTS_END}, "");
}

static struct twin_run new_run(void)
{
    struct twin_run r = {.id = (char *)"00000000000000000000000000000000"};
    r.dir = tw_printf("%s/%d", home, ++runs);
    assert_int_equal(tw_mkdirs(r.dir, NULL), 0);
    return r;
}

static void write_file(const struct twin_run *r, const char *name, const void *data, size_t bytes)
{
    char *path = tw_path_join(r->dir, name);
    assert_int_equal(tw_write_file_atomic(path, data, bytes, NULL), 0);
    tw_free(path);
}

/* A run of one process: an iterator over `places`, and a pool. NULL: it has no such call. */
static struct twin_run run_of(const char *places, const char *pool)
{
    struct twin_run r = new_run();
    struct made m;
    begin(&m, "rank 0, job.py");
    if (places)
        call(&m, TW_RESULTS_AS_COMPLETED, 1, (uint32_t)strlen(places), "job.py:7");
    if (pool)
        call(&m, TW_RESULTS_POOL, 2, UINT32_MAX, "job.py:9");
    results(&m, 1, places ? places : "");
    results(&m, 2, pool ? pool : "");
    end(&m);
    write_file(&r, "results.7.0", m.data, m.bytes);
    return r;
}

/* Holds `is` against `was`: how far it was kept, and the reason ("": whole). */
static void expect_kept(const struct twin_run *was, const struct twin_run *is, uint64_t kept,
                        uint64_t expected, const char *why)
{
    struct tw_results o;
    struct tw_matches_kept k = {.whole = false};
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(tw_results_read(was, 1000, &o, &err), 0);
    assert_int_equal(tw_results_compare(&o, is, &k, &err), 0);
    assert_string_equal(k.text ? k.text : "", why);
    assert_int_equal(k.kept, kept);
    assert_int_equal(k.expected, expected);
    assert_int_equal(k.whole, *why == '\0');
    tw_free(k.text);
    tw_results_free(&o);
}

static void test_kept_or_not(void **state)
{
    (void)state;
    struct twin_run was = run_of("201", "10"), same = run_of("201", "10");
    struct twin_run other = run_of("210", "10"), fewer = run_of("20", "10");
    struct twin_run short_pool = run_of("201", "1"), more = run_of("201", "102");
    struct twin_run none = new_run(), line = run_of("201", NULL);
    expect_kept(&was, &same, 5, 5, "");
    expect_kept(&was, &other, 1, 5,
                "result 2 at job.py:7: expected number 1 by submission, found number 2 by "
                "submission");
    expect_kept(&was, &fewer, 2, 5,
                "result 3 at job.py:7: expected number 2 by submission, found no more results");
    expect_kept(&was, &short_pool, 4, 5,
                "result 2 at job.py:9: expected number 1 by submission, found no more results");
    expect_kept(&was, &more, 5, 5,
                "result 3 at job.py:9: expected no more results, found number 3 by submission");
    expect_kept(&was, &none, 0, 5,
                "result 1 at job.py:7: expected number 3 by submission, found no more results");
    expect_kept(&line, &same, 3, 3, "expected no such call at job.py:9, found one");
    struct twin_run all[] = {was, same, other, fewer, short_pool, more, none, line};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tw_free(all[i].dir);
}

/* What the agent says is the reason, and never makes an order of what was none. */
static void test_the_agents_word(void **state)
{
    (void)state;
    struct twin_run was = run_of("201", NULL), is = new_run();
    struct made m;
    begin(&m, "rank 0, job.py");
    call(&m, TW_RESULTS_AS_COMPLETED, 1, 3, "job.py:7");
    put(&m, (struct tw_results_entry){.what = TW_RESULTS_GIVEN_UP}, "it did not come");
    results(&m, 1, "201");
    write_file(&is, "results.8.0", m.data, m.bytes);
    expect_kept(&was, &is, 3, 3, "it did not come");
    tw_free(was.dir);
    tw_free(is.dir);
}

static void test_processes(void **state)
{
    (void)state;
    struct twin_run was = new_run(), is = new_run(), twice = new_run();
    struct made m, child;
    begin(&m, "rank 0, job.py");
    call(&m, TW_RESULTS_WAIT, 1, 2, "job.py:7");
    results(&m, 1, "10");
    begin(&child, "rank 0, job.py, child 1");
    call(&child, TW_RESULTS_WAIT, 1, 2, "job.py:7");
    results(&child, 1, "01");
    write_file(&was, "results.1.0", m.data, m.bytes);
    write_file(&was, "results.2.0", child.data, child.bytes);
    write_file(&is, "results.4.0", m.data, m.bytes); /* numbers are others in each run */
    write_file(&is, "results.3.0", child.data, child.bytes);
    write_file(&is, "results.txt", "x", 1); /* of the job */
    expect_kept(&was, &is, 4, 4, "");
    write_file(&twice, "results.4.0", m.data, m.bytes);
    write_file(&twice, "results.5.0", m.data, m.bytes);
    expect_kept(&is, &twice, 0, 4,
                "result 1 at job.py:7: expected number 1 by submission, found no more results");
    expect_kept(&twice, &is, 0, 4,
                "several processes are \"rank 0, job.py\": which of them is which is not known");
    tw_free(was.dir);
    tw_free(is.dir);
    tw_free(twice.dir);
}

static void test_several_threads_have_no_order(void **state)
{
    (void)state;
    struct twin_run was = new_run();
    struct made m;
    begin(&m, "rank 0, job.py");
    call(&m, TW_RESULTS_AS_COMPLETED, 1, 1, "job.py:7");
    put(&m,
        (struct tw_results_entry){.what = TW_RESULTS_CALL,
                                  .kind = TW_RESULTS_AS_COMPLETED,
                                  .thread = 1,
                                  .call = 2,
                                  .value = 1},
        "job.py:7");
    results(&m, 1, "0");
    write_file(&was, "results.1.0", m.data, m.bytes);
    expect_kept(
        &was, &was, 0, 1,
        "several threads asked, or submitted, at job.py:7: the recorded order is not known");
    assert_false(tw_results_alike(&was, &was));

    /* tasks that several threads submitted, in the recorded run or in the new one only */
    struct twin_run two = new_run(), one = new_run();
    for (int i = 0; i < 2; i++) {
        begin(&m, "rank 0, job.py");
        put(&m,
            (struct tw_results_entry){.what = TW_RESULTS_CALL,
                                      .kind = TW_RESULTS_AS_COMPLETED,
                                      .thread = i ? 0 : UINT32_MAX,
                                      .call = 1,
                                      .value = 1},
            "job.py:9");
        results(&m, 1, "0");
        write_file(i ? &one : &two, "results.1.0", m.data, m.bytes);
    }
    expect_kept(
        &two, &two, 0, 1,
        "several threads asked, or submitted, at job.py:9: the recorded order is not known");
    expect_kept(&one, &two, 0, 1,
                "several threads asked, or submitted, at job.py:9: the new order is not known");
    expect_kept(&one, &one, 1, 1, "");
    assert_false(tw_results_alike(&two, &two));
    tw_free(two.dir);
    tw_free(one.dir);
    tw_free(was.dir);
}

static void test_the_files_of_a_replay(void **state)
{
    (void)state;
    struct twin_run was = run_of("201", "10"), is = new_run();
    struct tw_results o;
    struct tw_results_order_head head;
    char *data, *path;
    size_t bytes;
    assert_int_equal(tw_results_read(&was, 2500, &o, NULL), 0);
    assert_false(tw_results_of_loaders(&o));
    assert_int_equal(tw_results_fill(&o, is.dir, NULL), 0);
    path = tw_printf(TW_RESULTS_ORDER_FILE, is.dir, crc(0, "rank 0, job.py", 14));
    assert_int_equal(tw_read_file(path, 1 << 20, &data, &bytes, NULL), 0);
    memcpy(&head, data, sizeof head);
    assert_string_equal(head.magic, TW_RESULTS_ORDER_MAGIC);
    assert_int_equal(head.wait_ms, 2500);
    assert_memory_equal(data + sizeof head, TW_RESULTS_MAGIC, 8);
    tw_free(data);
    tw_free(path);
    tw_results_free(&o);
    /* what a replay was given is no recording */
    assert_int_not_equal(tw_results_read(&is, 0, &o, NULL), 0);
    assert_true(o.none);
    tw_results_free(&o);
    tw_free(was.dir);
    tw_free(is.dir);
}

static void test_alike(void **state)
{
    (void)state;
    struct twin_run a = run_of("201", "10"), b = run_of("201", "10"), c = run_of("201", "01");
    struct twin_run none = new_run(), cut = new_run(), other = new_run();
    struct made m;
    assert_true(tw_results_alike(&a, &b));
    assert_false(tw_results_alike(&a, &c));
    assert_false(tw_results_alike(&none, &none));
    begin(&m, "rank 0, job.py");
    call(&m, TW_RESULTS_AS_COMPLETED, 1, 3, "job.py:7");
    results(&m, 1, "201");
    write_file(&cut, "results.1.0", m.data, m.bytes);
    assert_false(tw_results_alike(&cut, &cut)); /* it was killed: more may have come */
    call(&m, TW_RESULTS_OTHER, 2, UINT32_MAX, "job.py:8");
    end(&m);
    write_file(&other, "results.1.0", m.data, m.bytes);
    assert_false(tw_results_alike(&other, &other));
    struct twin_run all[] = {a, b, c, none, cut, other};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tw_free(all[i].dir);
}

/* A file that was cut is a part of the order; one with another bit is none. */
static void test_damage(void **state)
{
    (void)state;
    struct twin_run whole = run_of("201", "10"), r = new_run();
    struct tw_results o;
    struct tw_matches_kept k;
    char *path = tw_path_join(whole.dir, "results.7.0"), *data;
    size_t bytes;
    assert_int_equal(tw_read_file(path, FILE_MOST, &data, &bytes, NULL), 0);
    for (size_t n = 0; n < bytes; n++) {
        write_file(&r, "results.7.0", data, n);
        if (tw_results_read(&r, 0, &o, NULL) == 0) {
            assert_int_equal(tw_results_compare(&o, &whole, &k, NULL), 0);
            assert_true(k.kept == k.expected && k.expected <= 5);
            assert_true(k.whole == (k.expected == 5));
            tw_free(k.text);
        }
        tw_results_free(&o);
        assert_true(n == bytes || !tw_results_alike(&r, &whole));
    }
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        data[bit / 8] ^= (char)(1 << bit % 8);
        write_file(&r, "results.7.0", data, bytes);
        data[bit / 8] ^= (char)(1 << bit % 8);
        if (tw_results_read(&r, 0, &o, NULL) == 0) { /* a longer text: it was not written whole */
            assert_int_equal(tw_results_compare(&o, &whole, &k, NULL), 0);
            assert_true(k.kept == k.expected);
            tw_free(k.text);
        }
        tw_results_free(&o);
        assert_false(tw_results_alike(&r, &whole));
        expect_kept(&whole, &whole, 5, 5, "");
    }
    tw_free(data);
    tw_free(path);
    tw_free(whole.dir);
    tw_free(r.dir);
}

/* Sound entries that no agent writes. */
static void test_entries_that_there_cannot_be(void **state)
{
    (void)state;
    const struct tw_results_entry wrong[] = {
        {.what = TW_RESULTS_RESULT, .call = 1},
        {.what = TW_RESULTS_RESULT, .call = UINT32_MAX},
        {.what = TW_RESULTS_RESULT, .call = 0},
        {.what = TW_RESULTS_CALL, .kind = 99, .call = 1},
        {.what = TW_RESULTS_CALL, .kind = TW_RESULTS_POOL, .call = 0},
        {.what = TW_RESULTS_CALL, .kind = TW_RESULTS_POOL, .call = UINT32_MAX},
        {.what = TW_RESULTS_CALL, .kind = TW_RESULTS_POOL, .call = 5},
        {.what = 99},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct twin_run r = new_run();
        struct twin_error err = TWIN_ERROR_INIT;
        struct tw_results o;
        struct made m;
        begin(&m, "rank 0, job.py");
        call(&m, TW_RESULTS_POOL, 5, UINT32_MAX, "job.py:7");
        put(&m, wrong[i], "");
        write_file(&r, "results.1.0", m.data, m.bytes);
        assert_int_equal(tw_results_read(&r, 0, &o, &err), TWIN_EFORMAT);
        assert_non_null(strstr(err.message, "results.1.0 cannot be read: "));
        tw_results_free(&o);
        tw_free(r.dir);
    }
    struct twin_run was = run_of("201", NULL), is = new_run();
    write_file(&is, "results.1.0", "no head", 7);
    expect_kept(&was, &is, 0, 3,
                "result 1 at job.py:7: expected number 3 by submission, found no more results");
    tw_free(was.dir);
    tw_free(is.dir);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct twin_run was = run_of("201", "10"), is = run_of("210", "10");
    for (uint64_t n = 1; n < 200; n++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct tw_matches_kept k = {.text = NULL};
        struct tw_results o;
        tw_alloc_fail_at(n, false);
        int rc = tw_results_read(&was, 0, &o, &err);
        if (rc == 0)
            rc = tw_results_compare(&o, &is, &k, &err);
        tw_alloc_fail_at(0, false);
        assert_true(rc == 0 || rc == TWIN_ENOMEM);
        assert_false(rc == 0 && k.whole);
        tw_free(k.text);
        tw_results_free(&o);
    }
    tw_free(was.dir);
    tw_free(is.dir);
}

static int begin_all(void **state)
{
    (void)state;
    snprintf(home, sizeof home, "/tmp/results-order-XXXXXX");
    return mkdtemp(home) ? 0 : -1;
}

static int end_all(void **state)
{
    (void)state;
    return tw_remove_tree(home, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_or_not),
        cmocka_unit_test(test_the_agents_word),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_several_threads_have_no_order),
        cmocka_unit_test(test_the_files_of_a_replay),
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_entries_that_there_cannot_be),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, begin_all, end_all);
}
