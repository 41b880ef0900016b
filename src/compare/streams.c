/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that train at once share the process's step counter, so which step a record falls into is a matter of schedule.
 * Their records are the same all the same when every stream (the records of a role in a scope) holds the same ones from
 * beginning to end.
 */
#include "internal.h"

#include <string.h>

#define STREAMS_MAX 4096u

struct stream { uint64_t id, hash, records; };
struct streams { struct tw_cmp *c; struct tw_proc *p; struct stream *s; size_t n, room; bool threads, too_many; };

static int add(void *user, const struct twin_trace_record *r)
{
    struct streams *t = user;
    const struct twin_series *s = twin_trace_series(t->p->trace, r->series);
    if (s->kind == TWIN_KIND_STATE) /* generators belong to the process, and are looked at whenever a step ends */
        return 0;
    uint64_t id = tw_key_hash(0, 0, "", twin_trace_string(t->p->trace, s->scope), twin_trace_string(t->p->trace, s->role));
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
    uint64_t key = tw_proc_key(t->p, r->series), content = tw_record_content(t->p, r);
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
