/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of steps out of the files of telemetry/: values worked out by hand, and files that are not
 * such files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base.h"

#include "src/telemetry/telemetry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/test_telemetry.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return tw_remove_tree(dir, NULL, NULL);
}

static void write_file(const char *name, const char *text)
{
    char *folder = tw_path_join(dir, "telemetry"), *path = tw_path_join(folder, name);
    assert_int_equal(tw_mkdirs(folder, NULL), 0);
    assert_int_equal(tw_write_file_atomic(path, text, strlen(text), NULL), 0);
    tw_free(path);
    tw_free(folder);
}

#define PROCESS "twinrun.telemetry/1\tprocess\tn1\t0\t2\t42\tmain\n"
#define COLUMNS "t_ns\tsteps\tthread\tcpu_ns\twait_ns\trss_bytes\n"

static void test_values(void **state)
{
    struct twin_telemetry *t;
    (void)state;
    write_file("0.42", PROCESS COLUMNS "1000000000\t0\t42\t0\t100\t4096\n"
                                       "1500000000\t1\t42\t400000000\t100\t8192\n"
                                       "2500000000\t3\t42\t900000000\t300000100\t8192\n"
                                       "3000000000\t4\t43\t-\t5\t8192\n"
                                       "3100000000\t5\t43\t9000");
    write_file("1.43", "twinrun.telemetry/1\tprocess\tn2\t1\t2\t43\tmain\n" COLUMNS
                       "1100000000\t0\t43\t0\t0\t1\n1600000000\t1\t43\t5\t5\t1\n");
    write_file(
        "host",
        "twinrun.telemetry/"
        "1\thost\tn1\nt_ns\tcpus\tbusy_ns\tjob_cpu_ns\tkhz\tdisk_read_bytes\tdisk_written_bytes\n"
        "1000000000\t4\t0\t0\t-\t0\t10\n1500000000\t4\t1000000000\t400000000\t2000000\t-\t-\n"
        "3000000000\t4\t2500000000\t1150000000\t1000000\t2000\t10\n");
    assert_int_equal(twin_telemetry_load(dir, &t, NULL), 0);
    assert_int_equal(t->processes, 2);
    assert_true(t->host);
    assert_int_equal(t->cpus, 4);
    const struct twin_telemetry_process *p = twin_telemetry_rank(t, 0);
    assert_non_null(p);
    assert_int_equal(p->rows, 3); /* the fifth line was cut off */
    assert_int_equal(p->steps, 4);
    assert_string_equal(p->host, "n1");
    const struct twin_telemetry_row *r = p->row;
    assert_int_equal(r[1].first, 1);
    assert_int_equal(r[1].steps, 2);
    assert_true(fabs(r[1].start_s - .5) < 1e-12 && fabs(r[1].seconds - 1) < 1e-12);
    assert_true(fabs(r[1].value[TWIN_COUNTER_CPU] - .5) < 1e-12);
    assert_true(fabs(r[1].value[TWIN_COUNTER_WAIT] - .3) < 1e-12);
    assert_true(r[1].value[TWIN_COUNTER_RSS] == 8192);
    /* From 1.5 to 2.5 s of the machine: two thirds of 1.5 s, and half of that is the job's. */
    assert_true(fabs(r[1].value[TWIN_COUNTER_BUSY] - 1) < 1e-12);
    assert_true(fabs(r[1].value[TWIN_COUNTER_OTHERS] - .5) < 1e-12);
    assert_true(r[1].value[TWIN_COUNTER_CLOCK] == 2e9); /* the sample within */
    /* between samples that are there */
    assert_true(fabs(r[1].value[TWIN_COUNTER_DISK] - 1000) < 1e-6);
    assert_true(isnan(r[1].value[TWIN_COUNTER_STEAL]));
    assert_true(isnan(r[2].value[TWIN_COUNTER_CPU]));  /* "-" */
    assert_true(isnan(r[2].value[TWIN_COUNTER_WAIT])); /* of another thread */
    /* Counters of n1 say nothing about n2. */
    assert_true(isnan(twin_telemetry_rank(t, 1)->row[0].value[TWIN_COUNTER_BUSY]));
    assert_null(twin_telemetry_rank(t, 2));
    twin_telemetry_free(t);
}

static void test_exec_begins_another_table(void **state)
{
    struct twin_telemetry *t;
    (void)state;
    write_file("0.42", PROCESS COLUMNS "1\t0\t42\t0\t0\t0\n2\t9\t42\t0\t0\t0\n" PROCESS COLUMNS
                                       "3\t0\t42\t0\t0\t0\n4\t1\t42\t0\t0\t0\n" PROCESS);
    assert_int_equal(twin_telemetry_load(dir, &t, NULL), 0);
    assert_int_equal(t->processes, 2);
    assert_int_equal(twin_telemetry_rank(t, 0)->steps, 9);
    twin_telemetry_free(t);
}

/* 200,000 rows of one step and one nanosecond of waiting each: fewer rows, equal sums. */
static void test_many_rows_are_merged(void **state)
{
    enum { ROWS = 200001 };
    struct tw_buf b = {0};
    struct twin_telemetry *t;
    (void)state;
    tw_buf_puts(&b, PROCESS COLUMNS);
    for (int i = 0; i < ROWS; i++)
        tw_buf_printf(&b, "%d\t%d\t1\t0\t%d\t0\n", 1000 + i, i, i);
    write_file("0.42", b.data);
    tw_buf_free(&b);
    assert_int_equal(twin_telemetry_load(dir, &t, NULL), 0);
    const struct twin_telemetry_process *p = twin_telemetry_rank(t, 0);
    assert_in_range(p->rows, 32768, 65536);
    assert_int_equal(p->steps, ROWS - 1);
    uint64_t steps = 0;
    double wait = 0;
    for (size_t i = 0; i < p->rows; i++) {
        assert_int_equal(p->row[i].first, steps);
        steps += p->row[i].steps;
        wait += p->row[i].value[TWIN_COUNTER_WAIT];
    }
    assert_int_equal(steps, ROWS - 1);
    assert_true(fabs(wait - (ROWS - 1) * 1e-9) < 1e-12);
    twin_telemetry_free(t);
}

static void refuse(const char *text, int code, const char *words)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_telemetry *t;
    write_file("0.42", text);
    assert_int_equal(twin_telemetry_load(dir, &t, &err), code);
    assert_null(t);
    if (!strstr(err.message, words))
        fail_msg("'%s' is not in '%s'", words, err.message);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("hello\n", TWIN_EFORMAT, "line 1: expected a header");
    refuse("twinrun.telemetry/2\tprocess\n", TWIN_EVERSION, "later twinrun");
    refuse("twinrun.telemetry/1\trouter\tx\n", TWIN_EFORMAT, "process HOST RANK");
    refuse(PROCESS "1\t2\n", TWIN_EFORMAT, "line 2: expected the names of the columns");
    refuse(PROCESS COLUMNS "1\t2\n", TWIN_EFORMAT,
           "line 3: expected a time and a number or - for each column");
    refuse(PROCESS COLUMNS "1\t0\t1\t1\t1\tx\n", TWIN_EFORMAT, "line 3: expected a number or -");
    refuse(PROCESS COLUMNS "2\t0\t1\t1\t1\t1\n1\t1\t1\t1\t1\t1\n", TWIN_EFORMAT,
           "line 4: expected times that do not go backwards");
    refuse(PROCESS COLUMNS "2\t9\t1\t1\t1\t1\n3\t1\t1\t1\t1\t1\n", TWIN_EFORMAT, "going backwards");
    refuse(PROCESS COLUMNS "2\t0\t1\t1\t1\t1\n", TWIN_ENOENT, "no step");
    refuse("", TWIN_ENOENT, "no step");
    refuse("twinrun.telemetry/1\tprocess\tn1\t-1\t2\t42\tmain\n", TWIN_EFORMAT,
           "expected a rank, found '-1'");
}

static void test_none(void **state)
{
    struct twin_telemetry *t;
    (void)state;
    assert_int_equal(twin_telemetry_load("/nowhere", &t, NULL), TWIN_ENOENT);
}

static void test_every_allocation_may_fail(void **state)
{
    struct twin_telemetry *t;
    (void)state;
    write_file("0.42",
               PROCESS COLUMNS "1\t0\t42\t0\t0\t0\n2\t9\t42\t0\t0\t0\n3\t10\t42\t0\t0\t0\n");
    write_file("host", "twinrun.telemetry/1\thost\tn1\nt_ns\tcpus\n1\t4\n2\t4\n");
    for (uint64_t n = 1; n < 1000; n++) {
        tw_alloc_fail_at(n, false);
        int rc = twin_telemetry_load(dir, &t, NULL);
        tw_alloc_fail_at(0, false);
        if (rc == 0) {
            twin_telemetry_free(t);
            assert_true(n > 10);
            return;
        }
        assert_int_equal(rc, TWIN_ENOMEM);
    }
    fail();
}

/* ---- what a run without a slow stretch could have shown */

enum { STEPS = 600 };
static double pace[STEPS]; /* seconds of each step */

static struct twin_dip dip_of_pace(char **sentence)
{
    static struct twin_telemetry_row row[STEPS];
    struct twin_telemetry_process p = {.world = 1, .row = row, .rows = STEPS, .steps = STEPS};
    struct twin_dip d;
    double now = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        row[i] = (struct twin_telemetry_row){
            .first = i, .steps = 1, .start_s = now, .seconds = pace[i]};
        now += pace[i];
        for (int c = 0; c < TWIN_COUNTERS; c++)
            row[i].value[c] = NAN;
    }
    assert_int_equal(twin_dip_find(&p, &d, NULL), 0);
    if (sentence)
        *sentence = twin_dip_sentence(&d);
    return d;
}

static void even_pace(void)
{
    uint64_t state = 7;
    for (int i = 0; i < STEPS; i++)
        pace[i] = .010 + 1e-4 * (double)(tw_mix64(state += 0x9E3779B97F4A7C15ull) % 10);
}

/* "A fifth of the run N% slower would have shown": it does, wherever it lies; and much less does
 * not. */
static void test_what_would_have_shown(void **state)
{
    (void)state;
    char *sentence = NULL;
    even_pace();
    struct twin_dip d = dip_of_pace(&sentence);
    assert_int_equal(d.outcome, TWIN_DIP_NONE);
    assert_true(!d.unsteady && d.odd == 0 && d.visible > .05 && d.visible < .3);
    assert_true(d.fastest_s > .0099 && d.slowest_s < .0111 && d.median_s > d.fastest_s &&
                d.median_s < d.slowest_s);
    assert_non_null(strstr(sentence, "no slow stretch: a fifth of the run "));
    assert_non_null(strstr(sentence, "% slower would have shown; steps took 10."));
    tw_free(sentence);
    const int begin[] = {1, 200, 480};
    for (int w = 0; w < 3; w++) {
        even_pace();
        for (int i = begin[w]; i < begin[w] + STEPS / 5 && i < STEPS; i++)
            pace[i] *= 1 + 1.1 * d.visible;
        assert_int_equal(dip_of_pace(NULL).outcome, TWIN_DIP_FOUND);
        even_pace();
        for (int i = begin[w]; i < begin[w] + STEPS / 5 && i < STEPS; i++)
            pace[i] *= 1 + .1 * d.visible;
        assert_int_equal(dip_of_pace(NULL).outcome, TWIN_DIP_NONE);
    }
}

/* Steps of 8 to 35 ms are nothing that "30% slower would have shown" may be said beside. */
static void test_uneven_pace_is_not_even(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        int period, slow;
    } shapes[] = {{"turns of 30 steps", 60, 30},
                  {"turns of 20, a quarter slow", 80, 20},
                  {"mostly slow", 100, 85}};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        char *sentence = NULL;
        for (int i = 0; i < STEPS; i++)
            pace[i] = i % shapes[k].period < shapes[k].slow ? .035 : .008;
        struct twin_dip d = dip_of_pace(&sentence);
        bool said = d.outcome == TWIN_DIP_FOUND || d.unsteady || !isfinite(d.visible) ||
                    d.visible > 1;
        if (!said)
            fail_msg("%s: %s", shapes[k].what, sentence);
        if (d.outcome == TWIN_DIP_NONE)
            assert_non_null(strstr(sentence, "; steps took "));
        tw_free(sentence);
    }
    even_pace();
    for (int i = 60; i < STEPS; i++) /* more than four fifths of the run */
        pace[i] = .035;
    pace[0] = pace[1] = .008;
    struct twin_dip d = dip_of_pace(NULL);
    assert_true(d.outcome == TWIN_DIP_FOUND || d.unsteady || !isfinite(d.visible) ||
                d.visible > 1 || d.odd > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_begins_another_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_rows_are_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_none, setup, teardown),
        cmocka_unit_test(test_what_would_have_shown),
        cmocka_unit_test(test_uneven_pace_is_not_even),
        cmocka_unit_test_setup_teardown(test_every_allocation_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
