/* SPDX-License-Identifier: Apache-2.0 */
/* run --replay-order: from the recorded run to the files of the new one, and what came of it. */
#include "run_orders.h"

#include "say.h"

#include "base.h"

#include <inttypes.h>
#include <string.h>

int tw_run_orders_fill(void *user, const char *run_dir, struct twin_error *err)
{
    struct tw_run_orders *o = user;
    int rc = tw_matches_fill(&o->matches, run_dir, err);
    return rc == 0 ? tw_results_fill(&o->results, run_dir, err) : rc;
}

int tw_run_orders_read(struct tw_run_orders *o, const struct twin_run *recorded, uint32_t wait_ms,
                       struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT, none = TWIN_ERROR_INIT;
    int rc = tw_matches_read(recorded, wait_ms, &o->matches, &why);
    if (rc != 0 && !o->matches.none)
        return twin_error_set(err, rc, "%s", why.message);
    rc = tw_results_read(recorded, wait_ms, &o->results, &none);
    if (rc == 0 || (o->results.none && !o->matches.none))
        return 0;
    if (o->results.none)
        return twin_error_set(
            err, TWIN_EINVAL,
            "run %.8s recorded no receive of MPI or torch.distributed that left its sender or tag "
            "open, and no results of executors or loaders that came in no order of their own (with "
            "--pin executor-order they come in the order of submission): there is no order to "
            "replay",
            recorded->id);
    return twin_error_set(err, rc, "%s", none.message);
}

void tw_run_orders_free(struct tw_run_orders *o)
{
    tw_matches_free(&o->matches);
    tw_results_free(&o->results);
}

/* Results in another order, or loaders without workers, are not what was recorded. */
int tw_run_orders_step_back(const struct tw_run_orders *o, struct twin_world *w, char **left_out,
                            struct twin_error *err)
{
    const bool loaders = tw_results_of_loaders(&o->results);
    struct tw_buf b = {0};
    size_t kept = 0;
    if (o->results.none)
        return 0;
    for (size_t i = 0; i < w->count; i++) {
        const char *id = w->setting[i].factor->id;
        if (strcmp(id, "executor-order") != 0 && (strcmp(id, "loader-workers") != 0 || !loaders))
            w->setting[kept++] = w->setting[i];
        else
            tw_buf_printf(&b, "%s%s", b.len ? ", " : "", id);
    }
    w->count = kept;
    if (!b.len)
        return 0;
    tw_buf_puts(&b, " (results come in the recorded order)");
    if (*left_out)
        tw_buf_printf(&b, "; %s", *left_out);
    char *text = tw_buf_steal(&b);
    if (!text)
        return tw_no_memory(err, "for what is not pinned");
    tw_free(*left_out);
    *left_out = text;
    return 0;
}

/* ---- what came of it */

static void report_results(const struct tw_results *o, const struct twin_run *r, bool quiet)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_matches_kept kept;
    if (tw_results_compare(o, r, &kept, &err) != 0)
        tw_trouble(&err, "whether the order of results was kept is not known");
    else if (!kept.whole)
        tw_say("replay released after %" PRIu64 " of %" PRIu64
               " results of executors and loaders: %s",
               kept.kept, kept.expected, kept.text ? kept.text : "out of memory for why");
    else if (!quiet)
        tw_say("order replayed: %" PRIu64 " of %" PRIu64 " results of executors and loaders",
               kept.kept, kept.expected);
    tw_free(kept.text);
}

static void report_matches(const struct tw_matches *o, const struct twin_run *r, bool quiet)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_matches_kept kept, ends;
    if (tw_matches_compare(o, r, &kept, &ends, &err) != 0)
        tw_trouble(&err, "whether the order of messages was kept is not known");
    else if (!kept.whole)
        tw_say("replay released after %" PRIu64 " of %" PRIu64 " matches: %s", kept.kept,
               kept.expected, kept.text ? kept.text : "out of memory for why");
    else if (!quiet && kept.expected)
        tw_say("order replayed: %" PRIu64 " of %" PRIu64 " matches", kept.kept, kept.expected);
    if (err.code == 0 && !ends.whole)
        tw_say("completed in the recorded order: %" PRIu64 " of %" PRIu64 " receives: %s",
               ends.kept, ends.expected, ends.text ? ends.text : "out of memory for why");
    else if (err.code == 0 && !quiet && ends.expected)
        tw_say("completed in the recorded order: %" PRIu64 " of %" PRIu64 " receives", ends.kept,
               ends.expected);
    tw_free(kept.text);
    tw_free(ends.text);
}

void tw_run_orders_report(const struct tw_run_orders *o, const struct twin_run *r, bool quiet)
{
    if (!o->matches.none)
        report_matches(&o->matches, r, quiet);
    if (!o->results.none)
        report_results(&o->results, r, quiet);
}
