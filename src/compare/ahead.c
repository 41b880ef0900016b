/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies the traces of runs by several threads before sides are opened: reading all of every
 * trace is most of what a comparison of long runs does. process.c takes what was opened here one
 * after the other, and says what is wrong with it in the order of the runs, whichever thread was
 * first.
 *
 * Only traces with records are kept open, as a side keeps them. A trace that
 * cannot be opened here is left to process.c, which tries again and says why.
 */
#include "internal.h"

#include <pthread.h>
#include <stdatomic.h>

/* One trace of one run. path: the pointer of the run's list. */
struct ahead_item {
    const char *path;
    struct tw_opened opened;
    bool taken;
};

struct tw_ahead {
    struct ahead_item *item;
    size_t count, at; /* at: where the next one is looked for */
    atomic_size_t next;
    bool alone; /* a trace is verified by one thread */
};

/*
 * Opens a trace and verifies it, if process.c would: otherwise nothing is left open.
 */
static void open_item(struct ahead_item *x, bool alone)
{
    struct twin_trace *t = NULL;
    int rc = twin_trace_open(x->path, &t, NULL);
    if (rc == 0)
        rc = twin_trace_definitions(t, NULL);
    if (rc != 0 || tw_trace_is_silent(twin_trace_info(t))) {
        x->opened.rc = rc;
        twin_trace_close(t);
        return;
    }
    x->opened.trace = t;
    tw_opened_verify(&x->opened, alone);
}

static void *work(void *arg)
{
    struct tw_ahead *a = arg;
    for (size_t i; (i = atomic_fetch_add(&a->next, 1)) < a->count;)
        open_item(&a->item[i], a->alone);
    return NULL;
}

/* All items, by as many threads as there are processors; this one is one of them. */
static void open_all(struct tw_ahead *a)
{
    enum { MOST = 64 };
    pthread_t thread[MOST];
    const size_t processors = tw_processors();
    const size_t workers = a->count < processors ? a->count : processors;
    size_t started = 0;
    a->alone = workers * 2 > processors;
    while (started + 1 < workers && started < MOST &&
           pthread_create(&thread[started], NULL, work, a) == 0)
        started++;
    work(a);
    for (size_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}

int tw_ahead_verify(const struct twin_run *const *runs, size_t n, struct tw_ahead **out,
                    struct twin_error *err)
{
    struct tw_ahead *a = *out = tw_calloc(1, sizeof *a);
    size_t count = 0;
    bool no_memory = false;
    for (size_t i = 0; i < n; i++)
        count += runs[i]->trace_count;
    if (a)
        a->item = tw_calloc(count + 1, sizeof *a->item);
    if (!a || !a->item)
        return tw_no_memory(err, "opening %zu traces", count);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < runs[i]->trace_count; k++)
            a->item[a->count++].path = runs[i]->traces[k];
    open_all(a);
    for (size_t i = 0; i < count; i++)
        no_memory |= a->item[i].opened.rc == TWIN_ENOMEM;
    return no_memory ? tw_no_memory(err, "opening %zu traces", count) : 0;
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
