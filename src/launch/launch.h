/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_LAUNCH_H
#define TW_LAUNCH_H
/*
 * Inside of the launch room: what its files share. The room starts the user's command, keeps what
 * it prints and writes, and leaves a run folder; the public contract is src/launch/run.h.
 *
 * A run:
 * - launch.c: one run from start to end
 * - supervise.c: the event loop around the running job
 * - spawn.c: fork, exec, why a program did not start
 * - own.c: our own signals and descriptors
 * - env.c: the job's environment
 * - agent.c: finds, stages and tries the agent for one run; trial.c: may it be loaded?
 * - parts.c: where our own parts are; elf.c: what kind of program is it?
 *
 * What goes in and out of the job:
 * - stream.c: stdout and stderr: stored, hashed, passed on; direct.c: output that goes into a file
 * - input.c: stdin: the same bytes for every run of a check
 * - files.c: which files the job wrote; outside.c, opened.c: the same outside of its folder
 * - scratch.c: a copy of the working folder
 *
 * What is known of it:
 * - tree.c: which processes belong to the job; proc.c: what /proc says about one process
 * - progress.c: the agents' progress file
 * - host.c, gpus.c: counters of the machine
 * - run_save.c, run_load.c, home.c, home_make.c: the run folder and its home
 * - redact.c: secrets out of what is written (what is one: base/secret.c)
 * - capture.c: small programs that help us, none of them a job
 *
 * Order of events, which the rest relies on: everything that can fail for our own reasons (folder,
 * streams, snapshot, allocation of the tables) is done before the job starts. From the fork on
 * nothing of ours ends the job: what then fails is noted in the run.
 */
#include "base.h"

#include "src/launch/redact.h"
#include "src/launch/run.h"

#include <signal.h>
#include <stdio.h>
#include <sys/types.h>

/* ---- run_save.c. Names of files and arguments are bytes: a JSON string when they are valid UTF-8,
 * else {"hex": "..."}; NULL gives null. provenance.json has them so, too. */
struct json_t *tw_json_bytes(const char *s);

/* ---- growing arrays of the result */
/* Makes room for item number n (0-based) of an array of `size`-byte items that only ever grows by
 * one. */
int tw_launch_grow(void *array, size_t n, size_t size, struct twin_error *err);
/* Adds a note to the run; a note that cannot be stored is lost (no memory), nothing else is. */
void tw_run_note(struct twin_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- environment (env.c) */
struct tw_env {
    char **v;
    size_t n;
}; /* "NAME=value", NULL-terminated */
/* Takes its own copy of each string of `from`, which may be NULL. On any failure of these functions
 * e is still to be freed. */
int tw_env_copy(struct tw_env *e, char *const *from, struct twin_error *err);
/* Replaces the first entry of this name, or adds one. */
int tw_env_set(struct tw_env *e, const char *name, const char *value, struct twin_error *err);
int tw_env_put(struct tw_env *e, const char *entry, struct twin_error *err); /* "NAME=value" */
void tw_env_unset(struct tw_env *e, const char *name);
/* The value, which belongs to e and holds until the entry is changed; NULL when there is none. */
const char *tw_env_get(const struct tw_env *e, const char *name);
void tw_env_free(struct tw_env *e);
/* True for the variables whose values are kept in run.json: those that decide about numbers. Never
 * secrets. */
bool tw_env_is_kept(const char *entry);
uint32_t tw_env_clock_factor(const char *factors); /* how many times as fast the job's clocks ran */
/* TWINRUN_FACTORS, or NULL: what shown_clock_s of a run means */
int64_t tw_env_shown_clock(const char *factors);

/* What agent.c found out for one run; env.c makes variables of it. All strings are owned
 * (tw_agent_cleanup). */
struct tw_agent_setup {
    struct twin_parts parts;
    char *library; /* as staged: no space or colon in the path; NULL when not preloaded */
    /* the library of hot functions, staged; NULL when not asked for or not to be had */
    char *hot;
    char *mpi;       /* the library of MPI's functions, staged; NULL: no program of MPI */
    char *stage_dir; /* temporary folder to remove afterwards; NULL when none was needed */
    bool preload;
    bool nccl;     /* NCCL is to load the agent as its profiler plugin */
    bool cupti;    /* the CUDA driver is to load the agent */
    char *why;     /* why not preloaded; NULL when it is */
    double load_s; /* what finding, staging and trying cost */
};
/* Finds, tries and stages the agent for argv[0]; e is the user's environment. A refusal is a note,
 * not an error. */
int tw_agent_prepare(struct tw_agent_setup *a, const struct twin_launch_options *o,
                     struct tw_env *e, struct twin_run *run, struct twin_error *err);
/* nccl.c: decides on NCCL's profiler plugin; sets its variable in the job's environment; takes that
 * of an outer twinrun out. */
void tw_nccl_prepare(struct tw_agent_setup *a, const struct tw_env *e, struct twin_run *run);
int tw_nccl_protocol(struct tw_env *e, const struct tw_agent_setup *a, struct twin_error *err);
void tw_nccl_not_outer(struct tw_env *e);
/* cupti.c: the same of the CUDA driver. */
void tw_cupti_prepare(struct tw_agent_setup *a, const struct tw_env *e, struct twin_run *run);
int tw_cupti_protocol(struct tw_env *e, const struct tw_agent_setup *a, struct twin_error *err);
void tw_cupti_not_outer(struct tw_env *e);
/* keep_stage: a process of the job still lives and may load what is staged. */
void tw_agent_cleanup(struct tw_agent_setup *a, bool keep_stage);
/* twin_trial_load with the job's environment. */
int tw_trial_load(const char *program, const char *library, const struct tw_env *env, bool *ok,
                  char **why, struct twin_error *err);
/* Takes the variables of an outer twinrun out of the inherited environment and adds o->env. */
int tw_env_user(struct tw_env *e, const struct twin_launch_options *o, struct twin_error *err);
/* Adds the agents' protocol (docs/format/run-folder.md). */
int tw_env_protocol(struct tw_env *e, const struct twin_launch_options *o,
                    const struct twin_run *run, const struct tw_agent_setup *a,
                    struct twin_error *err);

/* ---- programs (elf.c, trial.c, spawn.c) */
/* What tw_elf_inspect() tells of a file. is_elf false: a script, or anything else. */
struct tw_elf {
    bool is_elf;
    bool foreign;          /* other word size, byte order or machine than ours */
    bool dynamic;          /* has a program interpreter */
    const char *sanitizer; /* "ASan", "TSan", "MSan", "HWASan" or NULL */
    bool mpi;              /* it calls MPI_Init, or MPI_Init_thread */
    char interp[256];
    char shebang[256]; /* first line of a script, without "#!"; "" when none */
};
int tw_elf_inspect(const char *path, struct tw_elf *out); /* 0, or -1 with errno */
/* exec would enter the loader's secure mode */
bool tw_program_is_privileged(const char *path);
/* The paths that exec tries for argv[0], in order; NULL-terminated (tw_strings_free). path_value
 * may be NULL. */
char **tw_program_candidates(const char *name, const char *path_value, struct twin_error *err);
/* The first of them that is an executable file (malloc'ed), or NULL (then err is set only for
 * TWIN_ENOMEM). */
char *tw_program_find(const char *name, const char *path_value, struct twin_error *err);
void tw_strings_free(char **v);

/* What is to be started and how; below "out", what tw_spawn_start() gives back. It keeps none of
 * the pointers after its return, but tw_spawn_explain() reads argv and path_value again. */
struct tw_spawn {
    char *const *argv;
    char *const *env;
    const char *path_value; /* PATH of the job */
    const char *dir;        /* working folder; NULL = ours */
    int fd[3];              /* for 0, 1, 2; -1 = leave as it is */
    sigset_t mask;          /* the mask to run under */
    bool ignore_sigchld;    /* SIGCHLD was ignored when we were started */
    bool no_aslr, on_cpu;   /* see struct twin_launch_options */
    int cpu;
    /* set by tw_spawn_start() */
    pid_t pid;
    int exec_fd;      /* readable: an errno when exec failed, end of file when it worked */
    int death_signal; /* twin_launch_options */
    struct tw_spawn_holds *holds; /* NULL unless something was to be held still */
};
/*
 * What became of no_aslr and on_cpu in the child, in memory shared with it: 0 done, else the errno.
 */
struct tw_spawn_holds {
    int aslr_errno, cpu_errno;
};
/* 0: there is a process; the caller waits for it and closes exec_fd. Whether the program could be
 * executed is said by exec_fd. */
int tw_spawn_start(struct tw_spawn *s, struct twin_error *err);
void tw_spawn_end(struct tw_spawn *s); /* gives `holds` back */
/* Explains errno number `error` of a failed exec; *exit_code is 127 or 126. malloc'ed, NULL = no
 * memory. */
char *tw_spawn_explain(const struct tw_spawn *s, int error, int *exit_code);

/* ---- output (stream.c) */
/* One output stream of the job while it runs (stream.c). Descriptors are -1 when there is none;
 * bytes are those that the job wrote, stored those that are in the run folder's file, at most cap.
 */
struct tw_stream {
    const char *name;
    int source;        /* our end of the pipe or pseudo-terminal; -1 after its end */
    int job_end;       /* the job's end, closed after the fork */
    int sink;          /* where it is passed on to; -1 = nowhere (any more) */
    bool sink_is_ours; /* opened by us without blocking; else the process's own descriptor */
    bool sink_is_socket;
    /* what comes now was caused by our stopping the job: read and thrown away */
    bool muted;
    bool pty;
    int terminal;    /* descriptor whose window size the pty follows */
    int store;       /* file in the run folder; -1 = no more */
    int store_errno; /* why not */
    uint64_t bytes, stored, cap;
    void *sha;   /* EVP_MD_CTX */
    char *chunk; /* what was read last and is not passed on completely */
    size_t chunk_len, chunk_off;
    uint64_t must_drain;   /* bytes that were in the pipe when the job ended */
    bool breaks_with_sink; /* when the sink takes no more, the job's next write fails, too */
    bool joined;           /* its bytes go through the other stream: only the job's end is open */
    int direct;            /* the file or device that the job writes to by itself; -1 = none */
    bool direct_is_file;
    off_t direct_from, direct_until; /* what the job wrote of the file; until -1 = to its end */
};
/* What every stream is before it is opened. */
#define TW_STREAM_CLOSED {.source = -1, .job_end = -1, .sink = -1, .store = -1, .direct = -1}
/* How the job's output reaches ours. */
enum tw_stream_show {
    TW_STREAM_STORED, /* only stored */
    TW_STREAM_COPIED, /* passed on as well; if that fails, the job does not notice */
    /* as without us: files themselves, one stream where ours are one, broken pipes */
    TW_STREAM_NATIVE
};
/* Opens the stream of descriptor fd (1 or 2) and its file in the run folder. On failure
 * tw_stream_close() is still due. */
int tw_stream_open(struct tw_stream *s, const char *run_dir, int fd, enum tw_stream_show show,
                   uint64_t cap, struct twin_error *err);
/* Of ours, are 1 and 2 the same terminal, pipe or socket? Then the job's shall be, too. */
bool tw_stream_is_one(void);
/* s's bytes go where `into` goes: the job's ends are one. Both are open. */
int tw_stream_join(struct tw_stream *s, const struct tw_stream *into, struct twin_error *err);
/* Stores and hashes the first n bytes of the chunk. */
void tw_stream_keep(struct tw_stream *s, size_t n);
/* direct.c. Is fd a file or a device that the job can be given itself? */
bool tw_stream_try_direct(struct tw_stream *s, int fd);
/* What comes from here on was caused by our stopping the job: it is not kept. */
void tw_stream_direct_cut(struct tw_stream *s);
/* After the job: copies what it wrote. Returns 0, or an errno with the reason in *why. */
int tw_stream_direct_collect(struct tw_stream *s, const char **why);
void tw_stream_pump(struct tw_stream *s);    /* source is readable */
void tw_stream_pass_on(struct tw_stream *s); /* sink is writable, or was never asked */
/* has something that the sink did not take yet */
bool tw_stream_is_stuck(const struct tw_stream *s);
void tw_stream_mute(struct tw_stream *s); /* takes what is in the pipe, then mutes */
void tw_stream_job_ended(struct tw_stream *s);
bool tw_stream_drained(const struct tw_stream *s);
void tw_stream_resize(struct tw_stream *s); /* after SIGWINCH */
/* The digest of all bytes that came. Called once, when nothing more is read. */
void tw_stream_finish(struct tw_stream *s, char sha256[65]);
void tw_stream_close(struct tw_stream *s);
void tw_sha256_hex(void *ctx, char out[65]);

/* ---- input (input.c) */
/* The job's stdin while it runs (input.c). A chunk goes from the spool or from our stdin to the
 * job; replay and replay_end are offsets in the spool, bytes. */
struct tw_input {
    int child_fd;                /* what the job gets as descriptor 0; -1 = ours as it is */
    int source;                  /* our stdin while it is pumped; -1 = not pumped, or at its end */
    int sink;                    /* our end of the job's stdin; -1 = none (any more) */
    int spool;                   /* what was read so far, shared by the runs of a check */
    uint64_t replay, replay_end; /* spooled bytes still to be given */
    int64_t rewind_to;           /* offset to restore in our own stdin after the run; -1 = leave */
    bool spool_failed;
    char *chunk;
    size_t chunk_len, chunk_off;
};
/* spool_path NULL: the job gets our stdin as it is. After a failure tw_input_close() is still due.
 */
int tw_input_open(struct tw_input *in, const char *spool_path, struct twin_error *err);
bool tw_input_wants_source(const struct tw_input *in);
bool tw_input_wants_sink(const struct tw_input *in);
void tw_input_pump(struct tw_input *in, bool source_ready);
void tw_input_close(struct tw_input *in, struct twin_run *run);

/* ---- the agents' progress file (progress.c) */
#define TW_PROGRESS_SLOTS 64
#define TW_PROGRESS_BYTES (TW_PROGRESS_SLOTS * 64)
/* a descriptor, or a negative error */
int tw_progress_create(const char *run_dir, struct twin_error *err);
/* Have all ranks finished at least max_steps? SO_FAR: those that record have, but their launcher
 * started more on this machine. */
enum tw_enough { TW_NOT_ENOUGH, TW_ENOUGH_SO_FAR, TW_ENOUGH };
/* Fills step and records. */
enum tw_enough tw_progress_read(int fd, uint32_t max_steps, struct twin_progress *p);

/* ---- processes (proc.c, tree.c) */
/* Bytes of a process's words that are kept, joined by spaces. */
enum { TW_ARGV_MAX = 4096 };
/* One process as /proc/PID/stat showed it at one moment. */
struct tw_proc {
    pid_t pid, ppid, pgrp;
    char state;
    uint64_t start;     /* clock ticks since boot */
    uint64_t cpu_ticks; /* of all its threads */
    uint32_t threads;
    /*
     * where its arguments lie, another place after every exec; 0: amid an exec, or another user's
     */
    uint64_t image;
    /* false: it is ending, though its state need not say so yet, and nothing of its program can be
     * read */
    bool has_memory;
    int mark; /* the table's */
};
int tw_proc_read_small(const char *path, char *out, size_t room); /* bytes, NUL behind them; -1 */
/* False when there is no such process any more, or its line cannot be understood. */
bool tw_proc_stat(pid_t pid, struct tw_proc *out);
/* joined by spaces, secrets masked; NULL when it has none (a zombie) or there is no memory */
char *tw_proc_argv(pid_t pid);
/* Start time of a process in clock ticks since boot, 0 when there is none. */
uint64_t tw_process_start_ticks(pid_t pid);
/* Why the agent is not in a process; NULL: its library is. environ_line: the "TWINRUN_RUN_DIR=..."
 * of this run; preload_why: why nothing was preloaded, or NULL. False: it is ending or amid an
 * exec, and nothing can be told now. */
bool tw_proc_why_unarmed(pid_t pid, uint64_t start, const char *environ_line,
                         const char *preload_why, const char **why);

/* The table of the job's processes (tree.c). One thread uses it. */
struct tw_tree;
/* Called before the job starts: what is below us now is not the job's. agents false: a control run,
 * in which no agent is expected. NULL when out of memory. */
struct tw_tree *tw_tree_start(const char *run_dir, bool agents, const char *preload_why,
                              struct twin_error *err);
/* start_ns: a time before the process began, of tw_monotonic_ns(). */
void tw_tree_set_main(struct tw_tree *t, pid_t pid, char *const *argv, uint64_t start_ns);
void tw_tree_sample(struct tw_tree *t, bool force); /* keeps to 1% of one core unless forced */
uint32_t tw_tree_alive(const struct tw_tree *t);
/* when one of them was last seen to run, or to wait for a processor or a disk */
uint64_t tw_tree_busy_ns(const struct tw_tree *t);
uint32_t tw_tree_armed(struct tw_tree *t);
/* in our process group; outside of it */
enum tw_kill_scope { TW_KILL_ALL, TW_KILL_GROUP, TW_KILL_OTHERS };
/* Signals the job's living processes that are in scope, parents before children. */
void tw_tree_kill(struct tw_tree *t, int signal, enum tw_kill_scope scope);
/* Fills run->processes from all that was seen and said. */
int tw_tree_finish(struct tw_tree *t, struct twin_run *run, struct twin_error *err);
/* Processor time of the job's processes, of those that have ended as it was when they were last
 * seen; how many live. */
struct tw_tree_usage {
    uint64_t cpu_ticks;
    uint32_t processes, threads;
};
void tw_tree_usage(struct tw_tree *t, struct tw_tree_usage *out);
void tw_tree_free(struct tw_tree *t);

/* ---- counters of the machine (host.c). All take NULL: nothing is sampled then. */
struct tw_host;
struct tw_host *tw_host_open(const char *run_dir, pid_t job, uint64_t now);
/* Makes a row of counters when one is due, or in any case with `last`. */
void tw_host_sample(struct tw_host *h, struct tw_tree *tree, uint64_t now, bool last);
uint64_t tw_host_due_ns(const struct tw_host *h);
void tw_host_close(struct tw_host *h);
/* gpus.c: a process that samples until it is stopped. Started before the table of processes: it is
 * not the job's. NULL: it could not be started; stop takes it. */
struct tw_gpus;
struct tw_gpus *tw_gpus_start(const char *run_dir);
void tw_gpus_stop(struct tw_gpus *g);

/* ---- files (files.c, scratch.c) */
/* Names that are looked at in one listing, and how many folders deep it goes. */
enum { TW_FILES_MAX = 20000, TW_FILES_DEPTH = 16 };
/* Bytes of the files of one run that are hashed, and of one file at most. */
#define TW_FILES_HASH_BYTES ((uint64_t)2 << 30)
/* The files of a folder at one moment. `home` is twinrun's own and left out. take: NULL on failure.
 * compare: lists the folder again and adds to run->files what was written since. */
struct tw_snapshot;
struct tw_snapshot *tw_snapshot_take(const char *dir, const char *home, struct twin_error *err);
int tw_snapshot_compare(const struct tw_snapshot *before, struct twin_run *run, const char *home,
                        const struct twin_launch_watcher *watcher, struct twin_error *err);
void tw_snapshot_free(struct tw_snapshot *s);

/* ---- outside.c: what was written since a moment in places that the run's command names */
/* Is told of one file; path: absolute, bytes: its size. Non-zero ends the listing, and is its
 * result. */
typedef int tw_outside_fn(void *user, const char *path, uint64_t bytes, struct twin_error *err);
int tw_outside_each(const struct twin_run *run, const char *home, int64_t since_ns,
                    tw_outside_fn *each, void *user, struct twin_error *err);
bool tw_path_lies_in(const char *path, const char *folder); /* or is it */

/* ---- opened.c: what the agents say was opened for writing */
/* One path that a process of the job opened for writing, or put in place by renaming; it points
 * into tw_opened.text. */
struct tw_opened_file {
    const char *path;
    uint64_t bytes_before; /* with an opening that appends; else 0 */
};
/* All such paths of a run, sorted, each once. */
struct tw_opened {
    struct tw_opened_file *file;
    size_t count;
    char *text;
    bool cut; /* not all is known */
};
int tw_opened_load(struct tw_opened *w, const struct twin_run *run, struct twin_error *err);
void tw_opened_free(struct tw_opened *w);
/* How large the file was when it was first opened to be appended to; 0 when not known. */
uint64_t tw_opened_before(const struct tw_opened *w, const char *path);
int tw_opened_each(struct tw_opened *w, const char *home, int64_t since_ns, tw_outside_fn *each,
                   void *user, struct twin_error *err);

/* files.c: tells `each` of the files below one folder that changed since since_ns (realtime). A
 * folder that cannot be read has none. */
int tw_snapshot_each_since(const char *dir, const char *home, int64_t since_ns, tw_outside_fn *each,
                           void *user, struct twin_error *err);
bool tw_files_is_bulk(const char *name); /* .git, node_modules, ...: never looked into */
/* Copies the folder `from` to `to` (made here), leaving out the home. */
int tw_scratch_copy(const char *from, const char *to, const char *home, struct twin_run *run,
                    struct twin_error *err);

/* ---- our own process (own.c) */
struct tw_own {
    sigset_t mask;            /* as it was */
    struct sigaction sigchld; /* as it was */
    bool sigchld_ignored, signals_held;
    int subreaper;
    bool subreaper_known;
    /* descriptors 0 to 2 that were closed and are held by /dev/null meanwhile */
    bool filled[3];
};
void tw_own_hold_signals(struct tw_own *own, sigset_t *wanted);
/* Takes all stop signals that wait and returns one of them, 0 when there is none. */
int tw_own_take_stop_signal(void);
void tw_own_release_signals(struct tw_own *own);
void tw_own_become_subreaper(struct tw_own *own); /* the job's orphans become our children */
void tw_own_resign_subreaper(struct tw_own *own);
void tw_own_fill_descriptors(struct tw_own *own);
void tw_own_unfill_descriptors(struct tw_own *own);

/* ---- the running job (supervise.c) */
/* The running job: what launch.c prepared and what the event loop keeps of it. Times are of
 * CLOCK_MONOTONIC. */
struct tw_job {
    const struct twin_launch_options *o;
    struct twin_run *run;
    struct tw_spawn spawn;
    struct tw_stream stream[2];
    struct tw_input input;
    struct tw_tree *tree;
    struct tw_host *host; /* NULL: no telemetry */
    struct tw_gpus *gpus;
    int progress_fd, signal_fd;
    uint64_t start_ns, end_ns;
    int exec_errno; /* of a failed exec */
    bool started, ended;
    int status; /* from waitpid */
    enum tw_stop { TW_STOP_NO, TW_STOP_STEPS, TW_STOP_ASKED, TW_STOP_SIGNAL } stop;
    int stop_signal; /* which signal told us to stop */
    /* when asked to end, when killed (0 = not yet), time between */
    uint64_t stop_ns, kill_ns, grace_ns;
    uint64_t next_tick_ns, next_look_ns;
    int steps_reached;         /* consecutive ticks at which all ranks that record had max_steps */
    uint64_t steps_reached_ns; /* the first of them */
};
/* Returns when the run is over (see finished() there); status, end_ns and stop then say how. */
void tw_supervise(struct tw_job *job);

/* ---- run folder (run_save.c, run_load.c, home.c) */
struct tw_run_extra { /* what run.json says beyond struct twin_run */
    const struct twin_launch_options *o;
    const char *launched_from;
    const struct tw_env *env;
    const struct tw_agent_setup *agent;
    const struct twin_redactor *redactor;
    const struct tw_stream *stream; /* two; NULL before the job */
    bool complete;                  /* with the outcome */
};
/* Writes run.json in one step; errors: TWIN_EIO and what tw_write_file_atomic() says, TWIN_ENOMEM.
 */
int tw_run_save(const struct twin_run *run, const struct tw_run_extra *x, struct twin_error *err);
const char *tw_outcome_name(enum twin_outcome o);
int tw_outcome_parse(const char *s, enum twin_outcome *out);
int tw_run_find_traces(struct twin_run *run, struct twin_error *err);
/* Absolute path of the home in force for `home` (NULL = default). */
char *tw_home_path(const char *home, struct twin_error *err);
#endif
