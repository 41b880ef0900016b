/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the agent in one process: start, first record, fork, end. */
#include "factors.h"
#include "life.h"
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "src/base/base.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

_Atomic int tw_agent_state;
struct tw_agent_config tw_agent_config;
struct twin_writer *tw_agent_writer;
static _Atomic uint32_t always_mine = 1;
_Atomic uint32_t *tw_agent_mine = &always_mine;
__thread int tw_agent_inside __attribute__((tls_model("initial-exec")));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t opener;       /* who opened the writer */
static int announced_kind; /* what `processes` says about this pid */
/* forks so far: names the children's roles, equally in every run */
static uint32_t children;
static bool quick_exit_hooked;
static char opened[PATH_MAX]; /* the name of the trace */

static pid_t current_pid(void)
{
    /* glibc before 2.25 caches getpid, wrongly after vfork and clone */
    return (pid_t)syscall(SYS_getpid);
}

/*
 * A page that children find wiped. Without kernel support only pthread_atfork tells us of a fork.
 */
static void map_mine(void)
{
    long page = sysconf(_SC_PAGESIZE);
    void *p = page > 0 ? mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                       : MAP_FAILED;
    if (p == MAP_FAILED)
        return;
    if (madvise(p, (size_t)page, MADV_WIPEONFORK) != 0) {
        munmap(p, (size_t)page);
        return;
    }
    tw_agent_mine = p;
    atomic_store(tw_agent_mine, 1);
}

/* Holding the lock. A Python process stays one whatever is said later. */
static void announce_process(int kind)
{
    if (kind == 2)
        tw_agent_config.kind = 2;
    if (announced_kind < tw_agent_config.kind && tw_folder_announce(tw_agent_config.kind))
        announced_kind = tw_agent_config.kind;
}

void tw_agent_announce(int kind)
{
    pthread_mutex_lock(&lock);
    announce_process(kind);
    pthread_mutex_unlock(&lock);
}

/* ---- opening */

static void options_for(struct twin_writer_options *o, const char *path)
{
    const struct tw_agent_config *c = &tw_agent_config;
    *o = (struct twin_writer_options){
        .path = path, .rank = c->rank, .world = c->world, .role = c->role, .lossless = c->lossless};
    memcpy(o->run_id, c->run_id, sizeof o->run_id);
}

/* A pid comes twice in one run after exec, or when two containers count their own: the later file
 * gets a number. */
static bool trace_path(char *path, size_t room)
{
    for (int again = 1; again <= 999; again++) {
        char suffix[8] = "";
        if (again > 1)
            snprintf(suffix, sizeof suffix, "-%d", again);
        int n = snprintf(path, room, "%s/ranks/%d.%ld%s.twt", tw_agent_config.run_dir,
                         (int)tw_agent_config.rank, (long)getpid(), suffix);
        if (n < 0 || (size_t)n >= room)
            return false;
        if (access(path, F_OK) != 0)
            return true;
    }
    return false;
}

static void quick_exit_seal(void)
{
    tw_agent_seal(true);
    tw_factors_end();
}

/* torchrun counts how often it has started its ranks again. Asked now and not with the rest of the
 * environment: where the ranks are calls of a function (elastic_launch), each sets it itself. */
static void note_attempt(void)
{
    const char *count = getenv("TORCHELASTIC_RESTART_COUNT");
    uint64_t n;
    if (count && tw_parse_u64(count, INT32_MAX, &n) == 0 && n > 0)
        twin_writer_note(tw_agent_writer, TW_NOTE_ATTEMPT, count);
}

/* Slurm, PBS, LSF, Grid Engine: "41009", "41009.server". */
static void note_queued(void)
{
    static const char *const variables[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"};
    char number[24];
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *said = getenv(variables[i]);
        size_t n = said ? strspn(said, "0123456789") : 0;
        if (n == 0 || n >= sizeof number)
            continue;
        snprintf(number, sizeof number, "%.*s", (int)n, said);
        twin_writer_note(tw_agent_writer, TW_NOTE_QUEUED, number);
        return;
    }
}

/* Holding the lock; the state is READY. */
static void open_writer(void)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_writer_options o;
    char path[PATH_MAX];
    int rc = TWIN_ELIMIT;
    if (trace_path(path, sizeof path)) {
        memcpy(opened, path, sizeof opened);
        options_for(&o, path);
        rc = tw_agent_writer ? twin_writer_reopen_after_fork(tw_agent_writer, &o, &err)
                             : twin_writer_open(&o, &tw_agent_writer, &err);
    }
    if (rc != 0) {
        atomic_store_explicit(&tw_agent_state, TW_STATE_OFF, memory_order_release);
        tw_folder_fault("recording is off", err.message[0] ? err.message : twin_error_name(rc));
        return;
    }
    opener = current_pid();
    note_attempt();
    note_queued();
    announce_process(tw_agent_config.kind);
    tw_progress_claim();
    if (!quick_exit_hooked)
        quick_exit_hooked = at_quick_exit(quick_exit_seal) == 0;
    atomic_store(tw_agent_mine, 1);
    atomic_store_explicit(&tw_agent_state, TW_STATE_OPEN, memory_order_release);
}

struct twin_writer *tw_agent_open_slow(void)
{
    int state = atomic_load_explicit(&tw_agent_state, memory_order_acquire);
    if (state == TW_STATE_OPEN && atomic_load_explicit(tw_agent_mine, memory_order_relaxed))
        return tw_agent_writer; /* another thread has opened it since the caller looked */
    if (state == TW_STATE_OPEN) {
        /* The mark is gone though no fork handler ran: a raw clone. Its copy of the writer cannot
         * be trusted. */
        atomic_store_explicit(&tw_agent_state, TW_STATE_OFF, memory_order_release);
        tw_folder_fault("recording is off", "this process was made by a raw clone, not by fork");
        return NULL;
    }
    if (state != TW_STATE_READY)
        return NULL;
    bool begins = false;
    pthread_mutex_lock(&lock);
    if (atomic_load_explicit(&tw_agent_state, memory_order_acquire) == TW_STATE_READY) {
        open_writer();
        begins = true;
    }
    state = atomic_load_explicit(&tw_agent_state, memory_order_acquire);
    pthread_mutex_unlock(&lock);
    if (begins && state == TW_STATE_OPEN) {
        tw_world_report(true);
        tw_telemetry_row(0);
    }
    return state == TW_STATE_OPEN ? tw_agent_writer : NULL;
}

/* ---- ending */

/* Inside a guard. */
static void close_writer(void)
{
    pthread_mutex_lock(&lock);
    int state = atomic_load_explicit(&tw_agent_state, memory_order_acquire);
    bool mine = state == TW_STATE_OPEN && opener == current_pid();
    if (state == TW_STATE_READY || mine)
        atomic_store_explicit(&tw_agent_state, TW_STATE_DONE, memory_order_release);
    if (mine) {
        TW_AGENT_EACH(agent)
        {
            if ((*agent)->report)
                (*agent)->report(tw_agent_writer);
        }
        tw_factors_report(tw_agent_writer);
        /* Closing waits for the drain thread without limit, flushing does not: a disk that hangs
         * must not hang the job. */
        twin_writer_flush(tw_agent_writer);
        if (twin_writer_counts(tw_agent_writer).failed_errno != ETIMEDOUT)
            twin_writer_close(tw_agent_writer);
        tw_progress_update(TW_PROGRESS_CLOSED, true);
    }
    pthread_mutex_unlock(&lock);
    if (mine) {
        tw_telemetry_flush();
        tw_world_report(false);
    }
}

void tw_agent_seal(bool close)
{
    struct tw_guard g;
    if (atomic_load_explicit(&tw_agent_state, memory_order_acquire) != TW_STATE_OPEN ||
        opener != current_pid() || !tw_guard_enter(&g))
        return;
    if (close) {
        close_writer();
    } else {
        twin_writer_flush(tw_agent_writer);
        tw_telemetry_flush();
        tw_progress_update(TW_PROGRESS_RECORDING, true);
    }
    tw_guard_leave(&g);
}

void tw_agent_close(void)
{
    struct tw_guard g;
    if (atomic_load_explicit(&tw_agent_state, memory_order_relaxed) == TW_STATE_OFF ||
        !tw_guard_enter(&g))
        return;
    close_writer();
    tw_guard_leave(&g);
}

void tw_agent_flush(void)
{
    tw_agent_seal(false);
}

__attribute__((destructor)) static void at_exit(void)
{
    tw_agent_seal(true);
    tw_factors_end();
}

/*
 * The job asked to be cut at this very step (check --resume-with): the launcher looks a few times a
 * second, and a short job would have ended by then. Only the signals that end a job get through. A
 * launcher that waits for a rank that never steps must not wait for ever: then the job goes on.
 */
static void wait_for_the_end(void)
{
    enum { LONGEST_S = 30 };
    const struct timespec longest = {.tv_sec = LONGEST_S};
    int error = errno;
    sigset_t others;
    sigfillset(&others);
    sigdelset(&others, SIGTERM);
    sigdelset(&others, SIGINT);
    sigdelset(&others, SIGHUP);
    ppoll(NULL, 0, &longest, &others);
    errno = error;
}

uint32_t tw_agent_step_end(void)
{
    struct tw_guard g;
    uint32_t step = 0;
    bool hold = false;
    if (atomic_load_explicit(&tw_agent_state, memory_order_relaxed) == TW_STATE_OFF ||
        !tw_guard_enter(&g))
        return 0;
    struct twin_writer *w = tw_agent_open();
    if (w) {
        uint64_t t0 = tw_monotonic_ns();
        step = twin_writer_step_end(w);
        tw_telemetry_row(step);
        if (tw_agent_config.max_steps && step >= tw_agent_config.max_steps) {
            /* The launcher ends the job when it reads this step in the progress slot: the trace is
             * complete before. */
            close_writer();
            hold = tw_agent_config.hold;
        } else {
            tw_progress_update(TW_PROGRESS_RECORDING, false);
            twin_writer_add_observer_ns(w, tw_monotonic_ns() - t0);
        }
    } else if (tw_agent_writer) {
        step = twin_writer_step(tw_agent_writer);
    }
    tw_guard_leave(&g);
    if (hold)
        wait_for_the_end();
    return step;
}

/* ---- fork */

/* A signal handler that forks while its thread is inside the agent finds our locks taken, perhaps
 * by itself: that child records nothing. */
static __thread bool fork_unprepared __attribute__((tls_model("initial-exec")));

static void before_fork(void)
{
    fork_unprepared = tw_agent_inside != 0;
    if (fork_unprepared)
        return;
    pthread_mutex_lock(&lock);
    children++;
    tw_factors_before_fork();
    TW_AGENT_EACH(agent)
    {
        if ((*agent)->hold)
            (*agent)->hold();
    }
    if (tw_agent_writer)
        twin_writer_prepare_fork(tw_agent_writer);
}

static void parent_after_fork(void)
{
    if (fork_unprepared)
        return;
    if (tw_agent_writer)
        twin_writer_parent_after_fork(tw_agent_writer);
    TW_AGENT_EACH(agent)
    {
        if ((*agent)->release)
            (*agent)->release();
    }
    pthread_mutex_unlock(&lock);
}

static void child_after_fork(void)
{
    int saved_errno = errno;
    tw_progress_forget();
    tw_folder_forget();
    tw_record_forget();
    tw_telemetry_forget();
    TW_AGENT_EACH(agent)
    {
        if ((*agent)->fork)
            (*agent)->fork();
    }
    announced_kind = 0;
    if (fork_unprepared) {
        atomic_store_explicit(&tw_agent_state, TW_STATE_OFF, memory_order_release);
        return;
    }
    if (tw_agent_writer)
        twin_writer_child_after_fork(tw_agent_writer);
    if (atomic_load_explicit(&tw_agent_state, memory_order_relaxed) == TW_STATE_OPEN)
        atomic_store_explicit(&tw_agent_state, TW_STATE_READY, memory_order_release);
    /*
     * "child 2", its third child "child 2.3": the same names in every run, where pids would differ.
     */
    char role[TW_ROLE_BYTES];
    bool nested = strncmp(tw_agent_config.role, "child ", 6) == 0;
    int n = snprintf(role, sizeof role, "%s%s%u", nested ? tw_agent_config.role : "child ",
                     nested ? "." : "", children);
    if (n > 0 && (size_t)n < sizeof role)
        memcpy(tw_agent_config.role, role, (size_t)n + 1);
    children = 0;
    if (atomic_load_explicit(&tw_agent_state, memory_order_relaxed) == TW_STATE_READY)
        announce_process(tw_agent_config.kind);
    pthread_mutex_unlock(&lock);
    tw_factors_child_after_fork(); /* may wait: without our locks */
    errno = saved_errno;
}

/* ---- start */

static void start_everything(int argc, char **argv)
{
    TW_AGENT_EACH(agent)
    {
        if ((*agent)->prepare)
            (*agent)->prepare();
    }
    tw_held_report();
    tw_factors_start();
    TW_AGENT_EACH(agent)
    {
        if ((*agent)->start)
            (*agent)->start(argc, argv);
    }
}

__attribute__((constructor)) static void start(int argc, char **argv, char **envp)
{
    (void)envp;
    if (!getenv("TWINRUN_RUN_DIR"))
        return;
    int saved_errno = errno;
    if (tw_config_read(&tw_agent_config)) {
        tw_room_limit();
        tw_folder_init(argc, argv);
        if (tw_folder_announce(1)) {
            announced_kind = 1;
            map_mine();
            if (pthread_atfork(before_fork, parent_after_fork, child_after_fork) == 0) {
                atomic_store_explicit(&tw_agent_state, TW_STATE_READY, memory_order_release);
                start_everything(argc, argv);
            }
        }
    }
    errno = saved_errno;
}

static void set_rank(int32_t rank, int32_t world)
{
    tw_agent_config.rank = rank;
    tw_agent_config.world = world > rank ? world : rank + 1;
}

/*
 * Holding the lock. A process of torch.multiprocessing.spawn learns its rank when it joins its
 * group, perhaps after its first record. Nothing is rewritten in a trace, so a note in it says the
 * rank, and the files that are named after the rank get other names. True: the process was no
 * trainer before, so it has not told its world.
 */
static bool join_as(int32_t rank, int32_t world)
{
    struct tw_agent_config *c = &tw_agent_config;
    const int32_t before = c->rank;
    const bool was_main = strcmp(c->role, "main") == 0;
    char path[PATH_MAX], said[32];
    if (opener != current_pid() || (was_main && c->rank == rank && c->world == world))
        return false;
    tw_telemetry_begin_anew();
    set_rank(rank, world);
    memcpy(c->role, "main", 5);
    snprintf(said, sizeof said, "%d of %d", (int)c->rank, (int)c->world);
    twin_writer_note(tw_agent_writer, TW_NOTE_RANK, said);
    if (before != rank && trace_path(path, sizeof path) && rename(opened, path) == 0)
        memcpy(opened, path, sizeof opened);
    tw_world_join(before);
    tw_progress_update(TW_PROGRESS_RECORDING, true);
    return !was_main;
}

void tw_agent_identify(int32_t rank, int32_t world, const char *role, int kind)
{
    struct tw_guard g;
    struct tw_agent_config *c = &tw_agent_config;
    int state = atomic_load_explicit(&tw_agent_state, memory_order_acquire);
    bool joins = state == TW_STATE_OPEN && rank >= 0 && !role, tells = false;
    if ((state != TW_STATE_READY && !joins) || !tw_guard_enter(&g))
        return;
    pthread_mutex_lock(&lock);
    state = atomic_load_explicit(&tw_agent_state, memory_order_acquire);
    if (joins) {
        tells = state == TW_STATE_OPEN && join_as(rank, world);
    } else {
        if (rank < 0)
            tw_config_rank(&c->rank, &c->world);
        else
            set_rank(rank, world);
        size_t n = role ? strnlen(role, sizeof c->role - 1) : 4;
        memcpy(c->role, role ? role : "main", n);
        c->role[n] = '\0';
    }
    announce_process(kind);
    pthread_mutex_unlock(&lock);
    if (tells)
        tw_world_report(true);
    tw_guard_leave(&g);
}

int tw_agent_on(void)
{
    int state = atomic_load_explicit(&tw_agent_state, memory_order_relaxed);
    return state == TW_STATE_READY || state == TW_STATE_OPEN;
}
