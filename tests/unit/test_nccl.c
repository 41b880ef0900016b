/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's profiler plugin in its own process: several threads and communicators at once, more
 * communicators than are kept, events behind the end. The versions of the interface, told by a
 * double of NCCL's side, are in tests/agents/test_nccl.py. */
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
#include "agents/common/state.h"
#include "agents/nccl/profiler.h"
#include "src/base/base.h"

extern const struct tw_nccl_plugin_v1 ncclProfiler_v1;
extern const struct tw_nccl_plugin_v4 ncclProfiler_v4;
extern const struct tw_nccl_plugin_v5 ncclProfiler_v5;

enum { THREADS = 4, CALLS = 500, ALIKE = 2 };

static void *comms[THREADS];

static void tell(void *context, uint64_t sequence, size_t count, const char *algorithm)
{
    void *handle = NULL;
    struct tw_nccl_event_v5 e = {.type = TW_NCCL_COLLECTIVE,
                                 .coll = {.sequence = sequence,
                                          .function = "AllReduce",
                                          .count = count,
                                          .datatype = "ncclFloat32",
                                          .channels = 4,
                                          .algorithm = algorithm,
                                          .protocol = "LL128"}};
    assert_int_equal(ncclProfiler_v5.start_event(context, &handle, &e), 0);
    assert_non_null(handle);
    assert_int_equal(ncclProfiler_v5.stop_event(handle), 0);
}

/* Each thread has a communicator of its own, and all of them one more together: NCCL forbids that,
 * and nothing may break. */
static void *one_thread(void *user)
{
    const size_t i = (size_t)(uintptr_t)user;
    for (uint64_t k = 0; k < CALLS; k++) {
        tell(comms[i], k, 1024 + k % 7, k % 3 ? "RING" : "TREE");
        tell(comms[0], 100000 + k, 8, "RING");
    }
    return NULL;
}

static void test_several_threads(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        int mask = -1;
        char name[16];
        snprintf(name, sizeof name, i < ALIKE ? "alike" : "name %zu", i);
        assert_int_equal(ncclProfiler_v5.init(&comms[i], 7 + i, &mask, name, 1, 8, 3, NULL), 0);
        assert_int_equal(mask, TW_NCCL_COLLECTIVE);
        assert_non_null(comms[i]);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, one_thread, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* Versions 1 to 3 tell what the communicator is with its first call: by several threads at once. */
static void *first_call(void *context)
{
    struct tw_nccl_event_v1 e = {.type = TW_NCCL_COLLECTIVE,
                                 .rank = 5,
                                 .coll = {.name = "late",
                                          .function = 4,
                                          .count = 3,
                                          .datatype = 9,
                                          .algorithm = 1,
                                          .protocol = 200}};
    void *handle;
    assert_int_equal(ncclProfiler_v1.start_event(context, &handle, &e), 0);
    return NULL;
}

static void test_named_late(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    void *context = NULL;
    int mask = 0;
    assert_int_equal(ncclProfiler_v1.init(&context, &mask), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, first_call, context), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* The child of a fork has no NCCL; it must end in peace, and leave the parent's trace alone. */
static void test_fork(void **state)
{
    (void)state;
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        void *context = comms[1];
        int mask = -1;
        struct tw_nccl_event_v5 e = {.type = TW_NCCL_COLLECTIVE};
        bool fine = ncclProfiler_v5.start_event(context, NULL, &e) == 0 &&
                    ncclProfiler_v4.init(&context, &mask, NULL, 1, 1, 8, 3, NULL) == 0 &&
                    mask == 0 && !context;
        _exit(fine ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_too_many(void **state)
{
    (void)state;
    void *context = NULL, *before = NULL;
    size_t n = 0;
    for (; n < 5000; n++) {
        int mask = 0;
        before = context;
        assert_int_equal(ncclProfiler_v4.init(&context, &mask, NULL, n, 1, 8, 3, NULL), 0);
        if (!context)
            break;
        assert_int_equal(mask, TW_NCCL_COLLECTIVE); /* the others go on */
        assert_int_equal(ncclProfiler_v4.finalize(context), 0);
    }
    assert_in_range(n, 100, 4999);
    tell(before, 0, 1, "RING"); /* it has ended: lost */
    tell(NULL, 0, 1, "RING");
    tell(&n, 0, 1, "RING");
    tell((char *)before + 1, 0, 1, "RING");
}

/* ---- what was recorded */

struct counted {
    struct twin_trace *trace;
    size_t of_thread[THREADS], shared, late;
    uint64_t next[THREADS];
};

static int count(void *user, const struct twin_trace_record *r)
{
    struct counted *n = user;
    static const char *const labels[THREADS] = {
        "communicator 1 \"alike\", rank 3 of 8", "communicator 2 \"alike\", rank 3 of 8",
        "communicator 1 \"name_2\", rank 3 of 8", "communicator 1 \"name_3\", rank 3 of 8"};
    const struct twin_series *s = twin_trace_series(n->trace, r->series);
    const char *scope = twin_trace_string(n->trace, s->scope);
    const char *choice = twin_trace_string(n->trace, s->op);
    const struct twin_layout *y = twin_trace_layout(n->trace, r->layout);
    assert_int_equal(s->phase, TWIN_PHASE_COLLECTIVE);
    assert_string_equal(twin_trace_string(n->trace, s->name), "AllReduce");
    if (strcmp(scope, "communicator 1 \"late\", rank 5") == 0) {
        assert_string_equal(choice, "algorithm RING, protocol Unknown, channels 0");
        assert_int_equal(y->dtype, TWIN_BF16);
        assert_int_equal(y->shape[0], 3);
        n->late++;
        return 0;
    }
    assert_int_equal(y->dtype, TWIN_F32);
    if (r->digest.a >= 100000) {
        assert_string_equal(scope, labels[0]);
        n->shared++;
        return 0;
    }
    size_t i = 0;
    while (i < THREADS && strcmp(scope, labels[i]) != 0)
        i++;
    assert_true(i < THREADS);
    assert_int_equal(r->digest.a, n->next[i]++); /* each one, in order */
    assert_int_equal(y->shape[0], 1024 + r->digest.a % 7);
    assert_string_equal(choice, r->digest.a % 3 ? "algorithm RING, protocol LL128, channels 4"
                                                : "algorithm TREE, protocol LL128, channels 4");
    n->of_thread[i]++;
    return 0;
}

static void test_what_was_recorded(void **state)
{
    (void)state;
    char folder[PATH_MAX + 8], path[PATH_MAX + 264] = "";
    struct counted n = {.trace = NULL};
    tw_agent_string("opens the trace of the rank", 27);
    tw_agent_close(); /* reports, and closes ours, too */
    snprintf(folder, sizeof folder, "%s/nccl", tw_agent_config.run_dir);
    DIR *d = opendir(folder);
    assert_non_null(d);
    size_t files = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            files++;
        }
    closedir(d);
    assert_int_equal(files, 1);
    assert_int_equal(twin_trace_open(path, &n.trace, NULL), 0);
    const struct twin_trace_info *info = twin_trace_info(n.trace);
    assert_true(info->closed);
    assert_int_equal(twin_trace_definitions(n.trace, NULL), 0); /* not in the middle of the walk */
    assert_int_equal(info->dropped, 0);
    assert_int_equal(info->lost, 0);
    assert_int_equal(twin_trace_walk(n.trace, count, NULL, &n, NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(n.of_thread[i], CALLS);
    assert_int_equal(n.shared, THREADS * CALLS);
    assert_int_equal(n.late, THREADS);
    assert_string_equal(twin_trace_note_of(n.trace, "nccl.lost"), "4");
    assert_string_equal(twin_trace_note_of(n.trace, "nccl.profiler"), "v5");
    twin_trace_close(n.trace);
    tell(comms[1], 0, 1, "RING"); /* behind the end of all */
    tw_remove_tree(tw_agent_config.run_dir, NULL, NULL);
}

/* The agent reads its environment before main: so the test is started anew with a run's. */
int main(int argc, char **argv)
{
    if (!getenv("TWINRUN_RUN_DIR")) {
        char dir[] = "/tmp/twinrun-test-nccl-XXXXXX", ranks[64];
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
        cmocka_unit_test(test_several_threads),
        cmocka_unit_test(test_named_late),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_what_was_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
