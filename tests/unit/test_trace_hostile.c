/* SPDX-License-Identifier: Apache-2.0 */
/* What a job may do to the writer: fork, close or take its descriptor, fill the disk, remove the
 * folder. */
#include "sanitized.h"
#include "trace_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static uint32_t start_job(struct twin_writer *w)
{
    uint32_t x = series_id(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "x");
    record_value(w, x, 0, 1);
    twin_writer_step_end(w);
    twin_writer_flush(w);
    return x;
}

static int wait_for(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void *record_for_ever(void *arg)
{
    struct twin_writer *w = arg;
    uint32_t x = series_id(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "batch");
    for (;;) {
        pthread_testcancel();
        record_value(w, x, 0, 1);
        string_id(w, "a string");
    }
    return NULL;
}

static int child_job(struct twin_writer *w, const char *path, uint32_t x)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (record_value(w, x, 0, 1) != 0 || twin_writer_step_end(w) == 0)
        return 10; /* dead until reopened; the step is the parent's */
    twin_writer_flush(w);
    struct twin_writer_options o = {.path = path, .rank = 3, .world = 8, .role = "loader worker 0"};
    if (twin_writer_reopen_after_fork(w, &o, &err) != 0)
        return 11;
    if (twin_writer_step(w) != 0)
        return 12;
    for (int s = 0; s < 5; s++) {
        record_value(w, x, 0, 5);
        record_value(w, series_id(w, TWIN_PHASE_DATA, TWIN_KIND_INDICES, "new in the child"), 0, 6);
        twin_writer_step_end(w);
    }
    twin_writer_close(w);
    return twin_writer_counts(w).records == 10 ? 0 : 13;
}

/* AddressSanitizer (gcc 12, clang 14) does not take the locks of its allocator around fork: a child
 * of a process with busy threads may wait in its malloc for ever (seen once in 14 runs). */
enum { BUSY = SANITIZED ? 0 : 2 };

static void test_fork(void **state)
{
    (void)state;
    const char *path = scratch_path("parent.twt");
    char child_path[30][160];
    struct twin_writer *w = open_writer(path, 0);
    pthread_t busy[2];
    uint32_t x = start_job(w);
    for (int i = 0; i < BUSY; i++)
        assert_int_equal(pthread_create(&busy[i], NULL, record_for_ever, w), 0);
    for (int i = 0; i < 30; i++) {
        snprintf(child_path[i], sizeof child_path[i], "%s/child%d.twt", scratch, i);
        record_value(w, x, 0, 2);
        twin_writer_prepare_fork(w);
        pid_t child = fork();
        if (child == 0) {
            twin_writer_child_after_fork(w);
            _exit(child_job(w, child_path[i], x));
        }
        twin_writer_parent_after_fork(w);
        twin_writer_step_end(w);
        assert_int_equal(wait_for(child), 0);
    }
    for (int i = 0; i < BUSY; i++) {
        pthread_cancel(busy[i]);
        pthread_join(busy[i], NULL);
    }
    tw_writer_free(w);
    struct twin_trace *t = open_trace(path);
    assert_verified(t);
    assert_int_equal(twin_trace_info(t)->steps, 31);
    twin_trace_close(t);
    for (int i = 0; i < 30; i++) {
        t = open_trace(child_path[i]);
        const struct twin_trace_info *info = twin_trace_info(t);
        assert_verified(t);
        assert_true(info->closed);
        assert_int_equal(info->steps, 5);
        assert_int_equal(info->records, 10);
        assert_string_equal(info->role, "loader worker 0");
        assert_int_not_equal(info->pid, getpid());
        assert_string_equal(twin_trace_string(t, twin_trace_series(t, x)->name), "x");
        twin_trace_close(t);
    }
}

enum { EACH = 200 };

struct first {
    struct twin_writer *w;
    const char *path;
    uint32_t series;
    atomic_int opened; /* 1, or -1 where that failed */
};

/* A thread of a child is the first that records there. */
static void *reopen_and_record(void *arg)
{
    struct first *f = arg;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_writer_options o = {.path = f->path, .rank = 3, .world = 8, .role = "child 1"};
    atomic_store(&f->opened, twin_writer_reopen_after_fork(f->w, &o, &err) == 0 ? 1 : -1);
    for (int i = 0; i < EACH; i++)
        record_value(f->w, f->series, 0, 7);
    return NULL;
}

/* The thread that forked records at the same time: both need a ring of their own. */
static int child_of_two_threads(struct first *f)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, reopen_and_record, f) != 0)
        return 10;
    while (atomic_load(&f->opened) == 0)
        sched_yield();
    for (int i = 0; i < EACH; i++)
        record_value(f->w, f->series, 0, 7);
    pthread_join(thread, NULL);
    twin_writer_step_end(f->w);
    twin_writer_close(f->w);
    return atomic_load(&f->opened) == 1 ? 0 : 11;
}

static int count_of_thread(void *user, const struct twin_trace_record *r)
{
    uint64_t *count = user;
    if (r->thread < 2)
        count[r->thread]++;
    return 0;
}

static void test_another_thread_than_the_forking_one_reopens(void **state)
{
    (void)state;
    const char *path = scratch_path("forker.twt");
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_writer *w = open_writer(path, 0);
    struct first f = {.w = w, .path = scratch_path("child.twt"), .series = start_job(w)};
    record_value(w, f.series, 0, 7); /* the forking thread has a ring */
    twin_writer_prepare_fork(w);
    pid_t child = fork();
    if (child == 0) {
        twin_writer_child_after_fork(w);
        _exit(child_of_two_threads(&f));
    }
    twin_writer_parent_after_fork(w);
    assert_int_equal(wait_for(child), 0);
    tw_writer_free(w);
    struct twin_trace *t = open_trace(f.path);
    uint64_t of_thread[2] = {0};
    assert_verified(t);
    assert_int_equal(twin_trace_info(t)->lost, 0);
    assert_int_equal(twin_trace_walk(t, count_of_thread, NULL, of_thread, &err), 0);
    assert_int_equal(of_thread[0], EACH);
    assert_int_equal(of_thread[1], EACH);
    twin_trace_close(t);
}

/* A raw clone that nobody told us about: its _exit must not hang in flush or close. */
static void test_untold_child(void **state)
{
    (void)state;
    struct twin_writer *w = open_writer(scratch_path("untold.twt"), 0);
    uint32_t x = start_job(w);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        record_value(w, x, 0, 1);
        twin_writer_flush(w);
        twin_writer_close(w);
        _exit(0);
    }
    assert_int_equal(wait_for(child), 0);
    tw_writer_free(w);
    struct twin_trace *t = open_trace(scratch_path("untold.twt"));
    assert_verified(t);
    assert_int_equal(twin_trace_info(t)->records, 1);
    twin_trace_close(t);
}

static int our_fd(const struct twin_writer *w)
{
    return w->drain.fd;
}

/* The trace is not among the program's descriptors, and whatever number it gives to a file of its
 * own, that file stays its own. */
static void test_descriptors_of_its_own(void **state)
{
    (void)state;
    struct stat st;
    struct twin_writer *w = open_writer(scratch_path("alone.twt"), 0);
    uint32_t x = start_job(w);
    if (!w->drain.alone) { /* a system call filter is in force */
        tw_writer_free(w);
        skip();
    }
    int mine = open(scratch_path("of-the-job-alone"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int round = 0; round < 50; round++) {
        for (int fd = 10; fd < 400; fd++)
            dup2(mine, fd);
        record_value(w, x, 0, (float)round);
        twin_writer_step_end(w);
        twin_writer_flush(w);
        for (int fd = 10; fd < 400; fd++)
            close(fd);
    }
    assert_int_equal(fstat(mine, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(twin_writer_counts(w).failed_errno, 0);
    tw_writer_free(w);
    close(mine);
    struct twin_trace *t = open_trace(scratch_path("alone.twt"));
    assert_verified(t);
    assert_int_equal(twin_trace_info(t)->steps, 51);
    assert_true(twin_trace_info(t)->closed);
    twin_trace_close(t);
}

/* A pipe of the program ends when the program closes it: nothing of ours holds it. */
static void test_pipes_end(void **state)
{
    (void)state;
    int ends[2];
    char c;
    assert_int_equal(pipe(ends), 0);
    struct twin_writer *w = open_writer(scratch_path("pipes.twt"), 0);
    close(ends[1]);
    assert_int_equal(read(ends[0], &c, 1), 0);
    close(ends[0]);
    tw_writer_free(w);
}

static int share(void **state)
{
    (void)state;
    tw_drain_shares_descriptors = true;
    return 0;
}

static int share_no_more(void **state)
{
    (void)state;
    tw_drain_shares_descriptors = false;
    return 0;
}

/* close(3..1023), as daemons do. */
static void test_closed_descriptor(void **state)
{
    (void)state;
    struct twin_writer *w = open_writer(scratch_path("closed.twt"), 0);
    uint32_t x = start_job(w);
    assert_true(our_fd(w) >= 200);
    close(our_fd(w));
    record_value(w, x, 0, 2);
    twin_writer_flush(w);
    assert_int_equal(twin_writer_counts(w).failed_errno, EBADF);
    assert_int_equal(record_value(w, x, 0, 3), 0);
    tw_writer_free(w);
    struct twin_trace *t = open_trace(scratch_path("closed.twt"));
    assert_verified(t);
    assert_int_equal(twin_trace_info(t)->records, 1);
    assert_false(twin_trace_info(t)->closed);
    twin_trace_close(t);
}

/*
 * The job got our number for a file of its own: not one byte of ours goes there, and it stays open.
 */
static void test_stolen_descriptor(void **state)
{
    (void)state;
    struct twin_writer *w = open_writer(scratch_path("stolen.twt"), 0);
    uint32_t x = start_job(w);
    int fd = our_fd(w), mine = open(scratch_path("of-the-job"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    struct stat st;
    assert_int_equal(dup2(mine, fd), fd);
    record_value(w, x, 0, 2);
    twin_writer_step_end(w);
    twin_writer_flush(w);
    assert_int_equal(twin_writer_counts(w).failed_errno, EBADF);
    tw_writer_free(w);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 0);
    close(fd);
    close(mine);
}

/* A file-size limit stands in for a full disk: the write fails with EFBIG, and SIGXFSZ, which would
 * kill the job, stays away from it. */
static void test_full_disk(void **state)
{
    (void)state;
    const char *path = scratch_path("full.twt");
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {200000, 200000};
        signal(SIGXFSZ, SIG_DFL);
        setrlimit(RLIMIT_FSIZE, &limit);
        struct twin_writer *w = open_writer(path, 0);
        uint32_t x = start_job(w);
        for (int s = 0; s < 200; s++) {
            for (int i = 0; i < 100; i++)
                record_value(w, x, 0, 1);
            twin_writer_step_end(w);
        }
        twin_writer_flush(w);
        int error = twin_writer_counts(w).failed_errno;
        errno = 55;
        record_value(w, x, 0, 1);
        twin_writer_step_end(w);
        twin_writer_flush(w);
        twin_writer_close(w);
        _exit(error == EFBIG && errno == 55 ? 0 : 1);
    }
    assert_int_equal(wait_for(child), 0);
    struct twin_trace *t = open_trace(path);
    assert_true(twin_trace_info(t)->steps > 0);
    assert_true(twin_trace_info(t)->tail_bytes > 0 || !twin_trace_info(t)->closed);
    twin_trace_close(t);
}

/* No room for the header: open says so, nothing is left behind. */
static void test_no_room_at_all(void **state)
{
    (void)state;
    const char *path = scratch_path("none.twt");
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {100, 100};
        struct twin_writer *w;
        struct twin_error err = TWIN_ERROR_INIT;
        signal(SIGXFSZ, SIG_DFL);
        setrlimit(RLIMIT_FSIZE, &limit);
        struct twin_writer_options o = {.path = path};
        int rc = twin_writer_open(&o, &w, &err);
        _exit(rc == TWIN_EIO && !w && strstr(err.message, "File too large") ? 0 : 1);
    }
    assert_int_equal(wait_for(child), 0);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(scratch_path("none.twt.new"), F_OK), 0);
}

/* With the waiting writer a failed disk must not make the job wait for ever. */
static void test_lossless_failure_lets_go(void **state)
{
    (void)state;
    struct twin_writer_options o = {
        .path = scratch_path("lossless.twt"), .ring_bytes = 1, .lossless = true};
    struct twin_writer *w;
    assert_int_equal(twin_writer_open(&o, &w, NULL), 0);
    uint32_t x = start_job(w);
    close(our_fd(w));
    for (int i = 0; i < 100000; i++)
        record_value(w, x, 0, 1);
    twin_writer_step_end(w);
    assert_int_equal(twin_writer_counts(w).failed_errno, EBADF);
    tw_writer_free(w);
}

static void test_removed_folder(void **state)
{
    (void)state;
    char folder[160], path[180];
    snprintf(folder, sizeof folder, "%s", scratch_path("folder"));
    snprintf(path, sizeof path, "%s/x.twt", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    struct twin_writer *w = open_writer(path, 0);
    uint32_t x = start_job(w);
    unlink(path);
    rmdir(folder);
    record_value(w, x, 0, 2);
    twin_writer_step_end(w);
    tw_writer_free(w);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* No threads to be had: open fails and says why. Root is bound by no limit of processes, so it
 * becomes somebody else. */
static void test_no_thread_to_be_had(void **state)
{
    (void)state;
    const char *path = scratch_path("thread.twt");
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        struct twin_writer *w;
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_writer_options o = {.path = path};
        if (setrlimit(RLIMIT_NPROC, &none) != 0 ||
            (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0))
            _exit(77);
        int rc = twin_writer_open(&o, &w, &err);
        _exit(rc == TWIN_EIO && !w && strstr(err.message, "cannot start the thread") ? 0 : 1);
    }
    int status = wait_for(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void on_signal(int number)
{
    (void)number;
}

/* The drain thread takes none of the job's signals. */
static void test_signals_stay_with_the_job(void **state)
{
    (void)state;
    struct twin_writer *w = open_writer(scratch_path("signal.twt"), 0);
    sigset_t usr1;
    struct timespec second = {1, 0};
    signal(SIGUSR1, on_signal);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    kill(getpid(), SIGUSR1); /* to any thread that does not block it: there must be none */
    assert_int_equal(sigtimedwait(&usr1, NULL, &second), SIGUSR1);
    tw_writer_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_another_thread_than_the_forking_one_reopens),
        cmocka_unit_test(test_untold_child),
        cmocka_unit_test(test_descriptors_of_its_own),
        cmocka_unit_test(test_pipes_end),
        cmocka_unit_test_setup_teardown(test_closed_descriptor, share, share_no_more),
        cmocka_unit_test_setup_teardown(test_stolen_descriptor, share, share_no_more),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_no_room_at_all),
        cmocka_unit_test_setup_teardown(test_lossless_failure_lets_go, share, share_no_more),
        cmocka_unit_test(test_removed_folder),
        cmocka_unit_test(test_no_thread_to_be_had),
        cmocka_unit_test(test_signals_stay_with_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
