/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order the ranks diverged that took nothing from another one. Their first differences are
 * put among the exchanges of all ranks, and the vector order (vector_order.h) of both runs says
 * which of them comes before which. Only what holds in both runs counts.
 */
#include "frontier.h"

#include <string.h>

enum { POINTS_MOST = 64 }; /* candidates that are put into order, the earliest by steps */

void tw_frontier_why(struct frontier *w, char *why)
{
    if (w->why)
        tw_free(why);
    else
        w->why = why;
}

/* Events of one run for vector_order.c; the points are the candidates, in the order of `which`.
 * place[i]: SIZE_MAX where the candidate has no place among the events. */
static void make_events(struct frontier *w, int side, const size_t *which, size_t points,
                        struct tw_event *event, size_t *start, size_t *place)
{
    struct run_side *s = &w->side[side];
    size_t n = 0, at = 0;
    for (size_t t = 0; t < s->x.talkers; t++) {
        const struct tw_talker *talker = &s->x.talker[t];
        size_t point = SIZE_MAX;
        for (size_t i = 0; i < points; i++)
            if (w->d[which[i]].talker == t)
                point = i;
        const bool has_place = point != SIZE_MAX && talker->seq && talker->asked_in_order &&
                               !talker->why;
        bool placed = !has_place;
        start[t] = n;
        if (point != SIZE_MAX)
            place[point] = SIZE_MAX;
        for (size_t i = 0; i < talker->n; i++, at++) {
            const struct tw_exchange *x = &talker->x[i];
            const bool behind = x->step > talker->step ||
                                (x->step == talker->step && x->seq >= talker->seq);
            if (!placed && behind) {
                placed = true;
                place[point] = n;
                if (x->step != talker->step || x->seq != talker->seq)
                    event[n++] = (struct tw_event){.act = TW_ACT_NONE};
            }
            const uint32_t m = s->match_of[at];
            const bool orders = m != UINT32_MAX && !s->match[m].broken && s->match[m].giver &&
                                !x->empty && !talker->why;
            event[n++] = (struct tw_event){.match = orders ? m : 0,
                                           .act = orders ? x->act : (uint8_t)TW_ACT_NONE};
        }
        if (!placed) {
            place[point] = n;
            event[n++] = (struct tw_event){.act = TW_ACT_NONE};
        }
    }
    start[s->x.talkers] = n;
}

/* Leaves of before[i * points + j] what holds in this run: candidate i comes before candidate j.
 * Returns 0 or TWIN_ENOMEM. */
static int order_in(struct frontier *w, int side, const size_t *which, size_t points,
                    uint8_t *before)
{
    struct run_side *s = &w->side[side];
    const size_t events = s->start[s->x.talkers] + points;
    struct tw_event *event = tw_calloc(events + 1, sizeof *event);
    size_t *start = tw_calloc(s->x.talkers + 1, sizeof *start);
    size_t *place = tw_calloc(points + 1, sizeof *place);
    size_t *asked = tw_calloc(points + 1, sizeof *asked), *number = tw_calloc(points + 1, 8);
    struct tw_causal o = {0};
    size_t n = 0;
    int rc = TWIN_ENOMEM;
    if (event && start && place && asked && number) {
        make_events(w, side, which, points, event, start, place);
        for (size_t i = 0; i < points; i++)
            if (place[i] != SIZE_MAX) {
                number[i] = n;
                asked[n++] = place[i];
            }
        const struct tw_events e = {event, start, s->x.talkers, s->matches};
        rc = tw_causal_make(&e, asked, n, &o, NULL);
    }
    for (size_t i = 0; rc == 0 && i < points; i++)
        for (size_t j = 0; j < points; j++) {
            const bool known = place[i] != SIZE_MAX && place[j] != SIZE_MAX;
            before[i * points + j] &= known && tw_causal_before(&o, number[i], number[j]);
        }
    if (rc == TWIN_ELIMIT) {
        tw_frontier_why(w, tw_cmp_text(w->c, "there are more of them than are put in order"));
        memset(before, 0, points * points);
        rc = 0;
    } else if (rc == 0 && o.circular) {
        tw_frontier_why(
            w, tw_cmp_text(w->c, "they wait for each other in a circle, which no run can do"));
        w->circular = true;
    }
    tw_causal_free(&o);
    tw_free(event);
    tw_free(start);
    tw_free(place);
    tw_free(asked);
    tw_free(number);
    return rc;
}

int tw_frontier_choose(struct frontier *w, const size_t *by_steps, struct differing **first)
{
    size_t which[POINTS_MOST], points = 0;
    uint8_t before[POINTS_MOST * POINTS_MOST];
    int rc = 0;
    memset(before, 1, sizeof before);
    for (size_t i = 0; i < w->n && points < POINTS_MOST; i++)
        if (!w->d[by_steps[i]].carried)
            which[points++] = by_steps[i];
    for (int side = 0; rc == 0 && side < 2; side++) {
        const bool here = w->side[side].start != NULL;
        if (here)
            rc = order_in(w, side, which, points, before);
        else
            memset(before, 0, sizeof before);
    }
    for (size_t i = 0; w->circular && i < w->n; i++) { /* then nothing of it is believed */
        w->d[i].open |= w->d[i].carried;
        w->d[i].carried = false;
    }
    *first = points && !w->circular ? &w->d[which[0]] : &w->d[by_steps[0]];
    for (size_t j = 0; rc == 0 && !w->circular && j < points; j++) {
        bool minimal = true;
        for (size_t i = 0; i < points; i++)
            minimal &= i == j || !before[i * points + j];
        if (minimal) {
            *first = &w->d[which[j]];
            return 0;
        }
    }
    return rc;
}
