/* SPDX-License-Identifier: Apache-2.0 */
/* What a verdict says of the engine that made its runs: on which nodes they were, and which had to
 * be made again. */
#include "remote.h"

#include "base.h"
#include "phrase.h"

#include "src/stats/stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* How many runs each node made, in the order of the first run of each. malloc'ed; NULL: no run of
 * an engine, or no memory. *nodes: how many. */
static char *nodes_text(const struct twin_run *const *runs, size_t count, size_t *nodes)
{
    struct tw_buf b = {0};
    *nodes = 0;
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < count; i++) {
        const char *name = runs[i]->node.engine ? runs[i]->node.name : NULL;
        size_t n = 0, before = 0;
        for (size_t k = 0; name && k < count; k++) {
            bool same = runs[k]->node.engine && strcmp(runs[k]->node.name, name) == 0;
            n += same;
            before += same && k < i;
        }
        if (!name || before)
            continue;
        tw_buf_printf(&b, "%s%s (%zu)", b.len ? ", " : "", name, n);
        ++*nodes;
    }
    if (!*nodes) {
        tw_buf_free(&b);
        return NULL;
    }
    return tw_buf_steal(&b);
}

/* ---- does the divergence follow the node? */

/* What runs may have in common: the node, or the model of its processor. */
static const char *node_of(const struct twin_run *r)
{
    return r->node.engine ? r->node.name : NULL;
}

static const char *processor_of(const struct twin_run *r)
{
    return r->node.engine ? r->processor : NULL;
}

/* Is run i in another class than the usual one? */
static bool is_odd(const struct twin_verdict *v, size_t i)
{
    for (size_t k = 0; k < v->class_count; k++)
        for (size_t m = 0; m < v->classes[k].members; m++)
            if (v->classes[k].runs[m] == i)
                return v->classes[k].parts_at_step >= 0;
    return false;
}

/* Of the runs with one value, and of all others: how many diverge from the usual class, and how
 * many do not. */
struct split {
    const char *value;
    uint64_t odd, usual, other_odd, other_usual;
};

enum { VALUES_MAX = 256 };

/* One split for each value, in the order of the first run of each. */
static size_t splits(const struct twin_run *const *runs, size_t count, const struct twin_verdict *v,
                     const char *(*value_of)(const struct twin_run *), struct split *out)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const char *value = value_of(runs[i]);
        size_t k = 0;
        if (!value)
            continue;
        while (k < n && strcmp(out[k].value, value) != 0)
            k++;
        if (k == n && n < VALUES_MAX)
            out[n++] = (struct split){.value = value};
        bool odd = is_odd(v, i);
        for (size_t m = 0; m < n; m++) {
            bool its = m == k;
            out[m].odd += its && odd;
            out[m].usual += its && !odd;
        }
    }
    for (size_t m = 0; m < n; m++)
        for (size_t k = 0; k < n; k++)
            if (k != m) {
                out[m].other_odd += out[k].odd;
                out[m].other_usual += out[k].usual;
            }
    return n;
}

/* That runs of one node diverge is an association: the engine chose who ran where, and much else
 * may go with a node. It is said where chance is a bad explanation, or where the split is perfect.
 */
static void note_split(const char *what, const char *advice, const struct split *s, size_t n,
                       struct twin_verdict *v)
{
    double p[VALUES_MAX], adjusted[VALUES_MAX];
    for (size_t i = 0; i < n; i++)
        p[i] = twin_stats_fisher(s[i].odd, s[i].usual, s[i].other_odd, s[i].other_usual,
                                 TWIN_GREATER);
    if (n < 2 || twin_stats_holm(p, n, adjusted) != 0)
        return;
    for (size_t i = 0; i < n; i++) {
        bool perfect = s[i].odd && !s[i].usual && !s[i].other_odd;
        bool rare = adjusted[i] <= 0.05;
        if (!s[i].odd || (!perfect && !rare))
            continue;
        twin_verdict_note(
            v,
            "%s runs on %s %s diverge%s: %llu of %llu there, %llu of %llu elsewhere (Fisher's "
            "exact test, Holm over %zu: p = %.2g)%s",
            perfect ? "only" : "more", what, s[i].value, perfect ? "" : " than elsewhere",
            (unsigned long long)s[i].odd, (unsigned long long)(s[i].odd + s[i].usual),
            (unsigned long long)s[i].other_odd,
            (unsigned long long)(s[i].other_odd + s[i].other_usual), n, adjusted[i],
            rare ? advice
                 : "; so few runs may do so by chance, more runs (--runs, with --all) tell");
    }
}

static void note_where_it_diverges(const struct twin_run *const *runs, size_t count,
                                   struct twin_verdict *v)
{
    struct split s[VALUES_MAX];
    if (v->outcome != TWIN_DIFFER || count < 3)
        return;
    size_t n = splits(runs, count, v, node_of, s);
    note_split("node",
               "; an association, not a cause: what else goes with that node is not known "
               "(--place avoid:NODE leaves it out)",
               s, n, v);
    n = splits(runs, count, v, processor_of, s);
    note_split("processor", "; an association, not a cause", s, n, v);
}

/* What the engine started again by itself; NULL: nothing. Both are malloc'ed. */
static char *refused_text(const struct tw_remote *r)
{
    if (!r->refused)
        return NULL;
    return tw_printf("%s started %zu run%s again by itself, although it was told not to; the "
                     "second start%s refused, and nothing of it counts",
                     tw_engine_name(r->engine), r->refused, tw_plural_s(r->refused),
                     r->refused == 1 ? " was" : "s were");
}

/* What was made again, and why. */
static char *repeats_text(const struct tw_remote *r)
{
    size_t all = r->lost + r->misplaced + r->twice;
    struct tw_buf b = {0};
    if (!all)
        return NULL;
    tw_buf_printf(&b,
                  "%zu run%s had to be made again and count%s for nothing: %zu lost, %zu on "
                  "a wrong node, %zu that the engine started twice (",
                  all, tw_plural_s(all), all == 1 ? "s" : "", r->lost, r->misplaced, r->twice);
    for (size_t i = 0; i < r->why_count; i++)
        tw_buf_printf(&b, "%s%s", i ? "; " : "", r->why[i]);
    tw_buf_puts(&b, all > r->why_count ? "; ...)" : ")");
    return tw_buf_steal(&b);
}

char *tw_remote_text(const struct tw_remote *r)
{
    struct tw_buf b = {0};
    if (!r || !r->engine || !r->made_count)
        return NULL;
    char *refused = refused_text(r), *repeats = repeats_text(r);
    tw_buf_printf(&b, "the runs were made by %s on %zu node%s: ", tw_engine_name(r->engine),
                  r->made_count, tw_plural_s(r->made_count));
    for (size_t i = 0; i < r->made_count; i++)
        tw_buf_printf(&b, "%s%s (%zu)", i ? ", " : "", r->made[i].node, r->made[i].runs);
    if (refused)
        tw_buf_printf(&b, "; %s", refused);
    if (repeats)
        tw_buf_printf(&b, "; %s", repeats);
    tw_free(refused);
    tw_free(repeats);
    return tw_buf_steal(&b);
}

static void note_text(struct twin_verdict *v, char *text)
{
    if (text)
        twin_verdict_note(v, "%s", text);
    tw_free(text);
}

void tw_remote_note(const struct tw_remote *r, const struct twin_run *const *runs, size_t count,
                    struct twin_verdict *v)
{
    size_t nodes = 0;
    if (!r->engine)
        return;
    char *text = nodes_text(runs, count, &nodes);
    if (text)
        twin_verdict_note(v, "the runs were made by %s on %zu node%s: %s",
                          tw_engine_name(r->engine), nodes, tw_plural_s(nodes), text);
    tw_free(text);
    note_where_it_diverges(runs, count, v);
    note_text(v, refused_text(r));
    note_text(v, repeats_text(r));
}
