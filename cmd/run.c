/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun run: the job with its sources of variation held still, and a word about which were. The
 * list of --pin becomes a world, the world a plan that goes into the launch; when the job has
 * ended, what its processes said tells which pins took effect. With --cost the job is run in pairs,
 * without and with the pins, in turn, so that a machine that drifts drifts over both.
 */
#include "effects_line.h"

#include "record.h"
#include "rollout_run.h"
#include "run_orders.h"
#include "runs.h"
#include "say.h"

#include "base.h"

#include "src/stats/stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Pairs of runs of --cost: the least that gives an interval that says something. */
enum { PAIRS = 3 };

/* The options: those of record, and which world. */
struct run_args {
    struct tw_record_args record;
    const char *pin, *factor_file, *replay_order;
    uint64_t replay_wait;
    bool cost;
};

#define FIELD(f) offsetof(struct run_args, f)

static const struct tw_option options[] = {
    {"pin", 'p', TW_OPT_STRING, "LIST", "all", "Factors",
     "what is held still: all, or ids of twinrun factors separated by commas; ID=VALUE, all,-ID, "
     "ID=vary:SEED",
     FIELD(pin)},
    {"factor-file", 'f', TW_OPT_FILE, "FILE", NULL, "Factors", "factors of your own, in TOML",
     FIELD(factor_file)},
    {"cost", 0, TW_OPT_FLAG, NULL, NULL, "Factors",
     "run the job three times without and three times with the pins, in turn, and say what they "
     "cost",
     FIELD(cost)},
    {"replay-order", 0, TW_OPT_STRING, "RUN", NULL, "Factors",
     "messages of MPI and gloo, and results of Python's executors and loaders, are taken in the "
     "order of this recorded run, as long as they come",
     FIELD(replay_order)},
    {"replay-wait", 0, TW_OPT_SECONDS, "TIME", "60", "Factors",
     "how long a message or result of --replay-order is waited for while others could be taken",
     FIELD(replay_wait), 1, 3600},
    TW_RECORD_OPTIONS(run_args, record),
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output",
     "say only what could not be pinned although it was asked for", FIELD(record.quiet)},
    {NULL},
};

static const char *const synopsis[] = {"[options] -- COMMAND [ARG...]", NULL};
static const struct tw_pair exits[] = {
    {"N", "the job's own exit code, or 128 + the number of the signal that killed it"},
    {"126", "the command was found but could not be executed"},
    {"127", "the command was not found"},
    {"2", "bad use of twinrun, such as an unknown factor, or data that are not what --data says; "
          "the job was not started. With --require-parity: ranks that differ or were not seen; the "
          "job was ended"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun run -- python train.py", "with everything pinned that can be pinned here"},
    {"twinrun run --pin all,-threads -- python train.py", "but as many threads as ever"},
    {"twinrun run --pin hash-seed,seed.torch=7 -- python train.py", "only these two"},
    {"twinrun run --cost -- python train.py", "and what it costs"},
    {"twinrun run --replay-order last -- mpirun -n 4 ./solver",
     "each receive takes the message that it took in the last run"},
    {"twinrun run --replay-order last -- torchrun --nproc-per-node 4 train.py",
     "the same of dist.recv without a source"},
    {"twinrun run --replay-order last -- python train.py",
     "as_completed, wait, imap_unordered and DataLoader(in_order=False) tell of results as then"},
    {NULL, NULL},
};

/* What is held still: the factors that there are, those that are set, and what that means for a
 * launch. The later ones point into the earlier ones. */
struct world {
    struct twin_factors factors;
    struct twin_world world;
    struct twin_world_plan plan;
    char *left_out; /* what "all" did not pin, with reasons; NULL: nothing */
};

/* From --pin to what a launch is given. order: NULL, or what is replayed, for which pins step back.
 * The caller frees w also after an error. */
static int make_world(const struct run_args *a, char **argv, const struct tw_run_orders *order,
                      struct world *w, struct twin_error *err)
{
    int rc = twin_factors_load(a->factor_file, &w->factors, err);
    if (rc == 0)
        rc = twin_world_parse(&w->factors, a->pin, &w->world, &w->left_out, err);
    if (rc == 0 && order)
        rc = tw_run_orders_step_back(order, &w->world, &w->left_out, err);
    if (rc == 0)
        rc = twin_world_plan(&w->world, argv, &w->plan, err);
    return rc;
}

static void free_world(struct world *w)
{
    twin_world_plan_free(&w->plan);
    twin_world_free(&w->world);
    twin_factors_free(&w->factors);
    tw_free(w->left_out);
}

/* ---- what came of it */

/* One line about the pins of a run that has ended. What failed is said also when quiet: a pin that
 * did not take effect must not pass for one that did. */
static void report(const struct world *w, const struct twin_run *r, bool quiet)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_world_effect *e = NULL;
    if (twin_world_effects(&w->world, r, &e, &err) != 0) {
        tw_trouble(&err, "whether the pins took effect is not known");
        return;
    }
    char *line = tw_effects_line(&w->world, e, w->left_out, r->dir, quiet);
    if (line && *line)
        tw_say("%s", line);
    tw_free(line);
    twin_world_effects_free(e, w->world.count);
}

/* ---- once */

/* The job, as transparent as by record, with the pins. Its own exit code. order: NULL, or what is
 * to be replayed. rollout: NULL, or what is recorded of one. */
static int run_once(const struct run_args *a, char **argv, const struct world *w,
                    struct tw_run_orders *order, const struct twin_run_rollout *rollout)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_transparent t = {.code = 0};
    struct twin_launch_options o = tw_record_launch(&a->record, argv, &t);
    twin_world_plan_apply(&w->plan, &o);
    o.rollout = rollout;
    if (order) {
        o.fill_folder = tw_run_orders_fill;
        o.fill_user = order;
    }
    if (tw_trial_make(&t.trial, &o, &err) != 0)
        return tw_record_failed(&t, argv, "unwatched and unpinned", &err);
    struct twin_run *r = t.trial.run;
    if (t.trial.end == TW_TRIAL_NOT_STARTED)
        tw_say("%s", r->message);
    else
        report(w, r, a->record.quiet);
    if (order && t.trial.end != TW_TRIAL_NOT_STARTED)
        tw_run_orders_report(order, r, a->record.quiet);
    int rc = tw_record_exit(&t);
    tw_record_json(&a->record, r);
    tw_ledger_note_run(a->record.home, a->record.ledger, r);
    twin_run_free(r);
    return rc;
}

/* ---- three pairs */

/* Runs without and with the pins, in turn. */
struct series {
    const struct run_args *a;
    const struct world *w;
    char **argv;
    char *spool;         /* every run reads the same stdin */
    double ratio[PAIRS]; /* wall time with the pins over that without */
    size_t pairs;
    int code;  /* of the first pinned run: the one whose output is shown */
    bool stop; /* no more runs: the cost cannot be known */
};

/* Wall time of one run; NaN, and stop, when there is no time that could be compared. */
static double run_timed(struct series *s, bool pinned, bool shown)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_transparent t = {.code = 0};
    struct twin_launch_options o = tw_record_launch(&s->a->record, s->argv, &t);
    o.show_output = shown;
    o.stdin_spool = s->spool;
    o.label = pinned ? "pinned" : "unpinned";
    if (pinned)
        twin_world_plan_apply(&s->w->plan, &o);
    if (!shown && !s->a->record.require_parity) /* once is enough */
        t.trial.parity_front = NULL;
    s->stop = true;
    if (tw_trial_make(&t.trial, &o, &err) != 0) {
        s->code = tw_trouble(&err, "the cost was not measured");
        return NAN;
    }
    struct twin_run *r = t.trial.run;
    if (shown)
        report(s->w, r, s->a->record.quiet);
    int code = tw_record_exit(&t);
    if (shown || code != 0)
        s->code = code;
    if (code != 0 || r->outcome == TWIN_RUN_INTERRUPTED || r->outcome == TWIN_RUN_NOT_STARTED)
        tw_say("the cost was not measured: the %s run ended with exit code %d: %s",
               pinned ? "pinned" : "unpinned", code,
               *r->message ? r->message : "see twinrun show last");
    else
        s->stop = false;
    double wall = s->stop ? NAN : r->wall_s;
    twin_run_free(r);
    return wall;
}

/* The ratios' mean on a log scale: twice as slow and twice as fast are equally far from no cost. */
static void say_cost(const struct series *s)
{
    struct twin_estimate e = twin_stats_log_mean_interval(s->ratio, s->pairs, 0.95);
    tw_say("cost: the pinned job takes %.2f times as long (95%% interval %.2f to %.2f, %zu "
           "interleaved pairs on this machine)",
           e.value, e.interval.low, e.interval.high, s->pairs);
}

/* PAIRS pairs, or fewer when a run fails. Only the first pinned run shows its output: it stands for
 * the job, and its exit code is ours. */
static int run_cost(const struct run_args *a, char **argv, const struct world *w)
{
    const char *folder = getenv("TMPDIR");
    char *spool = tw_path_join(folder && *folder ? folder : "/tmp", "twinrun-stdin-XXXXXX");
    int fd = spool ? mkstemp(spool) : -1;
    struct series s = {.a = a, .w = w, .argv = argv, .spool = fd >= 0 ? spool : NULL};
    if (fd >= 0)
        close(fd);
    for (; s.pairs < PAIRS && !s.stop; s.pairs++) {
        double plain = run_timed(&s, false, false);
        double pinned = s.stop ? NAN : run_timed(&s, true, s.pairs == 0);
        if (s.stop)
            break;
        s.ratio[s.pairs] = pinned / plain;
    }
    if (s.pairs == PAIRS)
        say_cost(&s);
    if (fd >= 0)
        unlink(spool);
    tw_free(spool);
    return s.code;
}

/* The same in the order of a recorded run. */
static int run_in_order(const struct run_args *a, char **argv)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct world w = {.plan = {.cpu = -1}};
    struct tw_run_orders order = {.matches = {.count = 0}};
    char *home = tw_home(a->record.home);
    struct twin_run *recorded = tw_run_open(home, a->replay_order);
    int rc = TW_EXIT_TROUBLE;
    if (recorded &&
        (tw_run_orders_read(&order, recorded, (uint32_t)(a->replay_wait * 1000), &err) != 0 ||
         make_world(a, argv, &order, &w, &err) != 0))
        tw_trouble(&err, "the job was not started");
    else if (recorded)
        rc = run_once(a, argv, &w, &order, NULL);
    tw_run_orders_free(&order);
    free_world(&w);
    twin_run_free(recorded);
    tw_free(home);
    return rc;
}

/* The job with the pins of the command line, and with those of a rollout where TWINRUN_ROLLOUT
 * names one and the run is of its canary. A rollout takes no pin away, and keeps no job from
 * running. */
static int run_plain(const struct run_args *a, char **argv)
{
    struct tw_rollout_run r;
    struct world w = {.plan = {.cpu = -1}};
    struct run_args with = *a;
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_rollout_run_join(&r, a->pin, a->factor_file, argv, a->record.quiet))
        with.pin = r.joined.pins;
    int rc = make_world(&with, argv, NULL, &w, &err);
    if (rc == 0)
        rc = run_once(&with, argv, &w, NULL, r.joined.run.arm ? &r.joined.run : NULL);
    else
        rc = tw_trouble(&err, "the job was not started");
    free_world(&w);
    tw_rollout_run_free(&r);
    return rc;
}

static int run(int argc, char **argv)
{
    struct run_args a = {0};
    struct tw_operands job;
    struct twin_error err = TWIN_ERROR_INIT;
    struct world w = {.plan = {.cpu = -1}};
    int rc = tw_options_parse(&tw_command_run, argc, argv, &a, &job);
    if (rc >= 0)
        return rc;
    if (job.count == 0)
        return tw_bad_use(
            "run", "expected the job's command after --; write: twinrun run -- python train.py");
    if (a.cost && a.replay_order)
        return tw_bad_use("run", "--cost and --replay-order exclude each other: what is measured "
                                 "is the job without pins beside that with them");
    if (a.cost && a.record.json)
        return tw_bad_use("run", "--cost makes six runs and --json is of one: leave out --json, "
                                 "and use show --json on the run that is meant");
    if ((rc = tw_record_json_check("run", &a.record)) != 0)
        return rc;
    if ((rc = tw_data_verify("run", &a.record.data, a.record.home, a.record.quiet,
                             &a.record.verified)) >= 0)
        return rc;
    if (a.replay_order)
        return run_in_order(&a, job.items);
    if (!a.cost)
        return run_plain(&a, job.items);
    if (make_world(&a, job.items, NULL, &w, &err) != 0)
        rc = tw_trouble(&err, "the job was not started");
    else
        rc = run_cost(&a, job.items, &w);
    free_world(&w);
    return rc;
}

const struct tw_command tw_command_run = {
    "run",
    "run a job with its sources of variation held still",
    synopsis,
    "Runs COMMAND with the factors of --pin held still: seeds, hash salt, threads, instruction "
    "set, random bytes of the system, time of day, order of folders, address layout and more; "
    "twinrun factors lists them. The job's output and exit code are its own. At the end one line "
    "on stderr says what was pinned, what did not take effect and why, what the job did not use, "
    "and what was left out.\n\n"
    "Keys and tokens that a job makes while entropy is pinned are known to everyone, and "
    "certificates are checked against the pinned clock: for jobs that use the network write --pin "
    "all,-entropy,-clock.\n\n"
    "The run is recorded as by twinrun record.",
    options,
    TW_OPERANDS_JOB,
    0,
    0,
    exits,
    examples,
    run,
};
