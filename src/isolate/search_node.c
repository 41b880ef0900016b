/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The factor node, where an engine makes the runs (--on): its pin puts every run on one node. While
 * it is free we choose the node of each run, and not the engine: in blocks in which each node has
 * one run, in drawn order. An engine that fills its first node would show nothing, and one that
 * puts late runs elsewhere would mix up the node and the time.
 *
 * It is a last resort: what pins of the job stop (threads, instruction sets) is named by them. When
 * it is the cause, some runs more say which node it is: the guess comes from the runs that there
 * are, and fresh ones, placed by us on that node and on others in drawn order, decide.
 */
#include "search_runs.h"

#include "search_inside.h"
#include "run_state.h"

#include "src/stats/stats.h"

#include <assert.h>
#include <string.h>

static const char id[] = "node";
enum { FRESH_EACH = 4 /* 4 against 4: p is at least 1 of 70 */, NATURAL_MOST = 32 };
#define NODE_ALPHA 0.05

/* What an order is drawn for: each has its own, whatever the numbers beside it. Confirmations,
 * which are drawn from the same seed, count from 1. */
enum { FOR_BASELINE = 1 << 30, FOR_SORTS, FOR_NODES, FOR_ODD_NODES, FOR_FRESH };

/* A drawn order of 0 to n - 1. */
static void draw(const struct tw_isolate *c, uint32_t purpose, size_t block, uint32_t *order,
                 size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    tw_block_draw(c->plan.seed, purpose, (uint32_t)block, order, n);
}

bool tw_isolate_nodes_open(struct tw_isolate *c)
{
    struct tw_isolate_nodes *x = &c->nodes;
    struct twin_error err = TWIN_ERROR_INIT;
    if (!tw_remote_is_on(c->on) || c->args.a)
        return false;
    int rc = tw_remote_nodes(c->on, TW_ISOLATE_NODES, &x->name, &x->count, &err);
    if (rc == 0 && x->count < 2)
        rc = twin_error_set(&err, TWIN_EUNSUPPORTED,
                            "there is only one node on which a run may be");
    if (rc != 0)
        x->why = tw_strdup(err.message);
    return rc == 0;
}

void tw_isolate_nodes_close(struct tw_isolate *c)
{
    for (size_t i = 0; i < c->nodes.count; i++)
        tw_free(c->nodes.name[i]);
    tw_free(c->nodes.name);
    tw_free(c->nodes.why);
    tw_free(c->nodes.text);
    tw_free(c->nodes.odd);
}

/* ---- what natural runs showed */

/* The place of a run's node in our list; count: none. */
static size_t node_of(const struct tw_isolate *c, const struct twin_run *r)
{
    size_t i = 0;
    while (i < c->nodes.count && !(r->node.engine && strcmp(r->node.name, c->nodes.name[i]) == 0))
        i++;
    return i;
}

/* The natural runs of the log, each with its node and its class of runs that agree. */
struct natural {
    const struct twin_run *first[NATURAL_MOST]; /* of each class */
    size_t classes, runs;
    size_t node[NATURAL_MOST], its_class[NATURAL_MOST];
};

static bool is_natural(const struct tw_isolate *c, const struct twin_search_entry *e)
{
    const struct twin_search_set none = {{0}};
    const struct tw_isolate_made *m = tw_isolate_made(c, e->number);
    return m && memcmp(&m->pinned, &none, sizeof none) == 0 &&
           e->result.status == TWIN_ENDED_WELL && e->purpose != TWIN_FOR_VOTE;
}

/* False: they cannot be compared, and nothing is known. */
static bool look(struct tw_isolate *c, struct natural *n)
{
    *n = (struct natural){.runs = 0};
    for (size_t i = 0; i < c->log.count && n->runs < NATURAL_MOST; i++) {
        const struct twin_search_entry *e = &c->log.entry[i];
        const struct twin_run *r = is_natural(c, e) ? tw_isolate_find(c, e->result.handle) : NULL;
        size_t k = 0;
        if (!r || node_of(c, r) == c->nodes.count)
            continue;
        for (; k < n->classes; k++) {
            struct twin_verdict *v = NULL;
            if (tw_isolate_compare_pair(c, n->first[k], r, &v, NULL) != 0)
                return false;
            const bool differ = tw_isolate_parted(c, v);
            twin_verdict_free(v);
            if (!differ)
                break;
        }
        if (k == n->classes)
            n->first[n->classes++] = r;
        n->node[n->runs] = node_of(c, r);
        n->its_class[n->runs++] = k;
    }
    return n->runs > 0;
}

/* Runs of this node in this class. */
static size_t count_of(const struct natural *n, size_t node, size_t its_class)
{
    size_t found = 0;
    for (size_t i = 0; i < n->runs; i++)
        found += n->node[i] == node && n->its_class[i] == its_class;
    return found;
}

static size_t runs_of(const struct natural *n, size_t node)
{
    size_t found = 0;
    for (size_t i = 0; i < n->runs; i++)
        found += n->node[i] == node;
    return found;
}

/* The class in which most nodes have a run: a node counts once, however many runs it made. */
static size_t usual_class(const struct tw_isolate *c, const struct natural *n)
{
    size_t best = 0, most = 0;
    for (size_t k = 0; k < n->classes; k++) {
        size_t nodes = 0;
        for (size_t i = 0; i < c->nodes.count; i++)
            nodes += count_of(n, i, k) > 0;
        if (nodes > most) {
            most = nodes;
            best = k;
        }
    }
    return best;
}

/* ---- the pin */

/* What the baseline says of nodes, looked at once, when it is over. The pin holds a node all of
 * whose runs were usual ones, of these the one with most: one that computes otherwise now and then
 * would make the pin look as if it did nothing. */
static void learn_nodes(struct tw_isolate *c)
{
    struct tw_isolate_nodes *x = &c->nodes;
    struct natural n;
    size_t most = 0;
    if (x->held_known)
        return;
    x->held_known = true;
    if (!look(c, &n))
        return;
    const size_t usual = usual_class(c, &n);
    for (size_t i = 0; i < x->count; i++) {
        const size_t good = count_of(&n, i, usual);
        if (good < runs_of(&n, i))
            x->odd_node[x->odd_count++] = i;
        else if (good > most) {
            most = good;
            x->held = i;
        }
    }
}

/* The n-th node of those that are odd, or are not: each of them once, in drawn order, then again.
 */
static size_t nth_of_sort(const struct tw_isolate *c, bool odd, size_t n)
{
    const struct tw_isolate_nodes *x = &c->nodes;
    size_t node[TW_ISOLATE_NODES], count = 0;
    uint32_t order[TW_ISOLATE_NODES];
    for (size_t i = 0; i < x->count; i++) {
        bool is_odd = false;
        for (size_t k = 0; k < x->odd_count; k++)
            is_odd |= x->odd_node[k] == i;
        if (is_odd == odd)
            node[count++] = i;
    }
    assert(count > 0);
    draw(c, odd ? FOR_ODD_NODES : FOR_NODES, n / count, order, count);
    return node[order[n % count]];
}

/* Of each four free runs two are on nodes whose runs had diverged and two are not, in drawn order.
 * By a coin for each run a dozen of them were of one sort once in fifty searches, and the search
 * rightly said that the divergence was over. */
static size_t place_free(struct tw_isolate *c)
{
    enum { EACH = 2 };
    struct tw_isolate_nodes *x = &c->nodes;
    uint32_t order[2 * EACH];
    draw(c, FOR_SORTS, x->placed / (2 * EACH), order, 2 * EACH);
    const bool odd = order[x->placed % (2 * EACH)] < EACH;
    x->placed++;
    return nth_of_sort(c, odd, x->placed_of[odd]++);
}

void tw_isolate_node_apply(struct tw_isolate *c, const struct twin_world *w,
                           const struct twin_search_request *q, struct twin_launch_options *o)
{
    struct tw_isolate_nodes *x = &c->nodes;
    uint32_t order[TW_ISOLATE_NODES];
    if (!x->used)
        return;
    if (q->purpose != TWIN_FOR_BASELINE)
        learn_nodes(c);
    if (twin_world_sets(w, id) || q->purpose == TWIN_FOR_REFERENCE) {
        o->at_node = x->name[x->held];
        return;
    }
    if (q->purpose != TWIN_FOR_BASELINE && x->odd_count && x->odd_count < x->count) {
        o->at_node = x->name[place_free(c)];
        return;
    }
    const size_t turn = q->number - 1; /* so the first runs see each node once */
    draw(c, FOR_BASELINE, turn / x->count, order, x->count);
    o->at_node = x->name[order[turn % x->count]];
}

const char *tw_isolate_node_held(const struct tw_isolate *c)
{
    return c->nodes.held_known ? c->nodes.name[c->nodes.held] : NULL;
}

bool tw_isolate_node_common(const struct twin_run *a, const struct twin_run *b)
{
    return a->node.engine && b->node.engine && strcmp(a->node.name, b->node.name) == 0;
}

/* ---- which node */

/* "n1, n2" */
static char *names_of(const struct tw_isolate *c, const size_t *node, size_t count)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < count; i++)
        tw_buf_printf(&b, "%s%s", i ? ", " : "", c->nodes.name[node[i]]);
    return tw_buf_steal(&b);
}

/* Nodes whose runs were seen: those with unusual ones, and the others. */
struct suspicion {
    const struct twin_run *usual;
    size_t odd[TW_ISOLATE_NODES], odd_count, other[TW_ISOLATE_NODES], other_count;
};

static bool suspect(struct tw_isolate *c, struct suspicion *s)
{
    struct natural n;
    *s = (struct suspicion){.usual = NULL};
    if (!look(c, &n))
        return false;
    const size_t usual = usual_class(c, &n);
    s->usual = n.first[usual];
    for (size_t i = 0; i < c->nodes.count; i++) {
        if (!runs_of(&n, i))
            continue;
        if (count_of(&n, i, usual) < runs_of(&n, i))
            s->odd[s->odd_count++] = i;
        else
            s->other[s->other_count++] = i;
    }
    return true;
}

/* The fresh runs: in drawn order FRESH_EACH on suspected nodes and as many on others, all given
 * away before one is waited for. diverged[0]: on suspected ones. False: they were not all made. */
static bool make_fresh(struct tw_isolate *c, const struct suspicion *s, uint64_t diverged[2])
{
    enum { ALL = 2 * FRESH_EACH };
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_given given = {.run = NULL};
    struct twin_launch_options o = tw_isolate_launch_options(c, "node");
    struct tw_trial t = {.front = c->front,
                         .title = "node    ",
                         .expected_s = c->natural_s,
                         .deadline_ns = tw_patience_ends_ns(&tw_patience_under_pins, c->natural_s)};
    uint32_t order[ALL];
    size_t made = 0;
    int rc = 0;
    draw(c, FOR_FRESH, 0, order, ALL);
    for (size_t i = 0; i < ALL && rc == 0; i++) {
        const size_t k = order[i] / 2;
        o.at_node =
            c->nodes.name[order[i] % 2 ? s->other[k % s->other_count] : s->odd[k % s->odd_count]];
        rc = tw_given_add(&given, &o, &t, 1, &err);
    }
    for (; made < ALL && rc == 0 && !tw_isolate_stops(c); made++) {
        struct twin_verdict *v = NULL;
        rc = tw_given_make(&given, &o, &t, &err);
        if (rc != 0)
            break;
        const bool failed = t.end == TW_TRIAL_OUT_OF_TIME || tw_run_failed(t.run);
        if (!failed)
            rc = tw_isolate_compare_pair(c, s->usual, t.run, &v, &err);
        diverged[order[made] % 2] += rc == 0 && (failed || tw_isolate_parted(c, v));
        twin_verdict_free(v);
        if (tw_isolate_keep(c, t.run) != 0) {
            twin_run_free(t.run);
            break;
        }
    }
    tw_given_end(&given);
    c->interrupted |= rc == TWIN_EINTR;
    return made == ALL;
}

/* What the fresh runs came to, as a sentence. */
static char *said_of(struct tw_isolate *c, const struct suspicion *s, const uint64_t diverged[2])
{
    const double p = twin_stats_fisher(diverged[0], FRESH_EACH - diverged[0], diverged[1],
                                       FRESH_EACH - diverged[1], TWIN_GREATER);
    char *odd = names_of(c, s->odd, s->odd_count), *other = names_of(c, s->other, s->other_count);
    const char *plural = s->odd_count == 1 ? "" : "s",
               *text = s->odd_count == 1 ? "it is" : "they are";
    char *counts = tw_printf(
        "of %d fresh runs that were placed in drawn order (seed %llu), %llu of "
        "%d on %s diverged from the usual result and %llu of %d on %s (exact "
        "p = %.2g)",
        2 * FRESH_EACH, (unsigned long long)c->plan.seed, (unsigned long long)diverged[0],
        FRESH_EACH, odd ? odd : "", (unsigned long long)diverged[1], FRESH_EACH, other ? other : "",
        p);
    char *out = NULL;
    c->nodes.shown = p <= NODE_ALPHA && diverged[1] == 0;
    if (counts && c->nodes.shown)
        out = tw_printf(
            "only runs on node%s %s diverge: %s; the placing was ours, so %s the cause, "
            "and what about %s does it (processor, memory, files of its own) is not "
            "known (--place avoid:NODE leaves it out)",
            plural, odd ? odd : "", counts, text, s->odd_count == 1 ? "it" : "them");
    else if (counts)
        out = tw_printf("which node it is was not shown: %s", counts);
    tw_free(counts);
    tw_free(odd);
    tw_free(other);
    return out;
}

void tw_isolate_which_node(struct tw_isolate *c, const struct twin_search_report *r)
{
    struct suspicion s;
    uint64_t diverged[2] = {0, 0};
    const double limit = (double)c->args.max_time;
    bool is_cause = false;
    for (size_t i = 0; i < r->cause_count; i++)
        is_cause |= strcmp(c->factor[r->cause[i].candidate]->id, id) == 0;
    if (r->outcome != TWIN_SEARCH_ISOLATED || !is_cause || r->cause_count > 1 ||
        tw_isolate_stops(c) || (limit > 0 && r->seconds + c->natural_s > limit))
        return;
    if (!suspect(c, &s) || !s.odd_count || s.odd_count >= s.other_count ||
        /* one that nobody saw may agree with the few, which then are none */
        s.odd_count + s.other_count < c->nodes.count)
        c->nodes.text = tw_strdup("which node it is cannot be said: no few of them stand out from "
                                  "the others, whose runs agree, or not all were seen");
    else if (make_fresh(c, &s, diverged))
        c->nodes.text = said_of(c, &s, diverged);
    c->nodes.odd = c->nodes.shown && s.odd_count ? names_of(c, s.odd, s.odd_count) : NULL;
}
