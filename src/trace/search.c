/* SPDX-License-Identifier: Apache-2.0 */
/* Steps by number, and the first difference of two traces: both by the jump pointers, in O(log steps) block reads. */
#include "reader.h"

#include <string.h>

int tw_trace_seek_step(struct twin_trace *t, uint64_t step, struct tw_block *b, struct twin_error *err)
{
    struct tw_block next;
    int look = tw_trace_last(t, TW_BLOCK_DATA, b, err);
    if (look != TW_GOOD || b->steps <= step)
        return look < 0 ? look : TW_DAMAGED;
    for (;;) {
        look = b->jump ? tw_trace_header(t, b->jump, &next, err) : TW_DAMAGED;
        if (look < 0)
            return look;
        if (look == TW_DAMAGED || next.type != TW_BLOCK_DATA || next.steps <= step) {
            look = tw_trace_before(t, b, TW_BLOCK_DATA, &next, err);
            if (look < 0)
                return look;
            if (look == TW_DAMAGED || next.steps <= step)
                return TW_GOOD;
        }
        *b = next;
    }
}

static int no_step(struct twin_trace *t, uint32_t step, struct twin_error *err)
{
    if (step >= t->info.steps)
        return twin_error_set(err, TWIN_ENOENT, "%s: step %u is not finished: %llu steps are", t->path, step,
                              (unsigned long long)t->info.steps);
    return twin_error_set(err, TWIN_ENOENT, "%s: the hash of step %u lies in damaged bytes", t->path, step);
}

int twin_trace_step_hash(struct twin_trace *t, uint32_t step, struct twin_step_hash *out, struct twin_error *err)
{
    struct tw_block b;
    int look = tw_trace_seek_step(t, step, &b, err);
    if (look == TW_GOOD)
        look = tw_trace_payload(t, &b, err);
    if (look < 0)
        return look;
    if (look == TW_DAMAGED)
        return no_step(t, step, err);
    struct tw_cursor at = tw_cursor_over(t, &b);
    struct tw_entry e;
    bool bad = false;
    for (const char *p; (p = tw_cursor_next(&at, &e, &bad));)
        if (e.type == TW_ENTRY_STEP_END && tw_decode_step(p, &e, out) && out->step == step)
            return 0;
    return no_step(t, step, err);
}

/* The prefix over the first n steps; TWIN_ENOENT where unknown. The last one of a block stands in its header. */
static int prefix_at(struct twin_trace *t, uint64_t n, bool order, struct twin_value_hash *out, struct twin_error *err)
{
    struct tw_block b;
    struct twin_step_hash h;
    *out = (struct twin_value_hash){0, 0};
    if (n == 0)
        return 0;
    int look = tw_trace_seek_step(t, n - 1, &b, err);
    if (look < 0)
        return look;
    if (look == TW_GOOD && b.steps == n) {
        *out = order ? (struct twin_value_hash){b.order_prefix_lo, b.order_prefix_hi}
                     : (struct twin_value_hash){b.prefix_lo, b.prefix_hi};
        return 0;
    }
    int rc = twin_trace_step_hash(t, (uint32_t)(n - 1), &h, err);
    if (rc == 0)
        *out = order ? h.order_prefix : h.prefix;
    return rc;
}

struct pair {
    struct twin_trace *a, *b;
    uint64_t at_a, at_b; /* where the windows begin */
    struct twin_value_hash before_a, before_b;
    bool order;
};

enum { UNKNOWN = 2 };

/* Do the first n steps of the windows agree? 1, 0, UNKNOWN, or an error. */
static int agree(struct pair *p, uint64_t n, struct twin_error *err)
{
    struct twin_value_hash x, y;
    struct twin_error quiet = TWIN_ERROR_INIT;
    int rc = prefix_at(p->a, p->at_a + n, p->order, &x, &quiet);
    if (rc == 0)
        rc = prefix_at(p->b, p->at_b + n, p->order, &y, &quiet);
    if (rc == TWIN_ENOENT)
        return UNKNOWN;
    if (rc != 0)
        return twin_error_set(err, rc, "%s", quiet.message);
    x = tw_prefix_window(x, p->before_a, n);
    y = tw_prefix_window(y, p->before_b, n);
    return x.lo == y.lo && x.hi == y.hi;
}

/* The known place nearest to n, downwards first, strictly between low and high; *answer UNKNOWN when there is none. */
static uint64_t known_near(struct pair *p, uint64_t n, uint64_t low, uint64_t high, int *answer, struct twin_error *err)
{
    uint64_t m = n;
    while ((*answer = agree(p, m, err)) == UNKNOWN && m > low + 1)
        m--;
    if (*answer != UNKNOWN)
        return m;
    for (m = n + 1; m < high && (*answer = agree(p, m, err)) == UNKNOWN;)
        m++;
    return m;
}

static int search(struct pair *p, uint64_t n, bool *found, uint64_t *place, uint64_t *compared, struct twin_error *err)
{
    int answer = 1;
    while (n > 0 && (answer = agree(p, n, err)) == UNKNOWN)
        n--;
    *compared = n;
    *found = n > 0 && answer == 0;
    uint64_t low = 0, high = n; /* the first `low` steps agree, the first `high` do not */
    while (answer >= 0 && *found && high - low > 1) {
        uint64_t m = known_near(p, low + (high - low) / 2, low, high, &answer, err);
        if (answer == UNKNOWN)
            break;
        if (answer == 1)
            low = m;
        else
            high = m;
    }
    *place = high - 1;
    return answer < 0 ? answer : 0;
}

static int first_difference(struct twin_trace *a, struct twin_trace *b, bool order, int64_t shift, uint32_t from, uint32_t limit,
                            bool *found, uint32_t *step, uint64_t *compared, struct twin_error *err)
{
    int64_t start = from, end = limit;
    *found = false;
    *step = 0;
    *compared = 0;
    if (shift < -(int64_t)UINT32_MAX || shift > (int64_t)UINT32_MAX)
        return twin_error_set(err, TWIN_EINVAL, "a shift of %lld steps: at most 4294967295 are possible", (long long)shift);
    start = start < -shift ? -shift : start;
    end = end > (int64_t)a->info.steps ? (int64_t)a->info.steps : end;
    end = end > (int64_t)b->info.steps - shift ? (int64_t)b->info.steps - shift : end;
    if (end <= start)
        return 0;
    struct pair p = {.a = a, .b = b, .at_a = (uint64_t)start, .at_b = (uint64_t)(start + shift), .order = order};
    int rc = prefix_at(a, p.at_a, order, &p.before_a, err);
    if (rc == 0)
        rc = prefix_at(b, p.at_b, order, &p.before_b, err);
    uint64_t place = 0;
    if (rc == 0)
        rc = search(&p, (uint64_t)(end - start), found, &place, compared, err);
    if (rc == 0 && *found)
        *step = (uint32_t)((uint64_t)start + place);
    return rc;
}

int twin_trace_first_difference(struct twin_trace *a, struct twin_trace *b, int64_t shift, uint32_t from, uint32_t limit,
                                bool *found, uint32_t *step, uint64_t *compared, struct twin_error *err)
{
    return first_difference(a, b, false, shift, from, limit, found, step, compared, err);
}

int twin_trace_first_order_difference(struct twin_trace *a, struct twin_trace *b, int64_t shift, uint32_t from, uint32_t limit,
                                      bool *found, uint32_t *step, uint64_t *compared, struct twin_error *err)
{
    return first_difference(a, b, true, shift, from, limit, found, step, compared, err);
}
