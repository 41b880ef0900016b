/* SPDX-License-Identifier: Apache-2.0 */
/* What a search for a cause found, in the phrases that the terminal and the page share: the classes
 * of its natural runs, and what a pin costs. cmd/isolate_report.c and isolate_html.c call these
 * functions. Runs are called by their numbers in the search, not by their indices. */
#include "wording.h"

#include "phrase.h"

#include "src/report/isolation.h"

#include <math.h>

/* "run 3", or "runs 1,2,5": the members of one class, at most eight of them. */
static void say_runs(struct tw_buf *b, const struct twin_isolation *x,
                     const struct twin_branch *branch)
{
    enum { SHOWN = 8 };
    tw_buf_puts(b, branch->members == 1 ? "run" : "runs");
    for (size_t i = 0; i < branch->members && i < SHOWN; i++)
        tw_buf_printf(b, "%s%u", i ? "," : " ", x->natural[branch->runs[i]]);
    if (branch->members > SHOWN)
        tw_buf_printf(b, " and %zu more", branch->members - SHOWN);
}

/* The first class, which has no step, is the usual one; the others say at which step they leave it,
 * or another class. Runs that were not sorted are counted at the end. */
char *twin_isolation_classes(const struct twin_isolation *x)
{
    enum { SHOWN = 8 };
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < x->tree.count && i < SHOWN; i++) {
        const struct twin_branch *branch = &x->tree.branch[i];
        tw_buf_puts(&b, i ? "; " : "");
        say_runs(&b, x, branch);
        /* the usual class */
        if (branch->step < 0) {
            tw_buf_puts(&b, branch->members > 1 ? " agree" : " alone");
            continue;
        }
        tw_buf_puts(&b, branch->members == 1 ? " diverges" : " diverge");
        if (branch->parent != 0)
            tw_buf_printf(&b, " from run %u", x->natural[x->tree.branch[branch->parent].runs[0]]);
        tw_buf_printf(&b, " at step %lld", (long long)branch->step);
    }
    if (x->tree.count > SHOWN)
        tw_buf_printf(&b, "; %zu more classes", x->tree.count - SHOWN);
    if (x->natural_left_out)
        tw_buf_printf(&b, "; %zu more natural runs were not sorted", x->natural_left_out);
    return tw_buf_steal(&b);
}

/* Three answers: times mean nothing, there are too few whole runs, or the ratio with its interval
 * where there is one. */
char *twin_isolation_cost_text(const struct twin_isolation_cost *c)
{
    struct tw_buf b = {0};
    if (c->shared) {
        tw_buf_puts(&b, "not known: runs that share the machine tell no times");
        return tw_buf_steal(&b);
    }
    if (!isfinite(c->ratio)) {
        tw_buf_printf(&b,
                      "not known from these runs (%zu whole run%s with the pin, %zu without; 3 of "
                      "each are needed)",
                      c->with, tw_plural_s(c->with), c->without);
        return tw_buf_steal(&b);
    }
    tw_buf_printf(&b, "%.3g times as long (", c->ratio);
    if (isfinite(c->low) && isfinite(c->high))
        tw_buf_printf(&b, "%.0f%% interval %.3g to %.3g; ", 100 * c->confidence, c->low, c->high);
    else
        tw_buf_puts(&b, "too few runs for an interval; ");
    tw_buf_printf(&b, "%zu runs with the pin, %zu without)", c->with, c->without);
    return tw_buf_steal(&b);
}
