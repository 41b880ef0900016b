/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks of a run note of weights that they are to hold equal:
 *
 *     replica        KEEPER RANKS STEP START COUNT SCOPE, then a name a line
 *     replica.local  STEP RANKS SCOPE
 *     replica.end    STEP RANKS SCOPE
 *
 * COUNT names may need several notes, which begin with the same line. Notes are foreign bytes: one
 * of another form says nothing.
 */
#include "replicas.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 1 << 16, NAMES_MAX = 1 << 20 };

/* The first line of a note, in words that end where the next begins. */
struct head {
    const char *keeper, *ranks, *scope; /* not ended by a zero */
    size_t keeper_bytes, ranks_bytes, scope_bytes;
    unsigned long step, start, count;
    const char *names; /* the lines behind it; "" where there are none */
};

/* The next word of a line; false: the line ends before it. */
static bool take_word(const char **p, const char **word, size_t *bytes)
{
    *word = *p;
    *bytes = strcspn(*p, " \n");
    *p += *bytes;
    if (*bytes == 0 || **p != ' ')
        return false;
    ++*p;
    return true;
}

static bool take_number(const char **p, unsigned long most, unsigned long *out)
{
    const char *word;
    size_t bytes;
    char *end;
    if (!take_word(p, &word, &bytes) || bytes > 10 || *word < '0' || *word > '9')
        return false;
    *out = strtoul(word, &end, 10);
    return end == word + bytes && *out <= most;
}

/* The rest of the line. */
static const char *take_line(const char *p, const char **text, size_t *bytes)
{
    *text = p;
    *bytes = strcspn(p, "\n");
    p += *bytes;
    return *p ? p + 1 : p;
}

static bool read_head(const char *p, struct head *h)
{
    if (!take_word(&p, &h->keeper, &h->keeper_bytes) ||
        !take_word(&p, &h->ranks, &h->ranks_bytes) || !take_number(&p, UINT32_MAX - 2, &h->step) ||
        !take_number(&p, 1, &h->start) || !take_number(&p, NAMES_MAX, &h->count))
        return false;
    h->names = take_line(p, &h->scope, &h->scope_bytes);
    return h->scope_bytes > 0 && h->count > 0;
}

static bool is_text(const char *text, const char *bytes, size_t n)
{
    return strlen(text) == n && memcmp(text, bytes, n) == 0;
}

/* ---- ranks and names */

/* "0,1,2" as members, in rising order. False: it is no such list, or there is no memory. */
static bool read_ranks(struct tw_cmp *c, struct tw_replica *g)
{
    size_t room = 0;
    for (const char *p = g->ranks;; p++) {
        char *end;
        if (*p < '0' || *p > '9' || g->members >= RANKS_MAX)
            return false;
        const unsigned long rank = strtoul(p, &end, 10);
        if (rank > INT32_MAX || (g->members && (int32_t)rank <= g->member[g->members - 1].rank) ||
            !tw_cmp_room(c, &g->member, g->members, &room, sizeof *g->member))
            return false;
        g->member[g->members++] = (struct tw_replica_member){
            .rank = (int32_t)rank, .local = UINT32_MAX, .end = UINT32_MAX};
        p = end;
        if (*p == '\0')
            return g->members > 1;
        if (*p != ',')
            return false;
    }
}

/* A list of names that grows. */
struct names {
    char **name;
    size_t n, room;
};

static void names_free(struct names *list)
{
    for (size_t i = 0; i < list->n; i++)
        tw_free(list->name[i]);
    tw_free(list->name);
    *list = (struct names){0};
}

static void add_names(struct tw_cmp *c, const char *p, struct names *list)
{
    while (*p && list->n <= NAMES_MAX) {
        const char *line;
        size_t bytes;
        p = take_line(p, &line, &bytes);
        char *copy = bytes ? tw_cmp_text(c, "%.*s", (int)bytes, line) : NULL;
        if (copy && tw_cmp_room(c, &list->name, list->n, &list->room, sizeof *list->name))
            list->name[list->n++] = copy;
        else
            tw_free(copy);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names that a process lists behind this head. */
static struct names names_of(struct tw_cmp *c, const struct tw_proc *p, const struct head *h)
{
    struct names list = {0};
    const char *key, *value;
    struct head other;
    const char *first = h->keeper; /* where the note begins */
    const size_t bytes = (size_t)(h->scope + h->scope_bytes - first);
    for (size_t i = 0; twin_trace_note(p->trace, i, &key, &value); i++)
        if (strcmp(key, "replica") == 0 && read_head(value, &other) &&
            (size_t)(other.scope + other.scope_bytes - value) == bytes &&
            memcmp(value, first, bytes) == 0)
            add_names(c, other.names, &list);
    if (list.n)
        qsort(list.name, list.n, sizeof *list.name, by_name);
    return list;
}

bool tw_replica_name(const struct tw_replica *g, const char *name, uint32_t *index)
{
    const size_t bytes = tw_tensor_name_length(name);
    size_t low = 0, high = g->names;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        int order = strncmp(g->name[middle], name, bytes);
        if (order == 0)
            order = g->name[middle][bytes] != '\0';
        if (order == 0) {
            *index = (uint32_t)middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* ---- groups */

struct groups {
    struct tw_cmp *c;
    struct tw_replica *g;
    size_t n, room;
};

static struct tw_replica *group_of(const struct groups *l, const struct head *h, uint32_t attempt)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->g[i].attempt == attempt && is_text(l->g[i].keeper, h->keeper, h->keeper_bytes) &&
            is_text(l->g[i].ranks, h->ranks, h->ranks_bytes) &&
            is_text(l->g[i].scope, h->scope, h->scope_bytes))
            return &l->g[i];
    return NULL;
}

static void group_free(struct tw_replica *g)
{
    struct names names = {.name = g->name, .n = g->names};
    names_free(&names);
    tw_free(g->keeper);
    tw_free(g->ranks);
    tw_free(g->scope);
    tw_free(g->member);
}

/* A group with the names that this process gives it; NULL: it says nothing that can be used. */
static struct tw_replica *new_group(struct groups *l, const struct tw_proc *p, const struct head *h)
{
    struct names names = names_of(l->c, p, h);
    struct tw_replica g = {.attempt = p->attempt,
                           .from = (uint32_t)h->step,
                           .start = h->start == 1,
                           .name = names.name,
                           .names = names.n};
    g.keeper = tw_cmp_text(l->c, "%.*s", (int)h->keeper_bytes, h->keeper);
    g.ranks = tw_cmp_text(l->c, "%.*s", (int)h->ranks_bytes, h->ranks);
    g.scope = tw_cmp_text(l->c, "%.*s", (int)h->scope_bytes, h->scope);
    if (!g.keeper || !g.ranks || !g.scope || g.names == 0 || !read_ranks(l->c, &g) ||
        !tw_cmp_room(l->c, &l->g, l->n, &l->room, sizeof *l->g)) {
        group_free(&g);
        return NULL;
    }
    l->g[l->n] = g;
    return &l->g[l->n++];
}

static struct tw_replica_member *member_of(struct tw_replica *g, int32_t rank)
{
    for (size_t i = 0; i < g->members; i++)
        if (g->member[i].rank == rank)
            return &g->member[i];
    return NULL;
}

/* Does the process say the same as the group's first one? */
static bool says_the_same(struct tw_cmp *c, const struct tw_replica *g, const struct tw_proc *p,
                          const struct head *h)
{
    struct names names = names_of(c, p, h);
    bool same = names.n == g->names && h->count == g->names && h->step == g->from &&
                (h->start == 1) == g->start;
    for (size_t i = 0; same && i < names.n; i++)
        same = strcmp(names.name[i], g->name[i]) == 0;
    names_free(&names);
    return same;
}

/* One note of a process. Of several about one group the first counts: the job had wrapped its model
 * once more. */
static void take_note(struct groups *l, struct tw_proc *p, const char *text)
{
    struct head h;
    if (!read_head(text, &h))
        return;
    struct tw_replica *g = group_of(l, &h, p->attempt);
    if (!g)
        g = new_group(l, p, &h);
    struct tw_replica_member *m = g ? member_of(g, p->own_rank) : NULL;
    if (!m || m->proc == p)
        return;
    m->several |= m->proc != NULL;
    m->otherwise |= !says_the_same(l->c, g, p, &h);
    m->proc = p;
}

/* "STEP RANKS SCOPE": from which step on something is no longer so. */
static void take_limit(struct groups *l, struct tw_proc *p, const char *text, bool local)
{
    const char *ranks, *scope;
    size_t ranks_bytes, scope_bytes;
    unsigned long step;
    if (!take_number(&text, UINT32_MAX - 2, &step) || !take_word(&text, &ranks, &ranks_bytes))
        return;
    take_line(text, &scope, &scope_bytes);
    for (size_t i = 0; i < l->n; i++) {
        struct tw_replica *g = &l->g[i];
        struct tw_replica_member *m = member_of(g, p->own_rank);
        if (!m || g->attempt != p->attempt || !is_text(g->ranks, ranks, ranks_bytes) ||
            !is_text(g->scope, scope, scope_bytes))
            continue;
        uint32_t *limit = local ? &m->local : &m->end;
        *limit = step < *limit ? (uint32_t)step : *limit;
    }
}

void tw_replicas_noted(struct tw_cmp *c, struct tw_side *side, struct tw_replica **out, size_t *n)
{
    struct groups l = {.c = c};
    const char *key, *value;
    for (size_t i = 0; i < side->count; i++)
        for (size_t k = 0; twin_trace_note(side->proc[i].trace, k, &key, &value); k++)
            if (strcmp(key, "replica") == 0)
                take_note(&l, &side->proc[i], value);
    for (size_t i = 0; l.n && i < side->count; i++)
        for (size_t k = 0; twin_trace_note(side->proc[i].trace, k, &key, &value); k++)
            if (tw_starts(key, "replica."))
                take_limit(&l, &side->proc[i], value, strcmp(key, "replica.local") == 0);
    *out = l.g;
    *n = l.n;
}

void tw_replicas_free(struct tw_replica *g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        group_free(&g[i]);
    tw_free(g);
}
