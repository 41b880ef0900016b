/* SPDX-License-Identifier: Apache-2.0 */
#include "search_world.h"
#include "base.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SET .can_pin = true, .settable = true
#define FREED .can_pin = true

const struct twin_candidate sim_candidate[SIM_FACTORS] = {
    {"hash-seed", "environment", NULL, TWIN_UNIT_RUN, SET},
    {"entropy", "rng", NULL, TWIN_UNIT_RUN, SET},
    {"clock", "environment", NULL, TWIN_UNIT_RUN, SET},
    {"dir-order", "data", NULL, TWIN_UNIT_RUN, SET},
    {"aslr", "environment", NULL, TWIN_UNIT_RUN, SET},
    {"seed.python", "rng", NULL, TWIN_UNIT_RUN, SET},
    {"seed.numpy", "rng", NULL, TWIN_UNIT_RUN, SET},
    {"seed.torch", "rng", NULL, TWIN_UNIT_RUN, SET},
    {"malloc-fill", "init", NULL, TWIN_UNIT_RUN, FREED},
    {"threads", "schedule", "init forward backward optimizer", TWIN_UNIT_EXPOSURE, FREED},
    {"torch-deterministic", "backward", "forward backward", TWIN_UNIT_EXPOSURE, FREED},
    {"cudnn-benchmark", "forward", NULL, TWIN_UNIT_RUN, FREED},
    {"cudnn-deterministic", "backward", "forward backward", TWIN_UNIT_EXPOSURE, FREED},
    {"tf32", "forward", NULL, TWIN_UNIT_RUN, FREED},
    {"loader-workers", "data", NULL, TWIN_UNIT_RUN, FREED},
    {"executor-order", "schedule", "data rng", TWIN_UNIT_RUN, FREED, .can_vary = true},
    {"ddp-buckets", "collective", NULL, TWIN_UNIT_RUN, FREED},
    {"collective-algorithm", "collective", NULL, TWIN_UNIT_EXPOSURE, FREED},
    {"match-order", "schedule", "collective backward optimizer", TWIN_UNIT_EXPOSURE, FREED},
    {"restore.rng", "checkpoint", "rng data init forward", TWIN_UNIT_RUN, FREED},
};

static const char *const seen[SIM_FACTORS][2] = {
    {"data", "init"},
    {"rng", "data"},
    {"data", "rng"},
    {"data", "data"},
    {"data", "forward"},
    {"rng", "data"},
    {"rng", "data"},
    {"rng", "init"},
    {"init", "forward"},
    {"backward", "forward"},
    {"backward", "backward"},
    {"forward", "backward"},
    {"backward", "backward"},
    {"forward", "backward"},
    {"data", "data"},
    {"data", "data"},
    {"collective", "collective"},
    {"collective", "collective"},
    {"collective", "collective"},
    {"rng", "data"},
};

struct sim_run {
    uint64_t value[SIM_FACTORS];
    bool pinned[SIM_FACTORS];
    uint64_t id;
    bool bad;
    bool contrast;
};

int sim_index(const char *id)
{
    for (int i = 0; i < SIM_FACTORS; i++)
        if (!strcmp(sim_candidate[i].id, id))
            return i;
    abort();
}

const char *sim_layer(int factor, uint64_t which)
{
    return seen[factor][which % 2];
}

uint64_t sim_random(uint64_t *state) /* xorshift64* */
{
    uint64_t x = *state ? *state : UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

double sim_uniform(uint64_t *state)
{
    return (double)(sim_random(state) >> 11) * 0x1p-53;
}

/* A number that depends on all of these, for draws that must not depend on the order in which runs
 * are asked for. */
static uint64_t draw(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t state = a * UINT64_C(0xD6E8FEB86659FD93) ^ b * UINT64_C(0xA0761D6478BD642F) ^
                     c * UINT64_C(0xE7037ED1A0B428DB);
    for (int i = 0; i < 4; i++)
        sim_random(&state);
    return sim_random(&state);
}

static double uniform(uint64_t a, uint64_t b, uint64_t c)
{
    return (double)(draw(a, b, c) >> 11) * 0x1p-53;
}

/* The world as this run sees it: a value for all that is set, fresh ones for what is free. */
static void start(const struct sim *s, const struct twin_search_request *q, struct sim_run *r)
{
    r->id = q->number;
    r->contrast = q->purpose == TWIN_FOR_CONTRAST;
    r->bad = uniform(s->seed, q->number, 11) < s->fails_by_itself;
    for (int f = 0; f < SIM_FACTORS; f++) {
        const struct twin_search_setting *set = &q->setting[f];
        r->pinned[f] = set->mode == TWIN_PIN;
        r->value[f] = set->mode == TWIN_PIN ? set->value
                      : s->constant >> f & 1
                          ? 42
                          : draw(s->seed, q->number, 100 + (uint64_t)f) | 1 << 20;
        r->bad |= r->pinned[f] && ((s->fails | s->sticks) >> f & 1);
    }
}

static bool differs(const struct sim_run *a, const struct sim_run *b, int f)
{
    return sim_candidate[f].settable ? a->value[f] != b->value[f] : !a->pinned[f] || !b->pinned[f];
}

/* Is the run in the rare class? It hangs on the factor's value alone. */
static bool rare(const struct sim *s, const struct sim_run *r, int n)
{
    const struct sim_source *c = &s->source[n];
    /* two classes: rate = 1 - P(neither is rare) when rare ones are all different */
    double share = 1 - sqrt(1 - c->rate);
    uint64_t value = c->factor[0] < 0 ? r->id
                     : r->pinned[c->factor[0]] && !sim_candidate[c->factor[0]].settable
                         ? 0
                         : r->value[c->factor[0]];
    return uniform(s->seed + (uint64_t)n, value, 12) < share;
}

static void compare(const struct sim *s, const struct sim_run *a, const struct sim_run *b,
                    struct twin_search_result *out)
{
    uint32_t first = UINT32_MAX;
    const char *layer = NULL;
    for (int n = 0; n < s->sources; n++) {
        const struct sim_source *c = &s->source[n];
        bool live = true;
        for (int i = 0; i < 2; i++)
            live &= c->factor[i] < 0 || differs(a, b, c->factor[i]);
        uint32_t step = UINT32_MAX;
        if (live && c->hazard) {
            double u = uniform(s->seed, a->id * 4096 + b->id, 20 + (uint64_t)n);
            double steps = c->rate >= 1 ? 0 : log1p(-u) / log1p(-c->rate);
            step = steps < SIM_STEPS ? (uint32_t)steps : UINT32_MAX;
        } else if (live && c->classes) {
            step = rare(s, a, n) || rare(s, b, n) ? 3 : UINT32_MAX;
        } else if (live && uniform(s->seed, a->id * 4096 + b->id, 20 + (uint64_t)n) < c->rate) {
            step = (uint32_t)(draw(s->seed, a->id * 4096 + b->id, 30) % 7);
        }
        if (step < first) {
            first = step;
            layer = c->layer;
            out->vote = c->operation                                  ? TWIN_VOTE_OPERATION
                        : s->vote == TWIN_VOTE_HARDWARE && s->by_core ? TWIN_VOTE_HARDWARE
                                                                      : TWIN_VOTE_UNKNOWN;
        }
    }
    for (int f = 0; f < SIM_FACTORS; f++) {
        bool steady = (s->shift >> f & 1) && a->pinned[f] != b->pinned[f];
        bool influence = (s->constant >> f & 1) && a->value[f] != b->value[f];
        if (steady || influence) {
            first = 0;
            layer = sim_candidate[f].layer;
            out->vote = TWIN_VOTE_UNKNOWN;
        }
        if (s->constant >> f & 1 && a->value[f] == b->value[f])
            out->same.word[0] |= UINT64_C(1) << f;
    }
    if (first == UINT32_MAX && uniform(s->seed, a->id * 4096 + b->id, 40) < s->noise) {
        first = (uint32_t)(draw(s->seed, a->id, 41) % SIM_STEPS);
        layer = twin_search_layer_name(
            (int)(draw(s->seed, a->id * 4096 + b->id, 42) % TWIN_SEARCH_LAYERS));
        out->vote = TWIN_VOTE_UNKNOWN;
    }
    out->parted = first != UINT32_MAX;
    out->step = out->parted ? first : 0;
    out->steps = out->parted ? first + 1 : SIM_STEPS;
    out->layer = out->parted ? twin_search_layer(layer) : -1;
}

/* The first run under the same pins that this one, parted from its reference, agrees with. Runs
 * fall into classes only there; else each pair has a draw of its own. */
static uint64_t agrees(const struct sim *s, const struct sim_run *r)
{
    for (uint32_t i = 1; i < r->id && s->sources && s->source[0].classes; i++) {
        struct twin_search_result pair = {0};
        const struct sim_run *other = &s->run[i];
        if (other->id != i || other->bad || other->contrast != r->contrast ||
            memcmp(other->pinned, r->pinned, sizeof r->pinned) != 0)
            continue;
        compare(s, other, r, &pair);
        if (!pair.parted)
            return i;
    }
    return 0;
}

int sim_make_runs(void *user, const struct twin_search_request *q, size_t n,
                  struct twin_search_result *out, struct twin_error *err)
{
    struct sim *s = user;
    (void)err;
    s->largest_batch = n > s->largest_batch ? (uint32_t)n : s->largest_batch;
    for (size_t i = 0; i < n; i++) {
        if (s->interrupt_after && s->made >= s->interrupt_after)
            return 0; /* the others stay "not ended" */
        if (q[i].number >= s->room) {
            s->room = q[i].number * 2 + 64;
            s->run = realloc(s->run, s->room * sizeof *s->run);
            if (!s->run)
                abort();
        }
        for (; s->runs <= q[i].number; s->runs++)
            s->run[s->runs].id = 0;
        s->repeated |= s->run[q[i].number].id == q[i].number;
        s->made++;
        struct sim_run *r = &s->run[q[i].number];
        start(s, &q[i], r);
        out[i] = (struct twin_search_result){.handle = q[i].number, .layer = -1, .seconds = 1};
        if (q[i].purpose == TWIN_FOR_VOTE)
            out[i].vote = s->vote;
        else if (r->bad)
            out[i].status = s->sticks ? TWIN_ENDED_STUCK : TWIN_ENDED_BADLY;
        else if (q[i].reference)
            compare(s, &s->run[q[i].reference], r, &out[i]);
        const bool equal = q[i].reference && !out[i].parted;
        out[i].blind = s->blind && equal;
        out[i].unjudged = s->unjudged && equal;
        out[i].unseen = equal && (s->blind || s->number_unseen == q[i].number);
        if (out[i].parted)
            out[i].agrees = agrees(s, r);
    }
    return 0;
}

void sim_close(struct sim *s)
{
    free(s->run);
    s->run = NULL;
    s->runs = s->room = 0;
}

char *sim_text(const struct twin_search_report *r, const struct twin_candidate *candidate)
{
    char *verdict = twin_search_verdict_text(r, candidate);
    char *evidence = twin_search_evidence_text(r, candidate, true);
    char *both = NULL;
    if (verdict && evidence)
        both = tw_printf("%s%s", verdict, evidence);
    tw_free(verdict);
    tw_free(evidence);
    return both;
}
