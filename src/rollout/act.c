/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs besides start (start.c): step, status, and the two ends. Two locks lie beside the flag
 * file: one step at a time compares and looks, which may take long; and whoever replaces the flag
 * file holds the other one, for no longer than that takes, so that stop and fallback do not wait
 * for comparisons. The order of a step is: the last decision is in the ledger (a killed call may
 * have left it out), runs are compared, the rule decides, the flag file is replaced if it is still
 * the one that was decided from, and the ledger is told.
 */
#include "rollout_inside.h"

#include "base.h"

#include "src/compare/compare.h"
#include "src/isolate/isolate.h"
#include "src/ledger/noted.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the lock */

int tw_rollout_lock(const struct tw_rollout_call *c, const char *which,
                    struct tw_rollout_result *out, int *rc, struct twin_error *err)
{
    char *path = tw_printf("%s.%s", c->flag, which);
    int fd = -1;
    *rc = path ? 0 : tw_no_memory(err, "for a lock");
    if (*rc == 0) {
        /* who may open it may hold up those that decide: not everybody */
        const int how = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
        fd = open(path, how | O_CREAT | O_EXCL, 0660);
        /* whatever the mask takes away */
        if (fd >= 0)
            (void)!fchmod(fd, 0660);
        else if (errno == EEXIST)
            fd = open(path, how);
        if (fd < 0)
            *rc = twin_error_system(err, "%s", path);
    }
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        out->busy = errno == EWOULDBLOCK;
        if (!out->busy)
            *rc = twin_error_system(err, "%s cannot be locked", path);
        close(fd);
        fd = -1;
    }
    tw_free(path);
    return fd;
}

void tw_rollout_unlock(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* ---- decisions */

int tw_rollout_decide(const struct tw_rollout_call *c, struct tw_rollout_result *r,
                      enum tw_rollout_decision d, char *text, struct twin_error *err)
{
    struct tw_rollout_flag *f = &r->flag;
    struct twin_error why = TWIN_ERROR_INIT;
    const int64_t now = tw_realtime_ns();
    if (!text)
        return tw_no_memory(err, "for a decision");
    for (char *at = text; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?'; /* a line of the flag file */
    tw_free(f->said);
    f->said = text;
    f->sequence++;
    f->decision = d;
    /* a clock that went back shall not make a decision older than the one before */
    f->decided_ns = now > f->decided_ns ? now : f->decided_ns + 1;
    int rc = tw_rollout_flag_write(c->flag, f, err);
    if (rc != 0)
        return rc;
    r->changed = true;
    if (tw_rollout_log_put(c, f, &why) != 0) {
        r->unwritten = true;
        tw_free(r->unwritten_why);
        r->unwritten_why = tw_strdup(why.message);
    }
    return 0;
}

/* What a killed call, or a ledger that was away, left out. */
int tw_rollout_catch_up(const struct tw_rollout_call *c, struct tw_rollout_result *r,
                        struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct tw_rollout_log log;
    bool there = false;
    const int rc = tw_rollout_log_load(c, r->flag.id, &log, err);
    for (size_t i = 0; i < log.count && !there; i++)
        there = log.entry[i].sequence == r->flag.sequence;
    tw_rollout_log_free(&log);
    /* where the ledger cannot be read: its file below events, from which one catches up later */
    if (!there && tw_rollout_log_put(c, &r->flag, &why) != 0) {
        r->unwritten = true;
        tw_free(r->unwritten_why);
        r->unwritten_why = tw_strdup(why.message);
    }
    return rc;
}

static void put_figure(struct tw_buf *b, const char *name, const struct tw_rollout_figure *f)
{
    if (f->n)
        tw_buf_printf(b, "; %s %.4g (%.4g to %.4g, %llu pairs)", name, f->value, f->interval.low,
                      f->interval.high, (unsigned long long)f->n);
}

/* The reason, and all numbers behind it. */
static char *words_of(const struct tw_rollout_seen *s, const struct tw_rollout_judged *j,
                      uint32_t share)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b, "%s", j->why);
    for (int a = TW_ROLLOUT_ARMS; a-- > 0;)
        tw_buf_printf(&b,
                      "; %s: %llu runs, %llu failed, %llu ended from outside, %llu of %llu "
                      "diverged, %llu not known",
                      tw_rollout_arm_name((enum tw_rollout_arm)a),
                      (unsigned long long)s->arm[a].runs, (unsigned long long)s->arm[a].failed,
                      (unsigned long long)s->arm[a].outside, (unsigned long long)s->arm[a].diverged,
                      (unsigned long long)(s->arm[a].diverged + s->arm[a].same),
                      (unsigned long long)s->arm[a].unknown);
    put_figure(&b, "time", &j->time);
    put_figure(&b, "loss", &j->loss);
    put_figure(&b, "spread", &j->spread);
    tw_buf_printf(&b, "; share %.4g%% -> %.4g%%", (double)share / 1e4, (double)j->share / 1e4);
    return tw_buf_steal(&b);
}

static void add_to(struct tw_buf *b, const struct tw_rollout_ratios *r)
{
    tw_buf_append(b, &r->count, sizeof r->count);
    tw_buf_append(b, r->value, r->count * sizeof *r->value);
}

/* A digest of what decides: where it is the last decision's, nothing is new. False: no memory. */
static bool digest_of(const struct tw_rollout_seen *s, char out[33])
{
    struct tw_buf b = {0};
    for (int a = 0; a < TW_ROLLOUT_ARMS; a++) {
        const uint64_t counts[] = {s->arm[a].runs,     s->arm[a].failed,  s->arm[a].same,
                                   s->arm[a].diverged, s->arm[a].unknown, s->arm[a].sd_pairs,
                                   s->arm[a].outside};
        tw_buf_append(&b, counts, sizeof counts);
    }
    const uint64_t more[] = {s->failed_canary, s->failed_control, s->out_of_force, s->force_known,
                             s->overridden};
    tw_buf_append(&b, more, sizeof more);
    add_to(&b, &s->time);
    add_to(&b, &s->loss);
    add_to(&b, &s->spread);
    const bool whole = !b.failed;
    const struct tw_hash128 h = tw_hash_bytes(whole ? b.data : "", b.len, 1);
    tw_hex_128(h.a, h.b, out);
    tw_buf_free(&b);
    return whole;
}

/* ---- looking */

/* Did the pins take effect in this run? -1: that is not known. */
static int force_of(const struct tw_rollout_call *c, const struct twin_world *world,
                    const struct rollout_run *x)
{
    struct twin_run *run = NULL;
    struct twin_world_effect *e = NULL;
    char *dir = tw_printf("%s/runs/%s", c->home, x->name);
    int in_force = -1;
    if (dir && twin_run_load(dir, &run, NULL) == 0 &&
        twin_world_effects(world, run, &e, NULL) == 0) {
        bool known = false, unknown = false, failed = false;
        for (size_t k = 0; k < world->count; k++) {
            /* a pin that nothing asked for says nothing */
            known |= e[k].effect == TWIN_EFFECT_IN_FORCE;
            unknown |= e[k].effect == TWIN_EFFECT_UNKNOWN;
            failed |= e[k].effect == TWIN_EFFECT_FAILED;
        }
        if (failed || (known && !unknown))
            in_force = !failed;
        twin_world_effects_free(e, world->count);
    }
    twin_run_free(run);
    tw_free(dir);
    return in_force;
}

/* Runs of the canary here whose pins took effect or did not; of at most so many, the newest. What
 * is not looked at is not known. */
static void count_out_of_force(const struct tw_rollout_call *c, const char *owner,
                               const struct tw_rollout_flag *f, const struct rollout_runs *runs,
                               struct tw_rollout_seen *s)
{
    enum { LOOKED_AT = 200 };
    struct twin_factors factors = {0};
    struct twin_world world = {0};
    int rc = twin_factors_load(NULL, &factors, NULL);
    rc = rc ? rc : twin_world_parse(&factors, f->pins, &world, NULL, NULL);
    size_t looked = 0;
    for (size_t i = runs->count; rc == 0 && i-- > 0 && looked < LOOKED_AT;) {
        const struct rollout_run *x = &runs->run[i];
        if (!x->known || x->gone || strcmp(x->home, owner) != 0 ||
            strcmp(x->arm, tw_rollout_arm_name(TW_ROLLOUT_CANARY)) != 0)
            continue;
        looked++;
        const int in_force = force_of(c, &world, x);
        s->force_known += in_force >= 0;
        s->out_of_force += in_force == 0;
    }
    twin_world_free(&world);
    twin_factors_free(&factors);
}

/* Two runs of one arm on equal inputs; the answer goes into the ledger. */
static int compare_pair(const struct tw_rollout_call *c, const struct rollout_run *x,
                        const struct rollout_run *y, struct twin_error *err)
{
    struct twin_run *run[2] = {NULL, NULL};
    struct twin_verdict *v = NULL;
    const struct twin_compare_options how = {.arms = false};
    char *dir[2] = {tw_printf("%s/runs/%s", c->home, x->name),
                    tw_printf("%s/runs/%s", c->home, y->name)};
    int rc = dir[0] && dir[1] ? 0 : tw_no_memory(err, "for a comparison");
    rc = rc ? rc : twin_run_load(dir[0], &run[0], err);
    rc = rc ? rc : twin_run_load(dir[1], &run[1], err);
    const struct twin_run *const runs[] = {run[0], run[1]};
    rc = rc ? rc : twin_compare(runs, 2, &how, &v, err);
    char *command = rc == 0 ? tw_shell_quote(run[0]->argv, run[0]->argc) : NULL;
    if (rc == 0 && !command)
        rc = tw_no_memory(err, "for a comparison");
    if (rc == 0) {
        const struct tw_noted n = {
            .home = c->home,
            .url = c->url,
            .verb = TW_ROLLOUT_VERB,
            .command = command,
            .outcome = twin_verdict_name(v->outcome),
            .first = v->outcome != TWIN_SAME ? v->first : NULL,
            .verdict = v,
            .runs = runs,
            .count = 2,
        };
        rc = tw_ledger_write(&n, err);
    }
    tw_free(command);
    twin_verdict_free(v);
    for (int i = 0; i < 2; i++) {
        twin_run_free(run[i]);
        tw_free(dir[i]);
    }
    return rc;
}

/* A pair that cannot be compared is counted, and the next call tries again. */
static void compare_all(const struct tw_rollout_call *c, const char *owner,
                        struct rollout_runs *runs, struct tw_rollout_result *r)
{
    enum { MOST = 1000 };
    size_t at = 0, pair[2];
    while (r->compared + r->incomplete < MOST && tw_rollout_next_pair(runs, owner, &at, pair)) {
        struct twin_error why = TWIN_ERROR_INIT;
        if (compare_pair(c, &runs->run[pair[0]], &runs->run[pair[1]], &why) == 0)
            r->compared++;
        else
            r->incomplete++;
    }
}

static int open_ledger(const struct tw_rollout_call *c, struct rollout_live *live,
                       struct twin_ledger **l, struct twin_error *err)
{
    int rc = tw_ledger_catch_up(c->home, c->url, tw_rollout_see_live, live, l, err);
    if (rc == 0 && !*l)
        rc = twin_error_set(err, TWIN_ENOENT,
                            "there is no ledger of %s: a rollout is decided from what it says",
                            c->home);
    return rc;
}

/* Fills seen and judged; compares first, if that is asked for. */
static int look(const struct tw_rollout_call *c, bool compares, struct tw_rollout_result *r,
                struct twin_error *err)
{
    struct twin_ledger *l = NULL;
    struct rollout_runs runs = {.count = 0};
    char *owner = tw_ledger_home(c->home, c->url);
    struct rollout_live live = {.id = r->flag.id, .home = owner};
    int rc = owner ? open_ledger(c, &live, &l, err) : tw_no_memory(err, "for the name of the home");
    rc = rc ? rc : tw_rollout_load(l, &r->flag, &live.runs, INT64_MAX, &runs, &r->seen, err);
    if (rc == 0 && compares) {
        compare_all(c, owner, &runs, r);
        if (r->compared) {
            tw_rollout_runs_free(&runs);
            tw_rollout_seen_free(&r->seen);
            rc = tw_rollout_load(l, &r->flag, &live.runs, INT64_MAX, &runs, &r->seen, err);
        }
    }
    if (rc == 0)
        tw_rollout_doubt(c->home, owner, &runs);
    rc = rc ? rc : tw_rollout_pair_up(&runs, &r->seen, err);
    if (rc == 0) {
        count_out_of_force(c, owner, &r->flag, &runs, &r->seen);
        tw_rollout_judge(&r->flag, &r->seen, &r->judged);
    }
    if (l)
        twin_ledger_close(l);
    tw_rollout_runs_free(&runs);
    tw_rollout_runs_free(&live.runs);
    tw_free(owner);
    return rc;
}

/* ---- verbs */

int tw_rollout_status(const struct tw_rollout_call *c, struct tw_rollout_result *out,
                      struct twin_error *err)
{
    *out = (struct tw_rollout_result){.busy = false};
    const int rc = tw_rollout_flag_read(c->flag, &out->flag, err);
    return rc ? rc : look(c, false, out, err);
}

/* What a decision of the rule makes of the flag file. */
static int carry_out(const struct tw_rollout_call *c, struct tw_rollout_result *r,
                     struct twin_error *err)
{
    struct tw_rollout_flag *f = &r->flag;
    const struct tw_rollout_judged *j = &r->judged;
    char seen[33];
    if (!digest_of(&r->seen, seen))
        return tw_no_memory(err, "for a decision");
    if (j->decision == TW_ROLLOUT_HELD && strcmp(seen, f->seen) == 0)
        return 0; /* nothing is new */
    /* the ledger is to have each decision: only one that protects jobs does not wait for it */
    if (r->unwritten && j->decision != TW_ROLLOUT_FELL_BACK)
        return 0;
    char *text = words_of(&r->seen, j, f->share);
    memcpy(f->seen, seen, sizeof f->seen);
    if (j->decision == TW_ROLLOUT_FELL_BACK)
        f->state = f->fallback ? TW_ROLLOUT_FALLBACK : TW_ROLLOUT_OFF;
    if (j->decision == TW_ROLLOUT_WIDENED)
        f->widened_at = j->diverged[TW_ROLLOUT_CANARY].n;
    f->share = j->share;
    return tw_rollout_decide(c, r, j->decision, text, err);
}

/* Under the lock that the flag file is replaced under. What a person decided while we compared
 * stays: what we found was for another state. */
static int carry_out_if_unchanged(const struct tw_rollout_call *c, struct tw_rollout_result *out,
                                  struct twin_error *err)
{
    struct tw_rollout_flag now = {.id = ""};
    int rc = 0;
    const int lock = tw_rollout_lock(c, TW_ROLLOUT_LOCK, out, &rc, err);
    if (lock < 0)
        return rc;
    rc = tw_rollout_flag_read(c->flag, &now, err);
    if (rc == 0 && strcmp(now.id, out->flag.id) == 0 && now.sequence == out->flag.sequence)
        rc = carry_out(c, out, err);
    else if (rc == 0)
        out->busy = true;
    tw_rollout_flag_free(&now);
    tw_rollout_unlock(lock);
    return rc;
}

int tw_rollout_step(const struct tw_rollout_call *c, struct tw_rollout_result *out,
                    struct twin_error *err)
{
    int rc;
    *out = (struct tw_rollout_result){.busy = false};
    /* a flag file that cannot be read leaves no lock behind */
    rc = tw_rollout_flag_read(c->flag, &out->flag, err);
    tw_rollout_flag_free(&out->flag);
    if (rc != 0)
        return rc;
    const int lock = tw_rollout_lock(c, TW_ROLLOUT_STEP_LOCK, out, &rc, err);
    if (lock < 0)
        return rc;
    rc = tw_rollout_flag_read(c->flag, &out->flag, err);
    rc = rc ? rc : tw_rollout_catch_up(c, out, err);
    rc = rc ? rc : look(c, out->flag.state == TW_ROLLOUT_ON, out, err);
    if (rc == 0 && out->flag.state == TW_ROLLOUT_ON)
        rc = carry_out_if_unchanged(c, out, err);
    tw_rollout_unlock(lock);
    return rc;
}

int tw_rollout_end(const struct tw_rollout_call *c, bool fallback, const char *why,
                   struct tw_rollout_result *out, struct twin_error *err)
{
    int rc;
    *out = (struct tw_rollout_result){.busy = false};
    struct tw_rollout_flag *f = &out->flag;
    rc = tw_rollout_flag_read(c->flag, f, err);
    if (rc != 0)
        return rc;
    tw_rollout_flag_free(f);
    const int lock = tw_rollout_lock(c, TW_ROLLOUT_LOCK, out, &rc, err);
    if (lock < 0)
        return rc;
    rc = tw_rollout_flag_read(c->flag, f, err);
    if (rc == 0) {
        struct twin_error late = TWIN_ERROR_INIT;
        /* a rollout can be ended without a ledger that can be read */
        if (tw_rollout_catch_up(c, out, &late) != 0) {
            out->unwritten = true;
            tw_free(out->unwritten_why);
            out->unwritten_why = tw_strdup(late.message);
        }
        const enum tw_rollout_state to = fallback && f->fallback ? TW_ROLLOUT_FALLBACK
                                                                 : TW_ROLLOUT_OFF;
        if (f->state != to) {
            const char *by = why && *why ? why : "asked for";
            char *text = tw_printf("%.300s; share %.4g%% -> 0%%", by, (double)f->share / 1e4);
            f->state = to;
            f->share = 0;
            rc = tw_rollout_decide(c, out, fallback ? TW_ROLLOUT_FELL_BACK : TW_ROLLOUT_STOPPED,
                                   text, err);
        }
    }
    tw_rollout_unlock(lock);
    return rc;
}

void tw_rollout_result_free(struct tw_rollout_result *r)
{
    tw_rollout_flag_free(&r->flag);
    tw_rollout_seen_free(&r->seen);
    tw_free(r->fix_of);
    tw_free(r->unwritten_why);
    r->fix_of = r->unwritten_why = NULL;
}
