/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ROLLOUT_H
#define TW_ROLLOUT_H
/*
 * The guarded rollout of a fix: a share of the runs gets its pins, the others are as ever, and what
 * the ledger says of both decides whether more get it, or none. Room: src/rollout.
 * docs/rollout.md, docs/format/rollout.md, docs/internals/rollout.md.
 *
 * The flag file is the state, and all of it: what jobs read, the rule, and the last decision. It is
 * replaced in one step, so a call that is killed leaves the old state or the new one. The ledger
 * keeps each decision; one that a killed call did not write there, the next call writes.
 *
 * One thread. Errors: TWIN_EINVAL (what was asked for), TWIN_ENOENT, TWIN_EFORMAT, TWIN_EVERSION
 * (a flag file that is not there, broken, of another version), TWIN_EIO, TWIN_ENOMEM, and those of
 * the ledger.
 */
#include "src/launch/run.h"
#include "src/ledger/ledger.h"
#include "src/stats/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* ---- the flag file (flag.c) */

enum { TW_ROLLOUT_WHOLE = 1000000, TW_ROLLOUT_LADDER = 16, TW_ROLLOUT_FLAG_BYTES = 16384 };

enum tw_rollout_state { TW_ROLLOUT_ON, TW_ROLLOUT_OFF, TW_ROLLOUT_FALLBACK, TW_ROLLOUT_STATES };
const char *tw_rollout_state_name(enum tw_rollout_state s); /* on|off|fallback */

enum tw_rollout_decision {
    TW_ROLLOUT_STARTED,
    TW_ROLLOUT_WIDENED,
    TW_ROLLOUT_HELD,
    TW_ROLLOUT_FELL_BACK,
    TW_ROLLOUT_STOPPED,
    TW_ROLLOUT_DECISIONS
};
/* started|widened|held|fell-back|stopped */
const char *tw_rollout_decision_name(enum tw_rollout_decision d);

/* What decides; fixed when the rollout begins. */
struct tw_rollout_rule {
    /* of falling back although the canary is within all bounds, over the whole rollout and however
     * often it is looked at; 0 < alpha < .5 */
    double alpha;
    double max_slowdown;   /* time of a run with the fix over that of one without; >= 1 */
    double max_divergence; /* share of repeats that diverge, 0 < x < 1 */
    double max_loss;       /* by how much of itself the last loss may be higher; >= 0 */
    uint64_t least;        /* new comparisons of the canary before more runs get the fix; >= 1 */
    /* shares in millionths, ascending */
    uint32_t ladder[TW_ROLLOUT_LADDER];
    size_t steps;
};

/* Texts are owned: tw_rollout_flag_free. */
struct tw_rollout_flag {
    char id[17];
    enum tw_rollout_state state;
    uint32_t share; /* millionths */
    char *pins;     /* the fix, as `twinrun run --pin` takes it */
    char *fallback; /* pins of all runs after falling back; NULL: none, the rollout is off then */
    char *project;  /* glob of TWINRUN_PROJECT; "*": any */
    struct tw_rollout_rule rule;
    int64_t began_ns;
    /* the last decision: its number from 1, when, what, and in words and numbers */
    uint64_t sequence;
    int64_t decided_ns;
    enum tw_rollout_decision decision;
    uint64_t widened_at; /* comparisons of the canary when the share was last changed */
    char seen[33];       /* digest of what the decision was made from */
    char *said;
};
/* Refuses what is no regular file, a link, a file that anybody may write, more than
 * TW_ROLLOUT_FLAG_BYTES, and any text that tw_rollout_flag_text would not have made. Free also
 * after an error. Does not block. */
int tw_rollout_flag_read(const char *path, struct tw_rollout_flag *out, struct twin_error *err);
/* The same of a text of n bytes; path is for messages. */
int tw_rollout_flag_parse(const char *text, size_t n, const char *path, struct tw_rollout_flag *out,
                          struct twin_error *err);
/* malloc'ed; NULL with err: a value that no flag file can hold, or no memory. */
char *tw_rollout_flag_text(const struct tw_rollout_flag *f, struct twin_error *err);
/* In one step. */
int tw_rollout_flag_write(const char *path, const struct tw_rollout_flag *f,
                          struct twin_error *err);
void tw_rollout_flag_free(struct tw_rollout_flag *f);

/* ---- the draw and the run (join.c) */

/* Where a run lies between 0 and 1: a hash of the two texts. Those below the share get the fix, so
 * a larger share has the runs of a smaller one. */
double tw_rollout_place(const char *id, const char *key);
bool tw_rollout_is_canary(const char *id, const char *key, uint32_t share);
/* What the runs of one job have in common: TWINRUN_ROLLOUT_KEY, else the number that a scheduler or
 * launcher of ranks gave the job, so that all its processes are of one arm; else random.
 * malloc'ed; NULL: a rank whose job has no number, no memory, or no random bytes. */
char *tw_rollout_key(void);

/* What a run is to do. Texts are owned: tw_rollout_joined_free. */
struct tw_rollout_joined {
    struct twin_run_rollout run; /* arm NULL: there is no rollout for this run */
    char *pins;                  /* what the run is to pin; NULL: as if there were no rollout */
};
/*
 * Reads the flag file and draws. given: the pins of the command line, which stay; NULL: none.
 * Nothing here fails a run: whatever is wrong makes the arm "off", with the reason in run.why.
 * path NULL or "": no rollout. factor_file: of the command line, for `given`; NULL: none.
 */
void tw_rollout_join(const char *path, const char *given, const char *factor_file,
                     struct tw_rollout_joined *out);
void tw_rollout_joined_free(struct tw_rollout_joined *j);

/* ---- what the ledger says (look.c) */

enum tw_rollout_arm { TW_ROLLOUT_CONTROL, TW_ROLLOUT_CANARY, TW_ROLLOUT_ARMS };
const char *tw_rollout_arm_name(enum tw_rollout_arm a); /* control|canary */

/* Pairs of a run with the fix and one without: how they stand to each other. Owned. */
struct tw_rollout_ratios {
    double *value;
    size_t count;
};
struct tw_rollout_seen {
    struct {
        uint64_t runs, failed;            /* failed: by themselves */
        uint64_t outside;                 /* ended by somebody else */
        uint64_t same, diverged, unknown; /* repeats that were compared */
        double wall_s;                    /* geometric mean of runs that ended well; NaN: none */
        double loss;                      /* mean of the last losses; NaN: none */
        /* standard deviation of the last loss between runs of one kind, and from how many pairs */
        double sd;
        uint64_t sd_pairs;
    } arm[TW_ROLLOUT_ARMS];
    uint64_t nameless;   /* runs of either arm of which it is not known what they were made from */
    uint64_t overridden; /* runs whose command line sets what the fix sets */
    uint64_t after;      /* runs of the fallback */
    uint64_t off;        /* runs that could not use a flag file, whosever */
    char *off_why;       /* the newest reason; NULL: none */
    uint64_t going_on;   /* runs of either arm of which no end is known here */
    uint64_t missing;    /* runs of the rollout of which the ledger knows no more than the arm */
    /* runs of the canary of which it is known whether the pins took effect, and those in which one
     * did not */
    uint64_t force_known, out_of_force;
    /* time: with the fix over without; loss: the difference, by the size of that without; spread:
     * distance of two losses with the fix over that of two without, of the same two pairs */
    struct tw_rollout_ratios time, loss, spread;
    /* pairs of which one run has not ended well by now: that with the fix, that without */
    uint64_t failed_canary, failed_control;
};
void tw_rollout_seen_free(struct tw_rollout_seen *s);

/* ---- the decision (judge.c): numbers in, nothing else */

/* A value with an interval that holds at every look at once, each end with error rule.alpha / 4. */
struct tw_rollout_figure {
    double value; /* NaN: nothing to compute it from */
    struct twin_interval interval;
    uint64_t n;
};
struct tw_rollout_judged {
    enum tw_rollout_decision decision; /* held, widened or fell-back */
    uint32_t share;                    /* from now on */
    struct tw_rollout_figure diverged[TW_ROLLOUT_ARMS];
    struct twin_interval exact[TW_ROLLOUT_ARMS]; /* Clopper and Pearson, 95%, for one look */
    struct twin_interval sd[TW_ROLLOUT_ARMS];    /* chi-square, 95%, for one look */
    struct tw_rollout_figure time, loss, spread, failed;
    bool better;   /* shown: it diverges less than what was before */
    bool within;   /* shown: it diverges no more than the bound */
    char why[400]; /* of the decision, in one line */
};
void tw_rollout_judge(const struct tw_rollout_flag *f, const struct tw_rollout_seen *s,
                      struct tw_rollout_judged *out);

/* ---- the verbs (act.c) */

/* A call; texts are borrowed. */
struct tw_rollout_call {
    const char *flag; /* path */
    const char *home; /* absolute */
    const char *url;  /* of the ledger; NULL: the usual one */
};
/* Of start. */
struct tw_rollout_asked {
    const char *fix; /* "last", the id of a comparison of isolate or of a run in one, or pins */
    double share;
    const char *project, *fallback_pins;
    bool fallback_off;
    struct tw_rollout_rule rule; /* its ladder: as given, steps 0: the usual one */
};
/* What became of a call. tw_rollout_result_free in any case. */
struct tw_rollout_result {
    struct tw_rollout_flag flag; /* as it is now */
    struct tw_rollout_seen seen;
    struct tw_rollout_judged judged;
    bool busy;         /* another call is at work on this flag file: nothing was done */
    bool changed;      /* a decision was made and written */
    size_t compared;   /* pairs of runs that this call compared */
    size_t incomplete; /* of those that it should have: those that could not be */
    char *fix_of;      /* start: where the pins come from; NULL: they were given */
    bool unwritten;    /* the decision is in force, but the ledger has it not yet */
    char *unwritten_why;
};
int tw_rollout_start(const struct tw_rollout_call *c, const struct tw_rollout_asked *a,
                     struct tw_rollout_result *out, struct twin_error *err);
/* Compares what can be, decides, and writes. */
int tw_rollout_step(const struct tw_rollout_call *c, struct tw_rollout_result *out,
                    struct twin_error *err);
/* What step would decide from what is there; writes nothing. */
int tw_rollout_status(const struct tw_rollout_call *c, struct tw_rollout_result *out,
                      struct twin_error *err);
/* Ends it: all runs are as ever, or (fallback) all have the fallback's pins. why: a person's. */
int tw_rollout_end(const struct tw_rollout_call *c, bool fallback, const char *why,
                   struct tw_rollout_result *out, struct twin_error *err);
void tw_rollout_result_free(struct tw_rollout_result *r);

/* A decision that the ledger has. Texts are owned. */
struct tw_rollout_entry {
    char id[17];
    uint64_t sequence;
    int64_t time_ns;
    char *decision, *said;
};
struct tw_rollout_log {
    struct tw_rollout_entry *entry; /* by rollout, then by number */
    size_t count, room;
};
/* id NULL: of all. */
int tw_rollout_log_load(const struct tw_rollout_call *c, const char *id, struct tw_rollout_log *out,
                        struct twin_error *err);
void tw_rollout_log_free(struct tw_rollout_log *l);

/* ---- what the ledger says of all rollouts, without their flag files (told.c) */

struct tw_rollout_rate {
    uint64_t runs, same, diverged, unknown; /* repeats that were compared, as tw_rollout_seen */
    struct twin_interval exact;             /* of diverged: Clopper and Pearson, 95% */
};
struct tw_rollout_project {
    char *name; /* "": of all runs, also of those whose project is not known */
    struct tw_rollout_rate arm[TW_ROLLOUT_ARMS];
};
struct tw_rollout_told {
    char id[17], decision[16]; /* the last one; what came of it in the flag file is not looked at */
    uint64_t sequence;
    int64_t began_ns, decided_ns; /* the first decision, the last one */
    char *said;
    struct tw_rollout_project *project; /* first that of all, then by name */
    size_t projects;
};
/* Neither stopped nor fallen back, by its last decision. */
bool tw_rollout_is_running(const struct tw_rollout_told *t);
/* The newest decision first. */
struct tw_rollout_list {
    struct tw_rollout_told *item;
    size_t count;
};
/* Those that run, and those that came to an end since then; as of until_ns: nothing later counts.
 * tw_rollout_list_free in any case. */
int tw_rollout_list_load(struct twin_ledger *l, int64_t since_ns, int64_t until_ns,
                         struct tw_rollout_list *out, struct twin_error *err);
void tw_rollout_list_free(struct tw_rollout_list *l);

#endif
