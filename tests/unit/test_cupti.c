/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber of CUPTI in its own process: several threads at once, more threads, kernels and
 * graphs than there is room for, a fork, an end while threads launch. A double of the library, told
 * by the real headers' structures, is in tests/agents/test_cupti.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "agents/common/agent.h"
#include "agents/common/state.h"
#include "agents/cupti/launches.h"
#include "src/base/base.h"
#include "src/trace/kernels.h"

enum { THREADS = 4, STEPS = 6, TOO_MANY = 80, LONG = 9000 };

static pthread_barrier_t together;

static void launch(const char *name, unsigned grid)
{
    tw_launches_kernel(&(struct tw_launch){
        .name = name, .function = name, .grid = {grid, 1, 1}, .block = {64, 1, 1}, .shared = 16});
}

static void test_digests_join(void **state)
{
    (void)state;
    uint64_t all = 0, first = 0, second = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        const uint64_t key = tw_mix64(i % 7) | UINT64_C(1) << 63; /* beyond the prime, too */
        all = tw_sequence_add(all, key);
        if (i < 300)
            first = tw_sequence_add(first, key);
        else
            second = tw_sequence_add(second, key);
        assert_true(all < TW_SEQUENCE_PRIME);
    }
    assert_int_equal(tw_sequence_join(first, second, 700), all);
    assert_int_not_equal(tw_sequence_join(second, first, 300), all);
    assert_int_equal(tw_sequence_join(first, 0, 0), first);
    assert_int_equal(tw_sequence_times(TW_SEQUENCE_PRIME - 1, TW_SEQUENCE_PRIME - 1), 1);
}

/* All threads meet new kernels at once, in the same order and step; the main thread ends steps. */
static void *one_thread(void *user)
{
    char name[THREADS][32];
    for (unsigned i = 0; i < THREADS; i++)
        snprintf(name[i], sizeof name[i], "kernel_%u", i);
    for (unsigned step = 0; step < STEPS; step++) {
        pthread_barrier_wait(&together);
        for (unsigned i = 0; i < 100; i++)
            launch(name[i % THREADS], i % 9 + (step == 3));
        tw_launches_graph((const void *)(uintptr_t)(0x1000 + step * 16));
        pthread_barrier_wait(&together);
        if (step == 1) {
            tw_launches_graph_ends((const void *)(uintptr_t)(0x1000 + step * 16));
            tw_launches_unload();
        }
        tw_launches_module("code", 4);
        pthread_barrier_wait(&together);
        if (user)
            tw_agent_step_end();
        pthread_barrier_wait(&together);
    }
    return NULL;
}

static void test_several_threads(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    launch("before the trace", 1); /* nobody has subscribed: nothing happens */
    tw_agent_string("opens the trace of the rank", 27);
    assert_true(tw_launches_start(130001));
    pthread_barrier_init(&together, NULL, THREADS);
    for (size_t i = 1; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, one_thread, NULL), 0);
    one_thread(thread);
    for (size_t i = 1; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void test_fork(void **state)
{
    (void)state;
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        launch("of a child", 1);
        tw_launches_graph(&status);
        tw_launches_module("code", 4);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void *one_launch(void *user)
{
    launch(user, 1);
    return NULL;
}

static void test_too_many(void **state)
{
    (void)state;
    char name[32];
    for (size_t i = 0; i < TOO_MANY; i++) { /* 60 places are left */
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, one_launch, "of one thread"), 0);
        pthread_join(thread, NULL);
    }
    /* more launches than are listed, of more kinds than the table holds; a name that is not known
     */
    for (unsigned i = 0; i < LONG; i++) {
        snprintf(name, sizeof name, "kind_%u", i);
        launch(name, 1);
    }
    launch(NULL, 1);
    for (uintptr_t i = 1; i < 1200; i++) /* and graphs */
        tw_launches_graph((const void *)(i << 20));
}

/* ---- what was recorded */

struct counted {
    struct twin_trace *trace;
    uint64_t digest[STEPS]; /* of the main thread's steps */
    size_t sequences, main, listed, modules, of_digest, single;
};

static int count(void *user, const struct twin_trace_record *r)
{
    struct counted *n = user;
    const struct twin_series *s = twin_trace_series(n->trace, r->series);
    const struct twin_layout *y = twin_trace_layout(n->trace, r->layout);
    const char *site = twin_trace_string(n->trace, s->site);
    assert_int_equal(s->phase, TWIN_PHASE_KERNEL);
    if (strcmp(site, TW_KERNELS_MODULE) == 0) {
        assert_int_equal(y->shape[0], 4);
        n->modules++;
    } else if (strcmp(site, TW_KERNELS_LAUNCH) == 0) {
        n->listed++;
    } else {
        assert_string_equal(site, TW_KERNELS_SEQUENCE);
        n->sequences++;
        n->single += y->shape[0] == 1;
        if (strcmp(twin_trace_string(n->trace, s->scope), "main thread") == 0) {
            n->main++;
            if (r->digest.b < STEPS)
                n->digest[r->digest.b] = r->digest.a;
        }
    }
    return 0;
}

/* Once the digests are known: threads write at their own pace. */
static int count_first(void *user, const struct twin_trace_record *r)
{
    struct counted *n = user;
    const struct twin_series *s = twin_trace_series(n->trace, r->series);
    n->of_digest += r->digest.a == n->digest[0] &&
                    strcmp(twin_trace_string(n->trace, s->site), TW_KERNELS_LAUNCH) == 0;
    return 0;
}

static void test_what_was_recorded(void **state)
{
    (void)state;
    char folder[PATH_MAX + 8], path[PATH_MAX + 264] = "";
    struct counted n = {.trace = NULL};
    size_t files = 0;
    tw_agent_close();
    snprintf(folder, sizeof folder, "%s/kernels", tw_agent_config.run_dir);
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            files++;
        }
    closedir(d);
    assert_int_equal(files, 1);
    assert_int_equal(twin_trace_open(path, &n.trace, NULL), 0);
    assert_int_equal(twin_trace_definitions(n.trace, NULL), 0);
    assert_true(twin_trace_info(n.trace)->closed);
    assert_int_equal(twin_trace_info(n.trace)->dropped, 0);
    assert_int_equal(twin_trace_info(n.trace)->lost, 0);
    assert_int_equal(twin_trace_walk(n.trace, count, NULL, &n, NULL), 0);
    assert_int_equal(twin_trace_walk(n.trace, count_first, NULL, &n, NULL), 0);
    /* every thread in every step, the short threads, the main thread's last step */
    assert_int_equal(n.sequences, THREADS * STEPS + (64 - THREADS) + 1);
    assert_int_equal(n.single, 64 - THREADS);
    assert_int_equal(n.main, STEPS + 1);
    assert_int_equal(n.modules, THREADS * STEPS);
    /* a graph of its own in each step makes each sequence another one: 101 launches each */
    assert_int_equal(n.of_digest, 101);
    for (size_t i = 1; i < STEPS; i++)
        assert_int_not_equal(n.digest[i], n.digest[0]);
    /* 6 long sequences, that of one launch, and of the longest what has room */
    assert_in_range(n.listed, STEPS * 101 + 1 + 4000, STEPS * 101 + 1 + 8192);
    const char *lost = twin_trace_note_of(n.trace, TW_KERNELS_LOST);
    uint64_t number = 0;
    assert_non_null(lost);
    assert_int_equal(tw_parse_u64(lost, UINT64_MAX, &number), 0);
    assert_in_range(number, TOO_MANY - (64 - THREADS) + 100, TOO_MANY - (64 - THREADS) + 1200);
    assert_null(twin_trace_note_of(n.trace, TW_KERNELS_UNLISTED));
    twin_trace_close(n.trace);
    launch("behind the end", 1);
    tw_launches_graph(&n);
    tw_launches_module("code", 4);
    tw_remove_tree(tw_agent_config.run_dir, NULL, NULL);
}

/* The agent reads its environment before main: so the test is started anew with a run's. */
int main(int argc, char **argv)
{
    if (!getenv("TWINRUN_RUN_DIR")) {
        char dir[] = "/tmp/twinrun-test-cupti-XXXXXX", ranks[64];
        (void)argc;
        if (!mkdtemp(dir))
            return 99;
        snprintf(ranks, sizeof ranks, "%s/ranks", dir);
        mkdir(ranks, 0777);
        setenv("TWINRUN_RUN_DIR", dir, 1);
        unsetenv("RANK");
        execv("/proc/self/exe", argv);
        return 99;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digests_join),
        cmocka_unit_test(test_several_threads),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_what_was_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
