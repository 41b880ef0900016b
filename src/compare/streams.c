/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that train at once share the process's step counter, so which step a record falls into is a matter of schedule; so is
 * which of their optimizers came first and has no number in its name. Their records are the same all the same when every stream
 * (the records of a role in a scope, numbers aside) holds the same ones from beginning to end.
 */
#include "internal.h"

#include <ctype.h>
#include <string.h>

#define STREAMS_MAX 4096u
#define SCOPE_MAX 256

struct stream { uint64_t id, hash, records; };
struct streams { struct tw_cmp *c; struct tw_proc *p; struct stream *s; size_t n, room; bool threads, too_many; };

/* "SGD" of "SGD#2", the second that lived at one time (python/twinrun/_agent/naming.py). */
static const char *unnumbered(const char *scope, char room[SCOPE_MAX])
{
    const char *number = strrchr(scope, '#');
    if (!number || !number[1] || (size_t)(number - scope) >= SCOPE_MAX)
        return scope;
    for (const char *p = number + 1; *p; p++)
        if (!isdigit((unsigned char)*p))
            return scope;
    memcpy(room, scope, (size_t)(number - scope));
    room[number - scope] = '\0';
    return room;
}

static int add(void *user, const struct twin_trace_record *r)
{
    struct streams *t = user;
    const struct twin_series *s = twin_trace_series(t->p->trace, r->series);
    if (s->kind == TWIN_KIND_STATE) /* generators belong to the process, and are looked at whenever a step ends */
        return 0;
    char room[SCOPE_MAX];
    const char *given = twin_trace_string(t->p->trace, s->scope), *scope = unnumbered(given, room), *role = twin_trace_string(t->p->trace, s->role);
    uint64_t id = tw_key_hash(0, 0, "", scope, role);
    size_t i = 0;
    while (i < t->n && t->s[i].id != id)
        i++;
    if (i == t->n) {
        if (i >= STREAMS_MAX || !tw_cmp_room(t->c, &t->s, t->n, &t->room, sizeof *t->s)) {
            t->too_many = true;
            return 1;
        }
        t->s[t->n++] = (struct stream){.id = id};
    }
    uint64_t key = scope == given ? tw_proc_key(t->p, r->series)
                                  : tw_key_hash(s->phase, s->kind, twin_trace_string(t->p->trace, s->name), scope, role);
    uint64_t content = tw_record_content(t->p, r);
    t->threads |= s->role != 0;
    t->s[i].hash += tw_mix64(tw_mix64(key) ^ content); /* a sum: two threads may share a scope and a role */
    t->s[i].records++;
    return 0;
}

static bool load(struct tw_cmp *c, struct tw_proc *p, struct streams *t)
{
    *t = (struct streams){.c = c, .p = p};
    return p->info->dropped == 0 && twin_trace_walk(p->trace, add, NULL, t, NULL) == 0 && !t->too_many && t->threads;
}

bool tw_streams_equal(struct tw_cmp *c, const struct tw_pair *p)
{
    struct streams a = {0}, b = {0};
    bool equal = load(c, p->a, &a) && load(c, p->b, &b) && a.n == b.n;
    for (size_t i = 0; equal && i < a.n; i++) {
        size_t j = 0;
        while (j < b.n && b.s[j].id != a.s[i].id)
            j++;
        equal = j < b.n && a.s[i].hash == b.s[j].hash && a.s[i].records == b.s[j].records;
    }
    tw_free(a.s);
    tw_free(b.s);
    return equal;
}
