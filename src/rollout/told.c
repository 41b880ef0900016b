/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger alone says of all rollouts, without their flag files: the last decision of each,
 * and how often repeats diverged with the fix and without, for all its runs and for each project.
 */
#include "rollout_inside.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double CONFIDENCE = 0.95;

/* ---- decisions */

struct deciding {
    struct tw_rollout_list *to;
    int64_t until_ns;
    struct twin_error *err;
};

static struct tw_rollout_told *find_or_add(struct tw_rollout_list *to, const char *id)
{
    for (size_t i = 0; i < to->count; i++)
        if (strcmp(to->item[i].id, id) == 0)
            return &to->item[i];
    struct tw_rollout_told *grown = tw_reallocarray(to->item, to->count + 1, sizeof *grown);
    if (!grown)
        return NULL;
    to->item = grown;
    grown[to->count] = (struct tw_rollout_told){.began_ns = INT64_MAX};
    snprintf(grown[to->count].id, sizeof grown->id, "%s", id);
    return &grown[to->count++];
}

/* The highest number is the last decision, in whatever order a ledger hands them out. */
static int take_decision(void *user, const struct twin_ledger_event *e)
{
    struct deciding *d = user;
    unsigned long long sequence = 0;
    char id[17];
    const char *said = tw_rollout_decision_parse(e, id, &sequence);
    if (!said || e->time_ns > d->until_ns)
        return 0;
    struct tw_rollout_told *t = find_or_add(d->to, id);
    if (!t)
        return tw_no_memory(d->err, "for the rollouts");
    if (e->time_ns < t->began_ns)
        t->began_ns = e->time_ns;
    if (sequence < t->sequence)
        return 0;
    t->sequence = sequence;
    t->decided_ns = e->time_ns;
    snprintf(t->decision, sizeof t->decision, "%s", e->outcome);
    tw_free(t->said);
    t->said = tw_strdup(said);
    return t->said ? 0 : tw_no_memory(d->err, "for the rollouts");
}

bool tw_rollout_is_running(const struct tw_rollout_told *t)
{
    return strcmp(t->decision, tw_rollout_decision_name(TW_ROLLOUT_FELL_BACK)) != 0 &&
           strcmp(t->decision, tw_rollout_decision_name(TW_ROLLOUT_STOPPED)) != 0;
}

/* The newest first. */
static int by_decided(const void *x, const void *y)
{
    const struct tw_rollout_told *a = x, *b = y;
    if (a->decided_ns != b->decided_ns)
        return a->decided_ns < b->decided_ns ? 1 : -1;
    return strcmp(a->id, b->id);
}

/* ---- rates */

/* The project's row; the first is that of all. NULL: no memory. */
static struct tw_rollout_project *row_of(struct tw_rollout_told *t, const char *name, size_t n)
{
    for (size_t i = 1; i < t->projects; i++)
        if (strlen(t->project[i].name) == n && memcmp(t->project[i].name, name, n) == 0)
            return &t->project[i];
    char *copy = tw_strndup(name, n);
    struct tw_rollout_project *grown =
        copy ? tw_reallocarray(t->project, t->projects + 1, sizeof *grown) : NULL;
    if (!grown) {
        tw_free(copy);
        return NULL;
    }
    t->project = grown;
    grown[t->projects] = (struct tw_rollout_project){.name = copy};
    return &grown[t->projects++];
}

static void add_to(struct tw_rollout_project *p, enum tw_rollout_arm arm,
                   const struct rollout_run *r)
{
    p->arm[arm].runs++;
    p->arm[arm].same += r->answer == ROLLOUT_SAME;
    p->arm[arm].diverged += r->answer == ROLLOUT_DIVERGED;
    p->arm[arm].unknown += r->answer == ROLLOUT_UNKNOWN;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct tw_rollout_project *)x)->name,
                  ((const struct tw_rollout_project *)y)->name);
}

static int count_rates(struct tw_rollout_told *t, const struct rollout_runs *runs,
                       struct twin_error *err)
{
    if (!row_of(t, "", 0))
        return tw_no_memory(err, "for the rollouts");
    for (size_t i = 0; i < runs->count; i++) {
        const struct rollout_run *r = &runs->run[i];
        const char *end = r->kind ? strchr(r->kind, '\n') : NULL;
        enum tw_rollout_arm arm;
        if (!tw_rollout_arm_of(r, &arm))
            continue;
        add_to(&t->project[0], arm, r);
        if (!end || end == r->kind)
            continue; /* nobody knows of which project it is */
        struct tw_rollout_project *p = row_of(t, r->kind, (size_t)(end - r->kind));
        if (!p)
            return tw_no_memory(err, "for the rollouts");
        add_to(p, arm, r);
    }
    if (t->projects > 2)
        qsort(t->project + 1, t->projects - 1, sizeof *t->project, by_name);
    for (size_t i = 0; i < t->projects; i++)
        for (int a = 0; a < TW_ROLLOUT_ARMS; a++) {
            struct tw_rollout_rate *x = &t->project[i].arm[a];
            x->exact = twin_stats_clopper_pearson(x->diverged, x->diverged + x->same, CONFIDENCE);
        }
    return 0;
}

/* ---- all */

int tw_rollout_list_load(struct twin_ledger *l, int64_t since_ns, int64_t until_ns,
                         struct tw_rollout_list *out, struct twin_error *err)
{
    struct deciding d = {.to = out, .until_ns = until_ns, .err = err};
    *out = (struct tw_rollout_list){.count = 0};
    int rc = twin_ledger_events(l, INT64_MIN, take_decision, &d, err);
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++) {
        struct tw_rollout_told *t = &out->item[i];
        if (tw_rollout_is_running(t) || t->decided_ns >= since_ns)
            out->item[kept++] = *t;
        else
            tw_free(t->said);
    }
    out->count = kept;
    if (kept)
        qsort(out->item, kept, sizeof *out->item, by_decided);
    for (size_t i = 0; rc == 0 && i < kept; i++) {
        struct tw_rollout_flag f = {.began_ns = out->item[i].began_ns};
        const struct rollout_runs none = {.count = 0};
        struct rollout_runs runs;
        struct tw_rollout_seen seen;
        memcpy(f.id, out->item[i].id, sizeof f.id);
        rc = tw_rollout_load(l, &f, &none, until_ns, &runs, &seen, err);
        rc = rc ? rc : count_rates(&out->item[i], &runs, err);
        tw_rollout_runs_free(&runs);
        tw_rollout_seen_free(&seen);
    }
    return rc;
}

void tw_rollout_list_free(struct tw_rollout_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        for (size_t j = 0; j < l->item[i].projects; j++)
            tw_free(l->item[i].project[j].name);
        tw_free(l->item[i].project);
        tw_free(l->item[i].said);
    }
    tw_free(l->item);
    *l = (struct tw_rollout_list){.count = 0};
}
