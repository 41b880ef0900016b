/* SPDX-License-Identifier: Apache-2.0 */
/* The records of launched kernels of one run. */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>
#include "src/trace/kernels.h"

/* While one trace is walked. */
struct reading {
    struct tw_cmp *c;
    struct tw_launched *x;
    const struct tw_side_trace *of;
    size_t from; /* its first thread */
};

/* Threads are few. NULL: no memory. */
static struct tw_launcher *thread_of(struct reading *r, const char *name)
{
    struct tw_launched *x = r->x;
    for (size_t i = r->from; i < x->threads; i++)
        if (strcmp(x->thread[i].thread, name) == 0)
            return &x->thread[i];
    if (!tw_cmp_room(r->c, &x->thread, x->threads, &x->thread_room, sizeof *x->thread))
        return NULL;
    struct tw_launcher *t = &x->thread[x->threads++];
    *t = (struct tw_launcher){
        .rank = r->of->rank, .role = twin_trace_info(r->of->trace)->role, .thread = name};
    return t;
}

static int take_sequence(struct reading *r, const struct twin_trace_record *record,
                         const char *thread, int64_t count)
{
    struct tw_launcher *t = thread_of(r, thread);
    if (!t || !tw_cmp_room(r->c, &t->item, t->count, &t->room, sizeof *t->item))
        return TWIN_ENOMEM;
    t->item[t->count++] = (struct tw_sequence){
        .step = (uint32_t)record->digest.b, .count = (uint64_t)count, .digest = record->digest.a};
    return 0;
}

static int take(void *user, const struct twin_trace_record *record)
{
    struct reading *r = user;
    struct tw_launched *x = r->x;
    struct twin_trace *t = r->of->trace;
    const struct twin_series *s = twin_trace_series(t, record->series);
    const struct twin_layout *y = twin_trace_layout(t, record->layout);
    const char *site = twin_trace_string(t, s->site);
    if (s->phase != TWIN_PHASE_KERNEL)
        return 0;
    if (strcmp(site, TW_KERNELS_SEQUENCE) == 0 && y->ndim == 1 && y->shape[0] > 0)
        return take_sequence(r, record, twin_trace_string(t, s->scope), y->shape[0]);
    if (strcmp(site, TW_KERNELS_LAUNCH) == 0) {
        if (!tw_cmp_room(r->c, &x->listed, x->listed_count, &x->listed_room, sizeof *x->listed))
            return TWIN_ENOMEM;
        x->listed[x->listed_count++] = (struct tw_listed){.digest = record->digest.a,
                                                          .place = record->digest.b,
                                                          .name = twin_trace_string(t, s->name),
                                                          .shape = twin_trace_string(t, s->op)};
    } else if (strcmp(site, TW_KERNELS_MODULE) == 0 && y->ndim == 1) {
        x->code_unseen |= (record->flags & TWIN_REC_UNOBSERVED) != 0;
        if (!tw_cmp_room(r->c, &x->code, x->codes, &x->code_room, sizeof *x->code))
            return TWIN_ENOMEM;
        x->code[x->codes++] = (struct tw_code){record->digest.a, y->shape[0]};
    }
    return 0;
}

static int by_place(const void *x, const void *y)
{
    const struct tw_listed *a = x, *b = y;
    if (a->digest != b->digest)
        return a->digest < b->digest ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

int tw_by_code(const void *x, const void *y)
{
    const struct tw_code *a = x, *b = y;
    if (a->digest != b->digest)
        return a->digest < b->digest ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static int by_step(const void *x, const void *y)
{
    const struct tw_sequence *a = x, *b = y;
    return a->step < b->step ? -1 : a->step > b->step;
}

/* Processes may list one and the same sequence each: one list is kept. */
static void order_lists(struct tw_launched *x)
{
    size_t n = 0;
    if (x->listed_count)
        qsort(x->listed, x->listed_count, sizeof *x->listed, by_place);
    for (size_t i = 0; i < x->listed_count; i++)
        if (n == 0 || by_place(&x->listed[n - 1], &x->listed[i]) != 0)
            x->listed[n++] = x->listed[i];
    x->listed_count = n;
    if (x->codes)
        qsort(x->code, x->codes, sizeof *x->code, tw_by_code);
}

static bool same_thread(const struct tw_launcher *x, const struct tw_launcher *y)
{
    return x->rank == y->rank && strcmp(x->role, y->role) == 0 && strcmp(x->thread, y->thread) == 0;
}

static void order_threads(struct tw_launched *x)
{
    for (size_t i = 0; i < x->threads; i++) {
        if (x->thread[i].count)
            qsort(x->thread[i].item, x->thread[i].count, sizeof *x->thread[i].item, by_step);
        for (size_t k = 0; k < i; k++)
            if (same_thread(&x->thread[i], &x->thread[k]))
                x->thread[i].twice = x->thread[k].twice = true;
    }
}

void tw_launched_read(struct tw_cmp *c, const struct tw_side *side, struct tw_launched *out)
{
    *out = (struct tw_launched){.side = side};
    tw_side_traces_open(c, side, "kernels", TW_KERNELS_LOST, &out->of);
    for (size_t i = 0; i < out->of.count; i++) {
        struct reading r = {.c = c, .x = out, .of = &out->of.item[i], .from = out->threads};
        if (twin_trace_walk(r.of->trace, take, NULL, &r, NULL) < 0)
            out->of.unread = true;
        const char *why = twin_trace_note_of(r.of->trace, TW_KERNELS_STOPPED);
        out->stopped = out->stopped ? out->stopped : why;
    }
    order_lists(out);
    order_threads(out);
}

void tw_launched_free(struct tw_launched *x)
{
    for (size_t i = 0; i < x->threads; i++)
        tw_free(x->thread[i].item);
    tw_free(x->thread);
    tw_free(x->listed);
    tw_free(x->code);
    tw_side_traces_free(&x->of);
}

const struct tw_listed *tw_launched_list(const struct tw_launched *x, const struct tw_sequence *s)
{
    const struct tw_listed first = {.digest = s->digest};
    size_t low = 0, high = x->listed_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_place(&x->listed[middle], &first) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (s->count > x->listed_count - low)
        return NULL;
    for (uint64_t i = 0; i < s->count; i++)
        if (x->listed[low + i].digest != s->digest || x->listed[low + i].place != i)
            return NULL;
    return &x->listed[low];
}
