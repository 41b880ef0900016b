/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_RUN_H
#define TWIN_RUN_H
/*
 * Launching the user's command and the run folder it leaves behind. Room: src/launch (calls base
 * only). Layout and environment protocol: docs/format/run-folder.md.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

enum twin_level { TWIN_LEVEL_STEPS, TWIN_LEVEL_TENSORS, TWIN_LEVEL_MODULES, TWIN_LEVEL_OPS };
const char *twin_level_name(enum twin_level l);
int twin_level_parse(const char *s, enum twin_level *out); /* TWIN_EINVAL */

/* How the job ended, as a person would say it. */
enum twin_outcome {
    TWIN_RUN_EXITED,   /* code in exit_code */
    TWIN_RUN_SIGNALED, /* signal in signal */
    /* the program could not be executed: message says why; exit_code 127 or 126 */
    TWIN_RUN_NOT_STARTED,
    TWIN_RUN_STOPPED,    /* by us: --steps reached, or parted and enough known */
    TWIN_RUN_INTERRUPTED /* Ctrl-C or SIGTERM to twinrun */
};

/* What is known while a run is going on (read from the agents' shared progress file). */
struct twin_progress {
    const char *run_dir;
    double elapsed_s;
    uint64_t step;      /* smallest finished step count over tracing ranks; 0 when none */
    uint64_t records;   /* sum over processes */
    uint32_t processes; /* alive ones below the job */
    uint32_t armed;     /* of those ever seen, how many carry the agent */
};

struct twin_run;
struct twin_run_file;

/* Where an engine (src/engine) made a run; texts are borrowed in options and owned in a run. */
struct twin_run_node {
    char *engine;     /* "slurm", "cmd"; NULL: no engine, the run was made here */
    char *name;       /* of the node, in the engine's words */
    char *job;        /* the engine's own name of what it ran; "" where it has none */
    uint32_t attempt; /* from 1; more: earlier ones were lost, and this run was made again */
};

/* Who writes down what surrounds a run (src/provenance). A NULL function is not called; none may
 * fail the run. */
struct twin_launch_watcher {
    void *user;
    /* The run folder is there and the job is not. `env` is the job's environment, `home` absolute.
     * Processes that are made now are not the job's. */
    void (*before)(void *user, const struct twin_run *run, const char *home, char *const *env);
    void (*started)(void *user, int pid);
    /* The job has ended, and this is one of the files that it wrote, hashed: `kept` and `listing`
     * may be filled in. */
    void (*file)(void *user, const struct twin_run *run, struct twin_run_file *f);
    /* The job has ended and all is known of it. Called after `before`, whatever happened, also when
     * the run has failed. */
    void (*after)(void *user, const struct twin_run *run);
    /* what the job wrote is listed with its digest, and not copied into the run folder */
    bool no_copies;
};

/* To whom a run belongs: what a fleet's figures are told apart by (docs/slo.md). Texts are "" where
 * nothing was said. */
struct twin_run_belongs {
    char *project, *family; /* TWINRUN_PROJECT, TWINRUN_FAMILY: a family of models */
    char *contributor;      /* TWINRUN_CONTRIBUTOR, else who started the CI job */
    char *sweep;            /* TWINRUN_SWEEP: "NAME/REPEAT" */
    bool ci;                /* made by a CI job */
};
/* As this process's environment says. False: no memory; twin_run_belongs_free in any case. */
bool twin_run_belongs_here(struct twin_run_belongs *to);
void twin_run_belongs_free(struct twin_run_belongs *to);

/* What a rollout of a fix decided of a run (src/rollout, docs/rollout.md). Texts are borrowed in
 * options and owned in a run. */
struct twin_run_rollout {
    /* "canary", "control", "fallback"; "overridden": the command line sets what the fix sets;
     * "off": the flag file could not be used. NULL: the run is part of no rollout */
    char *arm;
    char *id;       /* of the rollout, 16 hex digits; "" where the flag file could not be read */
    char *key;      /* what the arm was drawn by */
    char *why;      /* of off and overridden; "" */
    uint32_t share; /* of all runs that were to get the fix then, in millionths */
};

/* Data that were verified against a snapshot's manifest before the job was started. */
struct twin_run_data {
    char *folder, *manifest; /* absolute */
    char root[65];           /* the manifest's digest over all (docs/format/snapshot.md) */
    uint64_t files, bytes;
};

/* Of a run that isolate makes to hear which lines ask for what varies: it holds less than the runs
 * that somebody wants to look at, so `last` passes it over. */
#define TWIN_LABEL_ASKING "consumers"

struct twin_launch_options {
    char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH */
    char *const *env;  /* "NAME=value" additions, NULL-terminated, may be NULL */
    /* folder that holds runs/ ; NULL = $TWINRUN_HOME or ./.twinrun */
    const char *home;
    /* "a", "b", "zoom", ...: part of the folder's name; may be NULL */
    const char *label;
    enum twin_level level;
    bool agents; /* false: an unobserved control run */
    /* 0 = no limit; else every traced rank is stopped after this many steps */
    uint32_t max_steps;
    /* with max_steps: no rank goes on behind its last step until it is stopped */
    bool hold;
    /* steps for which TWIN_LEVEL_OPS is active; 0,UINT32_MAX = all */
    uint32_t window_first, window_last;
    uint32_t sketch_every; /* 0 = default */
    bool lossless;
    /* pass the job's stdout/stderr through to ours while storing them */
    bool show_output;
    /* With show_output: the job's output is what it would be without us. Where ours is a regular
     * file or a device, the job gets it; where our stdout and stderr are one, the job's are (kept
     * as `stdout`); when the reader of a pipe goes away, the job's pipe breaks. Otherwise both
     * streams are passed on, and the job notices no failure of ours. */
    bool native_output;
    bool fresh_dir; /* run in a scratch copy of the working folder */
    /* with fresh_dir: of this folder instead; NULL: the working folder */
    const char *copy_of;
    /* file that holds what earlier runs read from stdin, shared by the runs of a check */
    const char *stdin_spool;
    /* stored bytes per stream; 0 = 256 MiB; more passes through, hashed, not stored */
    uint64_t output_cap_bytes;
    /* Called about 4 times a second while the job runs (and once at its end). Return non-zero to
     * stop the job (SIGTERM, then SIGKILL after a grace time): outcome TWIN_RUN_STOPPED. May be
     * NULL. The job's output waits while it runs: be back within some 50 ms. */
    int (*on_tick)(void *user, const struct twin_progress *p);
    void *user;
    /* why on_tick ended the job, in a few words, read at the run's end; NULL, or a NULL text:
     * enough was known */
    char *const *stopped_because;
    /* milliseconds between two ticks, where a job that holds behind its last step is not to be kept
     * waiting; 0 = 250 */
    uint32_t tick_ms;
    /* set when the job has ended, also if its record then could not be completed; may be NULL */
    int *exit_code;
    /* one address layout for all runs: personality(ADDR_NO_RANDOMIZE) before the exec */
    bool no_aslr;
    /* the job may run on processor `cpu` only: sched_setaffinity before the exec */
    bool on_cpu;
    int cpu;
    /* nothing below telemetry/ of the run folder: no counters of machine and processes */
    bool no_telemetry;
    /* the job's main process gets this signal when this process is gone, however it went; 0: the
     * job goes on then, as it would without us */
    int death_signal;
    /* also preload libtwinrun_hot.so, which the factors malloc and schedule need */
    bool hot;
    /* Puts files for the agents into the run folder, before the job starts. An error means that it
     * does not start. May be NULL. */
    int (*fill_folder)(void *user, const char *run_dir, struct twin_error *err);
    void *fill_user;
    const struct twin_launch_watcher *watcher; /* may be NULL */
    /* who makes the run (src/trial/remote.h), which tw_trial_make looks at; NULL: this process.
     * twin_launch itself always launches here. */
    struct tw_remote *on;
    /* with `on`: the run is to be on this node; NULL: wherever `on` puts it */
    const char *at_node;
    /* recorded in run.json as it is; NULL: no engine */
    const struct twin_run_node *node;
    const struct twin_run_rollout *rollout; /* recorded as it is; NULL: none */
    /* recorded in run.json as they are; the caller has verified them */
    const struct twin_run_data *data;
    size_t data_count;
};

/* One process that belonged to the job. */
struct twin_run_process {
    int pid, ppid;
    char *argv; /* joined by spaces, cut at 4 KiB */
    bool armed; /* the agent spoke from inside it, or its library is mapped there */
    /* when not armed: what is known ("static binary", "environment not passed on", ...); may be
     * NULL */
    char *why;
    bool outlived; /* still alive when the job's main process had ended (daemon) */
};

/* How `why` begins for a symbolic link; where it leads follows. */
#define TW_FILES_LINK "a symbolic link to "

/* One file the job wrote or changed below its working folder (evidence of last resort). */
struct twin_run_file {
    char *path; /* relative to cwd */
    uint64_t bytes;
    char sha256[65];       /* hex; empty when not hashed (too large, unreadable: see why) */
    char *why;             /* NULL when hashed */
    bool existed_before;   /* overwritten or appended: shared between runs of a check */
    uint64_t bytes_before; /* then: its size at the start */
    /* text: a copy in the run folder, relative to it, secrets masked; NULL: none */
    char *kept;
    /* `kept` lists what is in it, a line for each tensor, value or event */
    bool listing;
};

/* What the launcher itself held still. A refusal does not keep the job from running. */
struct twin_run_hold {
    bool asked;
    bool done;
    char *why; /* when asked and not done; else NULL */
};

/* A run folder, loaded. */
struct twin_run {
    char *dir;   /* absolute */
    char *id;    /* 32 hex digits */
    char *label; /* "" when none */
    char **argv;
    size_t argc;
    char *cwd; /* the folder in which the job ran: <dir>/work with fresh_dir */
    char *host;
    int64_t start_realtime_ns;
    /* the same moment on CLOCK_MONOTONIC of its machine; 0: not recorded */
    int64_t start_monotonic_ns;
    /* time of day that the job was shown in place of this machine's (factor clock), seconds since
     * 1970; 0: none; -1: a shaken one */
    int64_t shown_clock_s;
    uint32_t clock_factor; /* its clocks ran this many times as fast; 0 or 1: as they do */
    double wall_s;         /* wall time of the job */
    enum twin_outcome outcome;
    int exit_code; /* of the job: its own, or 128 + signal */
    int signal;    /* 0 when none */
    char *message; /* why it was not started, or stopped; "" when nothing to say */
    enum twin_level level;
    bool agents;
    uint32_t max_steps;
    int launcher_pid; /* 0: not known (a run of an older version) */
    /*
     * every process and thread of the run has an id between these; 0: not known, or they began anew
     */
    int first_id, last_id;
    /* folders made by the job whose name ends in the next free number: "version_1" */
    char **fresh_names;
    size_t fresh_count;
    /* absolute paths of *.twt, sorted by rank, then by pid */
    char **traces;
    size_t trace_count;
    /* a process of the job had imported PyTorch, whether or not it recorded anything */
    bool torch;
    struct twin_run_process *processes;
    size_t process_count;
    struct twin_run_file *files;
    size_t file_count;
    bool files_truncated;                /* more files than the cap */
    uint64_t stdout_bytes, stderr_bytes; /* as produced */
    char stdout_sha256[65], stderr_sha256[65];
    bool stdout_truncated, stderr_truncated; /* stored only in part */
    /* stdout and stderr were one: both are in `stdout`, in their order */
    bool one_stream;
    char **notes;
    size_t note_count; /* e.g. "the agent cannot be loaded: ASan" */
    double agent_load_s;
    bool in_progress; /* loaded while its launcher still lives: nothing here is final */
    /* no end was written, and its launcher is, or was, on another machine or in another container:
     * whether it still lives cannot be known from here */
    bool elsewhere;
    struct twin_run_hold aslr, affinity, hot; /* no_aslr, on_cpu, hot of the launch */
    int cpu;                                  /* of affinity */
    struct twin_run_data *data;
    size_t data_count;               /* what was verified before the start */
    struct twin_run_node node;       /* its engine is NULL for a run that was made without one */
    char *processor;                 /* the processor's model; NULL: not recorded */
    struct twin_run_rollout rollout; /* its arm is NULL for a run that is part of none */
    struct twin_run_belongs belongs; /* texts NULL: a run of an older version */
};

/* Runs the command to its end. 0 when a run folder was written, whatever the job did (also when it
 * could not be started). Errors: TWIN_EIO (home not writable or full), TWIN_EINVAL, TWIN_ENOMEM,
 * TWIN_ELIMIT (too large for fresh_dir). Not thread-safe: while the job runs, stop signals are held
 * and read here (no handler is installed; they are let through again before the return), the
 * process is a subreaper, and any child of it that ends is reaped. The caller flushes its own
 * stdout and stderr first. On Ctrl-C or SIGTERM the outcome is TWIN_RUN_INTERRUPTED and the signal
 * is used up. */
int twin_launch(const struct twin_launch_options *o, struct twin_run **out, struct twin_error *err);

/* Loads run.json of a run folder (also of one whose launcher was killed: outcome is then
 * TWIN_RUN_INTERRUPTED with a message). TWIN_ENOENT, TWIN_EFORMAT, TWIN_EVERSION. */
int twin_run_load(const char *dir, struct twin_run **out, struct twin_error *err);
void twin_run_free(struct twin_run *r);

/* What the processes said in the run folder's `factors`, line by line. *text owns the strings; both
 * are the caller's (tw_free), also after an error. A run without the file has no lines. */
struct twin_said_line {
    const char *pid, *key, *value;
};
int twin_said_lines(const struct twin_run *run, char **text, struct twin_said_line **line,
                    size_t *count, struct twin_error *err);
/*
 * Did an agent say in `written` that its process opened this file for writing, or put it in its
 * place? path: as the caller has it; links are followed. *told is false where nobody said so: a
 * program without the agent may have done it.
 */
int twin_run_told_writing(const struct twin_run *run, const char *path, bool *told,
                          struct twin_error *err);
/* Word by word: a command that merely looks alike may be another job. */
bool twin_run_same_command(const struct twin_run *a, const struct twin_run *b);

/* Resolves what a user typed: a path, a run id or unique prefix of one, "last", "last~1" (runs
 * of TWIN_LABEL_ASKING are not counted). *dir is malloc'ed. */
int twin_run_resolve(const char *home, const char *spec, char **dir, struct twin_error *err);
/* How far the run in this folder is, whoever launched it: fills step and records; zero where
 * nothing is known. */
void twin_progress_of(const char *run_dir, struct twin_progress *p);
/* The same, rank by rank. Of more processes than there are slots some are not there (full). */
enum { TWIN_PROGRESS_RANKS = 64 };
struct twin_progress_rank {
    int32_t rank;
    uint64_t steps; /* finished, of its farthest process */
    uint64_t records, dropped;
    bool recording; /* a process of it has its trace open */
};
struct twin_progress_ranks {
    struct twin_progress_rank rank[TWIN_PROGRESS_RANKS]; /* sorted by number */
    size_t count;
    uint32_t expected; /* ranks that the launcher of ranks makes on this machine; 0: not told */
    uint64_t step;     /* of the slowest rank */
    uint64_t records;
    bool full;
};
void twin_progress_ranks_of(const char *run_dir, struct twin_progress_ranks *out);
/* All runs of a home, newest first; strings malloc'ed, array NULL-terminated; free each and the
 * array. */
int twin_run_list(const char *home, char ***dirs, size_t *count, struct twin_error *err);
/* The home folder in force (malloc'ed): $TWINRUN_HOME, else ./.twinrun. */
char *twin_home_default(void);
/* The home to read from: the same, and where ./.twinrun is not there, that of the nearest folder
 * above which the user owns, if any. malloc'ed. */
char *twin_home_nearest(void);
/*
 * Makes the home, invisible to git (a .gitignore with `*`) unless there are other files of the
 * user's in it. Every command that writes into the home calls this first. TWIN_EIO, TWIN_ENOMEM.
 */
int twin_home_make(const char *home, struct twin_error *err);
/* Does the file lie in a home, whosever and wherever? Nothing that does is packed. false when the
 * file is not there. */
bool twin_home_holds(const char *path);
/* Deletes one run folder (refuses anything that is not one: no run.json or outside home/runs).
 * bytes may be NULL. */
int twin_run_remove(const char *home, const char *dir, uint64_t *bytes, struct twin_error *err);

/* Where our own parts are: the agent library and the Python half. Found from the executable's
 * place. */
struct twin_parts {
    char *agent_library; /* libtwinrun.so, absolute; NULL when not found */
    /* folder to put into PYTHONPATH so that `import twinrun` works; NULL when not found */
    char *python_dir;
    char *site_dir;    /* folder with our sitecustomize.py; NULL when not found */
    char *cases_dir;   /* folder of the known cases; NULL when not found */
    char *hot_library; /* libtwinrun_hot.so beside agent_library; NULL when not found */
    char *mpi_library; /* libtwinrun_mpi.so, the same */
    /* folder with the embedded trainer and the example scripts; NULL when not found */
    char *workloads_dir;
};
int twin_parts_find(struct twin_parts *out, struct twin_error *err);
void twin_parts_free(struct twin_parts *p);

/* Will MPI's agent be in the job of these words: does a launcher of MPI stand in them, or is the
 * program linked with MPI? TWINRUN_MPI=on and off have the last word. */
bool twin_launch_wants_mpi(char *const *argv);
/* Does a launcher of PyTorch's ranks stand in these words? */
bool twin_launch_names_torch(char *const *argv);

/* Tries the agent against the command's program without running the job. *ok false: *why
 * (malloc'ed) says what was found. */
int twin_trial_load(const char *program, const char *agent_library, bool *ok, char **why,
                    struct twin_error *err);

#endif
