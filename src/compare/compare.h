/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_COMPARE_H
#define TWIN_COMPARE_H
/*
 * Compare: alignment, first divergence, origin or carrier, benign differences, drift, classes of N
 * runs. Room: src/compare. Reads run folders (launch) and traces (trace); prints nothing.
 */
#include "src/launch/run.h"
#include "src/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

enum twin_verdict_outcome {
    /* "error": all arms of the job failed */
    TWIN_SAME,
    TWIN_WITHIN_TOLERANCE,
    TWIN_DIFFER,
    TWIN_INCONCLUSIVE,
    TWIN_FAILED
};
/* same|within-tolerance|differ|inconclusive|error */
const char *twin_verdict_name(enum twin_verdict_outcome o);

enum twin_role { TWIN_ROLE_UNKNOWN, TWIN_ORIGIN, TWIN_CARRIER };

/* What kind of disagreement it is. */
enum twin_finding_type {
    TWIN_FINDING_VALUE,  /* same key in both, contents differ */
    TWIN_FINDING_LAYOUT, /* same key, other dtype or shape */
    TWIN_FINDING_ONLY_A, /* record exists only in the reference run */
    TWIN_FINDING_ONLY_B,
    TWIN_FINDING_ORDER,   /* same records, other order */
    TWIN_FINDING_OUTCOME, /* one run failed or ended elsewhere */
    TWIN_FINDING_OUTPUT,  /* printed lines differ */
    TWIN_FINDING_FILE,    /* a file the job wrote differs */
    TWIN_FINDING_RANKS    /* other number of ranks or processes */
};

/*
 * Where a claim's evidence lies in a run, so that anybody can look it up: a record of a trace
 * ("ranks/0.4711.twt", its step and its number within it), a line of a stream ("stdout", number
 * from 1) or a file that the job wrote. file "": no evidence.
 */
struct twin_evidence {
    char file[256];
    uint32_t step, number;
    struct twin_digest digest; /* of a record */
};
#define TWIN_FINDING_INPUTS 16

struct twin_finding {
    enum twin_finding_type type;
    enum twin_role role;
    uint32_t step_a, step_b; /* equal unless arms are shifted */
    int32_t rank;
    char *seat;    /* the rank's place in the job's mesh, "pp 1, dp 0"; NULL: not known */
    char *process; /* "main", "loader worker 0" */
    enum twin_phase phase;
    enum twin_kind kind;
    /* one of the twelve words of the requirement table (static string in malloc'ed copy) */
    char *layer;
    char *name;       /* object */
    char *scope, *op; /* "" when unknown */
    char *site;       /* lines joined by '\n', innermost first; "" when unknown */
    uint32_t occurrence;
    char *text; /* for outcome, output, file: one line that says it */
    /* folders, beside those of the runs, of the zoom pair that shows it; NULL: the runs themselves
     * do */
    char *zoom[2];
    /* of a zoom pair's operation whose output goes by another name: the record's own; NULL: name,
     * scope */
    char *record, *record_scope;
    enum twin_kind record_kind; /* with record */
    /* role unknown: what was last seen whole and equal, and what is known to differ; NULL: not
     * known */
    char *between[2];
    /* numeric detail; NaN / 0 when not known */
    /* relative L2 distance: sketch estimate, or exact when values were kept */
    double rel_l2;
    bool rel_l2_exact;
    double max_ulp;             /* NaN unless values were kept */
    uint64_t changed, elements; /* changed is 0 with changed_known false when not known */
    bool changed_known;
    struct twin_stats stats_a, stats_b; /* count 0 when not recorded */
    struct twin_digest digest_a, digest_b;
    size_t run_a, run_b;             /* which of the runs, from 0 */
    bool weights_alone;              /* of these two weights alone were compared: other ranks */
    struct twin_evidence at_a, at_b; /* the record in each of them */
    /* what it was made from, as far as the trace says */
    struct {
        struct twin_evidence a, b;
    } input[TWIN_FINDING_INPUTS];
    size_t input_count; /* of those */
};

/* What a sentence of the verdict rests on: a word that says what is claimed, and one JSON object of
 * evidence that can be held against the recordings without this code (docs/format/verdict.md,
 * python -m twinrun.recheck). */
struct twin_claim {
    char *kind, *evidence;
};

struct twin_gap_range {
    int32_t rank;
    uint32_t first_step, last_step;
    uint64_t records;
};

/* The pins that every run of a verdict was made under (check --pinned). */
struct twin_pinned {
    char *factors; /* ids, separated by commas */
    char *search;  /* the folder of the search that named them */
    bool held;     /* each took effect in each run */
};

/* when each kind first parts */
struct twin_onset {
    char *what;
    enum twin_phase phase;
    enum twin_kind kind;
    uint32_t step;
};

/* What of one process was compared. Steps are counted as run 1 counts them: [first, end), of the
 * `of` that it made. */
struct twin_range {
    int32_t rank;
    char *process; /* role: "main", "child 1" */
    /* which process of this rank and role, from 1, in run 1 and in the other */
    size_t number_a, number_b;
    /* end <= first: nothing; all 0: a process without steps */
    uint64_t first, end, of;
    /* the other run's own count of `first`, and of its steps */
    uint64_t first_b, of_b;
    uint64_t records, of_records; /* of run 1's process: compared, and recorded */
    /* other numbers of ranks: of each step its updated weights, and where known to stand for all
     * ranks, in each step of each comparison, its gradients and optimizer state */
    bool weights_only, gradients, moments;
    bool whole; /* every step and record of both was compared */
};

/* "weights", "weights, gradients and optimizer state": what was compared between other numbers of
 * ranks. */
const char *twin_state_compared(bool gradients, bool moments);

/* What is known of one rank's first difference, beside those of the others. */
enum twin_rank_place {
    TWIN_RANK_FIRST,    /* the one that the verdict names */
    TWIN_RANK_FRONTIER, /* no message or collective brought it from another rank, either */
    TWIN_RANK_CARRIED,  /* it was taken from another rank, whose own differed */
    TWIN_RANK_UNKNOWN   /* one of the two, it is not known which */
};
const char *twin_rank_place_name(enum twin_rank_place p); /* first|frontier|carried|unknown */

struct twin_ranked {
    enum twin_rank_place place;
    int32_t rank;
    uint32_t step_a, step_b; /* each as the rank counts in that run */
    enum twin_kind kind;
    char *name;
    /* carried: from this rank's step (of run 1), by that message or call of a collective; numbers
     * are counted from 1, in either run */
    int32_t from;
    uint32_t from_step;
    bool message;
    char *by, *scope;
    uint32_t number_a, number_b;
};

/* The ranks that differ, in the order of messages and collectives as far as that is known. */
struct twin_rank_order {
    size_t ranks;             /* that were compared */
    bool exchanges;           /* messages or collectives were recorded */
    bool known;               /* no place is unknown, and none could be another one */
    char *why;                /* not known: why */
    struct twin_ranked *item; /* the named one first, then by rank */
    size_t count;
};

struct twin_class {
    size_t members;
    size_t *runs;
    int64_t parts_at_step; /* from the modal class; -1 for it */
    /* no difference between its members was found, but not all was compared */
    bool unsure;
};

struct tw_buf;
/*
 * A comparison that several processes over one storage share: each verifies a share of the traces,
 * and process 0 compares (cmd/diff_mpi.c). The verdict is that of a comparison without others.
 */
struct twin_share {
    size_t part, parts; /* which process this is, from 0, of how many */
    /* Process 0: gives in *out, which is empty and which the caller frees, what twin_share_verify()
     * or twin_share_trouble() made in process `part`; waits for it. Each is asked for once. 0 or an
     * error. */
    int (*collect)(void *user, size_t part, struct tw_buf *out, struct twin_error *err);
    void *user;
};

struct twin_compare_options {
    const struct twin_share *share; /* NULL: there are no other processes */
    bool steps_given;
    uint32_t steps;  /* compare only the first steps */
    int64_t shift;   /* b's step = a's step + shift */
    bool find_shift; /* arms: find the shift by weights */
    /* b must go on from a later step of a than its first: else nothing was resumed */
    bool resumed;
    /* glob patterns over "phase/kind/name" and file names; "file:GLOB": files alone; "line:REGEX":
     * lines of output and text */
    const char *const *ignore;
    size_t ignore_count;
    const char *tolerance_file; /* NULL = none */
    /* The clock experiment: two more runs of run 1's job, whose clocks ran faster
     * (run.clock_factor). NULL: none. */
    const struct twin_run *faster[2];
    /* against a baseline: which of its runs this is, from 0, as claims name it */
    size_t number;
    /* commands differ: argv, printed command lines and run counts are not findings */
    bool arms;
    /* of each run how many ranks it was to have; NULL: nobody said. Then `arms` holds between
     * numbers only: runs of one number are runs of one command, and no tolerance applies to them.
     */
    const uint32_t *ranks;
};

/* What made the steps of a run start as those of the recorded one did. */
enum twin_transplant_kind {
    TWIN_TRANSPLANT_NONE,
    TWIN_TRANSPLANT_DATA, /* batches, as loaders deliver them */
    TWIN_TRANSPLANT_RNG,  /* generator states */
    TWIN_TRANSPLANT_STEP  /* both, and weights, buffers, optimizer state */
};
const char *twin_transplant_name(enum twin_transplant_kind k);            /* data|rng|step */
int twin_transplant_parse(const char *s, enum twin_transplant_kind *out); /* TWIN_EINVAL */

/* An origin with its rate over the steps that started equal. */
struct twin_origin {
    struct twin_finding *finding;    /* where it was first seen */
    uint64_t steps_differing, steps; /* k of n steps, over all transplanted runs */
    size_t runs_differing;           /* transplanted runs in which it was seen */
    double rate, low, high;          /* Clopper-Pearson, 95% */
};

struct twin_transplant {
    enum twin_transplant_kind kind;
    uint32_t first, last; /* the window, as far as the runs went */
    size_t runs;          /* transplanted ones */
    uint64_t steps;       /* of the window, over all of them */
    /* of those, started with other weights all the same: not judged for what they compute */
    uint64_t unequal;
    /* of those, could not be transplanted: not judged at all */
    uint64_t left_out;
    struct twin_origin *origin;
    size_t origin_count; /* the most frequent first */
    /* nothing parted but what was replaced: the boundary carries the divergence */
    bool stopped;
};

/*
 * What replaying the suspect operation on its recorded inputs showed, also in turns on two cores.
 */
enum twin_replay {
    TWIN_REPLAY_UNKNOWN,
    TWIN_REPLAY_AGREES,
    TWIN_REPLAY_DISAGREES /* with itself */,
    TWIN_REPLAY_BY_CORE
};

/* A rule of the tolerance file, and what became of it. Criteria are 0 when not given. */
struct twin_rule_use {
    char *pattern, *reason;
    double rel_l2, abs, rtol, atol, ulp;
    uint64_t matched; /* differences that it covers; 0: an unused rule */
    uint64_t measured, unmeasured, outside;
    /* largest share of what it allows that was used; -1 when nothing was measured */
    double worst;
    char *where; /* where that was; NULL when nothing was measured */
};

/* One name of the world (a version, a processor) that was another when the baseline was made. */
struct twin_world_change {
    char *name, *then, *now;
};

/* What a run was held against, when that is a file and not another run. */
struct twin_against {
    char *path, *made; /* made: date and time, UTC */
    uint64_t runs;     /* that agreed when it was made */
    char *signer;      /* who signed it, as verified; NULL: nobody asked */
    struct twin_world_change *world;
    size_t world_count;
    bool world_known; /* both sides have a record of their world */
};

/* Tensors too large to be read in every step, which are recorded in parts that take turns. Over the
 * steps that were compared. */
struct twin_cover {
    enum twin_kind kind; /* weight, moment, or activation: what functions give to their next call */
    /* summed over tensors and steps: elements that were compared, elements that there are */
    uint64_t compared, elements;
    /* the longest that an element went without being looked at, in steps; 1: never */
    uint32_t every;
    /* tensors, and those of them of which the end was compared in every element */
    uint64_t tensors, whole_at_end;
};

struct twin_verdict {
    uint32_t *ranks; /* of each run, as in the options; NULL: nobody said */
    enum twin_verdict_outcome outcome;
    enum twin_verdict_outcome bitwise; /* without the tolerance */
    size_t runs, comparisons, differing;
    double p_diverge_upper, confidence; /* bound over comparisons; 1.0 when none */
    double rate, rate_low, rate_high;   /* Clopper-Pearson over comparisons */
    struct twin_finding *first;         /* NULL when same */
    /* the frontier at the first differing step, first included */
    struct twin_finding *origins;
    size_t origin_count;
    struct twin_finding *benign;
    size_t benign_count;
    struct twin_onset *onsets;
    size_t onset_count;
    /* "batch, weights, activations and loss of step 17 (214 records)"; "" when nothing */
    char *equal_before;
    uint64_t equal_before_records;
    uint64_t steps_a, steps_compared, steps_differing;
    bool steps_differing_exact;
    uint64_t records_a, records_compared;
    double drift_per_step; /* factor; NaN when not fitted */
    char *nonfinite;       /* onset of NaN/Inf, one line; "" when none */
    struct twin_class *classes;
    size_t class_count;
    struct twin_gap_range *gaps;
    size_t gap_count;
    char **unseen;
    size_t unseen_count; /* why not "same": what was not covered, by name */
    bool open_only;      /* among these: nothing but numbers that may be times */
    bool open_numbers;   /* among these: numbers that may be times */
    /* among these: text or files that do differ, neither as noise nor as numbers do */
    bool unjudged;
    /* no record, no printed line and no file: all that was compared is how the runs ended */
    bool nothing_compared;
    char **armed, **unarmed;
    size_t armed_count, unarmed_count;
    uint64_t lost_records;
    double overhead_ratio; /* largest over runs; NaN when not known */
    int64_t shift;
    bool shift_found;
    /* of the comparison of which least was compared; rank by rank */
    struct twin_range *ranges;
    size_t range_count;
    char **notes;
    size_t note_count;
    struct twin_rank_order *order;      /* NULL: one rank, or no rank's records differ */
    struct twin_transplant *transplant; /* NULL: none */
    char *rounding;                     /* what --explain rounding found, JSON; NULL: not asked */
    enum twin_replay replay;            /* of the zoom's suspect */
    struct twin_rule_use *rules;
    size_t rule_count; /* of the tolerance file, in its order */
    /* what was recorded in parts; none: all that was recorded was whole */
    struct twin_cover *covers;
    size_t cover_count;
    struct twin_against *against; /* NULL: runs were compared with each other */
    struct twin_pinned *pinned;   /* NULL: the job ran as it is */
    /* of TWIN_REPLAY_BY_CORE: two that give different results */
    int replay_core[2];
    /* made while comparing; twin_verdict_claims() has those of findings, too */
    struct twin_claim *claims;
    size_t claim_count;
};

/* Can these patterns of --ignore be used? 0, TWIN_EINVAL (names the steps or the expression of a
 * "line:"), TWIN_ENOMEM. */
int twin_ignore_check(const char *const *pattern, size_t count, struct twin_error *err);
/* Every claim of a verdict as a JSON array; *out is malloc'ed. TWIN_ENOMEM. */
int twin_verdict_claims(const struct twin_verdict *v, char **out, struct twin_error *err);

/* Is this a tolerance file? 0, TWIN_EFORMAT (names the rule), TWIN_ENOENT, TWIN_EIO, TWIN_ELIMIT,
 * TWIN_ENOMEM. */
int twin_tolerance_check(const char *path, struct twin_error *err);
/* What a first look at two runs shows: of the ranks that both have, how many differ in some step,
 * and the first such rank and step (0 where none does). By digests of steps as the traces state
 * them: nothing is verified, and no rule leaves anything out. */
struct twin_glance {
    size_t ranks, differing;
    int32_t rank;
    uint32_t step;
};
/* False: there is nothing to say, for want of ranks that both have, or of memory. */
bool twin_compare_glance(const struct twin_run *a, const struct twin_run *b,
                         struct twin_glance *out);
/* How much a comparison of these runs has to read. */
uint64_t twin_compare_bytes(const struct twin_run *const *runs, size_t n);
/* Within one run: do its ranks hold equal weights that something keeps equal
 * (DistributedDataParallel, placements of DTensor)? *texts: *count sentences, malloc'ed each and as
 * a list, none where no rank noted that it holds such weights; with equal_too also of those that
 * are equal. TWIN_ENOMEM, TWIN_EIO. */
int twin_compare_replicas(const struct twin_run *run, bool equal_too, char ***texts, size_t *count,
                          struct twin_error *err);
/* With how many threads of PyTorch each rank of a run computed, in the order of ranks. */
struct twin_rank_threads {
    int32_t rank;
    uint32_t threads;
};
/* False, and no list: a rank that has a trace did not tell it, told several numbers, or told them
 * of several processes otherwise; or there is no memory. *out goes to tw_free(). */
bool twin_run_threads(const struct twin_run *run, struct twin_rank_threads **out, size_t *count);
/* Compares runs[1..] with runs[0]. */
int twin_compare(const struct twin_run *const *runs, size_t n, const struct twin_compare_options *o,
                 struct twin_verdict **out, struct twin_error *err);
/* In any other process than 0, with the same runs: verifies its share of the traces, and says in
 * *out what it found, for process 0's collect(). TWIN_EIO or TWIN_ENOMEM: a trace could not be read
 * to its end; *out is empty then. Several threads. */
int twin_share_verify(const struct twin_run *const *runs, size_t n, const struct twin_share *share,
                      struct tw_buf *out, struct twin_error *err);
/* Makes what process 0 gets instead where that failed: its comparison ends with this text. 0 or
 * TWIN_ENOMEM. */
int twin_share_trouble(size_t part, size_t parts, const char *text, struct tw_buf *out);
/* Merges what a zoom pair (operation level, same window) shows into v->first: op, site, role,
 * counts, ulp. */
int twin_compare_zoom(struct twin_verdict *v, const struct twin_run *za, const struct twin_run *zb,
                      struct twin_error *err);
/* Only what replays in a pair of reruns showed of the operation that v->first names: a pair that
 * did not part tells that, too. */
int twin_compare_replays(struct twin_verdict *v, const struct twin_run *za,
                         const struct twin_run *zb, struct twin_error *err);
/* The call at which a zoom pair parts, in either run, as TWINRUN_ZOOM_OP names calls for a second
 * pair that keeps its values and replays it. Both texts are NULL when no call that both made is to
 * blame. twin_suspect_free(). */
struct twin_suspect {
    char *a, *b;
    int32_t rank;
    bool main_thread; /* in both runs the main thread made it */
};
/* Names that call. v is not changed. */
int twin_compare_suspect(const struct twin_verdict *v, const struct twin_run *za,
                         const struct twin_run *zb, struct twin_suspect *out,
                         struct twin_error *err);
void twin_suspect_free(struct twin_suspect *s);
/* Has this rerun, the second of a pair, chosen that very call by itself and run it again? */
bool twin_compare_replayed(const struct twin_run *zb, const struct twin_suspect *s);

struct twin_transplant_options {
    enum twin_transplant_kind kind;
    uint32_t first, last; /* steps whose start was replaced */
    const char *const *ignore;
    size_t ignore_count;
};
/* Judges each step of runs[1..], which were given the values of runs[0] at the start of each: fills
 * v->transplant, adds notes. Runs that part only there make the outcome "differ". TWIN_EINVAL: in
 * one of them nothing was replaced. */
int twin_compare_transplant(struct twin_verdict *v, const struct twin_run *const *runs, size_t n,
                            const struct twin_transplant_options *o, struct twin_error *err);
/* Adds a note to the verdict, formatted as by printf. One that cannot be stored is lost, the
 * verdict is not. */
void twin_verdict_note(struct twin_verdict *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What else keeps a finished verdict from being "same": it becomes inconclusive for this reason,
 * unless the runs differ or fail, where the reason is a note. */
void twin_verdict_unseen(struct twin_verdict *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* All its runs were made under these pins (struct twin_pinned). TWIN_ENOMEM: then the verdict must
 * not be shown, since it would read as one of the job as it is. */
int twin_verdict_pinned(struct twin_verdict *v, const char *factors, const char *search, bool held,
                        struct twin_error *err);
/* An input that was handed to a module: lines of the job computed it, and no loader. */
bool twin_finding_is_handed(const struct twin_finding *f);
/* Is it of what a function gave back? Then the function made it, whatever its kind. */
bool twin_finding_is_given_back(const struct twin_finding *f);

void twin_verdict_free(struct twin_verdict *v);

/* While run b is still going on: has it parted from a, and at which step? Cheap enough to be called
 * each tick. Of the options, shift and ignore count; NULL: none. */
int twin_compare_live(const struct twin_run *a, const char *b_dir,
                      const struct twin_compare_options *o, bool *parted, uint32_t *step,
                      struct twin_error *err);

/* Where N runs split: each class but the first leaves another one, its parent, at a step. branch[0]
 * is the usual class. */
struct twin_branch {
    size_t *runs;
    size_t members;
    size_t parent;
    int64_t step; /* -1 for branch[0] */
};
struct twin_class_tree {
    struct twin_branch *branch;
    size_t count;
};
/* Every class is compared with the others that leave at its step, so this takes up to n (n - 1) / 2
 * comparisons. */
int twin_compare_tree(const struct twin_run *const *runs, size_t n,
                      const struct twin_compare_options *o, struct twin_class_tree *out,
                      struct twin_error *err);
void twin_class_tree_free(struct twin_class_tree *t);
#endif
