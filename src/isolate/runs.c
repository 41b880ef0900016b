/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds, runs in them, and the log that makes a search repeatable.
 *
 * Every run of a search goes through ask_for_runs() here: it gets its number, is looked up in the
 * log, and is asked of the caller's callback only when the log has not got it. So a search that is
 * started again with the same log takes the same way, and makes no run twice.
 */
#include "search_inside.h"
#include <assert.h>
#include <string.h>

bool twin_search_has(const struct twin_search_set *set, size_t i)
{
    assert(i < TWIN_SEARCH_FACTORS);
    return set->word[i / 64] >> i % 64 & 1;
}

void tw_set_add(struct twin_search_set *set, size_t i)
{
    assert(i < TWIN_SEARCH_FACTORS);
    set->word[i / 64] |= UINT64_C(1) << i % 64;
}

void tw_set_remove(struct twin_search_set *set, size_t i)
{
    assert(i < TWIN_SEARCH_FACTORS);
    set->word[i / 64] &= ~(UINT64_C(1) << i % 64);
}

bool tw_set_within(const struct twin_search_set *inner, const struct twin_search_set *outer)
{
    for (size_t w = 0; w < TWIN_SEARCH_FACTORS / 64; w++)
        if (inner->word[w] & ~outer->word[w])
            return false;
    return true;
}

bool tw_set_equal(const struct twin_search_set *a, const struct twin_search_set *b)
{
    return tw_set_within(a, b) && tw_set_within(b, a);
}

size_t tw_set_count(const struct twin_search_set *set)
{
    size_t n = 0;
    for (size_t w = 0; w < TWIN_SEARCH_FACTORS / 64; w++)
        n += (size_t)__builtin_popcountll(set->word[w]);
    return n;
}

/* May this factor be pinned in the pinned world? */
static bool is_usable(const struct tw_search *s, size_t i)
{
    return s->candidate[i].can_pin && !s->candidate[i].last_resort &&
           !twin_search_has(&s->report->dropped, i);
}

void tw_world_natural(struct tw_search *s, const struct twin_search_set *pinned,
                      struct twin_search_setting *row)
{
    for (size_t i = 0; i < s->plan->candidates; i++)
        row[i] = (struct twin_search_setting){twin_search_has(pinned, i) ? TWIN_PIN : TWIN_FREE, 0};
}

/* A factor that cannot be pinned stays as in the natural world, freed or not. */
void tw_world_pinned(struct tw_search *s, const struct twin_search_set *freed,
                     struct twin_search_setting *row)
{
    const struct tw_arm *natural = &s->arm[0];
    /* Where natural runs diverge in fewer than half of comparisons, freeing a factor shows little,
     * and shaking it more. */
    bool shake = s->plan->vary && natural->parted * 2 < natural->compared;
    for (size_t i = 0; i < s->plan->candidates; i++) {
        const struct twin_candidate *c = &s->candidate[i];
        row[i] = (struct twin_search_setting){TWIN_FREE, 0};
        if (!is_usable(s, i))
            continue;
        if (!twin_search_has(freed, i))
            row[i].mode = TWIN_PIN;
        /* A value that no row had before: a pin, but of something else than W0's. */
        else if (c->settable)
            row[i] = (struct twin_search_setting){TWIN_PIN, ++s->value};
        else if (shake && c->can_vary)
            row[i] = (struct twin_search_setting){TWIN_VARY, ++s->value};
    }
}

int twin_search_log_add(struct twin_search_log *log, const struct twin_search_entry *entry,
                        struct twin_error *err)
{
    if (log->count == log->room) {
        size_t room = log->room ? 2 * log->room : 32;
        struct twin_search_entry *grown = tw_reallocarray(log->entry, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(err, "for the log of %zu runs", room);
        log->entry = grown;
        log->room = room;
    }
    log->entry[log->count++] = *entry;
    return 0;
}

void twin_search_log_free(struct twin_search_log *log)
{
    tw_free(log->entry);
    *log = (struct twin_search_log){0};
}

/* The entry of a run; NULL: none. Runs of one batch may be logged in any order, so the entry lies
 * close to the place of its number; the search goes backwards from there, around the end. */
static const struct twin_search_entry *logged(const struct twin_search_log *log, uint32_t number)
{
    for (size_t i = 0, start = number < log->count ? number : log->count; i < log->count; i++) {
        const struct twin_search_entry *e =
            &log->entry[(start + 2 * log->count - i - 1) % log->count];
        if (e->number == number)
            return e;
    }
    return NULL;
}

/* Digest of a request, so that a log of another search is recognised. Settings are hashed field by
 * field, since their padding may hold anything. */
static uint64_t digest(const struct tw_search *s, const struct twin_search_request *r)
{
    uint64_t h = tw_mix64(r->purpose + 1) ^ tw_mix64(r->reference + 3) ^ tw_mix64(r->other + 7);
    for (size_t i = 0; i < s->plan->candidates; i++) {
        struct tw_hash128 id = tw_hash_bytes(s->candidate[i].id, strlen(s->candidate[i].id), h);
        h = tw_mix64(id.a ^ tw_mix64(r->setting[i].value * 4 + (uint64_t)r->setting[i].mode));
    }
    return h;
}

/* 0 when the budget of runs or of time is used up. */
size_t tw_runs_at_once(const struct tw_search *s, size_t n)
{
    assert(s->report->runs <= s->plan->max_runs);
    size_t left = s->plan->max_runs - s->report->runs;
    if (s->plan->max_seconds > 0 && s->report->seconds >= s->plan->max_seconds)
        left = 0;
    n = n < s->plan->parallel ? n : s->plan->parallel;
    return n < left ? n : left;
}

/* Fills s->result for the first n requests: takes over what is logged, asks for the rest in one
 * call, logs it. *interrupted: some run was not made. The arrays hold 64, the most that a plan
 * allows at the same time. TWIN_EFORMAT: a logged run was made in another world. */
static int perform_requests(struct tw_search *s, size_t n, bool *interrupted,
                            struct twin_error *err)
{
    assert(n >= 1 && n <= s->plan->parallel && n <= 64);
    size_t missing[64], asked = 0;
    struct twin_search_request ask[64];
    struct twin_search_result answer[64];
    for (size_t i = 0; i < n; i++) {
        const struct twin_search_entry *e = logged(s->log, s->request[i].number);
        if (e && e->world != digest(s, &s->request[i]))
            return twin_error_set(
                err, TWIN_EFORMAT,
                "the log's run %u was made in another world than this search asks for: it belongs "
                "to other candidates or another plan. Start afresh, or repeat the first command",
                e->number);
        if (e) {
            s->result[i] = e->result;
            continue;
        }
        ask[asked] = s->request[i];
        answer[asked] = (struct twin_search_result){.status = TWIN_NOT_ENDED, .layer = -1};
        missing[asked++] = i;
    }
    int rc = asked ? s->run(s->user, ask, asked, answer, err) : 0;
    for (size_t i = 0; i < asked; i++) {
        if (answer[i].status == TWIN_NOT_ENDED) {
            *interrupted = true;
            continue;
        }
        struct twin_search_entry e = {ask[i].number, ask[i].purpose, digest(s, &ask[i]), answer[i]};
        int kept = answer[i].handle == 0 && answer[i].status == TWIN_ENDED_WELL
                       ? twin_error_set(err, TWIN_EINVAL, "run %u came back without a handle",
                                        e.number)
                       : twin_search_log_add(s->log, &e, err);
        if (!kept && s->saved)
            kept = s->saved(s->user, &e, err);
        rc = rc ? rc : kept;
        /* What was made is logged even when the callback failed for others, so that it is not
         * lost. */
        s->result[missing[i]] = answer[i];
    }
    return rc;
}

/* Makes the first n of s->request, whose settings, purposes and references are filled in; numbers
 * them, and counts them in the report. TWIN_EINTR when a run was not made: then none of them is
 * counted, and a resumed search numbers them the same way. */
static int ask_for_runs(struct tw_search *s, size_t n, size_t *done, struct twin_error *err)
{
    assert(n >= 1 && s->report->runs + n <= s->plan->max_runs);
    bool interrupted = false;
    double longest = 0;
    for (size_t i = 0; i < n; i++) {
        struct twin_search_request *q = &s->request[i];
        q->number = s->report->runs + (uint32_t)i + 1;
        q->may_cut = q->reference && q->purpose != TWIN_FOR_REFERENCE &&
                     q->purpose != TWIN_FOR_PIN_FAILS && q->purpose != TWIN_FOR_VOTE;
    }
    int rc = perform_requests(s, n, &interrupted, err);
    if (rc)
        return rc;
    if (interrupted)
        return TWIN_EINTR;
    for (size_t i = 0; i < n; i++) {
        struct twin_search_result *r = &s->result[i];
        const struct twin_search_request *q = &s->request[i];
        longest = r->seconds > longest ? r->seconds : longest;
        if (r->status != TWIN_ENDED_WELL && q->reference)
            r->parted = true; /* It ended otherwise than its reference, which ended well. */
        /* the last pair that diverged, for a vote */
        if (r->parted && q->reference && q->purpose != TWIN_FOR_REFERENCE && r->handle) {
            s->parted_a = q->reference;
            s->parted_b = r->handle;
        }
    }
    s->report->runs += (uint32_t)n;
    /* Runs of a batch go on at the same time, so the longest is what they cost. */
    s->report->seconds += longest;
    *done = n;
    return 0;
}

int tw_runs(struct tw_search *s, enum twin_search_purpose purpose, size_t n, uint64_t reference,
            uint64_t other, size_t *done, struct twin_error *err)
{
    *done = 0;
    n = tw_runs_at_once(s, n);
    if (n == 0)
        return TW_BUDGET;
    for (size_t i = 0; i < n; i++)
        s->request[i] = (struct twin_search_request){.purpose = purpose,
                                                     .setting = s->setting +
                                                                i * s->plan->candidates,
                                                     .reference = reference,
                                                     .other = other};
    return ask_for_runs(s, n, done, err);
}

int tw_runs_arranged(struct tw_search *s, const struct tw_arm *arm, const uint32_t *kind, size_t n,
                     size_t *done, struct twin_error *err)
{
    *done = 0;
    n = tw_runs_at_once(s, n);
    if (n == 0)
        return TW_BUDGET;
    for (size_t i = 0; i < n; i++) {
        const struct tw_arm *of = &arm[kind[i]];
        struct twin_search_setting *row = s->setting + i * s->plan->candidates;
        bool natural = tw_set_count(&of->pinned) == 0;
        tw_world_natural(s, &of->pinned, row);
        s->request[i] = (struct twin_search_request){.purpose = natural ? TWIN_FOR_FREE
                                                                        : TWIN_FOR_CONFIRM,
                                                     .setting = row,
                                                     .reference = of->reference};
    }
    return ask_for_runs(s, n, done, err);
}
