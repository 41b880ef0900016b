/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the user's command from start to end: twin_launch() at the end of this file. Called by
 * every command that runs a job; it gives back a struct twin_run and leaves a run folder behind.
 *
 * The steps, in this order: hold our signals, make the run folder, prepare environment and agent,
 * list the working folder, open the streams, save a first run.json, fork and exec, supervise
 * (supervise.c), collect what the job left, save the final run.json. All that can fail for our own
 * reasons comes before the fork. After it a failure of ours becomes a note in the run, because a
 * job that may have trained for days must not be lost to us.
 *
 * The other files of this room do one of these steps each; launch.h says which. */
#include "launch.h"

#include "phrase.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is stored of each stream when the caller sets no cap; more is passed on and hashed. */
#define OUTPUT_CAP_BYTES ((uint64_t)256 << 20)

/* All of one launch, on the stack of twin_launch() and freed in one place, free_launch(). `run` is
 * handed to the caller on success. `err` is an error of our own, so that a step can read back its
 * code and text also when the caller passed no error; hand_out() copies it to the caller's. */
struct launch {
    const struct twin_launch_options *o;
    struct twin_run *run;
    struct tw_own own;
    struct tw_env env;
    struct tw_agent_setup agent;
    struct tw_snapshot *before;
    struct tw_job job;
    struct twin_redactor *redactor;
    bool watched; /* the watcher has been told that the run begins */
    char *home, *launched_from;
    struct twin_error *err;
};

void tw_run_note(struct twin_run *run, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *note = tw_vprintf(format, ap);
    va_end(ap);
    if (note && tw_launch_grow(&run->notes, run->note_count, sizeof *run->notes, NULL) == 0)
        run->notes[run->note_count++] = note;
    else
        tw_free(note);
}

/* ---- the run folder */

/* The label as a part of the folder's name: at most 32 bytes, everything but letters, digits, dot
 * and underscore replaced by an underscore; "run" when there is no label. */
static void label_part(const char *label, char out[33])
{
    size_t n = 0;
    for (; label && label[n] && n < 32; n++) {
        bool plain = (label[n] >= 'a' && label[n] <= 'z') || (label[n] >= 'A' && label[n] <= 'Z') ||
                     (label[n] >= '0' && label[n] <= '9') || label[n] == '.' || label[n] == '_';
        out[n] = plain ? label[n] : '_';
    }
    out[n] = '\0';
    if (n == 0)
        memcpy(out, "run", 4);
}

/* errno says why a folder of ours could not be made. Every reason but a lack of memory is reported
 * as TWIN_EIO, which twin_launch() promises for a home that cannot be written. */
static int refuse_home(struct launch *l, const char *path)
{
    struct twin_error why = TWIN_ERROR_INIT;
    if (twin_error_system(&why, "%s", path) == TWIN_ENOMEM)
        return tw_no_memory(l->err, "starting the job");
    return twin_error_set(l->err, TWIN_EIO, "cannot write a run folder: %s", why.message);
}

/* Copies our error to the caller's and returns its code. An error whose text names the home gets
 * the advice that helps there. */
static int hand_out(const struct launch *l, int rc, struct twin_error *err)
{
    const char *message = l->err->message;
    bool about_home = l->home && (rc == TWIN_EIO || rc == TWIN_ENOENT) && strstr(message, l->home);
    if (about_home)
        rc = TWIN_EIO;
    return twin_error_set(
        err, rc, "%s%s", message,
        about_home ? "; set TWINRUN_HOME to a folder that can be written and has room" : "");
}

/* Makes <home>/runs/<time>-<label>-<8 digits of the id> and the three folders below it. Sets the
 * id, the start times and run->dir. The time comes first in the name, so that the order of names is
 * the order of runs; a name that exists already is tried again with another id. */
static int make_run_folder(struct launch *l)
{
    struct twin_run *run = l->run;
    char *runs = tw_path_join(l->home, "runs");
    char stamp[32], label[33], id[33];
    int rc = 0;
    if (!runs)
        return tw_no_memory(l->err, "starting the job");
    if (twin_home_make(l->home, NULL) != 0 || tw_mkdirs(runs, NULL) != 0)
        rc = refuse_home(l, runs);
    run->start_realtime_ns = tw_realtime_ns();
    run->start_monotonic_ns = (int64_t)tw_monotonic_ns();
    tw_utc_stamp(run->start_realtime_ns, stamp);
    label_part(l->o->label, label);
    for (int attempt = 0; rc == 0 && !run->dir; attempt++) {
        unsigned char random[16];
        if (getrandom(random, sizeof random, 0) != sizeof random) {
            rc = twin_error_system(l->err, "no random numbers for the run's id");
            break;
        }
        tw_hex(random, sizeof random, id);
        char *dir = tw_printf("%s/%s-%s-%.8s", runs, stamp, label, id);
        if (!dir)
            rc = tw_no_memory(l->err, "starting the job");
        else if (mkdir(dir, 0777) == 0)
            run->dir = dir;
        else if (errno != EEXIST || attempt == 100)
            rc = refuse_home(l, dir);
        if (!run->dir)
            tw_free(dir);
    }
    static const char *const below[] = {"ranks", "worlds", "telemetry"};
    for (size_t i = 0; rc == 0 && i < sizeof below / sizeof below[0]; i++) {
        char *path = tw_path_join(run->dir, below[i]);
        if (!path)
            rc = tw_no_memory(l->err, "starting the job");
        else if (mkdir(path, 0777) != 0)
            rc = refuse_home(l, path);
        tw_free(path);
    }
    if (rc == 0 && !(run->id = tw_strdup(id)))
        rc = tw_no_memory(l->err, "starting the job");
    tw_free(runs);
    return rc;
}

/* Copies into the run what the options say: nothing of the caller's is kept, since the run outlives
 * the options. */
static int describe_run(struct launch *l)
{
    const struct twin_launch_options *o = l->o;
    struct twin_run *run = l->run;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    run->level = o->level;
    run->agents = o->agents;
    run->max_steps = o->max_steps;
    run->aslr.asked = o->no_aslr;
    run->affinity.asked = o->on_cpu;
    run->cpu = o->on_cpu ? o->cpu : 0;
    run->hot.asked = o->hot && o->agents;
    run->label = tw_strdup(o->label ? o->label : "");
    run->host = tw_strdup(host);
    l->launched_from = tw_path_absolute(".", l->err);
    const bool belongs = twin_run_belongs_here(&run->belongs);
    if (!run->label || !run->host || !l->launched_from || !belongs)
        return l->err->code ? l->err->code : tw_no_memory(l->err, "starting the job");
    /* The working folder, made absolute from ".", may end in "/.", which no reader wants to see. */
    size_t n = strlen(l->launched_from);
    if (n > 2 && tw_ends(l->launched_from, "/."))
        l->launched_from[n - 2] = '\0';
    while (o->argv[run->argc]) {
        int rc = tw_launch_grow(&run->argv, run->argc, sizeof *run->argv, l->err);
        if (rc)
            return rc;
        if (!(run->argv[run->argc] = tw_strdup(o->argv[run->argc])))
            return tw_no_memory(l->err, "starting the job");
        run->argc++;
    }
    if (o->node) {
        run->node = (struct twin_run_node){.engine = tw_strdup(o->node->engine),
                                           .name = tw_strdup(o->node->name),
                                           .job = tw_strdup(o->node->job),
                                           .attempt = o->node->attempt};
        if (!run->node.engine || !run->node.name || !run->node.job)
            return tw_no_memory(l->err, "starting the job");
    }
    if (o->rollout) {
        const struct twin_run_rollout *from = o->rollout;
        run->rollout = (struct twin_run_rollout){.arm = tw_strdup(from->arm),
                                                 .id = tw_strdup(from->id),
                                                 .key = tw_strdup(from->key),
                                                 .why = tw_strdup(from->why),
                                                 .share = from->share};
        if (!run->rollout.arm || !run->rollout.id || !run->rollout.key || !run->rollout.why)
            return tw_no_memory(l->err, "starting the job");
    }
    run->data = tw_calloc(o->data_count + 1, sizeof *run->data);
    if (!run->data)
        return tw_no_memory(l->err, "starting the job");
    for (; run->data_count < o->data_count; run->data_count++) {
        struct twin_run_data *d = &run->data[run->data_count];
        *d = o->data[run->data_count];
        d->folder = tw_strdup(d->folder);
        d->manifest = tw_strdup(d->manifest);
        if (!d->folder || !d->manifest) {
            run->data_count++; /* freed with the run */
            return tw_no_memory(l->err, "starting the job");
        }
    }
    return 0;
}

/* Room on the disk for the final run.json: a job (or its traces) may fill the disk meanwhile, and
 * what is known of the run must not be lost for that. Where it cannot be had (NFS), the run goes on
 * without. */
static void reserve_room(struct launch *l, bool take)
{
    enum { RESERVE_BYTES = 256 << 10 };
    char *path = tw_path_join(l->run->dir, ".reserve");
    int fd = path && take ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    bool taken = fd >= 0 && fallocate(fd, 0, 0, RESERVE_BYTES) == 0;
    if (fd >= 0)
        close(fd);
    if (path && !taken)
        unlink(path);
    tw_free(path);
}

/* Writes run.json, before the job (complete false: without an outcome) and after it. A reader takes
 * one without an outcome for a run whose launcher was ended. */
static int save_run(struct launch *l, bool complete)
{
    struct tw_run_extra x = {
        .o = l->o,
        .launched_from = l->launched_from,
        .env = &l->env,
        .agent = &l->agent,
        .redactor = l->redactor,
        .stream = l->job.stream,
        .complete = complete,
    };
    struct twin_error why = TWIN_ERROR_INIT;
    int rc = tw_run_save(l->run, &x, &why);
    if (rc == 0)
        return 0;
    if (rc == TWIN_ENOMEM)
        return twin_error_set(l->err, rc, "%s", why.message);
    return twin_error_set(l->err, TWIN_EIO, "%s", why.message);
}

/* ---- before the job */

/* The folder in which the job runs: ours, or with fresh_dir a copy of it below the run folder. PWD
 * follows, because shells and other programs believe it. */
static int choose_folder(struct launch *l)
{
    struct twin_run *run = l->run;
    run->cwd = l->o->fresh_dir ? tw_path_join(run->dir, "work") : tw_strdup(l->launched_from);
    if (!run->cwd)
        return tw_no_memory(l->err, "starting the job");
    if (!l->o->fresh_dir)
        return 0;
    const char *from = l->o->copy_of ? l->o->copy_of : l->launched_from;
    int rc = tw_scratch_copy(from, run->cwd, l->home, run, l->err);
    if (rc == 0)
        rc = tw_env_set(&l->env, "PWD", run->cwd, l->err);
    l->job.spawn.dir = run->cwd;
    return rc;
}

/* A folder that cannot be listed is a gap in the evidence, not a reason to refuse the job. */
static int files_unknown(struct launch *l, int rc, const struct twin_error *why)
{
    if (rc == TWIN_ENOMEM)
        return twin_error_set(l->err, rc, "%s", why->message);
    if (rc) {
        tw_run_note(l->run, "which files the job wrote is not known: %s", why->message);
        l->run->files_truncated = true;
    }
    return 0;
}

/* Lists the working folder, so that list_files_after() can tell what the job wrote. */
static int list_files_before(struct launch *l)
{
    struct twin_error why = TWIN_ERROR_INIT;
    l->before = tw_snapshot_take(l->run->cwd, l->home, &why);
    return files_unknown(l, l->before ? 0 : why.code, &why);
}

/* Skipped when there was no first listing, or when no job ran: then there is nothing to tell. */
static int list_files_after(struct launch *l)
{
    struct twin_error why = TWIN_ERROR_INIT;
    if (!l->before || !l->job.started || l->job.exec_errno)
        return 0;
    return files_unknown(l, tw_snapshot_compare(l->before, l->run, l->home, l->o->watcher, &why),
                         &why);
}

/* Tells the caller's watcher that a run begins. `watched` makes sure that the end is told exactly
 * once, however the launch ends. */
static void watch_begin(struct launch *l)
{
    const struct twin_launch_watcher *w = l->o->watcher;
    l->watched = w != NULL;
    if (w && w->before)
        w->before(w->user, l->run, l->home, l->env.v);
}

static void watch_end(struct launch *l)
{
    const struct twin_launch_watcher *w = l->o->watcher;
    if (l->watched && w->after)
        w->after(w->user, l->run);
    l->watched = false;
}

/* Everything between the run folder and the fork. The order matters: processes that the watcher and
 * the sampler of the GPUs start must be there before the table of processes is, which takes every
 * later descendant of ours for the job's; run.json is saved last, so that it holds the environment
 * of the job. */
static int prepare_job(struct launch *l)
{
    const struct twin_launch_options *o = l->o;
    struct tw_job *job = &l->job;
    uint64_t cap = o->output_cap_bytes ? o->output_cap_bytes : OUTPUT_CAP_BYTES;
    enum tw_stream_show show = TW_STREAM_STORED;
    if (o->show_output)
        show = o->native_output ? TW_STREAM_NATIVE : TW_STREAM_COPIED;
    int rc = choose_folder(l);
    if (rc == 0 && o->fill_folder)
        rc = o->fill_folder(o->fill_user, l->run->dir, l->err);
    if (rc == 0)
        rc = list_files_before(l);
    if (rc == 0)
        watch_begin(l); /* before the table of processes: what it starts is not the job's */
    if (rc == 0 && o->agents && !o->no_telemetry)
        job->gpus = tw_gpus_start(l->run->dir); /* the same */
    if (rc == 0 && (job->progress_fd = tw_progress_create(l->run->dir, l->err)) < 0)
        rc = job->progress_fd;
    if (rc == 0 && !(job->tree = tw_tree_start(l->run->dir, o->agents, l->agent.why, l->err)))
        rc = l->err->code;
    if (rc == 0)
        rc = tw_input_open(&job->input, o->stdin_spool, l->err);
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = tw_stream_open(&job->stream[i], l->run->dir, i + 1, show, cap, l->err);
    l->run->one_stream = show == TW_STREAM_NATIVE && tw_stream_is_one();
    if (rc == 0 && l->run->one_stream)
        rc = tw_stream_join(&job->stream[1], &job->stream[0], l->err);
    if (rc == 0 && o->agents)
        rc = tw_env_protocol(&l->env, o, l->run, &l->agent, l->err);
    if (rc == 0)
        rc = save_run(l, false);
    if (rc == 0)
        reserve_room(l, true);
    return rc;
}

/* ---- the job */

/* Starts the job and gives it its ends of the streams. Returns an error only when no process could
 * be made; an exec that failed is seen later, in supervise.c, from the pipe that tw_spawn_start()
 * left. */
static int start_job(struct launch *l, const sigset_t *wanted)
{
    struct tw_job *job = &l->job;
    job->signal_fd = signalfd(-1, wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (job->signal_fd < 0)
        return twin_error_system(l->err, "cannot watch for signals");
    tw_own_become_subreaper(&l->own);
    job->spawn.argv = l->o->argv;
    job->spawn.env = l->env.v;
    job->spawn.path_value = tw_env_get(&l->env, "PATH");
    job->spawn.mask = l->own.mask;
    job->spawn.ignore_sigchld = l->own.sigchld_ignored;
    job->spawn.no_aslr = l->o->no_aslr;
    job->spawn.death_signal = l->o->death_signal;
    job->spawn.on_cpu = l->o->on_cpu;
    job->spawn.cpu = l->o->cpu;
    job->spawn.fd[0] = job->input.child_fd;
    job->spawn.fd[1] = job->stream[0].job_end;
    job->spawn.fd[2] = job->stream[1].job_end;
    job->start_ns = tw_monotonic_ns();
    int rc = tw_spawn_start(&job->spawn, l->err);
    if (rc)
        return rc;
    job->started = true;
    /* Our copies of the job's ends: while we hold them there is no end of file. */
    for (int i = 0; i < 2; i++) {
        if (job->stream[i].job_end >= 0)
            close(job->stream[i].job_end);
        job->stream[i].job_end = -1;
    }
    if (job->input.child_fd >= 0) {
        close(job->input.child_fd);
        job->input.child_fd = -1;
    }
    tw_tree_set_main(job->tree, job->spawn.pid, l->o->argv, job->start_ns);
    if (l->o->agents && !l->o->no_telemetry)
        job->host = tw_host_open(l->run->dir, job->spawn.pid, job->start_ns);
    if (l->watched && l->o->watcher->started)
        l->o->watcher->started(l->o->watcher->user, job->spawn.pid);
    return 0;
}

/* ---- after the job */

static const char *stop_signal_name(int number)
{
    switch (number) {
    case SIGINT: return "Ctrl-C (SIGINT)";
    case SIGTERM: return "SIGTERM";
    case SIGHUP: return "SIGHUP";
    default: return "SIGQUIT";
    }
}

/* Why the run was ended before the job ended by itself; "" when it was not. malloc'ed. */
static char *stop_message(const struct tw_job *job)
{
    const char *name = stop_signal_name(job->stop_signal);
    char *const *why = job->o->stopped_because;
    switch (job->stop) {
    case TW_STOP_STEPS:
        return tw_printf("stopped after %u step%s as asked", job->o->max_steps,
                         tw_plural_s(job->o->max_steps));
    case TW_STOP_ASKED:
        return tw_printf("stopped by twinrun: %s", why && *why ? *why : "enough was known");
    case TW_STOP_SIGNAL:
        return job->started ? tw_printf("interrupted by %s", name)
                            : tw_printf("interrupted by %s before the job was started", name);
    default: return tw_strdup("");
    }
}

/* Turns the status from waitpid, and why we stopped the job, into outcome, exit code and message.
 * Later cases overrule earlier ones: a job that we stopped is "stopped" whatever its exit code, and
 * one that could not be executed is "not started". */
static int set_outcome(struct launch *l)
{
    struct tw_job *job = &l->job;
    struct twin_run *run = l->run;
    int status = job->status;
    bool killed = WIFSIGNALED(status);
    run->wall_s = job->started ? (double)(job->end_ns - job->start_ns) * 1e-9 : 0;
    run->signal = killed ? WTERMSIG(status) : 0;
    run->exit_code = killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    run->outcome = killed ? TWIN_RUN_SIGNALED : TWIN_RUN_EXITED;
    if (!job->started || !job->ended) { /* never begun, or a process that not even SIGKILL ends */
        run->exit_code = 128 + (job->stop_signal ? job->stop_signal : SIGKILL);
        run->signal = 0;
    }
    if (job->stop == TW_STOP_SIGNAL)
        run->outcome = TWIN_RUN_INTERRUPTED;
    else if (job->stop != TW_STOP_NO)
        run->outcome = TWIN_RUN_STOPPED;
    if (job->exec_errno && job->stop == TW_STOP_NO) {
        run->outcome = TWIN_RUN_NOT_STARTED;
        run->message = tw_spawn_explain(&job->spawn, job->exec_errno, &run->exit_code);
    } else {
        run->message = stop_message(job);
    }
    return run->message ? 0 : tw_no_memory(l->err, "starting the job");
}

/* Finishes one stream. Output that went to a file of the user's directly is copied into the run
 * folder now; without a copy there is no digest either. */
static void collect_stream(struct twin_run *run, struct tw_stream *s, uint64_t *bytes,
                           bool *truncated, char sha256[65])
{
    const char *why = NULL;
    bool copied = s->joined || tw_stream_direct_collect(s, &why) == 0;
    *bytes = s->bytes;
    *truncated = !copied || s->stored < s->bytes;
    tw_stream_finish(s, sha256);
    if (copied)
        return;
    sha256[0] = '\0';
    tw_run_note(run, "no copy of the job's %s could be kept: %s", s->name, why);
}

/* Both streams, and a note for one whose copy ended early (a full disk). */
static void collect_output(struct launch *l)
{
    struct twin_run *run = l->run;
    struct tw_stream *s = l->job.stream;
    collect_stream(run, &s[0], &run->stdout_bytes, &run->stdout_truncated, run->stdout_sha256);
    collect_stream(run, &s[1], &run->stderr_bytes, &run->stderr_truncated, run->stderr_sha256);
    for (int i = 0; i < 2; i++)
        if (s[i].store_errno)
            tw_run_note(run, "%s could be stored only up to %llu bytes: %s", s[i].name,
                        (unsigned long long)s[i].stored, strerror(s[i].store_errno));
}

/* Names the processes that still live. True when there is one: it may yet load the staged agent, so
 * the staging folder stays. */
static bool note_outlived(struct twin_run *run)
{
    bool any = false;
    for (size_t i = 0; i < run->process_count; i++) {
        const struct twin_run_process *p = &run->processes[i];
        if (p->outlived)
            tw_run_note(run,
                        "process %d (%.200s) went on after the job had ended; what it prints from "
                        "then on is not kept, and writing to the job's output may end it (SIGPIPE)",
                        p->pid, p->argv);
        any |= p->outlived;
    }
    return any;
}

/* Writes down whether the kernel did what was asked of it before the exec. error: 0, or the errno
 * of the child. */
static void settle_hold(struct twin_run *run, struct twin_run_hold *h, int error, const char *what)
{
    h->done = error == 0;
    if (h->done)
        return;
    h->why = tw_printf("%s: %s", what, strerror(error));
    tw_run_note(run, "%s: %s; the job ran without", what, strerror(error));
}

/* For both things that the child may hold still: the address layout and the processor. */
static void settle_holds(struct launch *l)
{
    const struct tw_spawn_holds *h = l->job.spawn.holds;
    if (!h || !l->job.started)
        return;
    if (l->run->aslr.asked)
        settle_hold(l->run, &l->run->aslr, h->aslr_errno,
                    "the address layout could not be fixed (personality)");
    if (l->run->affinity.asked)
        settle_hold(l->run, &l->run->affinity, h->cpu_errno,
                    "the processor could not be fixed (sched_setaffinity)");
}

/* What the agents could not do, in their own words: the file `faults` of the run folder, a line
 * each. The first 20 become notes of the run. */
static void note_faults(struct twin_run *run)
{
    enum { FAULTS_MAX = 20, BYTES_MAX = 1 << 20 };
    char *path = tw_path_join(run->dir, "faults"), *text = NULL, *save = NULL;
    size_t n = 0, count = 0;
    if (path && tw_read_file(path, BYTES_MAX, &text, &n, NULL) == 0) {
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
            if (count++ < FAULTS_MAX)
                tw_run_note(run, "agent in process %s", line);
        if (count > FAULTS_MAX)
            tw_run_note(run, "and %zu more such notes of agents: see %s", count - FAULTS_MAX, path);
    }
    tw_free(text);
    tw_free(path);
}

/* The newest id of a process or thread of this machine (of this container): ids are given one after
 * another, so those of the run lie between its first process and this one. */
static void note_ids(struct launch *l)
{
    char text[128];
    unsigned newest = 0;
    int n = tw_proc_read_small("/proc/loadavg", text, sizeof text);
    l->run->launcher_pid = getpid();
    if (n <= 0 || sscanf(text, "%*s %*s %*s %*s %u", &newest) != 1 || !l->job.started)
        return;
    if (newest >= (unsigned)l->job.spawn.pid && newest <= INT_MAX) { /* else they began anew */
        l->run->first_id = (int)l->job.spawn.pid;
        l->run->last_id = (int)newest;
    }
}

/* After the job: fills in all that is known of the run and saves it. A part that fails for lack of
 * memory must not cost the rest, so every step is tried and the first error is reported. */
static int collect_run(struct launch *l)
{
    struct twin_run *run = l->run;
    int rc = 0, one;
    note_ids(l);
    collect_output(l);
    if ((one = tw_tree_finish(l->job.tree, run, l->err)) && rc == 0)
        rc = one;
    if ((one = list_files_after(l)) && rc == 0)
        rc = one;
    if ((one = tw_run_find_traces(run, l->err)) && rc == 0)
        rc = one;
    settle_holds(l);
    bool keep_stage = note_outlived(run);
    note_faults(run);
    int late = tw_own_take_stop_signal(); /* while we were hashing, or a second Ctrl-C */
    if (late && l->job.stop != TW_STOP_SIGNAL) {
        l->job.stop = TW_STOP_SIGNAL;
        l->job.stop_signal = late;
    }
    if ((one = set_outcome(l)) && rc == 0)
        rc = one;
    if (l->o->exit_code)
        *l->o->exit_code = run->exit_code;
    reserve_room(l, false);
    watch_end(l);
    if (rc == 0)
        rc = save_run(l, true);
    tw_agent_cleanup(&l->agent, keep_stage);
    return rc;
}

/* A stop signal that came while we prepared means that the job is never started; the run is still
 * recorded, as interrupted. */
static int run_job(struct launch *l, const sigset_t *wanted)
{
    struct tw_job *job = &l->job;
    if ((job->stop_signal = tw_own_take_stop_signal()) != 0) {
        job->stop = TW_STOP_SIGNAL;
    } else {
        int rc = start_job(l, wanted);
        if (rc)
            return rc;
        tw_supervise(job);
        tw_gpus_stop(job->gpus);
        job->gpus = NULL;
    }
    tw_input_close(&job->input, l->run);
    return collect_run(l);
}

/* Gives back everything but the run. Our signals are let through last: from then on a Ctrl-C ends
 * us, and everything is clean by then. After a success most of it is closed already; each call
 * takes that. */
static void free_launch(struct launch *l, bool failed)
{
    struct tw_job *job = &l->job;
    watch_end(l);
    tw_own_resign_subreaper(&l->own);
    tw_input_close(&job->input, NULL);
    for (int i = 0; i < 2; i++)
        tw_stream_close(&job->stream[i]);
    if (job->signal_fd >= 0)
        close(job->signal_fd);
    if (job->progress_fd >= 0)
        close(job->progress_fd);
    tw_spawn_end(&job->spawn);
    tw_tree_free(job->tree);
    tw_host_close(job->host);
    tw_gpus_stop(job->gpus);
    tw_snapshot_free(l->before);
    tw_agent_cleanup(&l->agent, false);
    tw_env_free(&l->env);
    twin_redactor_close(l->redactor);
    tw_free(l->home);
    tw_free(l->launched_from);
    /* A folder without a run in it is litter; one whose job ran is evidence, whatever failed
     * afterwards. */
    if (failed && !job->started && l->run && l->run->dir)
        tw_remove_tree(l->run->dir, NULL, NULL);
    tw_own_unfill_descriptors(&l->own);
    tw_own_release_signals(&l->own);
}

static int check_options(const struct twin_launch_options *o, struct twin_error *err)
{
    if (!o->argv || !o->argv[0])
        return twin_error_set(err, TWIN_EINVAL, "no command was given: write it after --");
    if ((unsigned)o->level > TWIN_LEVEL_OPS)
        return twin_error_set(err, TWIN_EINVAL,
                              "level %d is not one of steps, tensors, modules, ops", (int)o->level);
    if (o->on_cpu && (o->cpu < 0 || o->cpu >= CPU_SETSIZE))
        return twin_error_set(err, TWIN_EINVAL, "processor %d is not one of 0 to %d", o->cpu,
                              CPU_SETSIZE - 1);
    return 0;
}

/* Replaces argv of the run by its redacted form. The job has run, so the real words are needed no
 * more, and nobody who shows the run can forget to mask them. */
static int forget_secrets(struct launch *l)
{
    char **safe = twin_redact_argv(l->redactor, l->run->argv, l->run->argc);
    if (!safe)
        return tw_no_memory(l->err, "starting the job");
    for (size_t i = 0; i < l->run->argc; i++)
        tw_free(l->run->argv[i]);
    tw_free(l->run->argv);
    l->run->argv = safe;
    return 0;
}

/* Each step runs only when all before it went well; `rc` carries the first failure to the end,
 * where everything is freed. */
int twin_launch(const struct twin_launch_options *o, struct twin_run **out, struct twin_error *err)
{
    struct twin_error local = TWIN_ERROR_INIT;
    sigset_t wanted;
    *out = NULL;
    int rc = check_options(o, err);
    if (rc)
        return rc;
    struct launch l = {.o = o, .err = &local, .run = tw_calloc(1, sizeof *l.run)};
    l.job = (struct tw_job){
        .o = o, .run = l.run, .progress_fd = -1, .signal_fd = -1, .spawn.exec_fd = -1};
    l.job.input = (struct tw_input){
        .child_fd = -1, .source = -1, .sink = -1, .spool = -1, .rewind_to = -1};
    for (int i = 0; i < 2; i++)
        l.job.stream[i] = (struct tw_stream)TW_STREAM_CLOSED;
    if (!l.run)
        return tw_no_memory(err, "starting the job");
    tw_own_hold_signals(&l.own, &wanted);
    tw_own_fill_descriptors(&l.own);
    if (!(l.home = tw_home_path(o->home, &local)))
        rc = local.code ? local.code : tw_no_memory(&local, "starting the job");
    if (rc == 0)
        rc = describe_run(&l);
    if (rc == 0)
        rc = make_run_folder(&l);
    if (rc == 0)
        rc = twin_redactor_open(l.home, &l.redactor, &local);
    if (rc == 0)
        rc = tw_env_user(&l.env, o, &local);
    if (rc == 0 && o->agents)
        rc = tw_agent_prepare(&l.agent, o, &l.env, l.run, &local);
    l.run->agent_load_s = l.agent.load_s;
    l.run->clock_factor = tw_env_clock_factor(o->agents ? tw_env_get(&l.env, "TWINRUN_FACTORS")
                                                        : NULL);
    l.run->shown_clock_s = o->agents ? tw_env_shown_clock(tw_env_get(&l.env, "TWINRUN_FACTORS"))
                                     : 0;
    if (rc == 0)
        rc = prepare_job(&l);
    if (rc == 0)
        rc = run_job(&l, &wanted);
    if (rc == 0)
        rc = forget_secrets(&l);
    if (rc == 0)
        *out = l.run;
    else
        rc = hand_out(&l, rc, err);
    free_launch(&l, rc != 0);
    if (rc != 0)
        twin_run_free(l.run);
    return rc;
}
