/* SPDX-License-Identifier: Apache-2.0 */
/* What a verdict says of the engine that made its runs: on which nodes they were, and which had to
 * be made again. */
#include "remote.h"

#include "base.h"
#include "phrase.h"

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

static void note_repeats(const struct tw_remote *r, struct twin_verdict *v)
{
    size_t all = r->lost + r->misplaced + r->twice;
    struct tw_buf b = {0};
    if (r->refused)
        twin_verdict_note(v,
                          "%s started %zu run%s again by itself, although it was told not to; the "
                          "second start%s refused, and nothing of it counts",
                          tw_engine_name(r->engine), r->refused, tw_plural_s(r->refused),
                          r->refused == 1 ? " was" : "s were");
    if (!all)
        return;
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < r->why_count; i++)
        tw_buf_printf(&b, "%s%s", i ? "; " : "", r->why[i]);
    if (!b.failed)
        twin_verdict_note(
            v,
            "%zu run%s had to be made again and count%s for nothing: %zu lost, %zu on "
            "a wrong node, %zu that the engine started twice (%s%s)",
            all, tw_plural_s(all), all == 1 ? "s" : "", r->lost, r->misplaced, r->twice, b.data,
            all > r->why_count ? "; ..." : "");
    tw_buf_free(&b);
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
    note_repeats(r, v);
}
