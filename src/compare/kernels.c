/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two runs launched on GPUs: the first step in which one thread launched other kernels, other
 * shapes, another number of them or another order. The agent writes it beside the ranks' traces
 * (docs/internals/cupti.md).
 *
 * Held against each other are threads of one process: the first of both by its name; of the others
 * those that launched the same, in any order, since their numbers come by chance; and the one that
 * is left on both sides. Where more are left nothing is said of them. A thread that launched the
 * same altogether has launched the same, wherever its steps were cut.
 *
 * It is a note, never a difference, and nothing is called a cause: another kernel was seen, no
 * more.
 */
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "src/base/phrase.h"
#include "src/trace/kernels.h"

struct found {
    uint64_t steps, launches, differing; /* steps of a thread; launches of those, in run 1 */
    bool others;                         /* threads or steps without a counterpart */
    /* the first that differs, by the first run's steps */
    const struct tw_launcher *thread;
    uint32_t step;
    struct tw_sequence a, b; /* count 0: nothing was launched */
};

/* ---- comparing */

static bool is_main(const struct tw_launcher *t)
{
    return strcmp(t->thread, "main thread") == 0;
}

static bool same_process(const struct tw_launcher *x, const struct tw_launcher *y)
{
    return x->rank == y->rank && strcmp(x->role, y->role) == 0;
}

/* All that it launched, one step behind the other. */
static struct tw_sequence altogether(const struct tw_launcher *t)
{
    struct tw_sequence all = {.step = 0};
    for (size_t i = 0; i < t->count; i++) {
        all.digest = tw_sequence_join(all.digest, t->item[i].digest, t->item[i].count);
        all.count += t->item[i].count;
    }
    return all;
}

static bool same_altogether(const struct tw_launcher *x, const struct tw_launcher *y)
{
    const struct tw_sequence a = altogether(x), b = altogether(y);
    return a.count == b.count && a.digest == b.digest;
}

static bool is_before(uint32_t step, const struct tw_launcher *t, const struct found *f)
{
    if (!f->thread || step != f->step)
        return !f->thread || step < f->step;
    return t->rank < f->thread->rank;
}

static void compare_step(const struct tw_launcher *t, const struct tw_sequence *a,
                         const struct tw_sequence *b, struct found *f)
{
    static const struct tw_sequence none;
    const uint32_t step = a ? a->step : b->step;
    f->steps++;
    f->launches += a ? a->count : 0;
    if (a && b && a->count == b->count && a->digest == b->digest)
        return;
    f->differing++;
    if (!is_before(step, t, f))
        return;
    f->thread = t;
    f->step = step;
    f->a = a ? *a : none;
    f->b = b ? *b : none;
}

/* Where one run went on behind the other's end, the last step of the other may have been cut. */
static void compare_threads(const struct tw_launcher *x, const struct tw_launcher *y,
                            struct found *f)
{
    const uint32_t last_x = x->item[x->count - 1].step, last_y = y->item[y->count - 1].step;
    const uint32_t last = last_x < last_y ? last_x : last_y;
    const bool uneven = last_x != last_y, same = same_altogether(x, y);
    size_t i = 0, k = 0;
    f->others |= uneven && !same;
    while (i < x->count || k < y->count) {
        const struct tw_sequence *a = i < x->count ? &x->item[i] : NULL;
        const struct tw_sequence *b = k < y->count ? &y->item[k] : NULL;
        if (a && b && a->step != b->step) {
            a = a->step < b->step ? a : NULL;
            b = a ? NULL : b;
        }
        i += a != NULL;
        k += b != NULL;
        if (same) {
            f->steps += a != NULL;
            f->launches += a ? a->count : 0;
            continue;
        }
        const uint32_t step = a ? a->step : b->step;
        if (step < last || (step == last && !uneven))
            compare_step(x, a, b, f);
    }
}

/* `left` of a thread: it has no counterpart yet. The one thread of the process that is left; NULL:
 * none, or several. */
static size_t only_left(const struct tw_launched *x, const bool *left,
                        const struct tw_launcher *process, size_t *count)
{
    size_t found = 0;
    *count = 0;
    for (size_t i = 0; i < x->threads; i++)
        if (left[i] && same_process(&x->thread[i], process)) {
            found = i;
            ++*count;
        }
    return found;
}

static void match(const struct tw_launched *a, const struct tw_launched *b, bool *left_a,
                  bool *left_b, struct found *f)
{
    for (size_t i = 0; i < a->threads; i++)
        for (size_t k = 0; k < b->threads && left_a[i]; k++) {
            const struct tw_launcher *x = &a->thread[i], *y = &b->thread[k];
            if (!left_b[k] || !same_process(x, y) || is_main(x) != is_main(y) ||
                !(is_main(x) || same_altogether(x, y)))
                continue;
            left_a[i] = left_b[k] = false;
            compare_threads(x, y, f);
        }
    for (size_t i = 0; i < a->threads; i++) {
        size_t n, m;
        if (!left_a[i])
            continue;
        only_left(a, left_a, &a->thread[i], &n);
        const size_t k = only_left(b, left_b, &a->thread[i], &m);
        if (n != 1 || m != 1 || is_main(&a->thread[i]) || is_main(&b->thread[k]))
            continue;
        left_a[i] = left_b[k] = false;
        compare_threads(&a->thread[i], &b->thread[k], f);
    }
}

static void compare_runs(struct tw_cmp *c, const struct tw_launched *a, const struct tw_launched *b,
                         struct found *f)
{
    bool *left_a = tw_calloc(a->threads + 1, sizeof *left_a);
    bool *left_b = tw_calloc(b->threads + 1, sizeof *left_b);
    c->oom |= !left_a || !left_b;
    if (left_a && left_b) {
        for (size_t i = 0; i < a->threads; i++)
            left_a[i] = !a->thread[i].twice;
        for (size_t i = 0; i < b->threads; i++)
            left_b[i] = !b->thread[i].twice;
        match(a, b, left_a, left_b, f);
        for (size_t i = 0; i < a->threads; i++)
            f->others |= left_a[i] || a->thread[i].twice;
        for (size_t i = 0; i < b->threads; i++)
            f->others |= left_b[i] || b->thread[i].twice;
    }
    tw_free(left_a);
    tw_free(left_b);
}

/* Modules of x that y has not, each counted as often as it is there. */
static uint64_t code_without(const struct tw_launched *x, const struct tw_launched *y)
{
    uint64_t n = 0;
    size_t k = 0;
    for (size_t i = 0; i < x->codes; i++) {
        while (k < y->codes && tw_by_code(&y->code[k], &x->code[i]) < 0)
            k++;
        if (k < y->codes && tw_by_code(&y->code[k], &x->code[i]) == 0)
            k++;
        else
            n++;
    }
    return n;
}

/* ---- words */

static bool same_kernel(const struct tw_listed *x, const struct tw_listed *y)
{
    return strcmp(x->name, y->name) == 0 && strcmp(x->shape, y->shape) == 0;
}

static int by_kernel(const void *x, const void *y)
{
    const struct tw_listed *a = *(const struct tw_listed *const *)x,
                           *b = *(const struct tw_listed *const *)y;
    const int names = strcmp(a->name, b->name);
    return names ? names : strcmp(a->shape, b->shape);
}

/* Are the same kernels in both, each as often? */
static bool same_set(struct tw_cmp *c, const struct tw_listed *x, const struct tw_listed *y,
                     size_t n)
{
    const struct tw_listed **p = tw_calloc(2 * n, sizeof *p);
    bool same = p != NULL;
    c->oom |= !p;
    for (size_t i = 0; p && i < n; i++) {
        p[i] = &x[i];
        p[n + i] = &y[i];
    }
    if (p) {
        qsort(p, n, sizeof *p, by_kernel);
        qsort(p + n, n, sizeof *p, by_kernel);
    }
    for (size_t i = 0; same && i < n; i++)
        same = same_kernel(p[i], p[n + i]);
    tw_free(p);
    return same;
}

/* What differs in the step that was found. tw_free. */
static char *what_differs(struct tw_cmp *c, const struct tw_launched *a,
                          const struct tw_launched *b, const struct found *f)
{
    char n[32], m[32], where[128];
    const size_t one = a->side->index + 1, two = b->side->index + 1;
    const struct tw_listed *x = tw_launched_list(a, &f->a), *y = tw_launched_list(b, &f->b);
    const uint64_t both = f->a.count < f->b.count ? f->a.count : f->b.count;
    uint64_t i = 0;
    tw_human_count(f->a.count, n);
    tw_human_count(f->b.count, m);
    snprintf(where, sizeof where, "step %u of rank %d (%s)", f->step, f->thread->rank,
             f->thread->thread);
    if (both == 0)
        return tw_cmp_text(c, "%s launched %s in run %zu and %s in run %zu", where,
                           f->a.count ? n : "none", one, f->b.count ? m : "none", two);
    while (x && y && i < both && same_kernel(&x[i], &y[i]))
        i++;
    /* lists that are equal where the digests are not are as good as none */
    if (!x || !y || (i == both && f->a.count == f->b.count))
        return tw_cmp_text(c,
                           "%s launched %s in run %zu and %s in run %zu, which are not the same; "
                           "they are not listed",
                           where, n, one, m, two);
    if (i == both) {
        const bool more = f->b.count > f->a.count;
        char *k = tw_kernel_said(c, more ? &y[i] : &x[i], NULL);
        char *text = NULL;
        if (k)
            text = tw_cmp_text(c,
                               "%s launched %s in run %zu and %s in run %zu, the same up to launch "
                               "%llu of run %zu, %s",
                               where, n, one, m, two, (unsigned long long)i + 1, more ? two : one,
                               k);
        tw_free(k);
        return text;
    }
    const bool order = f->a.count == f->b.count && same_set(c, x, y, (size_t)f->a.count);
    char *k = tw_kernel_said(c, &x[i], &y[i]), *l = tw_kernel_said(c, &y[i], &x[i]);
    char *text = NULL;
    if (k && l && order)
        text = tw_cmp_text(c,
                           "%s launched the same %s in another order: launch %llu is %s in run %zu "
                           "and %s in run %zu",
                           where, n, (unsigned long long)i + 1, k, one, l, two);
    else if (k && l)
        text = tw_cmp_text(c,
                           "%s launched %s in run %zu and %s in run %zu: launch %llu is %s in run "
                           "%zu and %s in run %zu",
                           where, n, one, m, two, (unsigned long long)i + 1, k, one, l, two);
    tw_free(k);
    tw_free(l);
    return text;
}

/* Where that stands beside the first difference of the verdict; "": there is no such step. */
static const char *beside_first(const struct tw_cmp *c, const struct found *f)
{
    const struct twin_finding *first = c->v->first;
    if (!first || first->type > TWIN_FINDING_ORDER)
        return "";
    if (f->step < first->step_a)
        return "; it was seen before the step of the first difference";
    return f->step == first->step_a ? "; it was seen in the step of the first difference"
                                    : "; it was seen behind the step of the first difference";
}

/* Why not all launches were held against each other; "": they were. tw_free. */
static char *what_is_missing(struct tw_cmp *c, const struct tw_launched *a,
                             const struct tw_launched *b, const struct found *f)
{
    if (a->stopped || b->stopped)
        return tw_cmp_text(c, "of run %zu not all was recorded: %s",
                           (a->stopped ? a : b)->side->index + 1,
                           a->stopped ? a->stopped : b->stopped);
    if (a->of.lost || b->of.lost)
        return tw_cmp_text(c, "launches were not recorded, %llu in run %zu and %llu in run %zu",
                           (unsigned long long)a->of.lost, a->side->index + 1,
                           (unsigned long long)b->of.lost, b->side->index + 1);
    if (a->of.unread || b->of.unread)
        return tw_cmp_text(c, "not all was recorded to its end");
    return tw_cmp_text(c, "%s",
                       f->others ? "other threads or steps of them have no counterpart" : "");
}

static void say(struct tw_cmp *c, const struct tw_launched *a, const struct tw_launched *b,
                const struct found *f, bool differ)
{
    char some[32], all[32];
    const size_t one = a->side->index + 1, two = b->side->index + 1;
    char *missing = what_is_missing(c, a, b, f);
    const char *but = missing && missing[0] ? "; " : "";
    char *what = missing && f->differing ? what_differs(c, a, b, f) : NULL;
    if (what)
        tw_cmp_note(c,
                    "other kernels on a GPU: %s; launches differ in %s of the %s steps of a thread "
                    "that were compared%s%s%s%s",
                    what, tw_human_count(f->differing, some), tw_human_count(f->steps, all),
                    beside_first(c, f), but, missing,
                    differ ? "" : "; nothing else that was compared differs");
    else if (missing && f->steps && !f->differing && (differ || missing[0])) {
        const bool code = differ && !a->code_unseen && !b->code_unseen;
        const uint64_t p = code ? code_without(a, b) : 0, q = code ? code_without(b, a) : 0;
        char *other = p + q ? tw_cmp_text(c,
                                          "; of the machine code that was loaded, %llu module%s of "
                                          "run %zu and %llu of run %zu have no equal in the other",
                                          (unsigned long long)p, tw_plural_s(p), one,
                                          (unsigned long long)q, two)
                            : NULL;
        tw_cmp_note(c,
                    "the same kernels were launched on a GPU in run %zu and run %zu, in the same "
                    "order, %s of them in the %s steps of a thread that were compared%s%s%s",
                    one, two, tw_human_count(f->launches, some), tw_human_count(f->steps, all),
                    other ? other : "", but, missing);
        tw_free(other);
    } else if (missing && !f->steps)
        tw_cmp_note(c, "kernels on a GPU were not compared between run %zu and run %zu: %s", one,
                    two, missing[0] ? missing : "no launch of either was recorded");
    tw_free(what);
    tw_free(missing);
}

void tw_kernels(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b, bool differ)
{
    struct tw_launched x, y;
    struct found f = {.steps = 0};
    /* the steps of a resumed arm are others */
    if (c->quick || c->o->resumed || c->o->shift != 0 || c->v->shift != 0)
        return;
    tw_launched_read(c, a, &x);
    tw_launched_read(c, b, &y);
    if (x.of.count && y.of.count) {
        /* which launches are missing is not known, so none has a place */
        if (!x.of.lost && !y.of.lost && !x.stopped && !y.stopped)
            compare_runs(c, &x, &y, &f);
        say(c, &x, &y, &f, differ);
    } else if (x.of.unread || y.of.unread) {
        tw_cmp_note(c, "kernels on a GPU were not compared: the records of run %zu cannot be read",
                    (x.of.count ? b : a)->index + 1);
    } else if (x.of.count || y.of.count) {
        tw_cmp_note(c, "kernels on a GPU were not compared: they were recorded in run %zu alone",
                    (x.of.count ? a : b)->index + 1);
    }
    tw_launched_free(&x);
    tw_launched_free(&y);
}
