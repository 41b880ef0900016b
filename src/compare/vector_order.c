/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks over a set of events that is all known (vector_order.h).
 *
 * One sweep: each process goes on until an event takes what has not yet been given by all who give
 * it; then another process goes on. A clock is kept for each process, and one for each match that
 * is under way: it is made by the first event that gives something and freed by the last that takes
 * it. Where all processes wait, their events wait for each other in a circle. A run cannot have
 * made them so: the traces lie, or the matches are not what they were taken for.
 */
#include "vector_order.h"

#include "base.h"

#include <assert.h>
#include <string.h>

size_t tw_causal_bytes = (size_t)256 << 20;
size_t tw_causal_work = (size_t)1 << 28;

#define NO_COMPONENT UINT32_MAX

/* A match on its way: what those who gave knew. */
struct under_way {
    uint32_t *clock;         /* NULL: nothing that anybody asks for */
    uint32_t givers, takers; /* that have not yet come */
};

struct sweep {
    const struct tw_events *e;
    uint32_t *component; /* of each process; NO_COMPONENT: nobody asks for it */
    size_t width;
    uint32_t *clock; /* width of each process */
    struct under_way *match;
    size_t *next;     /* of each process: the event that comes next */
    size_t *point_of; /* of each event: 1 + its first point; 0: none */
    const size_t *point;
    size_t *same;         /* of each point: 1 + the next point at the same event */
    uint32_t *process_of; /* of each point */
    struct tw_causal *out;
    size_t held, work;
    int rc;
};

static size_t words(size_t points)
{
    return (points + 63) / 64;
}

bool tw_causal_before(const struct tw_causal *o, size_t i, size_t j)
{
    assert(i < o->points && j < o->points);
    return !o->circular && (o->before[i * words(o->points) + j / 64] >> (j % 64) & 1);
}

void tw_causal_free(struct tw_causal *o)
{
    tw_free(o->before);
    *o = (struct tw_causal){0};
}

/* The process of an event, by halving. */
static uint32_t process_of(const struct tw_events *e, size_t event)
{
    size_t low = 0, high = e->processes;
    while (low + 1 < high) {
        const size_t middle = low + (high - low) / 2;
        if (e->start[middle] <= event)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

static uint32_t *clock_of(const struct sweep *s, size_t process)
{
    return s->clock + process * s->width;
}

/* The later of two pieces of knowledge, component by component. */
static void merge(struct sweep *s, uint32_t *into, const uint32_t *from)
{
    s->work += s->width;
    for (size_t i = 0; i < s->width; i++)
        if (from[i] > into[i])
            into[i] = from[i];
}

static bool knows_nothing(const struct sweep *s, const uint32_t *clock)
{
    for (size_t i = 0; i < s->width; i++)
        if (clock[i])
            return false;
    return true;
}

static void give(struct sweep *s, uint32_t match, const uint32_t *clock)
{
    struct under_way *m = &s->match[match];
    m->givers--;
    s->work += s->width;
    if (m->takers == 0 || knows_nothing(s, clock))
        return;
    if (!m->clock) {
        s->held += s->width * sizeof *m->clock;
        m->clock = s->held <= tw_causal_bytes ? tw_calloc(s->width, sizeof *m->clock) : NULL;
        if (!m->clock) {
            s->rc = s->held <= tw_causal_bytes ? TWIN_ENOMEM : TWIN_ELIMIT;
            return;
        }
    }
    merge(s, m->clock, clock);
}

static void take(struct sweep *s, uint32_t match, uint32_t *clock)
{
    struct under_way *m = &s->match[match];
    m->takers--;
    if (m->clock)
        merge(s, clock, m->clock);
    if (m->takers == 0 && m->clock) {
        tw_free(m->clock);
        m->clock = NULL;
        s->held -= s->width * sizeof *m->clock;
    }
}

/* Of the points at this event: every point that their process has heard of comes before them. */
static void note_points(struct sweep *s, size_t event, const uint32_t *clock)
{
    for (size_t j = s->point_of[event]; j; j = s->same[j - 1]) {
        s->work += s->out->points;
        for (size_t i = 0; i < s->out->points; i++) {
            const uint32_t process = s->process_of[i];
            const size_t number = s->point[i] - s->e->start[process] + 1;
            if (s->point[i] != event && clock[s->component[process]] >= number)
                s->out->before[i * words(s->out->points) + (j - 1) / 64] |= UINT64_C(1)
                                                                            << ((j - 1) % 64);
        }
    }
}

/* Goes on with one process as far as it can. Returns whether that was any event. */
static bool go_on(struct sweep *s, size_t process)
{
    const size_t begin = s->next[process], first = s->e->start[process];
    uint32_t *clock = clock_of(s, process);
    while (s->rc == 0 && s->next[process] < s->e->start[process + 1]) {
        const size_t at = s->next[process];
        const struct tw_event *x = &s->e->event[at];
        if (x->act == TW_ACT_TAKE && s->match[x->match].givers)
            break;
        if (s->component[process] != NO_COMPONENT)
            clock[s->component[process]] = (uint32_t)(at - first + 1);
        if (x->act == TW_ACT_TAKE)
            take(s, x->match, clock);
        if (s->point_of[at])
            note_points(s, at, clock);
        if (x->act == TW_ACT_GIVE)
            give(s, x->match, clock);
        s->next[process]++;
        if (s->rc == 0 && s->work > tw_causal_work)
            s->rc = TWIN_ELIMIT;
    }
    return s->next[process] > begin;
}

/* Who gives and who takes is counted first: the sweep must know for whom to wait. */
static void count_matches(struct sweep *s)
{
    for (size_t i = 0; i < s->e->start[s->e->processes]; i++) {
        const struct tw_event *x = &s->e->event[i];
        assert(x->act == TW_ACT_NONE || x->match < s->e->matches);
        if (x->act == TW_ACT_GIVE)
            s->match[x->match].givers++;
        else if (x->act == TW_ACT_TAKE)
            s->match[x->match].takers++;
    }
}

/* A component for each process that has a point. */
static void name_components(struct sweep *s)
{
    for (size_t p = 0; p < s->e->processes; p++)
        s->component[p] = NO_COMPONENT;
    for (size_t i = 0; i < s->out->points; i++) {
        assert(s->point[i] < s->e->start[s->e->processes]);
        const uint32_t process = process_of(s->e, s->point[i]);
        s->process_of[i] = process;
        if (s->component[process] == NO_COMPONENT)
            s->component[process] = (uint32_t)s->width++;
        s->same[i] = s->point_of[s->point[i]];
        s->point_of[s->point[i]] = i + 1;
    }
}

/* Rounds over all processes, until a round moves none of them. */
static void sweep(struct sweep *s)
{
    bool moved = true;
    while (s->rc == 0 && moved) {
        moved = false;
        for (size_t p = 0; s->rc == 0 && p < s->e->processes; p++)
            moved |= go_on(s, p);
        s->work += s->e->processes;
        if (s->rc == 0 && s->work > tw_causal_work)
            s->rc = TWIN_ELIMIT;
    }
    for (size_t p = 0; p < s->e->processes; p++)
        s->out->circular |= s->rc == 0 && s->next[p] < s->e->start[p + 1];
}

static void sweep_free(struct sweep *s)
{
    for (size_t i = 0; s->match && i < s->e->matches; i++)
        tw_free(s->match[i].clock);
    tw_free(s->component);
    tw_free(s->clock);
    tw_free(s->match);
    tw_free(s->next);
    tw_free(s->point_of);
    tw_free(s->same);
    tw_free(s->process_of);
}

int tw_causal_make(const struct tw_events *e, const size_t *point, size_t points,
                   struct tw_causal *out, struct twin_error *err)
{
    const size_t events = e->start[e->processes];
    struct sweep s = {.e = e, .point = point, .out = out};
    *out = (struct tw_causal){.points = points};
    out->before = tw_calloc(points * words(points) + 1, sizeof *out->before);
    s.component = tw_calloc(e->processes + 1, sizeof *s.component);
    s.match = tw_calloc(e->matches + 1, sizeof *s.match);
    s.next = tw_calloc(e->processes + 1, sizeof *s.next);
    s.point_of = tw_calloc(events + 1, sizeof *s.point_of);
    s.same = tw_calloc(points + 1, sizeof *s.same);
    s.process_of = tw_calloc(points + 1, sizeof *s.process_of);
    bool room = out->before && s.component && s.match && s.next && s.point_of && s.same &&
                s.process_of;
    if (room) {
        name_components(&s);
        s.held = e->processes * s.width * sizeof *s.clock;
        if (s.held > tw_causal_bytes)
            s.rc = TWIN_ELIMIT;
        else
            s.clock = tw_calloc(e->processes * s.width + 1, sizeof *s.clock);
    }
    if (!room || (s.rc == 0 && !s.clock))
        s.rc = TWIN_ENOMEM;
    if (s.rc == 0) {
        count_matches(&s);
        for (size_t p = 0; p < e->processes; p++)
            s.next[p] = e->start[p];
        sweep(&s);
    }
    sweep_free(&s);
    if (s.rc == 0)
        return 0;
    tw_causal_free(out);
    if (s.rc == TWIN_ENOMEM)
        return tw_no_memory(err, "ordering the events of ranks");
    return twin_error_set(err, s.rc, "more events of ranks than are put in order");
}
