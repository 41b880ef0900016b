/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zoom: two reruns at operation level. The first keeps what every operation of its window made,
 * the second runs the first operation that makes something else again at once. Where that was not
 * the one that the comparison names, or its values were not kept, a second pair follows, which is
 * told the suspect. check, isolate, shrink and zoom call tw_zoom_run with a verdict that has a
 * first divergence; what is found is merged into that verdict.
 *
 * A zoom is bounded: by the deadline of the caller, and by a limit of its own where nobody asked
 * for it by name.
 */
#include "zoom_runs.h"

#include "base.h"
#include "run_state.h"
#include "trial.h"
#include "zoom_kept.h"

#include "src/trace/trace.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ATTEMPTS: runs of B that are tried until one diverges from A's, where each run may do as it
 * likes. RERUNS: what a zoom makes at least. */
enum { ATTEMPTS = 3, RERUNS = 2 };
/* what a zoom may take that nobody asked for by name */
enum { LIMIT_RUNS = 5, LIMIT_AT_LEAST_S = 60 };
/* Of values per process: enough for one operation of a large model, or for all of a step of a small
 * one, and small for a disk. */
enum { KEEP_BYTES = 64 << 20 };
/* A step at operation level has so many times the records of a usual one (a CNN: 584 and 47), each
 * of which takes so long. */
enum { TIMES_THE_RECORDS = 12, RECORD_US = 50 };
/* Records of steps before the suspect one that are worth having: the reruns may diverge earlier
 * than the runs did, and a step of which no operation was recorded then names nothing. */
enum { RECORDS_BEFORE = 6000 };
/* Milliseconds between two looks at a rerun, which waits for its end behind its last step. */
enum { TICK_MS = 20 };

static bool uses_torch(const struct twin_run *r)
{
    bool found = false;
    for (size_t i = 0; i < r->trace_count && !found; i++) {
        struct twin_trace *t = NULL;
        const char *key, *value;
        if (twin_trace_open(r->traces[i], &t, NULL) != 0)
            continue;
        for (size_t n = 0; !found && twin_trace_note(t, n, &key, &value); n++)
            found = tw_starts(key, "torch.");
        twin_trace_close(t);
    }
    return found;
}

/* The loader's batch and the generator have their consumer named already; single operations say
 * more only about computing. */
static bool is_computed(enum twin_phase phase)
{
    return phase == TWIN_PHASE_INIT || phase == TWIN_PHASE_FORWARD ||
           phase == TWIN_PHASE_BACKWARD || phase == TWIN_PHASE_COLLECTIVE ||
           phase == TWIN_PHASE_OPTIMIZER || phase == TWIN_PHASE_KERNEL;
}

/* An arm of several trainers: a rerun that stops all of them after some steps never gets to the
 * later ones. */
static bool several_trainers(const struct twin_verdict *v)
{
    for (size_t i = 0; i < v->range_count; i++)
        if (v->ranges[i].number_b > v->ranges[i].number_a)
            return true;
    return false;
}

/* Set by the job's own lines: no operation makes it. Of torch's generators the line that draws
 * first can be shown. */
static bool is_set_by_the_job(const struct twin_finding *f)
{
    bool of_torch = tw_starts(f->name, "torch.");
    return f->kind == TWIN_KIND_HYPER || (f->kind == TWIN_KIND_STATE && !of_torch);
}

/* The step that a resumed run makes first. Its records hold the set-up, too: operations that the
 * other run made long before, and none of which diverged. */
static bool is_first_of_a_resumed_run(const struct twin_finding *f)
{
    return f->step_a != f->step_b && (f->step_a == 0 || f->step_b == 0);
}

bool tw_zoom_is_possible(const struct twin_verdict *v, const struct twin_run *a, const char **why)
{
    const struct twin_finding *f = v->first;
    *why = NULL;
    bool set = f && is_set_by_the_job(f);
    bool handed = f && twin_finding_is_handed(f);
    if (!f || f->type > TWIN_FINDING_ORDER || !(is_computed(f->phase) || handed) || set)
        return false;
    if (!uses_torch(a)) {
        *why = "single operations are seen in PyTorch jobs only";
        return false;
    }
    /* ranks of other numbers, or with other parts of weights, call operations on other tensors:
     * the first of them would be called the first difference */
    return !several_trainers(v) && !f->weights_alone && !is_first_of_a_resumed_run(f);
}

bool tw_zoom_is_useful(const struct twin_verdict *v, const struct twin_run *a, const char **why)
{
    *why = NULL;
    return a->level != TWIN_LEVEL_OPS && tw_zoom_is_possible(v, a, why);
}

static int remember_run(struct tw_zoom *z, const char *dir)
{
    char **grown = tw_reallocarray(z->dirs, z->dir_count + 1, sizeof *grown);
    char *copy = tw_strdup(dir);
    if (grown)
        z->dirs = grown;
    if (!grown || !copy) {
        tw_free(copy);
        return TWIN_ENOMEM;
    }
    z->dirs[z->dir_count++] = copy;
    return 0;
}

static bool time_is_up(const struct tw_zoom *z)
{
    return z->limit_ns && tw_monotonic_ns() > z->limit_ns;
}

/* Of the two ends that a rerun may be given, the nearer one. */
static uint64_t end_of(const struct tw_zoom *z)
{
    if (!z->limit_ns || (z->deadline_ns && z->deadline_ns < z->limit_ns))
        return z->deadline_ns;
    return z->limit_ns;
}

void tw_zoom_expect(struct tw_zoom *z, const struct twin_run *usual, double start_s)
{
    struct tw_run_totals t;
    tw_run_totals(usual, &t);
    z->run_s = usual->wall_s;
    z->start_s = start_s < z->run_s ? start_s : z->run_s;
    z->step_s = t.steps ? (z->run_s - z->start_s) / (double)t.steps : 0;
    z->step_records = t.steps ? (double)t.records / (double)t.steps : 0;
}

/* How many steps before the suspect one are recorded by operations, too: one, and more of them
 * where they have few records. */
static uint32_t steps_before(const struct tw_zoom *z, uint32_t suspect)
{
    double records = z->step_records * TIMES_THE_RECORDS;
    uint32_t n = 1;
    if (records > 0 && RECORDS_BEFORE / records > 1)
        n = RECORDS_BEFORE / records < suspect ? (uint32_t)(RECORDS_BEFORE / records) : suspect;
    return n < suspect ? n : suspect;
}

/* Seconds that one rerun takes, as far as the usual run tells. */
static double estimate(const struct tw_zoom *z, uint32_t suspect)
{
    double records = z->step_records * TIMES_THE_RECORDS * (steps_before(z, suspect) + 1);
    return z->start_s + z->step_s * suspect + records * RECORD_US * 1e-6;
}

/* What one rerun is told. */
struct told {
    const char *op;      /* this call's values are kept, and it is replayed */
    const char *against; /* its calls are held against those of this rerun, a folder */
    bool keeps;          /* it keeps what its calls make, for that */
    bool until_draw;     /* its first step ends behind the first draw that nobody gave a seed */
};

/* The job's environment with what the rerun is told. Of the list only the texts in `own` are ours.
 */
struct surroundings {
    char **env, *own[3];
};

static void forget_surroundings(struct surroundings *s)
{
    for (size_t i = 0; i < sizeof s->own / sizeof s->own[0]; i++)
        tw_free(s->own[i]);
    tw_free(s->env);
}

/* Takes a text into the environment, unless there is no memory for it. */
static bool add_text(struct surroundings *s, size_t *n, size_t own, char *text)
{
    s->own[own] = text;
    s->env[(*n)++] = text;
    return text != NULL;
}

static int surround(const struct twin_launch_options *base, const struct told *told,
                    struct surroundings *s, struct twin_error *err)
{
    size_t n = 0;
    while (base->env && base->env[n])
        n++;
    s->env = tw_calloc(n + 4, sizeof *s->env);
    for (size_t i = 0; s->env && i < n; i++)
        s->env[i] = base->env[i];
    bool ok = s->env != NULL;
    if (ok && (told->op || told->against || told->keeps))
        ok = add_text(s, &n, 0, tw_printf("TWINRUN_ZOOM_KEEP=%d", KEEP_BYTES));
    if (ok && told->op)
        ok = add_text(s, &n, 1, tw_printf("TWINRUN_ZOOM_OP=%s", told->op));
    else if (ok && told->against)
        ok = add_text(s, &n, 1, tw_printf("TWINRUN_ZOOM_AGAINST=%s", told->against));
    /* whose child is meant: what the job starts is another process, with draws of its own */
    if (ok && told->until_draw)
        ok = add_text(s, &n, 2, tw_printf("TWINRUN_ZOOM_DRAW=%ld", (long)getpid()));
    return ok ? 0 : tw_no_memory(err, "for the environment of a zoom");
}

/* Makes one rerun, to the step behind the suspect one. Interrupted is no error: z says so, and *out
 * may be NULL. */
static int launch_rerun(struct tw_zoom *z, const struct twin_launch_options *base, uint32_t step,
                        const struct told *told, const char *title, struct twin_run **out,
                        struct twin_error *err)
{
    struct tw_trial t = {.front = z->front, .title = title, .deadline_ns = end_of(z), .bare = true};
    struct twin_launch_options o = *base;
    struct surroundings around = {0};
    char text[32];
    int rc = surround(base, told, &around, err);
    o.env = around.env;
    o.level = TWIN_LEVEL_OPS;
    o.window_first = step - steps_before(z, step);
    o.window_last = step;
    o.max_steps = step + 1;
    o.hold = z->one_process;
    o.tick_ms = TICK_MS;
    o.no_telemetry = true; /* of a run that is slowed down and cut it says nothing */
    o.show_output = false; /* the job's output has been seen once */
    if (rc == 0)
        rc = tw_trial_make(&t, &o, err);
    *out = t.run;
    forget_surroundings(&around);
    if (rc != 0) {
        z->interrupted |= rc == TWIN_EINTR;
        return rc == TWIN_EINTR ? 0 : rc;
    }
    z->cut |= t.end == TW_TRIAL_OUT_OF_TIME && time_is_up(z);
    z->interrupted |= t.end == TW_TRIAL_INTERRUPTED || (t.end == TW_TRIAL_OUT_OF_TIME && !z->cut);
    if (!z->quiet)
        tw_trial_line(z->front, title, t.run,
                      t.run->outcome == TWIN_RUN_STOPPED ? "ok" : tw_run_state(t.run, text));
    return remember_run(z, t.run->dir);
}

/* Two reruns, the last of as many counterparts as it took. */
struct pair {
    struct twin_run *a, *b;
    bool parted;
};

static bool has_rank(const struct twin_verdict *v, int32_t rank)
{
    for (size_t i = 0; i < v->range_count; i++)
        if (v->ranges[i].rank == rank && v->ranges[i].end > v->ranges[i].first)
            return true;
    return false;
}

/* A rank whose steps were compared in v and not in the pair of reruns, which were perhaps ended
 * before it made any: what the others did first is then not what was done first. -1: none. */
static int32_t lacking_rank(const struct twin_verdict *v, const struct twin_verdict *reruns)
{
    for (size_t i = 0; i < v->range_count; i++)
        if (v->ranges[i].end > v->ranges[i].first && !has_rank(reruns, v->ranges[i].rank))
            return v->ranges[i].rank;
    return -1;
}

/* Do the two diverge within the window, and have all ranks that v compares? An error means no. */
static bool parted(const struct twin_verdict *v, struct tw_zoom *z, const struct pair *p,
                   int64_t shift)
{
    const struct twin_run *pair[2] = {p->a, p->b};
    struct twin_compare_options o = {.shift = shift};
    struct twin_verdict *reruns = NULL;
    bool differ = twin_compare(pair, 2, &o, &reruns, NULL) == 0 && reruns->outcome == TWIN_DIFFER;
    z->lacking_rank = differ ? lacking_rank(v, reruns) : -1;
    twin_verdict_free(reruns);
    return differ && z->lacking_rank < 0;
}

static void forget_pair(struct pair *p)
{
    twin_run_free(p->a);
    twin_run_free(p->b);
    *p = (struct pair){NULL, NULL, false};
}

/* A run of A, then runs of B until one diverges from it. s: the suspect, which both are told; NULL:
 * B is held against A while it runs, where both count their steps alike. until_draw: both end their
 * first step at a draw without a seed; every such pair diverges, so B is tried once. */
static int make_pair(const struct twin_verdict *v, struct tw_zoom *z, const struct twin_suspect *s,
                     bool until_draw, struct pair *out, struct twin_error *err)
{
    uint32_t step[2] = {v->first->step_a, v->first->step_b};
    bool alike = !s && step[0] == step[1];
    struct told told[2] = {
        {.op = s ? s->a : NULL, .keeps = alike, .until_draw = until_draw},
        {.op = s ? s->b : NULL, .until_draw = until_draw},
    };
    const int attempts = until_draw ? 1 : ATTEMPTS;
    const char *what = s ? "replay" : "zoom";
    struct pair p = {NULL, NULL, false};
    char title[48];
    snprintf(title, sizeof title, "%s a", what);
    int rc = launch_rerun(z, z->base_a, step[0], &told[0], title, &p.a, err);
    if (p.a && alike)
        told[1].against = p.a->dir;
    for (int i = 0; rc == 0 && i < attempts && !p.parted && !z->interrupted && !z->cut; i++) {
        twin_run_free(p.b);
        p.b = NULL;
        snprintf(title, sizeof title, "%s b%d", what, i + 1);
        rc = launch_rerun(z, z->base_b, step[1], &told[1], title, &p.b, err);
        p.parted = rc == 0 && !z->interrupted && !z->cut &&
                   parted(v, z, &p, (int64_t)step[1] - (int64_t)step[0]);
        z->interrupted |= tw_front_stops(z->front);
        z->cut |= !p.parted && time_is_up(z);
    }
    *out = p;
    return rc;
}

/* Has the pair shown all that a second one would: the suspect's values in both, and replays? */
static bool is_enough(const struct pair *p, const struct twin_suspect *s)
{
    return s->main_thread && twin_compare_replayed(p->b, s) &&
           tw_zoom_kept_take(p->a->dir, s->rank, s->a, KEEP_BYTES);
}

/* Seconds that all reruns may take together; 0: no limit. */
static double bound_of(const struct tw_zoom *z)
{
    double usual = LIMIT_RUNS * z->run_s > LIMIT_AT_LEAST_S ? LIMIT_RUNS * z->run_s
                                                            : LIMIT_AT_LEAST_S;
    if (z->limit_s > 0)
        return z->limit_s;
    return z->run_s > 0 ? usual : 0;
}

/* Sets the moment at which all reruns end, and tells the person before they begin. */
static void announce_zoom(const struct twin_verdict *v, struct tw_zoom *z)
{
    char each[24], once[24], limit[24];
    double bound = bound_of(z);
    if (bound <= 0)
        return;
    z->limit_ns = tw_monotonic_ns() + (uint64_t)(bound * 1e9);
    if (!z->quiet)
        tw_front_say(
            z->front,
            "zoom: %d reruns or more, each to step %u and at operation level, about %s each "
            "(a run took %s): at most %s; --no-zoom leaves it out",
            RERUNS, v->first->step_a, tw_human_seconds(estimate(z, v->first->step_a), each),
            tw_human_seconds(z->run_s, once), tw_human_seconds(bound, limit));
}

static void note_cut(struct twin_verdict *v, const struct tw_zoom *z)
{
    char once[24], limit[24];
    const char *without = z->parted ? ", without replays of what it names"
                                    : ", before it named an operation";
    twin_verdict_note(v,
                      "zoom: cut short at its limit of %s (a run took %s)%s; --zoom-time gives it "
                      "more, and twinrun zoom on the two runs has no limit",
                      tw_human_seconds(bound_of(z), limit), tw_human_seconds(z->run_s, once),
                      without);
}

/*
 * Is it the state in which torch's generator began? Then the operation that is looked for is the
 * first one that draws, most often the first weight of a model. What the job does behind it, to the
 * end of a step, shows nothing more.
 */
static bool began_unlike(const struct twin_finding *f)
{
    return f->phase == TWIN_PHASE_INIT && f->kind == TWIN_KIND_STATE && f->step_a == 0 &&
           f->step_b == 0 && strcmp(f->name, "torch.cpu") == 0;
}

/* The first pair. One that ends early and did not diverge there is made again, whole. */
static int make_first_pair(const struct twin_verdict *v, struct tw_zoom *z, struct pair *out,
                           struct twin_error *err)
{
    bool until_draw = z->one_process && began_unlike(v->first);
    int rc = make_pair(v, z, NULL, until_draw, out, err);
    if (rc != 0 || !until_draw || out->parted || z->interrupted || z->cut)
        return rc;
    forget_pair(out);
    return make_pair(v, z, NULL, false, out, err);
}

/*
 * Every operation of the window is fingerprinted, which names the suspect. In most cases B has run
 * it again by then. Else the pair is run once more with the suspect's values kept and itself
 * replayed on its inputs: counts, ulp, and whether it agrees with itself, here and on another core.
 * When that second pair does not diverge, the first one's answer stands, but its replays still
 * count.
 */
int tw_zoom_run(struct twin_verdict *v, struct tw_zoom *z, struct twin_error *err)
{
    struct pair first = {NULL, NULL, false}, second = {NULL, NULL, false};
    struct twin_suspect s = {0};
    z->one_process = v->range_count == 1;
    z->lacking_rank = -1;
    announce_zoom(v, z);
    int rc = make_first_pair(v, z, &first, err);
    if (rc == 0 && z->lacking_rank >= 0)
        twin_verdict_note(
            v, "zoom: rank %d made no step in a rerun, so no operation is named; zoom again",
            z->lacking_rank);
    else if (rc == 0 && !first.parted && !z->interrupted && !z->cut)
        twin_verdict_note(
            v,
            "zoom: %d reruns of step %u at operation level did not diverge: it is rare, "
            "or watching every operation hides it",
            ATTEMPTS, v->first->step_a);
    if (rc == 0 && first.parted)
        rc = twin_compare_suspect(v, first.a, first.b, &s, err);
    z->interrupted |= tw_front_stops(z->front);
    bool enough = rc == 0 && s.a && is_enough(&first, &s);
    if (first.a)
        tw_zoom_kept_drop(first.a->dir);
    if (rc == 0 && s.a && !enough && !z->interrupted && !z->cut)
        rc = make_pair(v, z, &s, false, &second, err);
    if (rc == 0 && first.parted)
        rc = twin_compare_zoom(v, second.parted ? second.a : first.a,
                               second.parted ? second.b : first.b, err);
    if (rc == 0 && first.parted && second.b && !second.parted)
        rc = twin_compare_replays(v, second.a, second.b, err);
    z->parted = first.parted;
    if (z->cut)
        note_cut(v, z);
    forget_pair(&first);
    forget_pair(&second);
    twin_suspect_free(&s);
    return rc;
}

void tw_zoom_free(struct tw_zoom *z)
{
    for (size_t i = 0; i < z->dir_count; i++)
        tw_free(z->dirs[i]);
    tw_free(z->dirs);
    z->dirs = NULL;
    z->dir_count = 0;
}
