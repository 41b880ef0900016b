/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two natural runs had in common: factors that neither met, or that had the same value in
 * both. Such a factor cannot be what made the two diverge, so a search leaves it out
 * (search_runs.c, note_common).
 *
 * The processes say it when they end (TWINRUN_WATCH: agents/common/watch.c,
 * python/twinrun/_agent/watch.py), in lines watch.* of the run folder's `factors`. A process that
 * is silent, because it was killed or does not carry the agent, may have met anything; then nothing
 * is taken for common.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* The generators whose states are compared. */
enum generator { PYTHON, NUMPY, TORCH, GENERATORS };

/* What the processes of one run have said, all together. */
struct tw_met {
    /* What any process met, as words: " python torch executor". Repeats do not matter. */
    char *words;
    /* entropy, clock: calls. orders: sum of digests of the order in which folders were read. Sums
     * do not depend on which process spoke first. */
    uint64_t entropy, clock, orders;
    /* Of each generator: whether a process drew from it, and the sum of its states at the end, over
     * the processes that drew. */
    bool drew[GENERATORS];
    uint64_t state[GENERATORS];
};

/* What is known of one process. ended: it spoke at its end. python: it had loaded Python, so its
 * Python half has to have spoken as well. */
struct process {
    long pid;
    bool python, ended, spoke;
};

static uint64_t read_number(const char *s, int base)
{
    return strtoull(s, NULL, base);
}

/* The entry of a process, made when new; NULL: no memory. Entries may move with the next call. */
static struct process *process_of(struct process **list, size_t *count, long pid)
{
    for (size_t i = 0; i < *count; i++)
        if ((*list)[i].pid == pid)
            return &(*list)[i];
    struct process *grown = tw_reallocarray(*list, *count + 1, sizeof *grown);
    if (!grown)
        return NULL;
    *list = grown;
    grown[*count] = (struct process){.pid = pid};
    return &grown[(*count)++];
}

/* Is this a whole word of the list, which has blanks between its words? */
static bool has(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; p && (p = strstr(p, word)) != NULL; p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

/* Reads a line of a Python process: "hash=random random=9f... numpy=unused executor". The number is
 * a digest of a generator's state. */
static void read_python(struct tw_met *m, const char *text)
{
    static const char *const names[] = {
        [PYTHON] = "random=", [NUMPY] = "numpy=", [TORCH] = "torch="};
    for (int i = 0; i < GENERATORS; i++) {
        const char *at = strstr(text, names[i]);
        if (!at || (at != text && at[-1] != ' '))
            continue;
        at += strlen(names[i]);
        if (tw_starts(at, "unused"))
            continue;
        m->drew[i] = true;
        m->state[i] += tw_mix64(read_number(at, 16));
    }
}

/* Takes one line of `factors`. The words of all processes are put into one text, since only whether
 * any of them met something matters. */
static int read_line(struct tw_met *m, struct tw_buf *words, struct process **list, size_t *count,
                     const struct twin_said_line *l)
{
    if (!tw_starts(l->key, "watch."))
        return 0;
    struct process *p = process_of(list, count, strtol(l->pid, NULL, 10));
    const char *what = l->key + strlen("watch.");
    if (!p)
        return TWIN_ENOMEM;
    if (strcmp(what, "libraries") == 0) {
        p->ended = true;
        p->python |= has(l->value, "python");
        tw_buf_printf(words, " %s", l->value);
    } else if (strcmp(what, "python") == 0) {
        p->spoke = true;
        tw_buf_printf(words, " %s", l->value);
        read_python(m, l->value);
    } else if (strcmp(what, "entropy") == 0) {
        m->entropy += read_number(l->value, 10);
    } else if (strcmp(what, "clock") == 0) {
        m->clock += read_number(l->value, 10);
    } else if (strcmp(what, "dir-order") == 0 && strcmp(l->value, "unseen") == 0) {
        tw_buf_puts(words, " unseen");
    } else if (strcmp(what, "dir-order") == 0) {
        m->orders += tw_mix64(read_number(l->value, 16));
    }
    return 0;
}

/* Fills m from a run. False: not everything is known, because a process did not say all, or there
 * was no memory. m->words is the caller's to free in either case. */
static bool read_met(const struct twin_run *run, struct tw_met *m)
{
    struct twin_said_line *line = NULL;
    struct process *list = NULL;
    struct tw_buf words = {0};
    char *text = NULL;
    size_t lines = 0, count = 0;
    *m = (struct tw_met){0};
    bool all = run->process_count > 0 && twin_said_lines(run, &text, &line, &lines, NULL) == 0;
    for (size_t i = 0; i < lines && all; i++)
        all = read_line(m, &words, &list, &count, &line[i]) == 0;
    for (size_t i = 0; i < run->process_count && all; i++) {
        const struct process *p = NULL;
        for (size_t k = 0; k < count && !p; k++)
            p = list[k].pid == run->processes[i].pid ? &list[k] : NULL;
        all = run->processes[i].armed && p && p->ended && (!p->python || p->spoke);
    }
    all = all && !words.failed;
    m->words = tw_buf_steal(&words);
    tw_free(text);
    tw_free(line);
    tw_free(list);
    return all && m->words;
}

/* Did either run meet one of these words? */
static bool met_any(const struct tw_met *a, const struct tw_met *b, const char *const *words)
{
    for (; *words; words++)
        if (has(a->words, *words) || has(b->words, *words))
            return true;
    return false;
}

/* ---- rows of factor_rows.c that no word alone answers */

bool tw_random_alike(const struct tw_met *a, const struct tw_met *b)
{
    return a->drew[PYTHON] == b->drew[PYTHON] && a->state[PYTHON] == b->state[PYTHON];
}

bool tw_torch_alike(const struct tw_met *a, const struct tw_met *b)
{
    return a->drew[TORCH] == b->drew[TORCH] && a->state[TORCH] == b->state[TORCH];
}

/* Random bytes differ in each run, so only runs that asked for none are alike. The same holds for
 * the time. */
bool tw_entropy_alike(const struct tw_met *a, const struct tw_met *b)
{
    return a->entropy == 0 && b->entropy == 0;
}

bool tw_clock_alike(const struct tw_met *a, const struct tw_met *b)
{
    return a->clock == 0 && b->clock == 0;
}

bool tw_orders_alike(const struct tw_met *a, const struct tw_met *b)
{
    return a->orders == b->orders && !met_any(a, b, (const char *const[]){"unseen", NULL});
}

/* A factor without a row (of a factor file) or without a way to see it is never common. */
static bool in_common(const struct tw_met *a, const struct tw_met *b, const struct twin_factor *f)
{
    const struct tw_spec *spec = f->edits ? NULL : tw_spec_of(f);
    if (!spec)
        return false;
    if (spec->met_alike)
        return spec->met_alike(a, b);
    return spec->through[0] && !met_any(a, b, spec->through);
}

void twin_factors_common(const struct twin_run *a, const struct twin_run *b,
                         const struct twin_factor *const *factor, size_t count, bool *out)
{
    struct tw_met x = {0}, y = {0};
    bool known = read_met(a, &x) && read_met(b, &y);
    for (size_t i = 0; i < count; i++)
        out[i] = known && in_common(&x, &y, factor[i]);
    tw_free(x.words);
    tw_free(y.words);
}
