/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop around the running job: tw_supervise() is called by launch.c after the fork and
 * returns when the run is over.
 *
 * One loop, one thread: output and input are moved, signals are read from a descriptor (so the
 * job's dispositions are untouched and nothing races), processes are sampled, the caller is told,
 * and the job is ended when it must be.
 *
 * Stopping has two states. Asked: a signal was sent, and kill_ns is 0. Killed: the grace time is
 * over, or the user asked twice; SIGKILL is sent at each turn until none is left. The end of the
 * job's main process does not end the loop: its output may still be in the pipes, and its children
 * may still write. */
#include "launch.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000ull
/* Milliseconds. TICK: between two calls of on_tick. GRACE: from the request to end until SIGKILL,
 * after a signal of the user's and after a stop of ours. GIVE_UP: after SIGKILL; what still lives
 * then hangs in the kernel. REPEAT: a second Ctrl-C that comes sooner is taken for the same one. */
enum {
    TICK_MS = 250,
    LATE_RANK_MS =
        10000,       /* a rank of the launcher that has not shown up when the others are done */
    LINGER_MS = 500, /* what does nothing for so long after the job's end stays for good */
    /* what does something may be on its way to its end, on a busy machine for long */
    LINGER_BUSY_MS = 5000,
    GRACE_SIGNAL_MS = 5000,
    GRACE_STOP_MS = 3000,
    GIVE_UP_MS = 3000,
    REPEAT_MS = 300
};

/* Notes that the job has been asked to end, and when patience ends. Sending the signal is the
 * caller's part. */
static void ask_to_stop(struct tw_job *job, enum tw_stop why, uint64_t now, unsigned grace_ms)
{
    job->stop = why;
    job->stop_ns = now;
    job->grace_ns = grace_ms * MS;
}

static void kill_all(struct tw_job *job, uint64_t now)
{
    if (job->kill_ns == 0)
        job->kill_ns = now;
    tw_tree_kill(job->tree, SIGKILL, TW_KILL_ALL);
}

/* The terminal signals the whole foreground group, job included: sending again would be a second
 * Ctrl-C. */
static void on_stop_signal(struct tw_job *job, const struct signalfd_siginfo *info, uint64_t now)
{
    int signal = (int)info->ssi_signo;
    if (job->stop != TW_STOP_SIGNAL) {
        if (job->stop == TW_STOP_NO)
            job->stop_signal = signal;
        ask_to_stop(job, TW_STOP_SIGNAL, now, GRACE_SIGNAL_MS);
        job->stop_signal = signal;
        if (info->ssi_code != SI_KERNEL)
            tw_tree_kill(job->tree, signal, TW_KILL_GROUP);
    } else if (now - job->stop_ns > REPEAT_MS * MS) {
        kill_all(job, now); /* asked twice */
    }
}

/* Collects every child that has ended. When it is the job's main process, its status and the time
 * are written down and the streams are told. */
static void reap(struct tw_job *job, uint64_t now)
{
    int status;
    pid_t pid;
    /* Any child: as subreaper we inherit the job's orphans, and nobody else would bury them. */
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != job->spawn.pid || job->ended)
            continue;
        tw_host_sample(job->host, job->tree, now, true);
        job->ended = true;
        job->end_ns = now;
        job->status = status;
        for (int i = 0; i < 2; i++)
            tw_stream_job_ended(&job->stream[i]);
        /* What runs in sessions of its own has not heard of the Ctrl-C; its parent is gone, so
         * nobody else will tell it. */
        if (job->stop == TW_STOP_SIGNAL)
            tw_tree_kill(job->tree, SIGTERM, TW_KILL_OTHERS);
    }
    /* cannot happen unless somebody else reaped it */
    if (pid < 0 && errno == ECHILD && !job->ended) {
        job->ended = true;
        job->end_ns = now;
        job->status = 0;
        tw_run_note(job->run,
                    "the job's exit status was lost: another part of this process collected it");
    }
}

/* Reads all signals that wait. Several may have come as one, so reap() runs once behind the loop
 * whatever they were. */
static void on_signals(struct tw_job *job, uint64_t now)
{
    struct signalfd_siginfo info;
    while (read(job->signal_fd, &info, sizeof info) == sizeof info) {
        switch (info.ssi_signo) {
        case SIGCHLD: break; /* reaped below: several ends may share one signal */
        case SIGWINCH:
            tw_stream_resize(&job->stream[0]);
            tw_stream_resize(&job->stream[1]);
            break;
        default: on_stop_signal(job, &info, now);
        }
    }
    reap(job, now);
}

/* What the pipe of the exec says: an errno when the program could not be executed, end of file when
 * it runs. The pipe is closed in both cases. */
static void on_exec_report(struct tw_job *job)
{
    int error = 0;
    ssize_t n = read(job->spawn.exec_fd, &error, sizeof error);
    if (n < 0 && errno == EINTR)
        return;
    if (n == sizeof error)
        job->exec_errno = error ? error : EIO;
    close(job->spawn.exec_fd);
    job->spawn.exec_fd = -1;
}

/* Twice in a row: a rank that starts late gets a moment to show up. One that is known to come gets
 * more, but not all time: it may do something that nobody records. */
static bool have_max_steps(struct tw_job *job, enum tw_enough enough, uint64_t now)
{
    if (enough == TW_NOT_ENOUGH) {
        job->steps_reached = 0;
        return false;
    }
    if (job->steps_reached++ == 0)
        job->steps_reached_ns = now;
    if (enough == TW_ENOUGH)
        return job->steps_reached >= 2;
    return now - job->steps_reached_ns >= LATE_RANK_MS * MS;
}

/* Four times a second, or as often as was asked for, and once at the end: reads the agents'
 * progress, tells the caller, and asks the job to end when the caller wants so or when all ranks
 * have made max_steps. */
static void tick(struct tw_job *job, uint64_t now)
{
    struct twin_progress p = {.run_dir = job->run->dir};
    p.elapsed_s = (double)((job->ended ? job->end_ns : now) - job->start_ns) * 1e-9;
    enum tw_enough enough = tw_progress_read(job->progress_fd, job->o->max_steps, &p);
    p.processes = tw_tree_alive(job->tree);
    p.armed = tw_tree_armed(job->tree);
    int stop = job->o->on_tick ? job->o->on_tick(job->o->user, &p) : 0;
    job->next_tick_ns = now + (job->o->tick_ms ? job->o->tick_ms : TICK_MS) * MS;
    if (job->ended || job->stop != TW_STOP_NO || !(have_max_steps(job, enough, now) || stop))
        return;
    ask_to_stop(job, stop ? TW_STOP_ASKED : TW_STOP_STEPS, now, GRACE_STOP_MS);
    /* The complaints of a job that is ended in the middle are our doing, not its output. */
    tw_stream_mute(&job->stream[0]);
    tw_stream_mute(&job->stream[1]);
    tw_tree_kill(job->tree, SIGTERM, TW_KILL_ALL);
}

/* Once the job's main process has ended we wait for the rest of it: look often. */
static void sample(struct tw_job *job, uint64_t now)
{
    bool force = job->ended && now >= job->next_look_ns;
    if (force)
        job->next_look_ns = now + 20 * MS;
    tw_tree_sample(job->tree, force);
    if (!job->ended)
        tw_host_sample(job->host, job->tree, now, false);
}

/* Kills what was asked to end and has not ended in time. Called at every turn, so processes that
 * were made meanwhile are killed, too. */
static void move_stopping_on(struct tw_job *job, uint64_t now)
{
    if (job->stop == TW_STOP_NO)
        return;
    if (job->kill_ns != 0 || now >= job->stop_ns + job->grace_ns)
        kill_all(job, now);
}

/* May the loop end? After the main process has ended: at once when no other process is left and the
 * streams are empty and closed. When we stopped the job, all of it must be gone (or GIVE_UP_MS
 * over). Else what lives on is left alone when it was idle for LINGER_MS, or at the latest after
 * LINGER_BUSY_MS: it is a daemon. */
static bool job_is_finished(struct tw_job *job, uint64_t now)
{
    if (!job->ended)
        return job->kill_ns != 0 &&
               /* even SIGKILL does not end it: uninterruptible */
               now > job->kill_ns + GIVE_UP_MS * MS;
    bool quiet = tw_tree_alive(job->tree) == 0;
    bool drained = true, eof = true;
    for (int i = 0; i < 2; i++) {
        drained &= tw_stream_drained(&job->stream[i]);
        eof &= job->stream[i].source < 0;
    }
    if (quiet && eof && drained)
        return true;
    if (job->stop != TW_STOP_NO && !quiet) /* all of it must end, not only the main process */
        return job->kill_ns != 0 && now > job->kill_ns + GIVE_UP_MS * MS;
    /* asked to stop while our own reader does not read: do not wait for it */
    if (job->stop != TW_STOP_NO)
        return now > (job->stop_ns > job->end_ns ? job->stop_ns : job->end_ns) + LINGER_MS * MS;
    uint64_t busy_ns = tw_tree_busy_ns(job->tree);
    uint64_t idle_ns = busy_ns > job->end_ns ? busy_ns : job->end_ns;
    return drained && (now > idle_ns + LINGER_MS * MS || now > job->end_ns + LINGER_BUSY_MS * MS);
}

/* Milliseconds until something is due. */
static int patience(const struct tw_job *job, uint64_t now)
{
    uint64_t due = job->next_tick_ns;
    if (!job->ended && tw_host_due_ns(job->host) < due)
        due = tw_host_due_ns(job->host);
    if (job->stop != TW_STOP_NO && job->kill_ns == 0 && job->stop_ns + job->grace_ns < due)
        due = job->stop_ns + job->grace_ns;
    if (job->ended || job->kill_ns != 0)
        due = now + 20 * MS < due ? now + 20 * MS : due;
    return due <= now ? 0 : (int)((due - now) / MS) + 1;
}

/* Places in the list for poll. A place that is not needed has descriptor -1, which poll skips. */
enum { P_SIGNAL, P_EXEC, P_OUT, P_ERR, P_OUT_SINK, P_ERR_SINK, P_IN, P_IN_SINK, P_COUNT };

/* Waits for the descriptors that can matter now. A stream whose last chunk has not been passed on
 * waits for its sink instead of its source: so a slow reader of ours slows the job down, as it
 * would without us. */
static void wait_for_events(struct tw_job *job, struct pollfd p[P_COUNT], int timeout_ms)
{
    for (int i = 0; i < P_COUNT; i++)
        p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    p[P_SIGNAL].fd = job->signal_fd;
    p[P_EXEC].fd = job->spawn.exec_fd;
    for (int i = 0; i < 2; i++) {
        struct tw_stream *s = &job->stream[i];
        if (tw_stream_is_stuck(s))
            p[P_OUT_SINK + i] = (struct pollfd){.fd = s->sink, .events = POLLOUT};
        else
            p[P_OUT + i].fd = s->source;
    }
    if (tw_input_wants_source(&job->input))
        p[P_IN].fd = job->input.source;
    if (tw_input_wants_sink(&job->input))
        p[P_IN_SINK] = (struct pollfd){.fd = job->input.sink, .events = POLLOUT};
    /* Interrupted: nothing is known of any descriptor. */
    if (poll(p, P_COUNT, timeout_ms) < 0)
        for (int i = 0; i < P_COUNT; i++)
            p[i].revents = 0;
}

/* Each turn: wait, move what can be moved, read signals, look at the processes, tell the caller, go
 * on with stopping. Once the job has ended its streams are read at each turn, whatever poll says.
 * After the loop everything is looked at a last time. */
void tw_supervise(struct tw_job *job)
{
    uint64_t now = job->start_ns;
    job->next_tick_ns = now + 20 * MS; /* the first sample soon: short jobs have processes too */
    while (!job_is_finished(job, now)) {
        struct pollfd p[P_COUNT];
        wait_for_events(job, p, patience(job, now));
        now = tw_monotonic_ns();
        if (p[P_EXEC].revents)
            on_exec_report(job);
        for (int i = 0; i < 2; i++) {
            if (p[P_OUT_SINK + i].revents)
                tw_stream_pass_on(&job->stream[i]);
            if (p[P_OUT + i].revents || job->ended)
                tw_stream_pump(&job->stream[i]);
        }
        if (p[P_IN].revents || p[P_IN_SINK].revents)
            tw_input_pump(&job->input, p[P_IN].revents != 0);
        if (p[P_SIGNAL].revents)
            on_signals(job, now);
        sample(job, now);
        if (now >= job->next_tick_ns)
            tick(job, now);
        move_stopping_on(job, now);
    }
    if (job->spawn.exec_fd >= 0)
        on_exec_report(job);
    tw_tree_sample(job->tree, true);
    /* Who ended between a turn's look at signals and its look at the processes was seen as gone,
     * and would stay a zombie of ours. */
    reap(job, now);
    tick(job, now);
}
