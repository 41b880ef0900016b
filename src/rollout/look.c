/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger says of a rollout: its runs by arm, and the comparisons of them that count. Those
 * are what twinrun shadow and this room made, which take runs as they come; what a person compared,
 * or a check, was chosen for a reason.
 *
 * A job (the runs of one key) takes part in one comparison that counts, the oldest: so each is a
 * draw of its own, and the chance of a difference is that of two jobs.
 */
#include "rollout_inside.h"

#include "base.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the callbacks fill in. */
struct loading {
    const struct tw_rollout_flag *f;
    int64_t until_ns; /* nothing later counts */
    struct rollout_runs *to;
    struct twin_error *err;
    /* comparisons of runs of ours, the newest first, as the ledger hands them out */
    struct answer {
        char run[2][33];
        enum twin_ledger_agreed agreed;
    } *answer;
    size_t answers, room;
};

static int by_id(const void *x, const void *y)
{
    return strcmp(((const struct rollout_run *)x)->id, ((const struct rollout_run *)y)->id);
}

/* Those of the ledger's events before those that were seen going on. */
static int by_id_and_source(const void *x, const void *y)
{
    const struct rollout_run *a = x, *b = y;
    const int by = by_id(x, y);
    return by != 0 ? by : a->known - b->known;
}

static int by_start(const void *x, const void *y)
{
    const struct rollout_run *a = x, *b = y;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return strcmp(a->id, b->id);
}

/* While the runs are sorted by id. */
static struct rollout_run *find(const struct rollout_runs *r, const char *id)
{
    struct rollout_run key = {.start_ns = 0};
    snprintf(key.id, sizeof key.id, "%s", id ? id : "");
    return r->count ? bsearch(&key, r->run, r->count, sizeof *r->run, by_id) : NULL;
}

/* ---- runs */

/* "ID SHARE key=HASH WHY": is it of this rollout? *why points behind what is before it; key: "" of
 * an older twinrun's. */
static bool is_of(const struct tw_rollout_flag *f, const char *subject, char key[33],
                  const char **why)
{
    enum { DIGITS = 32 };
    static const char WORD[] = "key=";
    const char *space = strchr(subject, ' ');
    const char *more = space ? strchr(space + 1, ' ') : NULL;
    *why = more ? more + 1 : "";
    key[0] = '\0';
    const char *digits = *why + strlen(WORD);
    if (tw_starts(*why, WORD) && tw_hex_span(digits) == DIGITS &&
        (digits[DIGITS] == ' ' || !digits[DIGITS])) {
        memcpy(key, digits, DIGITS);
        key[DIGITS] = '\0';
        *why = digits + DIGITS + (digits[DIGITS] == ' ');
    }
    return strncmp(subject, f->id, 16) == 0 && subject[16] == ' ';
}

/* A new one at the end; NULL: no memory. */
static struct rollout_run *add_run(struct rollout_runs *to)
{
    if (to->count == to->room) {
        const size_t room = to->room ? 2 * to->room : 256;
        struct rollout_run *grown = tw_reallocarray(to->run, room, sizeof *grown);
        if (!grown)
            return NULL;
        to->run = grown;
        to->room = room;
    }
    return &to->run[to->count++];
}

static int see_event(void *user, const struct twin_ledger_event *e)
{
    struct loading *l = user;
    struct rollout_runs *to = l->to;
    const char *why;
    char key[33];
    if (strcmp(e->kind, TW_ROLLOUT_RUN_KIND) != 0 || e->time_ns > l->until_ns)
        return 0;
    const bool ours = is_of(l->f, e->subject, key, &why);
    const bool nobodys = tw_starts(e->subject, "- ") && e->time_ns >= l->f->began_ns;
    if (strcmp(e->outcome, "off") == 0 && (ours || nobodys)) {
        to->off++;
        if (e->time_ns >= to->off_ns || !to->off_why) {
            tw_free(to->off_why);
            to->off_why = tw_strdup(why);
            to->off_ns = e->time_ns;
        }
        return to->off_why ? 0 : tw_no_memory(l->err, "for the runs of a rollout");
    }
    if (!ours || !e->run_id || !tw_is_hex(e->run_id, 32))
        return 0;
    struct rollout_run *r = add_run(to);
    if (!r)
        return tw_no_memory(l->err, "for the runs of a rollout");
    *r = (struct rollout_run){.wall_s = NAN, .loss = NAN, .start_ns = e->time_ns};
    snprintf(r->id, sizeof r->id, "%s", e->run_id);
    snprintf(r->arm, sizeof r->arm, "%s", e->outcome);
    snprintf(r->key, sizeof r->key, "%s", *key ? key : e->run_id);
    r->share = (uint32_t)strtoul(e->subject + sizeof l->f->id, NULL, 10);
    return 0;
}

/* A command without its numbers: "--date 2026-11-26 --seed 7" and the next day's are one kind. */
char *tw_rollout_kind(const char *project, const char *command)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b, "%s\n", project);
    for (const char *at = command; *at; at++) {
        const bool digit = isdigit((unsigned char)*at);
        if (!digit)
            tw_buf_append(&b, at, 1);
        else if (at == command || !isdigit((unsigned char)at[-1]))
            tw_buf_puts(&b, "#");
    }
    return tw_buf_steal(&b);
}

static int see_run(void *user, const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    struct loading *l = user;
    struct rollout_run *x = find(l->to, r->id);
    if (!x || x->known)
        return 0;
    x->known = true;
    x->start_ns = r->start_ns;
    x->wall_s = r->wall_s;
    x->loss = f ? f->loss : NAN;
    x->name = tw_strdup(r->name ? r->name : "");
    x->home = tw_strdup(r->home ? r->home : "");
    x->inputs = tw_strdup(f && f->inputs ? f->inputs : "");
    x->kind = tw_rollout_kind(f && f->project ? f->project : "", r->command ? r->command : "");
    x->gone = r->gone;
    x->ok = strcmp(r->state, "ok") == 0;
    x->ended = strcmp(r->state, "running") != 0;
    /* where twinrun could write the end it knew how long that took */
    x->inferred = strcmp(r->state, "interrupted") == 0 && !(r->wall_s > 0);
    x->outside = strcmp(r->state, "interrupted") == 0 || strcmp(r->state, "stopped") == 0;
    return x->name && x->home && x->inputs && x->kind
               ? 0
               : tw_no_memory(l->err, "for the runs of a rollout");
}

/* ---- comparisons */

static int see_comparison(void *user, const struct twin_ledger_comparison *c)
{
    struct loading *l = user;
    const bool counts = strcmp(c->verb, TW_ROLLOUT_VERB) == 0 || strcmp(c->verb, "shadow") == 0;
    if (!counts || c->time_ns > l->until_ns || c->run_count != 2 || !find(l->to, c->run_id[0]))
        return 0;
    if (l->answers == l->room) {
        const size_t room = l->room ? 2 * l->room : 64;
        struct answer *grown = tw_reallocarray(l->answer, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(l->err, "for the comparisons of a rollout");
        l->answer = grown;
        l->room = room;
    }
    struct answer *a = &l->answer[l->answers++];
    *a = (struct answer){.agreed = c->agreed ? c->agreed[1] : TWIN_AGREED_UNKNOWN};
    snprintf(a->run[0], sizeof a->run[0], "%s", c->run_id[0]);
    snprintf(a->run[1], sizeof a->run[1], "%s", c->run_id[1]);
    return 0;
}

bool tw_rollout_arm_of(const struct rollout_run *r, enum tw_rollout_arm *arm)
{
    for (int a = 0; a < TW_ROLLOUT_ARMS; a++)
        if (strcmp(r->arm, tw_rollout_arm_name((enum tw_rollout_arm)a)) == 0) {
            *arm = (enum tw_rollout_arm)a;
            return true;
        }
    return false;
}

/* One comparison. The other run is of the same arm, or a repeat that shadow made, which has none.
 */
static void count_answer(struct rollout_runs *r, const struct answer *a, struct tw_rollout_seen *s)
{
    struct rollout_run *x = find(r, a->run[0]), *y = find(r, a->run[1]);
    enum tw_rollout_arm arm;
    assert(x);
    if (!tw_rollout_arm_of(x, &arm) || (y && (strcmp(y->arm, x->arm) != 0 || x->job == y->job)) ||
        r->compared[x->job] || (y && r->compared[y->job]))
        return;
    r->compared[x->job] = true;
    if (y)
        r->compared[y->job] = true;
    if (a->agreed == TWIN_AGREED)
        x->answer = ROLLOUT_SAME;
    else if (a->agreed == TWIN_AGREED_NOT)
        x->answer = ROLLOUT_DIVERGED;
    else
        x->answer = ROLLOUT_UNKNOWN;
    s->arm[arm].same += x->answer == ROLLOUT_SAME;
    s->arm[arm].diverged += x->answer == ROLLOUT_DIVERGED;
    s->arm[arm].unknown += x->answer == ROLLOUT_UNKNOWN;
}

/* ---- all */

/* One item for each run: what was put twice (by two ledgers that were merged) is one, and what went
 * on a moment ago and has ended now is what the ledger says. */
static void sort_and_unite(struct rollout_runs *r)
{
    size_t kept = 0;
    if (r->count)
        qsort(r->run, r->count, sizeof *r->run, by_id_and_source);
    for (size_t i = 0; i < r->count; i++)
        if (kept == 0 || strcmp(r->run[kept - 1].id, r->run[i].id) != 0)
            r->run[kept++] = r->run[i];
        else
            tw_rollout_forget(&r->run[i]);
    r->count = kept;
}

static int by_key(const void *x, const void *y)
{
    const struct rollout_run *const *a = x, *const *b = y;
    return strcmp((*a)->key, (*b)->key);
}

int tw_rollout_number_jobs(struct rollout_runs *r, struct twin_error *err)
{
    struct rollout_run **list = tw_calloc(r->count + 1, sizeof(struct rollout_run *));
    tw_free(r->compared);
    r->compared = tw_calloc(r->count + 1, sizeof *r->compared);
    r->jobs = 0;
    const bool memory = list && r->compared;
    for (size_t i = 0; memory && i < r->count; i++)
        list[i] = &r->run[i];
    if (memory && r->count)
        qsort(list, r->count, sizeof *list, by_key);
    for (size_t i = 0; memory && i < r->count; i++) {
        r->jobs += i == 0 || by_key(&list[i], &list[i - 1]) != 0;
        list[i]->job = r->jobs - 1;
    }
    tw_free(list);
    return memory ? 0 : tw_no_memory(err, "for the runs of a rollout");
}

/* ---- runs that were killed before it was known of which project they are */

static const char *command_of(const struct rollout_run *r)
{
    const char *end = r->kind ? strchr(r->kind, '\n') : NULL;
    return end ? end + 1 : "";
}

static int by_command(const void *x, const void *y)
{
    const struct rollout_run *const *a = x, *const *b = y;
    return strcmp(command_of(*a), command_of(*b));
}

/* Runs of one command: where those whose project is known have one, it is that of all. */
static int name_group(struct rollout_run **run, size_t count, struct twin_error *err)
{
    const char *kind = NULL;
    for (size_t i = 0; i < count; i++)
        if (run[i]->kind && *run[i]->kind != '\n') {
            if (kind && strcmp(kind, run[i]->kind) != 0)
                return 0;
            kind = run[i]->kind;
        }
    for (size_t i = 0; kind && i < count; i++)
        if (run[i]->kind && *run[i]->kind == '\n') {
            tw_free(run[i]->kind);
            if (!(run[i]->kind = tw_strdup(kind)))
                return tw_no_memory(err, "for the runs of a rollout");
        }
    return 0;
}

/* A run whose twinrun was killed has no project, unless TWINRUN_PROJECT says it: it would be of no
 * kind that has runs of the other arm, and its end would count for nothing. */
static int name_kinds(struct rollout_runs *r, struct twin_error *err)
{
    struct rollout_run **list = tw_calloc(r->count + 1, sizeof(struct rollout_run *));
    int rc = list ? 0 : tw_no_memory(err, "for the runs of a rollout");
    for (size_t i = 0; rc == 0 && i < r->count; i++)
        list[i] = &r->run[i];
    if (rc == 0 && r->count)
        qsort(list, r->count, sizeof *list, by_command);
    for (size_t i = 0, to; rc == 0 && i < r->count; i = to) {
        for (to = i + 1; to < r->count && by_command(&list[i], &list[to]) == 0;)
            to++;
        rc = name_group(&list[i], to - i, err);
    }
    tw_free(list);
    return rc;
}

static int copy_live(const struct rollout_runs *live, struct rollout_runs *to,
                     struct twin_error *err)
{
    for (size_t i = 0; i < live->count; i++) {
        const struct rollout_run *from = &live->run[i];
        struct rollout_run *r = add_run(to);
        if (!r)
            return tw_no_memory(err, "for the runs of a rollout");
        *r = *from;
        r->name = tw_strdup(from->name);
        r->home = tw_strdup(from->home);
        r->inputs = tw_strdup(from->inputs);
        r->kind = tw_strdup(from->kind);
        if (!r->name || !r->home || !r->inputs || !r->kind)
            return tw_no_memory(err, "for the runs of a rollout");
    }
    return 0;
}

int tw_rollout_load(struct twin_ledger *l, const struct tw_rollout_flag *f,
                    const struct rollout_runs *live, int64_t until_ns, struct rollout_runs *out,
                    struct tw_rollout_seen *s, struct twin_error *err)
{
    struct loading loading = {.f = f, .until_ns = until_ns, .to = out, .err = err};
    *out = (struct rollout_runs){.off_ns = INT64_MIN};
    *s = (struct tw_rollout_seen){.off_why = NULL};
    int rc = twin_ledger_events(l, INT64_MIN, see_event, &loading, err);
    rc = rc ? rc : copy_live(live, out, err);
    sort_and_unite(out);
    if (rc == 0 && out->count)
        rc = twin_ledger_history(l, NULL, INT64_MIN, see_run, &loading, err);
    rc = rc ? rc : name_kinds(out, err);
    rc = rc ? rc : tw_rollout_number_jobs(out, err);
    if (rc == 0 && out->count)
        rc = twin_ledger_comparisons(l, NULL, NULL, see_comparison, &loading, err);
    for (size_t i = loading.answers; rc == 0 && i-- > 0;)
        count_answer(out, &loading.answer[i], s);
    tw_free(loading.answer);
    if (out->count)
        qsort(out->run, out->count, sizeof *out->run, by_start);
    s->off = out->off;
    s->off_why = out->off_why;
    out->off_why = NULL;
    return rc;
}

void tw_rollout_forget(struct rollout_run *r)
{
    tw_free(r->name);
    tw_free(r->home);
    tw_free(r->inputs);
    tw_free(r->kind);
}

void tw_rollout_runs_free(struct rollout_runs *r)
{
    for (size_t i = 0; i < r->count; i++)
        tw_rollout_forget(&r->run[i]);
    tw_free(r->run);
    tw_free(r->compared);
    tw_free(r->off_why);
    *r = (struct rollout_runs){.count = 0};
}

void tw_rollout_seen_free(struct tw_rollout_seen *s)
{
    tw_free(s->off_why);
    tw_free(s->time.value);
    tw_free(s->loss.value);
    tw_free(s->spread.value);
    s->off_why = NULL;
    s->time = s->loss = s->spread = (struct tw_rollout_ratios){.count = 0};
}
