/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the records of a few steps of one process in a compact form (struct tw_view). All files
 * that look at records use it. Numbers of series, names and layouts mean something in one trace
 * only, so each record gets hashes that mean the same in every trace: of its key, of its layout, of
 * its contents. What could not be loaded is counted in `dropped`, so that nothing is concluded from
 * its absence.
 */
#include "internal.h"
#include "printed.h"

#include <stdlib.h>
#include <string.h>

/*
 * Records of a step that are read into one array. A decoded record is large, so steps with more are
 * streamed.
 */
#define READ_AT_ONCE 50000u
/* Above what the format allows: an id that large is damage, and means "no series". */
#define SERIES_MAX (1u << 21)

size_t tw_view_limit = TW_MAX_STEP_RECORDS;

uint64_t tw_key_hash(uint8_t phase, uint8_t kind, const char *name, const char *scope,
                     const char *role)
{
    struct tw_hash128 n = tw_hash_bytes(name, strlen(name), 1);
    struct tw_hash128 s = tw_hash_bytes(scope, strlen(scope), 2);
    struct tw_hash128 r = tw_hash_bytes(role, strlen(role), 3);
    uint64_t word[4] = {(uint64_t)phase << 8 | kind, n.a ^ tw_mix64(n.b), s.a ^ tw_mix64(s.b),
                        r.a ^ tw_mix64(r.b)};
    uint64_t h = tw_hash_bytes(word, sizeof word, 4).a;
    return h ? h : 1; /* 0 means "not yet computed" */
}

/*
 * Does the name hold the name of a file? A checkpoint's does, and that of an object that ranks
 * handed each other: "broadcast_object_list: /home/u/lightning_logs/version_3".
 */
static bool names_files(uint8_t phase, const char *name)
{
    return phase == TWIN_PHASE_CHECKPOINT ||
           (phase == TWIN_PHASE_COLLECTIVE && strstr(name, ": /"));
}

/*
 * The key of a series; 0: no memory. The name of a file may carry the time of the run, a process of
 * it or its number: those facts are left out, so that "model_1795349337.pt" is the same checkpoint
 * in both runs.
 */
static uint64_t series_key(const struct tw_proc *p, const struct twin_series *s)
{
    const char *scope = twin_trace_string(p->trace, s->scope);
    const char *role = twin_trace_string(p->trace, s->role);
    const char *name = twin_trace_string(p->trace, s->name);
    if (s->phase == TWIN_PHASE_COLLECTIVE && p->as) {
        char *by_role, *group;
        const bool made = tw_names_by_role(p, name, scope, &by_role, &group);
        const uint64_t found = made ? tw_key_hash(s->phase, s->kind, by_role, group, role) : 0;
        tw_free(by_role);
        tw_free(group);
        return found;
    }
    if (!names_files(s->phase, name) || !p->facts)
        return tw_key_hash(s->phase, s->kind, name, scope, role);
    char *plain_name = tw_noise_name(name, p->facts), *plain_scope = tw_noise_name(scope, p->facts);
    uint64_t key = plain_name && plain_scope
                       ? tw_key_hash(s->phase, s->kind, plain_name, plain_scope, role)
                       : 0;
    tw_free(plain_name);
    tw_free(plain_scope);
    return key;
}

/*
 * Sets *key and *token of a series. Both are computed once per series and trace, and kept in p.
 * False: no memory.
 */
static bool series_keys(struct tw_proc *p, uint32_t id, uint64_t *key, uint64_t *token)
{
    id = id < SERIES_MAX ? id : 0;
    if (id >= p->series_room) {
        size_t room = p->series_room ? p->series_room : 64;
        while (room <= id)
            room *= 2;
        uint64_t *k = tw_reallocarray(p->key, room, sizeof *k);
        if (k)
            p->key = k;
        uint64_t *t = tw_reallocarray(p->token, room, sizeof *t);
        if (t)
            p->token = t;
        if (!k || !t)
            return false;
        memset(p->key + p->series_room, 0, (room - p->series_room) * sizeof *k);
        p->series_room = room;
    }
    if (p->key[id] == 0) {
        const struct twin_series *s = twin_trace_series(p->trace, id);
        const char *op = twin_trace_string(p->trace, s->op);
        p->key[id] = series_key(p, s);
        if (p->key[id] == 0)
            return false;
        /* Who drew is part of what a generator's record means: "confirmed at the step's end" is not
         * "DataLoader drew". */
        bool draws = s->phase == TWIN_PHASE_RNG && op[0] != '\0';
        p->token[id] = draws ? tw_mix64(p->key[id] ^ tw_hash_bytes(op, strlen(op), 5).a) | 1
                             : p->key[id];
    }
    *key = p->key[id];
    *token = p->token[id];
    return true;
}

uint64_t tw_layout_hash(const struct twin_layout *l)
{
    uint64_t h = tw_mix64((uint64_t)l->dtype << 8 | l->ndim);
    for (unsigned i = 0; i < l->ndim && i < TWIN_MAX_NDIM; i++)
        h = tw_mix64(h ^ (uint64_t)l->shape[i]);
    return h;
}

/* A hash of dtype and shape, and of the place in a larger tensor where the record has one. */
static uint64_t layout_hash(struct tw_proc *p, const struct twin_trace_record *r)
{
    uint64_t h = tw_layout_hash(twin_trace_layout(p->trace, r->layout));
    return r->flags & TWIN_REC_OFFSET ? tw_mix64(h ^ r->global_offset ^ 0x5555u) : h;
}

uint64_t tw_proc_key(struct tw_proc *p, uint32_t id)
{
    uint64_t key, token;
    return series_keys(p, id, &key, &token) ? key : 0;
}

/* Of a record that could not be read the layout alone is known. */
uint64_t tw_record_content(struct tw_proc *p, const struct twin_trace_record *r)
{
    uint64_t layout = layout_hash(p, r);
    return r->flags & TWIN_REC_UNOBSERVED ? layout
                                          : tw_mix64(tw_mix64(layout + r->digest.a) ^ r->digest.b);
}

/* What append_record() needs; only steps first..last are taken. */
struct load {
    struct tw_cmp *c;
    struct tw_view *v;
    uint32_t first, last;
};

/*
 * Adds one record to the view; also a callback of twin_trace_walk. Returns 0, 1 for "enough", or
 * TWIN_ENOMEM.
 */
static int append_record(void *user, const struct twin_trace_record *r)
{
    struct load *l = user;
    struct tw_view *v = l->v;
    if (r->step < l->first || r->step > l->last)
        return 0;
    if (!twin_trace_described(v->proc->trace, r)) {
        v->nameless++;
        return 0;
    }
    if (v->count >= tw_view_limit) {
        v->cut = true;
        return 1;
    }
    if (!tw_cmp_room(l->c, &v->rec, v->count, &v->room, sizeof *v->rec))
        return TWIN_ENOMEM;
    struct tw_rec *out = &v->rec[v->count];
    const struct twin_series *s = twin_trace_series(v->proc->trace, r->series);
    *out = (struct tw_rec){.step = r->step,
                           .seq = r->seq,
                           .occurrence = r->occurrence,
                           .series = r->series,
                           .layout = r->layout,
                           .flags = r->flags,
                           .thread = r->thread,
                           .digest = r->digest,
                           .phase = s->phase,
                           .kind = s->kind,
                           .whole = r->flags & TWIN_REC_PART ? r->whole : 0,
                           .global_offset = r->flags & TWIN_REC_OFFSET ? r->global_offset : 0};
    if (!series_keys(v->proc, r->series, &out->key, &out->token)) {
        l->c->oom = true;
        return TWIN_ENOMEM;
    }
    out->layout_hash = layout_hash(v->proc, r);
    out->content = tw_record_content(v->proc, r);
    if (r->flags & TWIN_REC_STATS)
        out->stats = r->stats;
    if (r->flags & TWIN_REC_SKETCH && r->sketch.k > 0 &&
        tw_cmp_room(l->c, &v->sketch, v->sketches, &v->sketch_room, sizeof *v->sketch)) {
        v->sketch[v->sketches++] = r->sketch;
        out->sketch = v->sketches;
    }
    out->link = v->links;
    for (uint32_t i = 0; i < r->link_count && i < TWIN_MAX_LINKS; i++)
        if (tw_cmp_room(l->c, &v->link, v->links, &v->link_room, sizeof *v->link)) {
            v->link[v->links++] = r->links[i];
            out->link_count++;
        }
    v->count++;
    return 0;
}

/* The order in which a process recorded. */
static int by_step_seq(const void *x, const void *y)
{
    const struct tw_rec *a = x, *b = y;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Adds the records of these steps that the trace itself says were dropped. */
static void count_dropped(struct tw_view *v, uint32_t first, uint32_t last)
{
    uint32_t step, dropped;
    for (size_t i = 0; twin_trace_gap(v->proc->trace, i, &step, &dropped); i++)
        if (first <= step && step <= last)
            v->dropped += dropped;
}

/*
 * Adds what the step hashes say of these steps and was not loaded: each step end says how many
 * records it has and how many of them were dropped, so the rest lies in damaged bytes. Sets
 * v->total where it is known of all steps. A step without a hash counts as one dropped record.
 */
static void count_missing(struct tw_view *v, uint32_t first, uint32_t last)
{
    struct twin_step_hash h;
    uint64_t total = 0, stored = 0, loaded = v->nameless + v->count;
    bool all = true;
    for (uint64_t step = first; step <= last && step < v->proc->info->steps; step++) {
        if (twin_trace_step_hash(v->proc->trace, (uint32_t)step, &h, NULL) != 0) {
            v->dropped++;
            all = false;
            continue;
        }
        total += h.records;
        stored += h.records - h.dropped;
    }
    all &= last < v->proc->info->steps;
    if (all && !v->cut && loaded < stored)
        v->dropped += stored - loaded;
    v->total = all ? total : 0;
}

/*
 * For an unfinished step, which has no count of its records: a damaged stretch that may hold some
 * of them counts as one dropped record.
 */
static void count_holes(struct tw_view *v, uint32_t first, uint32_t last)
{
    struct twin_trace_hole h;
    for (size_t i = 0; twin_trace_hole(v->proc->trace, i, &h); i++)
        if (!h.definitions && h.first_step <= last && first <= h.last_step &&
            last >= v->proc->info->steps)
            v->dropped++; /* how many there are is known of finished steps only */
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void tw_say_damage(struct tw_cmp *c, const struct tw_proc *p)
{
    struct twin_trace_hole h;
    for (size_t i = 0; twin_trace_hole(p->trace, i, &h); i++)
        tw_cmp_unseen(c, "run %zu: block %llu of rank %d (%s) is damaged: %s", p->run + 1,
                      (unsigned long long)h.block, p->rank, file_name(p->path),
                      h.definitions ? "names that it may have held are unknown"
                                    : "its records are unknown");
}

/* Adds to c->unseen what of this view is not known. */
static void say_missing(struct tw_cmp *c, const struct tw_view *v, uint32_t step)
{
    tw_say_damage(c, v->proc);
    if (v->nameless)
        tw_cmp_unseen(
            c, "run %zu: %llu records of step %u of rank %d have names that lie in damaged bytes",
            v->proc->run + 1, (unsigned long long)v->nameless, step, v->proc->rank);
    if (v->cut)
        tw_cmp_unseen(
            c,
            "run %zu: step %u of rank %d has more than %zu records: those behind were not compared",
            v->proc->run + 1, step, v->proc->rank, tw_view_limit);
}

/*
 * The order of the counts matters: count_missing() compares with what was loaded, nameless records
 * included.
 */
int tw_view_load(struct tw_cmp *c, struct tw_proc *p, uint32_t first, uint32_t last,
                 struct tw_view *v, struct twin_error *err)
{
    struct twin_error local = TWIN_ERROR_INIT;
    struct twin_trace_record *records = NULL;
    struct load l = {c, v, first, last};
    size_t count = 0;
    *v = (struct tw_view){.proc = p};
    v->partial = last >= p->info->steps && !p->info->closed;
    int rc = twin_trace_read(p->trace, first, last, READ_AT_ONCE, &records, &count, &local);
    if (rc == TWIN_ELIMIT) {
        local = (struct twin_error)TWIN_ERROR_INIT;
        rc = twin_trace_walk(p->trace, append_record, NULL, &l, &local);
        rc = rc > 0 ? 0 : rc; /* a positive value is our own "enough" */
        if (rc == 0 && v->count)
            qsort(v->rec, v->count, sizeof *v->rec, by_step_seq);
    } else if (rc == 0) {
        for (size_t i = 0; i < count && rc == 0; i++)
            rc = append_record(&l, &records[i]);
        rc = rc > 0 ? 0 : rc;
        twin_trace_records_free(records);
    }
    /* damaged here: unknown, never a finding */
    if (rc == TWIN_EFORMAT || rc == TWIN_EIO || rc == TWIN_ENOENT) {
        tw_cmp_unseen(c, "steps %u to %u of rank %d lie in damaged bytes: %s", first, last, p->rank,
                      local.message);
        v->dropped++;
        rc = 0;
    }
    if (rc != 0) {
        tw_view_free(v);
        return twin_error_set(err, rc, "%s",
                              local.code ? local.message : "out of memory reading a trace");
    }
    count_dropped(v, first, last);
    v->dropped += v->nameless;
    count_missing(v, first, last);
    count_holes(v, first, last);
    v->partial |= v->cut;
    say_missing(c, v, first);
    return 0;
}

bool tw_view_renamed(const struct tw_view *a, const struct tw_view *b, const struct tw_stepdiff *d)
{
    for (size_t i = 0; i < a->count; i++) {
        const char *name = tw_rec_name(a, &a->rec[i]);
        if (d->to_b[i] != TW_NONE && names_files(a->rec[i].phase, name) &&
            strcmp(name, tw_rec_name(b, &b->rec[d->to_b[i]])) != 0)
            return true;
    }
    return false;
}

void tw_view_free(struct tw_view *v)
{
    tw_free(v->rec);
    tw_free(v->sketch);
    tw_free(v->link);
    *v = (struct tw_view){0};
}

/* The order of those that stay does not change; sketches and links stay where they are. */
void tw_view_filter(struct tw_view *v,
                    bool (*keep)(const struct tw_view *, const struct tw_rec *, void *), void *user)
{
    size_t kept = 0;
    for (size_t i = 0; i < v->count; i++)
        if (keep(v, &v->rec[i], user))
            v->rec[kept++] = v->rec[i];
    v->count = kept;
}

static const struct twin_series *series_of(const struct tw_view *v, const struct tw_rec *r)
{
    return twin_trace_series(v->proc->trace, r->series);
}

const char *tw_rec_name(const struct tw_view *v, const struct tw_rec *r)
{
    return r->name ? r->name : twin_trace_string(v->proc->trace, series_of(v, r)->name);
}

const char *tw_rec_scope(const struct tw_view *v, const struct tw_rec *r)
{
    return twin_trace_string(v->proc->trace, series_of(v, r)->scope);
}

const char *tw_rec_role(const struct tw_view *v, const struct tw_rec *r)
{
    return twin_trace_string(v->proc->trace, series_of(v, r)->role);
}

const char *tw_rec_op(const struct tw_view *v, const struct tw_rec *r)
{
    return twin_trace_string(v->proc->trace, series_of(v, r)->op);
}

const char *tw_rec_site(const struct tw_view *v, const struct tw_rec *r)
{
    return twin_trace_string(v->proc->trace, series_of(v, r)->site);
}
