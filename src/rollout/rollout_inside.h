/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ROLLOUT_INSIDE_H
#define TW_ROLLOUT_INSIDE_H
/* Inside of src/rollout: flag.c (the file), join.c (the draw, in the process that starts a job),
 * job.c (what its processes agree on), live.c (runs that have not ended), look.c (runs and
 * comparisons of the ledger), pairs.c (who is held against whom), judge.c (the rule), start.c and
 * act.c (the verbs), log.c (decisions in the ledger). */
#include "rollout.h"

/* Kinds of events, and the verb of comparisons. */
#define TW_ROLLOUT_KIND "rollout"
#define TW_ROLLOUT_RUN_KIND "rollout-run"
#define TW_ROLLOUT_VERB "rollout"
/* Of the hash of a key, in the ledger and in the names of files. */
enum { TW_ROLLOUT_KEY_SEED = 0x6a6f62 };

/* A run of the rollout. Texts are owned. */
struct rollout_run {
    char id[33];
    char arm[16];
    char key[33];   /* a hash of what the arm was drawn by; of an older twinrun's: the run's id */
    size_t job;     /* the same number for the runs of one key, from 0 */
    uint32_t share; /* by which the arm was drawn, millionths */
    int64_t start_ns;
    double wall_s, loss;
    char *name, *home, *inputs;
    char *kind;     /* its command without its numbers: what it is held against */
    bool known;     /* the ledger has the run itself */
    bool ok, ended; /* well; at all */
    bool inferred;  /* that it has ended was not written, but inferred: "interrupted" */
    bool outside;   /* ended by somebody else: a limit of time, a signal to twinrun, its death */
    bool gone;
    /* of its comparison that counts, where it is the first of the two */
    enum { ROLLOUT_NONE, ROLLOUT_SAME, ROLLOUT_DIVERGED, ROLLOUT_UNKNOWN } answer;
};
struct rollout_runs {
    struct rollout_run *run; /* by start, then id */
    size_t count, room;
    size_t jobs;    /* numbers of jobs: one more than the highest */
    bool *compared; /* by job: one of its runs took part in a comparison that counts */
    uint64_t off;
    char *off_why;
    int64_t off_ns;
};
/* Everything that the ledger has of the rollout until then, and the runs that go on; s gets the
 * counts of comparisons. Both are to be freed also after an error. */
int tw_rollout_load(struct twin_ledger *l, const struct tw_rollout_flag *f,
                    const struct rollout_runs *live, int64_t until_ns, struct rollout_runs *out,
                    struct tw_rollout_seen *s, struct twin_error *err);
/* The arm that a run counts for; false: none. */
bool tw_rollout_arm_of(const struct rollout_run *r, enum tw_rollout_arm *arm);
void tw_rollout_runs_free(struct rollout_runs *r);
void tw_rollout_forget(struct rollout_run *r);
/* A command without its numbers, of a project. malloc'ed; NULL: no memory. */
char *tw_rollout_kind(const char *project, const char *command);

/* ---- live.c */
/* Runs of the rollout `id` that go on in a home; home: as the ledger calls it. */
struct rollout_live {
    const char *id, *home;
    struct rollout_runs runs;
};
/* Of tw_ledger_catch_up; user: a rollout_live. */
void tw_rollout_see_live(void *user, const char *dir, const struct twin_run *run,
                         const struct twin_error *err);
/* Takes back that a run has ended where that was inferred and cannot be known from here. home:
 * where the folders are; owner: what the ledger calls it. */
void tw_rollout_doubt(const char *home, const char *owner, struct rollout_runs *runs);
/* Runs of one key are one draw: fills job, jobs and compared (none is) from the keys. */
int tw_rollout_number_jobs(struct rollout_runs *r, struct twin_error *err);
/* pairs.c: fills the rest of s from the runs. */
int tw_rollout_pair_up(const struct rollout_runs *r, struct tw_rollout_seen *s,
                       struct twin_error *err);
/* Two runs of one arm on equal inputs, of two jobs of which neither was compared: their places into
 * out[2]. From *at on; false: there are no more. owner: whose folders are here, as tw_ledger_home
 * says. */
bool tw_rollout_next_pair(struct rollout_runs *r, const char *owner, size_t *at, size_t out[2]);

/* ---- job.c */
/* What the processes of a job do alike. */
struct tw_rollout_agreed {
    const char *arm; /* "canary", "control" or "fallback"; static */
    uint32_t share;  /* millionths */
    /* when the first process left this, by the file's own clock, ns since 1970; 0: it is this one
     */
    int64_t since_ns;
};
/* Makes the folder of what jobs agree on, of the owner and group of the flag file's folder, and
 * removes what is of other rollouts than `id`. What it cannot do it leaves. */
void tw_rollout_prepare_jobs(const char *flag, const char *id);
/* Is the key one that the other processes of the job have, too? */
bool tw_rollout_key_is_shared(const char *key);
/* *a as this process drew it becomes what the first process of the job drew. may_write: the first
 * may be this one; else TWIN_ENOENT where there was none. */
int tw_rollout_agree(const char *flag, const char *id, const char *key, bool may_write,
                     struct tw_rollout_agreed *a, struct twin_error *err);

/* ---- act.c */
/* Beside the flag file: held while it is replaced, and by the one step that compares. */
#define TW_ROLLOUT_LOCK "lock"
#define TW_ROLLOUT_STEP_LOCK "step-lock"
/* Held while a call is at work; the kernel gives it back when we die. -1: another call has it
 * (out->busy), or *rc says what went wrong. */
int tw_rollout_lock(const struct tw_rollout_call *c, const char *which,
                    struct tw_rollout_result *out, int *rc, struct twin_error *err);
void tw_rollout_unlock(int fd);
/* The decision of r->flag is in the ledger from now on, whoever made it; r->unwritten: it could not
 * be written. An error: the ledger cannot be read. */
int tw_rollout_catch_up(const struct tw_rollout_call *c, struct tw_rollout_result *r,
                        struct twin_error *err);
/* The next decision of r->flag: in force first, then in the ledger; where that fails, the next call
 * writes it there. text: taken over; NULL: no memory. */
int tw_rollout_decide(const struct tw_rollout_call *c, struct tw_rollout_result *r,
                      enum tw_rollout_decision d, char *text, struct twin_error *err);

/* ---- log.c */
/* Writes the decision of the flag file into the ledger, once, whoever does it. */
int tw_rollout_log_put(const struct tw_rollout_call *c, const struct tw_rollout_flag *f,
                       struct twin_error *err);

/* ---- log.c */
/* Of an event that is a decision: its rollout and number, and what was said; NULL: it is none. */
const char *tw_rollout_decision_parse(const struct twin_ledger_event *e, char id[17],
                                      unsigned long long *sequence);

#endif
