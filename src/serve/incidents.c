/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which incidents there are. One walk over the comparisons of twice the time that an incident
 * lasts, the newest first, in what is held of the ledger: no question to a database. What is kept
 * is bounded: of a flood the newest stay.
 */
#include "incidents.h"

#include "state.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bounds of one look. TEXT_BYTES: of one text. */
enum { FOUND_MOST = 4096, TEXT_BYTES = 1000 };
static const int64_t AHEAD_NS = (int64_t)3600 * 1000000000; /* that a writer's clock may be */

/* A run that a comparison says differs. */
struct found {
    struct serve_incident i;
    struct tw_hash128 job; /* of project and command */
    size_t place;          /* in its comparison */
    bool later;            /* a rule leaves it out: it belongs to an earlier incident, or is over */
};
/* A comparison of repeats that agreed, of runs of one job. began_ns: the earliest of them. */
struct agreement {
    struct tw_hash128 job;
    int64_t time_ns, began_ns;
};
struct isolated {
    struct tw_hash128 job;
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

enum { TEXTS = 8 };

static void list_texts(struct serve_incident *i, char **out[TEXTS])
{
    char **const texts[TEXTS] = {&i->project, &i->layer, &i->verb, &i->command,
                                 &i->first,   &i->host,  &i->home, &i->cause};
    memcpy(out, texts, sizeof texts);
}

static void free_texts(struct serve_incident *i)
{
    char **text[TEXTS];
    list_texts(i, text);
    for (size_t k = 0; k < TEXTS; k++)
        tw_free(*text[k]);
}

static bool has_texts(struct serve_incident *i)
{
    char **text[TEXTS];
    bool whole = true;
    list_texts(i, text);
    for (size_t k = 0; k < TEXTS; k++)
        whole = whole && *text[k];
    return whole;
}

static struct tw_hash128 hash_job(const char *project, struct tw_hash128 command)
{
    struct tw_hash128 h = hash_text(project);
    h.a ^= command.a * 3;
    h.b ^= command.b * 3;
    return h;
}

/* One run of c. Ids are ours: what is none was written by somebody else, and names no run. */
static int add_found(struct looking *k, const struct tw_slo_comparison *c, size_t run, bool is_said,
                     bool unproven)
{
    const struct tw_slo_run *r = &c->run[run];
    if (!tw_is_hex(r->id, 32))
        return 0;
    if (k->found_count == FOUND_MOST) {
        k->left_out++;
        return 0;
    }
    const struct tw_hash128 command = hash_text(c->command);
    struct found *f = &k->found[k->found_count++];
    *f = (struct found){
        .i = {.project = *r->project ? serve_name(r->project) : tw_strdup("unknown"),
              .layer = shown(c->layer),
              .verb = shown(c->verb),
              .command = shown(c->command),
              .first = shown(c->first),
              .host = shown(r->host),
              .home = shown(r->home),
              .cause = tw_strdup(""),
              .repeats = c->repeats,
              .unproven = unproven,
              .others = !is_said && c->runs > 2 ? c->runs - 2 : 0,
              .start_ns = c->time_ns},
        .job = hash_job(r->project, command),
        .place = run,
    };
    snprintf(f->i.run, sizeof f->i.run, "%s", r->id);
    snprintf(f->i.command_id, sizeof f->i.command_id, "%016llx", (unsigned long long)command.a);
    if (run > 0 && tw_is_hex(c->run[0].id, 32))
        snprintf(f->i.reference, sizeof f->i.reference, "%s", c->run[0].id);
    return has_texts(&f->i) ? 0 : TWIN_ENOMEM;
}

/* The runs that are said to differ; where none is, which one does is not known, and the last one
 * stands for the comparison. */
static int add_diverged(struct looking *k, const struct tw_slo_comparison *c)
{
    bool is_said = false;
    int rc = 0;
    for (size_t i = 1; rc == 0 && i < c->runs; i++)
        if (c->run[i].agreed == TWIN_AGREED_NOT) {
            is_said = true;
            rc = add_found(k, c, i, true, false);
        }
    return rc || is_said || !c->runs ? rc : add_found(k, c, c->runs - 1, false, false);
}

/* Repeats of which it could not be told whether they agree, each that is not shown to. */
static int add_unproven(struct looking *k, const struct tw_slo_comparison *c)
{
    int rc = 0;
    for (size_t i = 1; rc == 0 && i < c->runs; i++)
        if (c->run[i].agreed != TWIN_AGREED)
            rc = add_found(k, c, i, true, true);
    return rc;
}

/* Does c show that a job agrees with itself? Only where that is said of each run. */
static bool shows_agreement(const struct tw_slo_comparison *c)
{
    if (!c->repeats || c->runs < 2)
        return false;
    if (strcmp(c->outcome, "same") != 0 && strcmp(c->outcome, "within-tolerance") != 0)
        return false;
    for (size_t i = 1; i < c->runs; i++)
        if (c->run[i].agreed != TWIN_AGREED)
            return false;
    return true;
}

/* Runs of several projects, and those that the ledger lacks, end nothing: when they began is not
 * known. Where there is no room, an incident is told for longer than it need be. */
static void add_agreement(struct looking *k, const struct tw_slo_comparison *c)
{
    const struct tw_hash128 command = hash_text(c->command);
    struct agreement a = {.time_ns = c->time_ns, .began_ns = INT64_MAX};
    if (k->agreements == FOUND_MOST)
        return;
    for (size_t i = 1; i < c->runs; i++) { /* without the reference */
        const struct tw_slo_run *r = &c->run[i];
        const struct tw_hash128 job = hash_job(r->project, command);
        if (!r->recorded || (i > 1 && !is_same(job, a.job)))
            return;
        a.job = job;
        a.began_ns = r->start_ns < a.began_ns ? r->start_ns : a.began_ns;
    }
    k->agreement[k->agreements++] = a;
}

static int add_isolated(struct looking *k, const struct tw_slo_comparison *c)
{
    if (k->isolated_count == FOUND_MOST)
        return 0;
    struct isolated *s = &k->isolated[k->isolated_count];
    *s = (struct isolated){.job = hash_job(c->runs ? c->run[0].project : "", hash_text(c->command)),
                           .cause = shown(c->cause),
                           .time_ns = c->time_ns};
    if (!s->cause)
        return TWIN_ENOMEM;
    k->isolated_count++;
    return 0;
}

/* What a clock far ahead of ours wrote waits until its time has come. */
static int see(void *user, const struct tw_slo_comparison *c)
{
    struct looking *k = user;
    if (c->time_ns > k->now_ns + AHEAD_NS)
        return 0;
    if (strcmp(c->verb, "isolate") == 0)
        return tw_ledger_is_isolated(c->outcome) && *c->cause ? add_isolated(k, c) : 0;
    if (strcmp(c->outcome, "differ") == 0)
        return add_diverged(k, c);
    if (c->repeats && strcmp(c->outcome, "inconclusive") == 0)
        return add_unproven(k, c);
    if (shows_agreement(c))
        add_agreement(k, c);
    return 0;
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

/* Agreements come the newest first; the oldest that fits ends the incident. */
static void end_incident(const struct looking *k, struct found *f,
                         const struct serve_incident_rules *rules)
{
    f->i.end_ns = f->i.start_ns + rules->lasts_ns;
    for (size_t i = k->agreements; i-- > 0;) {
        const struct agreement *a = &k->agreement[i];
        if (a->time_ns <= f->i.start_ns || a->began_ns <= f->i.start_ns || !is_same(a->job, f->job))
            continue;
        f->i.agreed = true;
        f->i.end_ns = a->time_ns;
        return;
    }
}

static int name_cause(const struct looking *k, struct found *f)
{
    for (size_t i = 0; i < k->isolated_count; i++) {
        const struct isolated *s = &k->isolated[i];
        if (s->time_ns <= f->i.start_ns || !is_same(s->job, f->job))
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

static int judge(struct looking *k, const struct serve_incident_rules *rules)
{
    int rc = 0;
    keep_first(k, rules);
    cool_down(k, rules);
    keep_live(k, rules);
    for (size_t i = 0; rc == 0 && i < k->found_count; i++) {
        end_incident(k, &k->found[i], rules);
        rc = name_cause(k, &k->found[i]);
    }
    return rc;
}

static void free_looking(struct looking *k)
{
    for (size_t i = 0; i < k->found_count; i++)
        free_texts(&k->found[i].i);
    for (size_t i = 0; i < k->isolated_count; i++)
        tw_free(k->isolated[i].cause);
    tw_free(k);
}

int serve_incidents_find(const struct tw_slo_history *h, const struct serve_incident_rules *rules,
                         int64_t now_ns, struct serve_incidents *out)
{
    struct looking *k = tw_calloc(1, sizeof *k);
    *out = (struct serve_incidents){.count = 0};
    if (!k)
        return TWIN_ENOMEM;
    k->now_ns = now_ns;
    int rc = tw_slo_walk(h, now_ns - 2 * rules->lasts_ns, see, k);
    rc = rc ? rc : judge(k, rules);
    if (rc == 0 && !(out->item = tw_calloc(k->found_count + 1, sizeof *out->item)))
        rc = TWIN_ENOMEM;
    for (size_t i = 0; rc == 0 && i < k->found_count; i++)
        out->item[i] = k->found[i].i;
    if (rc == 0) {
        out->count = k->found_count;
        out->left_out = k->left_out;
        k->found_count = 0;
    }
    free_looking(k);
    return rc;
}

int serve_incidents_copy(const struct serve_incidents *from, struct serve_incidents *out)
{
    *out = (struct serve_incidents){.item = tw_calloc(from->count + 1, sizeof *out->item),
                                    .left_out = from->left_out};
    bool whole = out->item != NULL;
    for (size_t i = 0; whole && i < from->count; i++) {
        char **text[TEXTS];
        out->item[i] = from->item[i];
        list_texts(&out->item[i], text);
        for (size_t k = 0; k < TEXTS; k++)
            *text[k] = tw_strdup(*text[k]);
        whole = has_texts(&out->item[i]);
        out->count++;
    }
    return whole ? 0 : TWIN_ENOMEM;
}

void serve_incidents_free(struct serve_incidents *s)
{
    for (size_t i = 0; i < s->count; i++)
        free_texts(&s->item[i]);
    tw_free(s->item);
    *s = (struct serve_incidents){.count = 0};
}
