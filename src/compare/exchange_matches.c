/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the exchanges of one run (exchange.h) together: who gave what somebody else took. What does
 * not agree about a match is broken, and then it orders nothing and carries nothing: another
 * operation or root than the others named, or a message that arrived with other contents than were
 * sent, whose number must be wrong.
 */
#include "frontier.h"

#include <string.h>

static const struct tw_exchange *event_of(const struct run_side *s, size_t event, size_t *talker)
{
    size_t low = 0, high = s->x.talkers;
    while (low + 1 < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->start[middle] <= event)
            low = middle;
        else
            high = middle;
    }
    *talker = low;
    return &s->x.talker[low].x[event - s->start[low]];
}

static uint64_t hash_of(uint32_t channel, uint32_t number)
{
    return tw_mix64((uint64_t)channel << 32 | number);
}

/* Index of a match; UINT32_MAX: there is none, or (make) no memory for it. */
static uint32_t find_match(struct tw_cmp *c, struct run_side *s, uint32_t channel, uint32_t number,
                           bool make)
{
    if (make && 2 * s->matches + 2 > s->slots) {
        const size_t slots = s->slots ? 2 * s->slots : 1024;
        uint32_t *grown = tw_calloc(slots, sizeof *grown);
        if (!grown) {
            c->oom = true;
            return UINT32_MAX;
        }
        tw_free(s->slot);
        s->slot = grown;
        s->slots = slots;
        for (uint32_t i = 0; i < s->matches; i++) {
            size_t at = hash_of(s->match[i].channel, s->match[i].number);
            while (grown[at & (slots - 1)])
                at++;
            grown[at & (slots - 1)] = i + 1;
        }
    }
    if (s->slots == 0)
        return UINT32_MAX;
    size_t at = hash_of(channel, number);
    for (; s->slot[at & (s->slots - 1)]; at++) {
        const uint32_t i = s->slot[at & (s->slots - 1)] - 1;
        if (s->match[i].channel == channel && s->match[i].number == number)
            return i;
    }
    if (!make || !tw_cmp_room(c, &s->match, s->matches, &s->match_room, sizeof *s->match))
        return UINT32_MAX;
    s->match[s->matches] = (struct match){.channel = channel, .number = number, .op = UINT32_MAX};
    s->slot[at & (s->slots - 1)] = (uint32_t)++s->matches;
    return (uint32_t)s->matches - 1;
}

bool tw_same_contents(const struct tw_exchange *x, const struct tw_exchange *y)
{
    return x->read && y->read && x->elements == y->elements && x->digest.a == y->digest.a &&
           x->digest.b == y->digest.b;
}

/* Puts every event to its match. What does not agree about one makes it broken: another operation
 * or root, or a message that arrived with other contents than were sent. */
bool tw_match_exchanges(struct tw_cmp *c, struct run_side *s)
{
    size_t events = 0, at = 0;
    s->start = tw_calloc(s->x.talkers + 1, sizeof *s->start);
    for (size_t t = 0; s->start && t < s->x.talkers; t++) {
        s->start[t] = events;
        events += s->x.talker[t].n;
    }
    s->match_of = tw_calloc(events + 1, sizeof *s->match_of);
    s->next_giver = tw_calloc(events + 1, sizeof *s->next_giver);
    if (!s->start || !s->match_of || !s->next_giver)
        return false;
    s->start[s->x.talkers] = events;
    for (size_t t = 0; t < s->x.talkers; t++)
        for (size_t i = 0; i < s->x.talker[t].n; i++, at++) {
            const struct tw_exchange *x = &s->x.talker[t].x[i];
            s->match_of[at] = UINT32_MAX;
            if (s->x.talker[t].why || x->act == TW_ACT_NONE)
                continue;
            const uint32_t m = find_match(c, s, x->channel, x->number, true);
            if (m == UINT32_MAX)
                return false;
            struct match *match = &s->match[m];
            s->match_of[at] = m;
            match->broken |= match->op != UINT32_MAX && match->op != x->op;
            match->op = x->op;
            if (x->act == TW_ACT_GIVE) {
                s->next_giver[at] = match->giver;
                match->giver = at + 1;
            }
        }
    for (at = 0; at < events; at++) {
        size_t talker, giver;
        const struct tw_exchange *x = event_of(s, at, &talker);
        struct match *m = s->match_of[at] == UINT32_MAX ? NULL : &s->match[s->match_of[at]];
        if (!m || !m->giver || x->act != TW_ACT_TAKE || !s->x.channel[x->channel].message)
            continue;
        const struct tw_exchange *g = event_of(s, m->giver - 1, &giver);
        m->broken |= g->read && x->read && g->elements == x->elements && !tw_same_contents(g, x);
    }
    return true;
}

void tw_exchange_given(struct tw_cmp *c, const struct run_side *s, const struct tw_exchange *taken,
                       struct given *given)
{
    const uint32_t m = find_match(c, (struct run_side *)s, taken->channel, taken->number, false);
    memset(given, 0, s->x.talkers * sizeof *given);
    if (m == UINT32_MAX || s->match[m].broken)
        return;
    for (size_t at = s->match[m].giver; at; at = s->next_giver[at - 1]) {
        size_t giver;
        const struct tw_exchange *x = event_of(s, at - 1, &giver);
        struct given *g = &given[giver]; /* the list goes from the last record to the first */
        g->contents = tw_mix64(tw_mix64(g->contents ^ x->digest.a) + x->digest.b) ^ x->elements;
        g->read = x->read && (!g->first || g->read);
        g->first = x;
    }
}

void tw_unmatch_exchanges(struct run_side *s)
{
    tw_exchanges_free(&s->x);
    tw_free(s->x.talker);
    tw_free(s->start);
    tw_free(s->match);
    tw_free(s->match_of);
    tw_free(s->next_giver);
    tw_free(s->slot);
}
