/* SPDX-License-Identifier: Apache-2.0 */
/* A rollout begins: which pins the fix is, which the fallback, and the first decision. */
#include "rollout_inside.h"

#include "base.h"

#include "src/isolate/isolate.h"
#include "src/ledger/noted.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

/* ---- what isolate found */

/* The newest search that named a cause; of these the one that is asked for. */
struct finding {
    const char *asked; /* NULL: the newest */
    char *cause, *id;
    size_t without; /* searches that are asked for, and named none */
    struct twin_error *err;
};

static int see_search(void *user, const struct twin_ledger_comparison *c)
{
    struct finding *x = user;
    bool is_it = !x->asked;
    if (strcmp(c->verb, "isolate") != 0 || x->cause)
        return 0;
    if (x->asked)
        is_it = tw_starts(c->id, x->asked);
    for (size_t i = 0; x->asked && i < c->run_count; i++)
        is_it |= tw_starts(c->run_id[i], x->asked);
    if (!is_it)
        return 0;
    if (!tw_ledger_is_isolated(c->outcome) || !*c->cause) {
        x->without++;
        return 0;
    }
    x->cause = tw_strdup(c->cause);
    x->id = tw_strdup(c->id);
    return x->cause && x->id ? 0 : tw_no_memory(x->err, "for a fix");
}

/* "threads, hash-seed" as --pin has it. */
static void close_up(char *list)
{
    char *to = list;
    for (const char *at = list; *at; at++)
        if (*at != ' ')
            *to++ = *at;
    *to = '\0';
}

static int fix_of_search(const struct tw_rollout_call *c, const char *asked, char **pins,
                         char **from, struct twin_error *err)
{
    struct finding x = {.asked = asked, .err = err};
    struct twin_ledger *l = NULL;
    int rc = tw_ledger_catch_up(c->home, c->url, NULL, NULL, &l, err);
    if (rc == 0 && !l)
        rc = twin_error_set(err, TWIN_ENOENT, "there is no ledger of %s", c->home);
    rc = rc ? rc : twin_ledger_comparisons(l, NULL, NULL, see_search, &x, err);
    if (l)
        twin_ledger_close(l);
    if (rc == 0 && !x.cause && x.without)
        rc = twin_error_set(err, TWIN_ENOENT,
                            "twinrun isolate named no cause in %s: there is no fix to roll out",
                            asked ? asked : "its searches");
    else if (rc == 0 && !x.cause)
        rc = twin_error_set(err, TWIN_ENOENT,
                            "%s is no search of twinrun isolate in %s: expected last, the id of a "
                            "search or of a run in it, or pins such as hash-seed,threads",
                            asked ? asked : "last", c->home);
    if (rc == 0) {
        close_up(x.cause);
        *pins = x.cause;
        *from = tw_printf("isolate %.8s", x.id);
        x.cause = NULL;
        if (!*from)
            rc = tw_no_memory(err, "for a fix");
    }
    tw_free(x.cause);
    tw_free(x.id);
    return rc;
}

/* An id, or its first digits? Factors have names that are none. */
static bool is_id(const char *fix)
{
    enum { LEAST = 6, WHOLE = 32 };
    const size_t n = strlen(fix);
    return n >= LEAST && n <= WHOLE && tw_hex_span(fix) == n;
}

/* ---- pins */

/* Can each of them be held still, on this machine at least? */
static int check_pins(const char *what, const char *pins, bool *sets_risky, struct twin_error *err)
{
    struct twin_factors factors = {0};
    struct twin_world w = {0};
    struct twin_error why = TWIN_ERROR_INIT;
    int rc = twin_factors_load(NULL, &factors, err);
    if (rc == 0 && twin_world_parse(&factors, pins, &w, NULL, &why) != 0)
        rc = twin_error_set(err, why.code, "%s \"%s\": %s", what, pins, why.message);
    if (rc == 0 && w.count == 0)
        rc = twin_error_set(err, TWIN_EINVAL, "%s \"%s\" pins nothing", what, pins);
    for (size_t i = 0; rc == 0 && i < w.count; i++)
        if (w.setting[i].mode != TWIN_PIN)
            rc = twin_error_set(err, TWIN_EINVAL, "%s \"%s\": expected pins, and %s is shaken",
                                what, pins, w.setting[i].factor->id);
    if (sets_risky)
        *sets_risky = twin_world_sets(&w, "entropy") || twin_world_sets(&w, "clock");
    twin_world_free(&w);
    twin_factors_free(&factors);
    return rc;
}

/* All runs get these without being asked: keys that everybody knows and certificates held against a
 * pinned clock are not for them, unless the fix is that already. */
static char *usual_fallback(bool risky)
{
    return tw_strdup(risky ? "all" : "all,-entropy,-clock");
}

/* ---- the ladder */

static int make_ladder(const struct tw_rollout_asked *a, uint32_t share,
                       struct tw_rollout_rule *rule, struct twin_error *err)
{
    static const uint32_t usual[] = {10000, 50000, 100000, 250000, 500000, TW_ROLLOUT_WHOLE};
    *rule = a->rule;
    if (rule->steps == 0) {
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
            if (usual[i] > share)
                rule->ladder[rule->steps++] = usual[i];
        if (rule->steps == 0) /* all from the beginning */
            rule->ladder[rule->steps++] = TW_ROLLOUT_WHOLE;
    }
    for (size_t i = 1; i < rule->steps; i++)
        if (rule->ladder[i] <= rule->ladder[i - 1])
            return twin_error_set(err, TWIN_EINVAL, "the ladder: expected ascending shares");
    return 0;
}

/* ---- all */

/* Is there anything that must not be written over? */
static int look_before(const char *path, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct tw_rollout_flag f;
    const int was = tw_rollout_flag_read(path, &f, &why);
    int rc = 0;
    if (was == 0 && f.state == TW_ROLLOUT_ON)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s: rollout %s goes on; end it first: twinrun rollout stop --flag %s",
                            path, f.id, path);
    else if (was != 0 && was != TWIN_ENOENT)
        rc = twin_error_set(err, was,
                            "%s; move it away, or give another --flag: it is not written over",
                            why.message);
    tw_rollout_flag_free(&f);
    return rc;
}

static int new_id(char id[17], struct twin_error *err)
{
    unsigned char bytes[8];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return twin_error_system(err, "no random bytes");
    tw_hex(bytes, sizeof bytes, id);
    return 0;
}

static int fill(const struct tw_rollout_call *c, const struct tw_rollout_asked *a,
                struct tw_rollout_result *r, struct twin_error *err)
{
    struct tw_rollout_flag *f = &r->flag;
    bool risky = false;
    int rc = 0;
    if (strcmp(a->fix, "last") == 0 || is_id(a->fix))
        rc = fix_of_search(c, is_id(a->fix) ? a->fix : NULL, &f->pins, &r->fix_of, err);
    else if (!(f->pins = tw_strdup(a->fix)))
        rc = tw_no_memory(err, "for a fix");
    rc = rc ? rc : check_pins("the fix", f->pins, &risky, err);
    if (rc == 0 && !a->fallback_off) {
        f->fallback = a->fallback_pins ? tw_strdup(a->fallback_pins) : usual_fallback(risky);
        rc = f->fallback ? check_pins("the fallback", f->fallback, NULL, err)
                         : tw_no_memory(err, "for a fallback");
    }
    if (rc == 0 && !(f->project = tw_strdup(a->project ? a->project : "*")))
        rc = tw_no_memory(err, "for a rollout");
    f->state = TW_ROLLOUT_ON;
    f->share = (uint32_t)lround(a->share * TW_ROLLOUT_WHOLE);
    memset(f->seen, '0', sizeof f->seen - 1);
    f->seen[sizeof f->seen - 1] = '\0';
    f->began_ns = tw_realtime_ns();
    rc = rc ? rc : make_ladder(a, f->share, &f->rule, err);
    return rc ? rc : new_id(f->id, err);
}

/* The last decision of the rollout that this one comes after is not lost with its flag file: it is
 * in the ledger, or nothing begins. */
static int keep_last(const struct tw_rollout_call *c, struct twin_error *err)
{
    struct tw_rollout_result last = {.busy = false};
    int rc = tw_rollout_flag_read(c->flag, &last.flag, NULL);
    if (rc == 0)
        rc = tw_rollout_catch_up(c, &last, err);
    else
        rc = 0; /* there is none, as look_before has seen */
    if (rc == 0 && last.unwritten)
        rc = twin_error_set(err, TWIN_EIO,
                            "the ledger lacks the last decision of rollout %s, and it cannot be "
                            "written there: %s; mend that, or give another --flag",
                            last.flag.id, last.unwritten_why ? last.unwritten_why : "no memory");
    tw_rollout_result_free(&last);
    return rc;
}

int tw_rollout_start(const struct tw_rollout_call *c, const struct tw_rollout_asked *a,
                     struct tw_rollout_result *out, struct twin_error *err)
{
    *out = (struct tw_rollout_result){.busy = false};
    int rc = look_before(c->flag, err);
    rc = rc ? rc : twin_home_make(c->home, err);
    rc = rc ? rc : fill(c, a, out, err);
    if (rc != 0)
        return rc;
    const int lock = tw_rollout_lock(c, TW_ROLLOUT_LOCK, out, &rc, err);
    if (lock < 0)
        return rc;
    rc = look_before(c->flag, err); /* another one may have begun meanwhile */
    rc = rc ? rc : keep_last(c, err);
    const struct tw_rollout_flag *f = &out->flag;
    char *text = tw_printf("fix %.1500s%s%s%s; share 0%% -> %.4g%%; alpha %.4g, time at most %.4g, "
                           "diverging at most %.4g%%, last loss at most %.4g%% higher; fallback "
                           "%.1500s",
                           f->pins, out->fix_of ? " (" : "", out->fix_of ? out->fix_of : "",
                           out->fix_of ? ")" : "", (double)f->share / 1e4, f->rule.alpha,
                           f->rule.max_slowdown, 100 * f->rule.max_divergence,
                           100 * f->rule.max_loss, f->fallback ? f->fallback : "off");
    if (rc == 0)
        rc = tw_rollout_decide(c, out, TW_ROLLOUT_STARTED, text, err);
    else
        tw_free(text);
    if (rc == 0)
        tw_rollout_prepare_jobs(c->flag, f->id);
    tw_rollout_unlock(lock);
    return rc;
}
