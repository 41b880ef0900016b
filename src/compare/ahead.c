/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies the traces of runs by several threads before sides are opened: reading all of every
 * trace is most of what a comparison of long runs does. process.c takes what was opened here one
 * after the other, and says what is wrong with it in the order of the runs, whichever thread was
 * first. Where other processes share the work (share.c), what they found to be intact is taken
 * over.
 *
 * Only traces with records are kept open, as a side keeps them. A trace that
 * cannot be opened here is left to process.c, which tries again and says why.
 */
#include "share.h"

/* One trace of one run. path: the pointer of the run's list. */
struct ahead_item {
    const char *path;
    /* what another process found; NULL: nothing, or this process is to look for itself */
    const struct twin_trace_verified *found;
    struct tw_opened opened;
    bool done, taken;
};

struct tw_ahead {
    struct ahead_item *item;
    size_t count, at;               /* at: where the next one is looked for */
    bool alone;                     /* a trace is verified by one thread */
    const struct twin_share *share; /* while only this process's share is looked at, else NULL */
};

/*
 * Opens a trace and verifies it, if process.c would: otherwise nothing is left open. What another
 * process found is no more than a reason not to read all of it: where it does not fit the file,
 * it is verified here.
 */
static void open_item(struct ahead_item *x, bool alone)
{
    struct twin_trace *t = NULL;
    x->opened.fault = (struct twin_error)TWIN_ERROR_INIT;
    int rc = twin_trace_open(x->path, &t, &x->opened.fault);
    if (rc == 0)
        rc = twin_trace_definitions(t, &x->opened.fault);
    if (rc != 0 || tw_trace_is_silent(twin_trace_info(t))) {
        x->opened.rc = rc;
        twin_trace_close(t);
        return;
    }
    x->opened.trace = t;
    if (!x->found || twin_trace_take_over(t, x->found, NULL) != 0)
        tw_opened_verify(&x->opened, alone);
    twin_trace_rest(t); /* there may be more traces than a process may have open files */
}

static void open_one(void *user, size_t i)
{
    struct tw_ahead *a = user;
    if (a->item[i].done || (a->share && !tw_share_has(a->share, i)))
        return;
    open_item(&a->item[i], a->alone);
    a->item[i].done = true;
}

/* Verifies this process's share while the others verify theirs, and opens the rest with what they
 * found. */
static int open_shared(const struct twin_run *const *runs, size_t n, const struct twin_share *share,
                       struct tw_ahead *a, struct twin_error *err)
{
    struct tw_shares shares = {0};
    a->share = share;
    tw_by_processors(a->count, open_one, a);
    a->share = NULL;
    int rc = tw_shares_collect(runs, n, share, a->count, &shares, err);
    for (size_t i = 0; rc == 0 && i < a->count; i++)
        a->item[i].found = shares.found[i].bytes > 0 ? &shares.found[i] : NULL;
    if (rc == 0)
        tw_by_processors(a->count, open_one, a);
    for (size_t i = 0; i < a->count; i++) {
        struct ahead_item *x = &a->item[i];
        x->found = NULL;
        /* as on any other process: it depends on the machine, so there is no verdict */
        if (rc == 0 && x->opened.rc == TWIN_EIO)
            rc = twin_error_set(err, TWIN_EIO, "%s", x->opened.fault.message);
    }
    tw_shares_free(&shares);
    return rc;
}

int tw_ahead_verify(const struct twin_run *const *runs, size_t n, const struct twin_share *share,
                    struct tw_ahead **out, struct twin_error *err)
{
    struct tw_ahead *a = *out = tw_calloc(1, sizeof *a);
    size_t count = 0;
    bool no_memory = false;
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        count += runs[i]->trace_count;
    if (a)
        a->item = tw_calloc(count + 1, sizeof *a->item);
    if (!a || !a->item)
        return tw_no_memory(err, "opening %zu traces", count);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < runs[i]->trace_count; k++)
            a->item[a->count++].path = runs[i]->traces[k];
    const size_t processors = tw_processors();
    a->alone = (count < processors ? count : processors) * 2 > processors;
    if (share && share->parts > 1)
        rc = open_shared(runs, n, share, a, err);
    else
        tw_by_processors(count, open_one, a);
    for (size_t i = 0; i < count; i++)
        no_memory |= a->item[i].opened.rc == TWIN_ENOMEM;
    return rc == 0 && no_memory ? tw_no_memory(err, "opening %zu traces", count) : rc;
}

bool tw_ahead_take(struct tw_ahead *a, const char *path, struct tw_opened *out)
{
    for (size_t i = 0; a && i < a->count; i++) {
        struct ahead_item *x = &a->item[(a->at + i) % a->count];
        if (x->path != path || x->taken)
            continue;
        a->at = (a->at + i + 1) % a->count;
        x->taken = true;
        *out = x->opened;
        return out->trace != NULL;
    }
    return false;
}

void tw_ahead_free(struct tw_ahead *a)
{
    for (size_t i = 0; a && i < a->count; i++)
        if (!a->item[i].taken)
            twin_trace_close(a->item[i].opened.trace);
    if (a)
        tw_free(a->item);
    tw_free(a);
}
