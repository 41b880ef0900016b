/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which incidents a ledger has. One walk over the comparisons of twice the time that an incident
 * lasts, the newest first; then what the walk cannot say is looked up for each run. What is kept is
 * bounded: of a flood the newest stay.
 */
#include "incidents.h"

#include "state.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bounds of one look. TEXT_BYTES: of one text; RUNS_OF_ONE: of an agreement that may end one. */
enum { FOUND_MOST = 4096, RUNS_OF_ONE = 64, TEXT_BYTES = 1000 };
static const int64_t AHEAD_NS = (int64_t)3600 * 1000000000; /* that a writer's clock may be */

/* A run that a comparison says differs. */
struct found {
    struct serve_incident i;
    struct tw_hash128 command, job; /* job: of project and command */
    size_t place;                   /* in its comparison */
    bool later; /* a rule leaves it out: it belongs to an earlier incident, or is over */
};
/* A comparison of repeats that agreed. */
struct agreement {
    struct tw_hash128 command;
    char (*run)[33]; /* without the reference */
    size_t runs;
    int64_t time_ns;
    /* looked up when it is needed: of the runs */
    bool looked_up;
    struct tw_hash128 job;
    int64_t began_ns; /* the earliest; INT64_MIN: not known of all */
};
struct isolated {
    struct tw_hash128 command;
    char *cause;
    int64_t time_ns;
};
struct looking {
    struct found found[FOUND_MOST];
    struct agreement agreement[FOUND_MOST];
    struct isolated isolated[FOUND_MOST];
    size_t found_count, agreements, isolated_count, left_out;
    int64_t now_ns;
};

/* ---- the walk */

static struct tw_hash128 hash_text(const char *s)
{
    return tw_hash_bytes(s, strlen(s), 0);
}

static bool is_same(struct tw_hash128 x, struct tw_hash128 y)
{
    return x.a == y.a && x.b == y.b;
}

/* A foreign text, cut at a bound, as it may be shown. */
static char *shown(const char *s)
{
    const size_t n = strnlen(s, TEXT_BYTES + 1);
    char *safe = tw_printable(s, n > TEXT_BYTES ? TEXT_BYTES : n);
    char *cut = safe && n > TEXT_BYTES ? tw_printf("%s...", safe) : NULL;
    if (n <= TEXT_BYTES)
        return safe;
    tw_free(safe);
    return cut;
}

static void free_texts(struct serve_incident *i)
{
    char *texts[] = {i->project, i->layer, i->verb, i->command,
                     i->first,   i->host,  i->home, i->cause};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
        tw_free(texts[k]);
}

/* One run of c. Ids are ours: what is none was written by somebody else, and names no run. */
static int add_found(struct looking *k, const struct twin_ledger_comparison *c, size_t run,
                     bool is_said, bool unproven)
{
    if (!tw_is_hex(c->run_id[run], 32))
        return 0;
    if (k->found_count == FOUND_MOST) {
        k->left_out++;
        return 0;
    }
    struct found *f = &k->found[k->found_count++];
    *f = (struct found){
        .i = {.layer = shown(c->layer),
              .verb = shown(c->verb),
              .command = shown(c->command),
              .first = shown(c->first),
              .cause = tw_strdup(""),
              .repeats = c->repeats,
              .unproven = unproven,
              .others = !is_said && c->run_count > 2 ? c->run_count - 2 : 0,
              .start_ns = c->time_ns},
        .command = hash_text(c->command),
        .place = run,
    };
    snprintf(f->i.run, sizeof f->i.run, "%s", c->run_id[run]);
    snprintf(f->i.command_id, sizeof f->i.command_id, "%016llx", (unsigned long long)f->command.a);
    if (run > 0 && tw_is_hex(c->run_id[0], 32))
        snprintf(f->i.reference, sizeof f->i.reference, "%s", c->run_id[0]);
    return f->i.layer && f->i.verb && f->i.command && f->i.first && f->i.cause ? 0 : TWIN_ENOMEM;
}

/* The runs that are said to differ; where none is, which one does is not known, and the last one
 * stands for the comparison. */
static int add_diverged(struct looking *k, const struct twin_ledger_comparison *c)
{
    bool is_said = false;
    int rc = 0;
    for (size_t i = 1; rc == 0 && i < c->run_count; i++)
        if (c->agreed && c->agreed[i] == TWIN_AGREED_NOT) {
            is_said = true;
            rc = add_found(k, c, i, true, false);
        }
    return rc || is_said || !c->run_count ? rc : add_found(k, c, c->run_count - 1, false, false);
}

/* Repeats of which it could not be told whether they agree, each that is not shown to. */
static int add_unproven(struct looking *k, const struct twin_ledger_comparison *c)
{
    int rc = 0;
    for (size_t i = 1; rc == 0 && i < c->run_count; i++)
        if (!c->agreed || c->agreed[i] != TWIN_AGREED)
            rc = add_found(k, c, i, true, true);
    return rc;
}

/* Does c show that a job agrees with itself? Only where that is said of each run. */
static bool shows_agreement(const struct twin_ledger_comparison *c)
{
    if (!c->repeats || c->run_count < 2 || c->run_count > RUNS_OF_ONE || !c->agreed)
        return false;
    if (strcmp(c->outcome, "same") != 0 && strcmp(c->outcome, "within-tolerance") != 0)
        return false;
    for (size_t i = 1; i < c->run_count; i++)
        if (c->agreed[i] != TWIN_AGREED)
            return false;
    return true;
}

static int add_agreement(struct looking *k, const struct twin_ledger_comparison *c)
{
    if (k->agreements == FOUND_MOST)
        return 0; /* an incident is then told for longer than it need be */
    struct agreement *a = &k->agreement[k->agreements];
    *a = (struct agreement){.command = hash_text(c->command),
                            .run = tw_reallocarray(NULL, c->run_count - 1, sizeof *a->run),
                            .runs = c->run_count - 1,
                            .time_ns = c->time_ns};
    if (!a->run)
        return TWIN_ENOMEM;
    for (size_t i = 0; i < a->runs; i++)
        snprintf(a->run[i], sizeof a->run[i], "%s", c->run_id[i + 1]);
    k->agreements++;
    return 0;
}

static int add_isolated(struct looking *k, const struct twin_ledger_comparison *c)
{
    if (k->isolated_count == FOUND_MOST)
        return 0;
    struct isolated *s = &k->isolated[k->isolated_count];
    *s = (struct isolated){
        .command = hash_text(c->command), .cause = shown(c->cause), .time_ns = c->time_ns};
    if (!s->cause)
        return TWIN_ENOMEM;
    k->isolated_count++;
    return 0;
}

/* What a clock far ahead of ours wrote waits until its time has come. */
static int see(void *user, const struct twin_ledger_comparison *c)
{
    struct looking *k = user;
    if (c->time_ns > k->now_ns + AHEAD_NS)
        return 0;
    if (strcmp(c->verb, "isolate") == 0)
        return strcmp(c->outcome, "isolated") == 0 && *c->cause ? add_isolated(k, c) : 0;
    if (strcmp(c->outcome, "differ") == 0)
        return add_diverged(k, c);
    if (c->repeats && strcmp(c->outcome, "inconclusive") == 0)
        return add_unproven(k, c);
    return shows_agreement(c) ? add_agreement(k, c) : 0;
}

/* ---- what is known of a run */

struct run_facts {
    char *project, *host, *home;
    int64_t start_ns;
    bool found, failed;
};

static int take_facts(void *user, const struct twin_ledger_run *r,
                      const struct twin_ledger_facts *f)
{
    struct run_facts *x = user;
    if (x->found)
        return 0;
    *x = (struct run_facts){.project = tw_strdup(f && f->project ? f->project : ""),
                            .host = shown(r->host ? r->host : ""),
                            .home = shown(r->home ? r->home : ""),
                            .start_ns = r->start_ns,
                            .found = true};
    x->failed = !x->project || !x->host || !x->home;
    return 0;
}

static void free_facts(struct run_facts *x)
{
    tw_free(x->project);
    tw_free(x->host);
    tw_free(x->home);
}

/* A run that the ledger lacks has no project. */
static int look_up(struct twin_ledger *l, const char *id, struct run_facts *x,
                   struct twin_error *err)
{
    *x = (struct run_facts){.found = false};
    const int rc = twin_ledger_run_with_facts(l, id, take_facts, x, err);
    return rc == 0 && x->failed ? TWIN_ENOMEM : rc;
}

static struct tw_hash128 hash_job(const char *project, struct tw_hash128 command)
{
    struct tw_hash128 h = hash_text(project ? project : "");
    h.a ^= command.a * 3;
    h.b ^= command.b * 3;
    return h;
}

static int describe(struct twin_ledger *l, struct found *f, struct twin_error *err)
{
    struct run_facts x;
    int rc = look_up(l, f->i.run, &x, err);
    if (rc == 0) {
        const bool known = x.project && *x.project;
        f->i.project = known ? serve_name(x.project) : tw_strdup("unknown");
        f->i.host = x.host ? x.host : tw_strdup("");
        f->i.home = x.home ? x.home : tw_strdup("");
        x.host = x.home = NULL;
        f->job = hash_job(x.project, f->command);
        rc = f->i.project && f->i.host && f->i.home ? 0 : TWIN_ENOMEM;
    }
    free_facts(&x);
    return rc;
}

/* ---- the rules */

static int by_time(const struct found *a, const struct found *b)
{
    if (a->i.start_ns != b->i.start_ns)
        return (a->i.start_ns > b->i.start_ns) - (a->i.start_ns < b->i.start_ns);
    return (a->place > b->place) - (a->place < b->place);
}

static int by_run(const void *x, const void *y)
{
    const struct found *a = x, *b = y;
    const int order = strcmp(a->i.run, b->i.run);
    if (order == 0 && a->i.unproven != b->i.unproven)
        return a->i.unproven ? 1 : -1;
    return order ? order : by_time(a, b);
}

static int by_job(const void *x, const void *y)
{
    const struct found *a = x, *b = y;
    if (!is_same(a->job, b->job))
        return a->job.a != b->job.a ? (a->job.a > b->job.a) - (a->job.a < b->job.a)
                                    : (a->job.b > b->job.b) - (a->job.b < b->job.b);
    return by_time(a, b);
}

static int by_start(const void *x, const void *y)
{
    const struct found *a = x, *b = y;
    const int order = by_time(a, b);
    return order ? order : strcmp(a->i.run, b->i.run);
}

/* Drops those that a rule marked. */
static void drop_later(struct looking *k)
{
    size_t kept = 0;
    for (size_t i = 0; i < k->found_count; i++) {
        if (k->found[i].later)
            free_texts(&k->found[i].i);
        else
            k->found[kept++] = k->found[i];
    }
    k->found_count = kept;
}

/* A run that is compared again is not another incident. */
static void keep_first(struct looking *k, const struct serve_incident_rules *rules)
{
    if (k->found_count)
        qsort(k->found, k->found_count, sizeof k->found[0], by_run);
    for (size_t i = 1; i < k->found_count; i++) {
        const struct found *before = &k->found[i - 1];
        struct found *f = &k->found[i];
        f->later = strcmp(before->i.run, f->i.run) == 0 && before->i.unproven == f->i.unproven &&
                   f->i.start_ns - before->i.start_ns < rules->lasts_ns;
    }
    drop_later(k);
}

/* Who pages, and who is in the cool-down of another one. */
static void cool_down(struct looking *k, const struct serve_incident_rules *rules)
{
    if (k->found_count)
        qsort(k->found, k->found_count, sizeof k->found[0], by_job);
    const struct found *page = NULL; /* the last one of this job that was of repeats */
    for (size_t i = 0; i < k->found_count; i++) {
        struct found *f = &k->found[i];
        if (page && !is_same(page->job, f->job))
            page = NULL;
        const bool may_page = f->i.repeats && !f->i.unproven;
        f->i.page = may_page && (!page || f->i.start_ns - page->i.start_ns >= rules->cool_down_ns);
        if (may_page)
            page = f;
    }
}

/* When did all runs of an agreement begin at the earliest, and of which project are they? Runs of
 * several projects, and those that the ledger lacks, end nothing. */
static int look_up_agreement(struct twin_ledger *l, struct agreement *a, struct twin_error *err)
{
    int rc = 0;
    a->looked_up = true;
    a->began_ns = INT64_MAX;
    for (size_t i = 0; rc == 0 && i < a->runs; i++) {
        struct run_facts x;
        rc = look_up(l, a->run[i], &x, err);
        const struct tw_hash128 job = hash_job(x.project, a->command);
        if (rc == 0 && (!x.found || (i && !is_same(job, a->job))))
            a->began_ns = INT64_MIN;
        else if (x.start_ns < a->began_ns)
            a->began_ns = x.start_ns;
        a->job = job;
        free_facts(&x);
        if (a->began_ns == INT64_MIN)
            break;
    }
    return rc;
}

/* Agreements come the newest first; the oldest that fits ends the incident. */
static int end_incident(struct twin_ledger *l, struct looking *k, struct found *f,
                        const struct serve_incident_rules *rules, struct twin_error *err)
{
    f->i.end_ns = f->i.start_ns + rules->lasts_ns;
    for (size_t i = k->agreements; i-- > 0;) {
        struct agreement *a = &k->agreement[i];
        if (a->time_ns <= f->i.start_ns || !is_same(a->command, f->command))
            continue;
        const int rc = a->looked_up ? 0 : look_up_agreement(l, a, err);
        if (rc != 0)
            return rc;
        if (a->began_ns <= f->i.start_ns || !is_same(a->job, f->job))
            continue;
        f->i.agreed = true;
        f->i.end_ns = a->time_ns;
        return 0;
    }
    return 0;
}

static int name_cause(const struct looking *k, struct found *f)
{
    for (size_t i = 0; i < k->isolated_count; i++) {
        const struct isolated *s = &k->isolated[i];
        if (s->time_ns <= f->i.start_ns || !is_same(s->command, f->command))
            continue;
        tw_free(f->i.cause);
        f->i.cause = tw_strdup(s->cause);
        return f->i.cause ? 0 : TWIN_ENOMEM;
    }
    return 0;
}

/* Those that may still be told, the oldest first; of too many the newest. */
static void keep_live(struct looking *k, const struct serve_incident_rules *rules)
{
    for (size_t i = 0; i < k->found_count; i++)
        k->found[i].later = k->found[i].i.start_ns <= k->now_ns - rules->lasts_ns;
    drop_later(k);
    if (k->found_count)
        qsort(k->found, k->found_count, sizeof k->found[0], by_start);
    for (size_t i = 0; i + SERVE_INCIDENTS < k->found_count; i++) {
        k->found[i].later = true;
        k->left_out++;
    }
    drop_later(k);
}

/* ---- the whole */

static int judge(struct twin_ledger *l, struct looking *k, const struct serve_incident_rules *rules,
                 struct twin_error *err)
{
    int rc = 0;
    keep_first(k, rules);
    for (size_t i = 0; rc == 0 && i < k->found_count; i++)
        rc = describe(l, &k->found[i], err);
    if (rc != 0)
        return rc;
    cool_down(k, rules);
    keep_live(k, rules);
    for (size_t i = 0; rc == 0 && i < k->found_count; i++) {
        struct found *f = &k->found[i];
        rc = end_incident(l, k, f, rules, err);
        rc = rc ? rc : name_cause(k, f);
    }
    return rc;
}

static void free_looking(struct looking *k)
{
    for (size_t i = 0; i < k->found_count; i++)
        free_texts(&k->found[i].i);
    for (size_t i = 0; i < k->agreements; i++)
        tw_free(k->agreement[i].run);
    for (size_t i = 0; i < k->isolated_count; i++)
        tw_free(k->isolated[i].cause);
    tw_free(k);
}

int serve_incidents_find(struct twin_ledger *l, const struct serve_incident_rules *rules,
                         int64_t now_ns, struct serve_incidents *out, struct twin_error *err)
{
    struct looking *k = tw_calloc(1, sizeof *k);
    *out = (struct serve_incidents){.count = 0};
    int rc = k ? 0 : TWIN_ENOMEM;
    if (rc == 0) {
        k->now_ns = now_ns;
        rc = twin_ledger_comparisons_since(l, now_ns - 2 * rules->lasts_ns, see, k, err);
    }
    rc = rc ? rc : judge(l, k, rules, err);
    if (rc == 0 && !(out->item = tw_calloc(k->found_count + 1, sizeof *out->item)))
        rc = TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && i < k->found_count; i++)
        out->item[i] = k->found[i].i;
    if (rc == 0) {
        out->count = k->found_count;
        out->left_out = k->left_out;
        k->found_count = 0;
    }
    if (k)
        free_looking(k);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "for incidents") : rc;
}

void serve_incidents_free(struct serve_incidents *s)
{
    for (size_t i = 0; i < s->count; i++)
        free_texts(&s->item[i]);
    tw_free(s->item);
    *s = (struct serve_incidents){.count = 0};
}
