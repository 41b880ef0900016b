/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With how many threads PyTorch computed in two runs, process by process. Sums are split over them,
 * so another number can change the last bits of a result. It need not: that two runs had other
 * numbers is said beside what differs, and never as what made it differ. But what was computed with
 * another number is no origin (origin.c): not all that it was made of is equal.
 *
 * A process tells its number at its first record and again at its end (`setting threads N` in
 * worlds/RANK.PID, docs/format/run-folder.md). What one of the two did not tell is compared with
 * nothing.
 */
#include "arms.h"
#include "internal.h"

#include "phrase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WORLD_MAX = 4 << 20, /* bytes of one process's words that are read */
    THREADS_MAX = 1 << 20,
    NAMED = 16,    /* ranks that a note lists */
    NOTES_MAX = 8, /* one for all ranks with the same two numbers */
};

/* What a process told; told: how often, at most 2. */
struct counts {
    unsigned long first, last;
    int told;
};

/* Two processes with other numbers. */
struct unlike {
    int32_t rank;
    struct counts a, b;
    bool said;
};

/* RUN/ranks/0.17.twt tells in RUN/worlds/0.17. A process that recorded twice under its number (it
 * called exec) told both times in one file, which then says nothing of either: NULL. malloc'ed. */
static char *world_path(const char *trace)
{
    const char *name = strrchr(trace, '/'), *end = name ? strrchr(name, '.') : NULL;
    const char *folder = name;
    while (folder && folder > trace && folder[-1] != '/')
        folder--;
    if (!end || end == name || memchr(name, '-', (size_t)(end - name)))
        return NULL;
    char *again = tw_printf("%.*s-2%s", (int)(end - trace), trace, end);
    const bool twice = again && access(again, F_OK) == 0;
    tw_free(again);
    if (!again || twice)
        return NULL;
    return tw_printf("%.*sworlds%.*s", (int)(folder - trace), trace, (int)(end - name), name);
}

/* "setting TAB threads N": N; 0: the line is another one, or no such number. */
static unsigned long number_of(const char *line)
{
    static const char before[] = "setting\tthreads ";
    char *end;
    if (!tw_starts(line, before))
        return 0;
    const char *digits = line + sizeof before - 1;
    unsigned long n = *digits >= '1' && *digits <= '9' ? strtoul(digits, &end, 10) : 0;
    return n && *end == '\0' && n <= THREADS_MAX ? n : 0;
}

/* False: it did not tell, or what it told cannot be read. */
static bool read_counts(const char *trace, struct counts *out)
{
    char *path = world_path(trace), *text = NULL, *save = NULL;
    size_t bytes = 0;
    *out = (struct counts){0};
    if (path && tw_read_file(path, WORLD_MAX, &text, &bytes, NULL) == 0 && text)
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            const unsigned long n = number_of(line);
            if (!n)
                continue;
            out->first = out->told ? out->first : n;
            out->last = n;
            out->told = out->told ? 2 : 1;
        }
    tw_free(text);
    tw_free(path);
    return out->told > 0;
}

/* Of a process that was ended from outside the number at its end is not known, and the other one's
 * does not count either. */
static bool are_unlike(struct counts *a, struct counts *b)
{
    if (a->told != b->told) {
        a->last = a->first;
        b->last = b->first;
    }
    return a->first != b->first || a->last != b->last;
}

static bool same_counts(const struct counts *x, const struct counts *y)
{
    return x->first == y->first && x->last == y->last;
}

/* "2", or "2, later 3". */
static void put_counts(struct tw_buf *out, const struct counts *n)
{
    tw_buf_printf(out, "%lu", n->first);
    if (n->last != n->first)
        tw_buf_printf(out, ", later %lu", n->last);
}

/* " of ranks 0, 2": those with the numbers of u[at]; marks them as said. */
static void put_ranks(struct tw_buf *out, struct unlike *u, size_t n, size_t at)
{
    size_t alike = 0, put = 0;
    for (size_t i = at; i < n; i++)
        alike += same_counts(&u[i].a, &u[at].a) && same_counts(&u[i].b, &u[at].b);
    tw_buf_printf(out, " of rank%s ", tw_plural_s(alike));
    for (size_t i = at; i < n; i++) {
        if (!same_counts(&u[i].a, &u[at].a) || !same_counts(&u[i].b, &u[at].b))
            continue;
        u[i].said = true;
        if (put < NAMED)
            tw_buf_printf(out, "%s%d", put ? ", " : "", u[i].rank);
        put++;
    }
    if (put > NAMED)
        tw_buf_printf(out, " and %zu more", put - NAMED);
}

static void say(struct tw_cmp *c, struct unlike *u, size_t n, size_t at, bool ranks, bool differs)
{
    struct tw_buf text = {0};
    tw_buf_printf(&text, "threads of PyTorch");
    if (ranks)
        put_ranks(&text, u, n, at);
    else
        u[at].said = true;
    tw_buf_puts(&text, ": ");
    put_counts(&text, &u[at].a);
    tw_buf_printf(&text, " in %s, ", c->label_a);
    put_counts(&text, &u[at].b);
    tw_buf_printf(&text, " in %s", c->label_b);
    if (differs)
        tw_buf_puts(&text, "; whether what differs comes from that, a comparison cannot tell");
    c->oom |= text.failed;
    if (text.data)
        tw_cmp_note(c, "%s", text.data);
    tw_buf_free(&text);
}

void tw_thread_counts(struct tw_cmp *c, const struct tw_side *a, const struct tw_pair *pairs,
                      size_t n, bool differs)
{
    struct unlike *u = c->quick ? NULL : tw_calloc(n + 1, sizeof *u);
    size_t count = 0;
    c->oom |= !c->quick && !u;
    for (size_t i = 0; u && i < n; i++) {
        const struct tw_pair *p = &pairs[i];
        struct unlike x = {.rank = p->a->rank};
        if (p->auxiliary || (c->weights_alone && p->a->rank != 0))
            continue; /* it computes no results, or its results were not compared */
        if (!read_counts(p->a->path, &x.a) || !read_counts(p->b->path, &x.b) ||
            !are_unlike(&x.a, &x.b))
            continue;
        u[count++] = x;
    }
    size_t notes = 0, left = 0;
    for (size_t i = 0; i < count; i++) {
        if (!u[i].said && notes++ < NOTES_MAX)
            say(c, u, count, i, a->world > 1, differs);
        left += !u[i].said;
    }
    if (left)
        tw_cmp_note(c, "threads of PyTorch: other numbers in %s and %s on %zu more rank%s",
                    c->label_a, c->label_b, left, tw_plural_s(left));
    tw_free(u);
}

char *tw_threads_unlike(struct tw_cmp *c, const struct tw_proc *a, const struct tw_proc *b)
{
    struct counts x, y;
    struct tw_buf text = {0};
    if (!read_counts(a->path, &x) || !read_counts(b->path, &y) || !are_unlike(&x, &y))
        return NULL;
    put_counts(&text, &x);
    tw_buf_printf(&text, " thread%s of PyTorch in %s and ", x.first == 1 && x.last == 1 ? "" : "s",
                  c->label_a);
    put_counts(&text, &y);
    tw_buf_printf(&text, " in %s", c->label_b);
    c->oom |= text.failed;
    return tw_buf_steal(&text);
}

/* ---- of one run */

static int by_rank(const void *a, const void *b)
{
    const struct twin_rank_threads *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Adds what a process told. Those that tell nothing (workers of loaders, launchers) say nothing of
 * their rank. False: the rank has another number already, or the process had several. */
static bool add_rank(struct twin_rank_threads *list, size_t *n, long rank, const char *trace)
{
    struct counts told;
    if (!read_counts(trace, &told))
        return true;
    if (told.first != told.last)
        return false;
    for (size_t i = 0; i < *n; i++)
        if (list[i].rank == rank)
            return list[i].threads == told.first;
    list[(*n)++] = (struct twin_rank_threads){(int32_t)rank, (uint32_t)told.first};
    return true;
}

bool twin_run_threads(const struct twin_run *run, struct twin_rank_threads **out, size_t *count)
{
    struct twin_rank_threads *list = tw_calloc(run->trace_count + 1, sizeof *list);
    size_t n = 0;
    long last = -1;
    bool known = list != NULL;
    *out = NULL;
    *count = 0;
    for (size_t i = 0; known && i < run->trace_count; i++) {
        const char *name = strrchr(run->traces[i], '/');
        const long rank = name ? strtol(name + 1, NULL, 10) : -1;
        last = rank > last ? rank : last;
        known = rank >= 0 && rank < INT32_MAX && add_rank(list, &n, rank, run->traces[i]);
    }
    if (n)
        qsort(list, n, sizeof *list, by_rank);
    /* ranks are numbered from 0, and each told once: so none that has a trace is missing */
    if (!known || n == 0 || (long)n != last + 1) {
        tw_free(list);
        return false;
    }
    *out = list;
    *count = n;
    return true;
}
