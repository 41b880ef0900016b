/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks by role, not by number. Where both runs declare the same mesh of their ranks (DeviceMesh of
 * PyTorch, with names of its dimensions), a launcher that numbered the ranks otherwise, or another
 * order of the dimensions, gives the same roles to other numbers. Then role is compared with role.
 *
 * A process says its place in a note `mesh` = "pp=1/2,dp=0/4" (place 1 of 2 in the dimension pp).
 * Places are believed only where every rank of the run says one, of one mesh that has as many
 * places as there are ranks, and no two ranks say the same one. Else ranks are compared by number,
 * and a note says why. tw_side_match() asks; from then on `rank` of a process of the second run is
 * the number that its role has in the first one, and `own_rank` the one that it had.
 *
 * Names of records that hold ranks are read in the first run's numbers, too (role_names.c).
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { DIMS_MAX = 8, MESHES_MAX = 16, SAID_MOST = 8 };

struct dim {
    const char *name;
    int bytes;
    uint64_t at, size;
};

/* One mesh, as a process says it. shape and place have the dimensions in the order of their names,
 * said in that of the declaration: "dp=4,pp=2", "0,1", "pp 1, dp 0". */
struct mesh {
    char *shape, *place, *said;
    uint64_t places;
};

/* What is known of the places of a run's ranks. */
struct seats {
    struct mesh *of; /* of each rank; place NULL: it said none */
    size_t ranks;
    bool declared; /* some process declared a mesh */
    char *why;     /* why the places are not believed; NULL: they are */
};

static void mesh_free(struct mesh *m)
{
    tw_free(m->shape);
    tw_free(m->place);
    tw_free(m->said);
    *m = (struct mesh){0};
}

static bool read_number(const char **at, uint64_t *out)
{
    const size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > 9)
        return false;
    *out = strtoull(*at, NULL, 10);
    *at += digits;
    return true;
}

/* "pp=1/2,dp=0/4". False: it is no place in a mesh. */
static bool read_dims(const char *text, struct dim *d, size_t *n)
{
    *n = 0;
    for (const char *at = text;;) {
        const size_t bytes = strcspn(at, "=");
        if (*n == DIMS_MAX || bytes == 0 || bytes > 64 || at[bytes] != '=')
            return false;
        d[*n] = (struct dim){.name = at, .bytes = (int)bytes};
        at += bytes + 1;
        if (!read_number(&at, &d[*n].at) || *at++ != '/' || !read_number(&at, &d[*n].size) ||
            d[*n].at >= d[*n].size)
            return false;
        (*n)++;
        if (*at == '\0')
            return true;
        if (*at++ != ',')
            return false;
    }
}

static int by_name(const void *x, const void *y)
{
    const struct dim *a = x, *b = y;
    const int shorter = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int order = memcmp(a->name, b->name, (size_t)shorter);
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* False: no memory, or two dimensions of one name. */
static bool make_mesh(struct tw_cmp *c, struct dim *d, size_t n, struct mesh *m)
{
    struct tw_buf shape = {0}, place = {0}, said = {0};
    bool twice = false;
    m->places = 1;
    for (size_t i = 0; i < n; i++) {
        tw_buf_printf(&said, "%s%.*s %llu", i ? ", " : "", d[i].bytes, d[i].name,
                      (unsigned long long)d[i].at);
        m->places = m->places > UINT32_MAX ? m->places : m->places * d[i].size;
    }
    qsort(d, n, sizeof *d, by_name);
    for (size_t i = 0; i < n; i++) {
        twice |= i > 0 && by_name(&d[i], &d[i - 1]) == 0;
        tw_buf_printf(&shape, "%s%.*s=%llu", i ? "," : "", d[i].bytes, d[i].name,
                      (unsigned long long)d[i].size);
        tw_buf_printf(&place, "%s%llu", i ? "," : "", (unsigned long long)d[i].at);
    }
    m->shape = tw_buf_steal(&shape);
    m->place = tw_buf_steal(&place);
    m->said = tw_buf_steal(&said);
    c->oom |= !m->shape || !m->place || !m->said;
    return m->shape && m->place && m->said && !twice;
}

/*
 * Takes what one process says into `of` its rank. Of several meshes that with most dimensions is
 * meant: others are parts of it, or made of its dimensions. Returns why that cannot be believed, or
 * NULL.
 */
static const char *take_process(struct tw_cmp *c, const struct tw_proc *p, struct mesh *of,
                                bool *declared)
{
    const char *key, *value, *why = NULL;
    struct mesh best = {0};
    size_t most = 0;
    for (size_t i = 0; !why && twin_trace_note(p->trace, i, &key, &value); i++) {
        struct dim d[DIMS_MAX];
        struct mesh m = {0};
        size_t n = 0;
        if (strcmp(key, "mesh") != 0)
            continue;
        *declared = true;
        if (!read_dims(value, d, &n) || !make_mesh(c, d, n, &m)) {
            why = "says a place that cannot be read";
        } else if (n > most) {
            mesh_free(&best);
            best = m;
            most = n;
            continue;
        } else if (n == most &&
                   (strcmp(m.shape, best.shape) != 0 || strcmp(m.place, best.place) != 0)) {
            why = "declares two meshes with as many dimensions";
        }
        mesh_free(&m);
    }
    if (!why && best.place && of->place &&
        (strcmp(of->place, best.place) != 0 || strcmp(of->shape, best.shape) != 0))
        why = "has processes that say other places";
    if (!why && best.place && !of->place)
        *of = best;
    else
        mesh_free(&best);
    return why;
}

static int by_place(const void *x, const void *y)
{
    const struct mesh *const *a = x, *const *b = y;
    const int order = strcmp((*a)->place, (*b)->place);
    return order ? order : (*a > *b) - (*a < *b);
}

/* The seats of all ranks, by place; NULL: no memory. The caller frees it. */
static const struct mesh **sorted(struct tw_cmp *c, const struct seats *s)
{
    const struct mesh **m = tw_calloc(s->ranks + 1, sizeof *m);
    c->oom |= !m;
    for (size_t i = 0; m && i < s->ranks; i++)
        m[i] = &s->of[i];
    if (m)
        qsort(m, s->ranks, sizeof *m, by_place);
    return m;
}

/* Does every rank say a place of its own, in one mesh of all ranks? Sets s->why where not. */
static void judge_seats(struct tw_cmp *c, struct seats *s, const char *label)
{
    for (size_t i = 0; i < s->ranks && !s->why; i++) {
        const struct mesh *m = &s->of[i];
        if (!m->place)
            s->why = tw_cmp_text(c, "rank %zu of %s says no place in the mesh", i, label);
        else if (strcmp(m->shape, s->of[0].shape) != 0)
            s->why = tw_cmp_text(c, "ranks 0 and %zu of %s declare other meshes, %.200s and %.200s",
                                 i, label, s->of[0].shape, m->shape);
        else if (m->places != s->ranks)
            s->why = tw_cmp_text(c, "the mesh of %s, %.200s, has %llu places for %zu ranks", label,
                                 m->shape, (unsigned long long)m->places, s->ranks);
    }
    if (s->why)
        return;
    const struct mesh **m = sorted(c, s);
    for (size_t i = 1; m && i < s->ranks && !s->why; i++)
        if (strcmp(m[i]->place, m[i - 1]->place) == 0)
            s->why = tw_cmp_text(c, "ranks %td and %td of %s say the same place, %.200s",
                                 m[i - 1] - s->of, m[i] - s->of, label, m[i]->said);
    tw_free(m);
}

static void take_seats(struct tw_cmp *c, const struct tw_side *side, const char *label,
                       struct seats *s)
{
    s->ranks = side->world > 0 && side->world < 1 << 24 ? (size_t)side->world : 0;
    s->of = tw_calloc(s->ranks + 1, sizeof *s->of);
    c->oom |= !s->of;
    for (size_t i = 0; s->of && i < side->count; i++) {
        const struct tw_proc *p = &side->proc[i];
        if (p->rank < 0 || (size_t)p->rank >= s->ranks || p->attempt < side->attempts)
            continue;
        const char *why = take_process(c, p, &s->of[p->rank], &s->declared);
        if (why && !s->why)
            s->why = tw_cmp_text(c, "rank %d of %s %s", p->rank, label, why);
    }
    if (s->declared && s->of)
        judge_seats(c, s, label);
}

static void seats_free(struct seats *s)
{
    for (size_t i = 0; s->of && i < s->ranks; i++)
        mesh_free(&s->of[i]);
    tw_free(s->of);
    tw_free(s->why);
}

/* Why the ranks of the two cannot be compared by their places; NULL: they can, or neither run
 * declared any. */
static char *by_number_since(struct tw_cmp *c, const struct seats *a, const struct seats *b)
{
    if (a->declared != b->declared)
        return tw_cmp_text(c, "%s declares a mesh of its ranks, %s none",
                           a->declared ? c->label_a : c->label_b,
                           a->declared ? c->label_b : c->label_a);
    if (a->why || b->why)
        return tw_cmp_text(c, "%s", a->why ? a->why : b->why);
    if (a->declared && strcmp(a->of[0].shape, b->of[0].shape) != 0)
        return tw_cmp_text(c, "%s declares the mesh %.200s, %s %.200s", c->label_a, a->of[0].shape,
                           c->label_b, b->of[0].shape);
    return NULL;
}

/* as[i]: the rank of the first run that has the place of rank i of the second. */
static int32_t *make_map(struct tw_cmp *c, const struct seats *a, const struct seats *b,
                         bool *moved)
{
    const struct mesh **x = sorted(c, a), **y = sorted(c, b);
    int32_t *as = tw_calloc(b->ranks + 1, sizeof *as);
    c->oom |= !as;
    *moved = false;
    for (size_t i = 0; x && y && as && i < a->ranks; i++) {
        /* as many places as ranks, each once: the sorted lists are equal */
        as[y[i] - b->of] = (int32_t)(x[i] - a->of);
        *moved |= y[i] - b->of != x[i] - a->of;
    }
    tw_free(x);
    tw_free(y);
    return as;
}

static void say_moved(struct tw_cmp *c, const struct seats *a, const int32_t *as)
{
    struct tw_buf list = {0};
    size_t n = 0;
    for (size_t i = 0; i < a->ranks; i++)
        if (as[i] != (int32_t)i && n++ < SAID_MOST)
            tw_buf_printf(&list, "%srank %d (%s) is rank %zu there", n > 1 ? ", " : "", as[i],
                          a->of[as[i]].said, i);
    tw_cmp_note(c,
                "ranks are compared by their places in the mesh that both runs declare, %.200s, "
                "and named by their numbers in %s; %s numbers %zu of them otherwise: %s%s",
                a->of[0].shape, c->label_a, c->label_b, n, list.data ? list.data : "",
                n > SAID_MOST ? ", ..." : "");
    tw_buf_free(&list);
}

/* The numbers that the launcher gave hold again, and names mean what they say. */
void tw_roles_forget(struct tw_side *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct tw_proc *p = &s->proc[i];
        if (p->as && p->series_room)
            memset(p->key, 0, p->series_room * sizeof *p->key);
        p->rank = p->own_rank;
        p->as = NULL;
        p->seat = NULL;
    }
    tw_free(s->as);
    for (size_t i = 0; s->seat && i < s->seats; i++)
        tw_free(s->seat[i]);
    tw_free(s->seat);
    tw_free(s->by_number);
    s->as = NULL;
    s->seat = NULL;
    s->by_number = NULL;
    s->seats = 0;
}

/* From here on ranks of this side are numbered by as, and names are read so. */
static void number_by(struct tw_side *s, int32_t *as, size_t ranks)
{
    s->as = as;
    for (size_t i = 0; i < s->count; i++) {
        struct tw_proc *p = &s->proc[i];
        if (p->series_room)
            memset(p->key, 0, p->series_room * sizeof *p->key);
        p->as = as;
        p->as_ranks = ranks;
        if (p->own_rank >= 0 && (size_t)p->own_rank < ranks)
            p->rank = as[p->own_rank];
    }
}

/* Gives each process of a the words for its place, which a keeps. */
static void name_seats(struct tw_side *a, struct seats *s)
{
    a->seat = tw_calloc(s->ranks + 1, sizeof *a->seat);
    if (!a->seat)
        return; /* sentences say the number alone */
    a->seats = s->ranks;
    for (size_t i = 0; i < s->ranks; i++) {
        a->seat[i] = s->of[i].said;
        s->of[i].said = NULL;
    }
    for (size_t i = 0; i < a->count; i++)
        if (a->proc[i].rank >= 0 && (size_t)a->proc[i].rank < s->ranks)
            a->proc[i].seat = a->seat[a->proc[i].rank];
}

static void by_places(struct tw_cmp *c, struct tw_side *a, struct tw_side *b, struct seats *x,
                      struct seats *y)
{
    bool moved;
    int32_t *as = make_map(c, x, y, &moved);
    if (as && moved && !c->oom) {
        int32_t *own = tw_calloc(x->ranks + 1, sizeof *own);
        c->oom |= !own;
        for (size_t i = 0; own && i < x->ranks; i++)
            own[i] = (int32_t)i;
        if (own) {
            say_moved(c, x, as);
            number_by(a, own, x->ranks);
            number_by(b, as, y->ranks);
            as = NULL;
        }
    }
    tw_free(as);
    name_seats(a, x);
}

int tw_roles_match(struct tw_cmp *c, struct tw_side *a, struct tw_side *b)
{
    struct seats x = {0}, y = {0};
    tw_roles_forget(a);
    tw_roles_forget(b);
    if (a->world != b->world || a->world < 2)
        return 0;
    take_seats(c, a, c->label_a, &x);
    take_seats(c, b, c->label_b, &y);
    b->by_number = c->oom ? NULL : by_number_since(c, &x, &y);
    if (!b->by_number && !c->oom && x.declared)
        by_places(c, a, b, &x, &y);
    seats_free(&x);
    seats_free(&y);
    return c->oom ? TWIN_ENOMEM : 0;
}
