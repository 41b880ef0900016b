/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which runs are repeated, and in which order. All of it comes from the ledger, which has caught up
 * with the home. The draw is a hash of the run's id: it needs no memory, and no order in which runs
 * come can change it.
 */
#include "shadow_inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool tw_shadow_is_drawn(const char *seed, const char *id, double share)
{
    assert(seed && id);
    const struct tw_hash128 by = tw_hash_bytes(seed, strlen(seed), 0);
    const struct tw_hash128 h = tw_hash_bytes(id, strlen(id), by.a);
    /* 53 bits, so that the quotient is exact and below 1 */
    return (double)(h.a >> 11) / 9007199254740992.0 < share;
}

/* ---- what the ledger knows */

/* What the callbacks of the ledger fill in. */
struct loading {
    struct shadow_runs *to;
    struct twin_error *err;
};

static int by_id(const void *x, const void *y)
{
    return strcmp(((const struct shadow_run *)x)->id, ((const struct shadow_run *)y)->id);
}

static struct shadow_run *find_run(const struct shadow_runs *all, const char *id)
{
    const struct shadow_run key = {.id = (char *)(uintptr_t)id};
    return all->count ? bsearch(&key, all->run, all->count, sizeof *all->run, by_id) : NULL;
}

static char *copy_of(const char *s)
{
    return tw_strdup(s ? s : "");
}

static int add_run(void *user, const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    struct loading *l = user;
    struct shadow_runs *all = l->to;
    if (all->count == all->room) {
        const size_t room = all->room ? 2 * all->room : 256;
        struct shadow_run *grown = tw_reallocarray(all->run, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(l->err, "for the runs of the ledger");
        all->run = grown;
        all->room = room;
    }
    struct shadow_run *x = &all->run[all->count++];
    *x = (struct shadow_run){.id = copy_of(r->id),
                             .name = copy_of(r->name),
                             .label = copy_of(r->label),
                             .command = copy_of(r->command),
                             .project = copy_of(f ? f->project : ""),
                             .state = copy_of(r->state),
                             .start_ns = r->start_ns,
                             .wall_s = r->wall_s,
                             .gone = r->gone,
                             .ended = SIZE_MAX};
    return x->id && x->name && x->label && x->command && x->project && x->state
               ? 0
               : tw_no_memory(l->err, "for the runs of the ledger");
}

/* What a comparison says of its runs: who made them, and which have an answer. */
static int see_comparison(void *user, const struct twin_ledger_comparison *c)
{
    struct loading *l = user;
    const bool ours = strcmp(c->verb, TW_SHADOW_VERB) == 0;
    /* rollout compares runs as they come, and makes none */
    const bool looked_only = strcmp(c->verb, "diff") == 0 || strcmp(c->verb, "rollout") == 0;
    for (size_t i = 0; i < c->run_count; i++) {
        struct shadow_run *r = find_run(l->to, c->run_id[i]);
        if (!r)
            continue;
        if (ours && i == 0)
            r->answered = true;
        if (ours && i > 0)
            r->compared = true;
        if (!ours && !looked_only)
            r->others = true;
        if (c->repeats && i > 0)
            r->of->compared++;
    }
    return 0;
}

static int see_event(void *user, const struct twin_ledger_event *e)
{
    struct loading *l = user;
    struct shadow_run *r = e->run_id ? find_run(l->to, e->run_id) : NULL;
    if (r && strcmp(e->kind, TW_SHADOW_VERB) == 0)
        r->told = true;
    return 0;
}

/* The original of a repeat, by the digits in its label; NULL: it is none, or its original is not
 * known here. */
static struct shadow_run *original_of(const struct shadow_runs *all, const struct shadow_run *r)
{
    if (!tw_starts(r->label, TW_SHADOW_LABEL))
        return NULL;
    const char *digits = r->label + strlen(TW_SHADOW_LABEL);
    size_t low = 0, high = all->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strncmp(all->run[middle].id, digits, TW_SHADOW_DIGITS) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == all->count || strlen(digits) != TW_SHADOW_DIGITS ||
        strncmp(all->run[low].id, digits, TW_SHADOW_DIGITS) != 0)
        return NULL;
    return &all->run[low];
}

/* Did the job end by itself, well or not? Those that somebody ended show nothing whole. */
static bool ended_by_itself(const struct shadow_run *r)
{
    return strcmp(r->state, "interrupted") != 0 && strcmp(r->state, "stopped") != 0 &&
           strcmp(r->state, "not started") != 0 && strcmp(r->state, "running") != 0;
}

static void find_repeats(struct shadow_runs *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct shadow_run *r = &all->run[i];
        struct shadow_run *of = original_of(all, r);
        if (!of || r->compared)
            continue;
        if (!r->gone && ended_by_itself(r))
            of->ended = i;
        else if (!ended_by_itself(r))
            of->cut++;
    }
}

static int by_text(const void *x, const void *y)
{
    return strcmp(((const struct shadow_command *)x)->text,
                  ((const struct shadow_command *)y)->text);
}

static struct shadow_command *find_command(const struct shadow_runs *all, const char *text)
{
    const struct shadow_command key = {.text = text};
    return bsearch(&key, all->command, all->commands, sizeof key, by_text);
}

static int list_commands(struct shadow_runs *all, struct twin_error *err)
{
    all->command = tw_calloc(all->count + 1, sizeof *all->command);
    if (!all->command)
        return tw_no_memory(err, "for the commands of the ledger");
    for (size_t i = 0; i < all->count; i++)
        all->command[i].text = all->run[i].command;
    if (all->count)
        qsort(all->command, all->count, sizeof *all->command, by_text);
    for (size_t i = 0; i < all->count; i++)
        if (i == 0 || strcmp(all->command[all->commands - 1].text, all->command[i].text) != 0)
            all->command[all->commands++] = all->command[i];
    for (size_t i = 0; i < all->count; i++)
        all->run[i].of = find_command(all, all->run[i].command);
    return 0;
}

int tw_shadow_runs_load(struct twin_ledger *l, const char *owner, struct shadow_runs *out,
                        struct twin_error *err)
{
    struct loading loading = {.to = out, .err = err};
    *out = (struct shadow_runs){.count = 0};
    int rc = twin_ledger_history(l, owner, INT64_MIN, add_run, &loading, err);
    if (rc == 0 && out->count)
        qsort(out->run, out->count, sizeof *out->run, by_id);
    rc = rc ? rc : list_commands(out, err);
    rc = rc ? rc : twin_ledger_comparisons(l, NULL, NULL, see_comparison, &loading, err);
    rc = rc ? rc : twin_ledger_events(l, INT64_MIN, see_event, &loading, err);
    if (rc == 0)
        find_repeats(out);
    return rc;
}

void tw_shadow_runs_free(struct shadow_runs *r)
{
    for (size_t i = 0; i < r->count; i++) {
        char *const texts[] = {r->run[i].id,      r->run[i].name,    r->run[i].label,
                               r->run[i].command, r->run[i].project, r->run[i].state};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            tw_free(texts[k]);
    }
    tw_free(r->run);
    tw_free(r->command);
    *r = (struct shadow_runs){.count = 0};
}

/* ---- the order */

/* Runs that other commands of twinrun make have labels of theirs, also before they were compared.
 */
static bool has_label_of_others(const char *label)
{
    static const char *const exact[] = {"a",      "b",      "half",   "lab",    "scale",
                                        "zoom-a", "zoom-b", "shrink", "replay", NULL};
    for (const char *const *p = exact; *p; p++)
        if (strcmp(label, *p) == 0)
            return true;
    return tw_starts(label, TW_SHADOW_LABEL);
}

bool tw_shadow_is_original(const struct shadow_run *r)
{
    return !r->gone && !r->others && strcmp(r->state, "ok") == 0 && !has_label_of_others(r->label);
}

/* The number of the first pattern that its project or its command is like; more than all: none. */
static size_t rank_of(const struct shadow_run *r, const struct tw_strings *first)
{
    for (size_t i = 0; i < first->count; i++)
        if (tw_glob(first->items[i], r->project) || tw_glob(first->items[i], r->command))
            return i;
    return first->count;
}

/* Does x go before y? The newest first: the older a run, the less likely its world is still there.
 */
static bool goes_before(const struct tw_shadow_asked *a, const struct shadow_run *x,
                        const struct shadow_run *y)
{
    const size_t rank_x = rank_of(x, &a->first), rank_y = rank_of(y, &a->first);
    if (rank_x != rank_y)
        return rank_x < rank_y;
    if (x->of->compared != y->of->compared)
        return x->of->compared < y->of->compared;
    if (x->start_ns != y->start_ns)
        return x->start_ns > y->start_ns;
    return strcmp(x->id, y->id) < 0;
}

bool tw_shadow_is_told(const struct shadow_run *r)
{
    return r->told && !r->answered && r->ended == SIZE_MAX;
}

void tw_shadow_draw(struct shadow_runs *all, const struct tw_shadow_asked *a)
{
    for (size_t i = 0; i < all->count; i++) {
        struct shadow_run *r = &all->run[i];
        r->drawn = tw_shadow_is_original(r) && tw_shadow_is_drawn(a->seed, r->id, a->share);
    }
}

struct shadow_run *tw_shadow_next(struct shadow_runs *all, const struct tw_shadow_asked *a)
{
    struct shadow_run *best = NULL;
    for (size_t i = 0; i < all->count; i++) {
        struct shadow_run *r = &all->run[i];
        if (!r->drawn || r->done || r->answered || (!a->again && tw_shadow_is_told(r)))
            continue;
        if (!best || goes_before(a, r, best))
            best = r;
    }
    return best;
}
