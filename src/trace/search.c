/* SPDX-License-Identifier: Apache-2.0 */
/* Steps by number, and the first difference of two traces: both by the jump pointers, in O(log
 * steps) block reads. Called by the compare room before any record is read.
 *
 * Whether two traces agree in their first n steps is known from two prefix hashes (hash.c), so the
 * first difference is found by halving. Damage makes some n unknown: then the nearest known n below
 * or above is asked instead, and the answer may name a stretch rather than one step. */
#include "reader.h"

#include <string.h>

/* Keeps an answer. The good block before it has no more than `from` steps. */
static int keep_sought(struct twin_trace *t, const struct tw_block *b, uint64_t from)
{
    t->sought = *b;
    t->sought_from = from;
    return TW_GOOD;
}

/* Goes down from the last block: by the jump pointer as long as that does not pass the block that
 * is sought, else by one block. A damaged jump target only makes it slower. Who asks step by step
 * is given the same block again. */
int tw_trace_seek_step(struct twin_trace *t, uint64_t step, struct tw_block *b,
                       struct twin_error *err)
{
    struct tw_block next;
    if (t->sought.magic && t->sought_from <= step && step < t->sought.steps) {
        *b = t->sought;
        return TW_GOOD;
    }
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
            if (look == TW_DAMAGED)
                return keep_sought(t, b, step);
            if (next.steps <= step)
                return keep_sought(t, b, next.steps);
        }
        *b = next;
    }
}

/* TWIN_ENOENT: the step is not finished, or its end lies in damaged bytes. */
static int no_step(struct twin_trace *t, uint32_t step, struct twin_error *err)
{
    if (step >= t->info.steps)
        return twin_error_set(err, TWIN_ENOENT, "%s: step %u is not finished: %llu steps are",
                              t->path, step, (unsigned long long)t->info.steps);
    return twin_error_set(err, TWIN_ENOENT, "%s: the hash of step %u lies in damaged bytes",
                          t->path, step);
}

/* The step's end stands in the first block that has more than `step` steps. */
int twin_trace_step_hash(struct twin_trace *t, uint32_t step, struct twin_step_hash *out,
                         struct twin_error *err)
{
    struct tw_block b;
    int look = tw_trace_seek_step(t, step, &b, err); /* GOOD only when some block has more steps */
    if (look == TW_GOOD)
        look = tw_trace_payload(t, &b, err);
    if (look < 0)
        return look;
    if (look == TW_DAMAGED)
        return no_step(t, step, err);
    struct tw_cursor at = tw_cursor_at_end(t, &b, step);
    struct tw_entry e;
    bool bad = false;
    for (const char *p; (p = tw_cursor_next(&at, &e, &bad));)
        if (e.type == TW_ENTRY_STEP_END && tw_decode_step(p, &e, out) && out->step == step)
            return 0;
    return no_step(t, step, err);
}

/* a number of steps, and the prefix over them */
struct place {
    uint64_t n;
    struct twin_value_hash prefix;
};

/* The prefix over all steps that are finished in this block; of values, or of the order of records.
 */
static struct twin_value_hash header_prefix(const struct tw_block *b, bool order)
{
    return order ? (struct twin_value_hash){b->order_prefix_lo, b->order_prefix_hi}
                 : (struct twin_value_hash){b->prefix_lo, b->prefix_hi};
}

/* The known place nearest to n, at or below it (at or above it with `up`). Without damage that is n
 * itself: it stands in a header when n is the last step of a block, else in the block. Place 0 is
 * always known; above, DAMAGED = there is none. */
static int nearest(struct twin_trace *t, uint64_t n, bool up, bool order, struct place *out,
                   struct twin_error *err)
{
    struct tw_block b, before;
    *out = (struct place){0, {0, 0}};
    if (n == 0)
        return TW_GOOD;
    int look = tw_trace_seek_step(t, n - 1, &b, err);
    if (look == TW_DAMAGED && !up) /* more than all: the last block says how many are known */
        look = tw_trace_last(t, TW_BLOCK_DATA, &b, err);
    if (look < 0)
        return look;
    if (look != TW_GOOD)
        return up ? TW_DAMAGED : TW_GOOD;
    if (b.steps == n || up || b.steps < n)
        *out = (struct place){b.steps, header_prefix(&b, order)};
    if (b.steps == n || b.steps < n)
        return TW_GOOD;
    look = tw_trace_payload(t, &b, err);
    if (look < 0)
        return look;
    struct tw_cursor at = look == TW_GOOD ? tw_cursor_over(t, &b) : (struct tw_cursor){NULL, NULL};
    struct tw_entry e;
    struct twin_step_hash h;
    bool bad = false;
    for (const char *p; (p = tw_cursor_next(&at, &e, &bad));) {
        if (e.type != TW_ENTRY_STEP_END || !tw_decode_step(p, &e, &h))
            continue;
        uint64_t m = (uint64_t)h.step + 1;
        if (up ? m >= n && m < out->n : m <= n && m > out->n)
            *out = (struct place){m, order ? h.order_prefix : h.prefix};
    }
    if (up || out->n > 0)
        return TW_GOOD;
    look = tw_trace_before(t, &b, TW_BLOCK_DATA, &before, err);
    if (look == TW_GOOD && before.steps <= n)
        *out = (struct place){before.steps, header_prefix(&before, order)};
    return look < 0 ? look : TW_GOOD;
}

/* Two traces that are searched, from step at_a of the one and at_b of the other on. before_a,
 * before_b: the prefixes up to there. */
struct pair {
    struct twin_trace *a, *b;
    uint64_t at_a, at_b; /* where the windows begin */
    struct twin_value_hash before_a, before_b;
    bool order;
};

/* What is known of the first n steps of the windows. */
struct answer {
    uint64_t n;
    bool agree;
}; /* do the first n steps of the windows agree? */

/* The answer at n, or at the nearest place below (above) that is known in both; DAMAGED when that
 * leaves low..high. */
static int ask_prefix(struct pair *p, uint64_t n, bool up, uint64_t low, uint64_t high,
                      struct answer *out, struct twin_error *err)
{
    while (n > low && n < high) {
        struct place x, y;
        int look = nearest(p->a, p->at_a + n, up, p->order, &x, err);
        if (look == TW_GOOD)
            look = nearest(p->b, p->at_b + n, up, p->order, &y, err);
        if (look != TW_GOOD || x.n < p->at_a || y.n < p->at_b)
            return look < 0 ? look : TW_DAMAGED;
        x.n -= p->at_a;
        y.n -= p->at_b;
        if (x.n == n && y.n == n) {
            struct twin_value_hash h = tw_prefix_window(x.prefix, p->before_a, n);
            struct twin_value_hash i = tw_prefix_window(y.prefix, p->before_b, n);
            *out = (struct answer){n, h.lo == i.lo && h.hi == i.hi};
            return TW_GOOD;
        }
        n = (x.n < y.n) == up ? y.n : x.n; /* strictly down, or strictly up */
    }
    return TW_DAMAGED;
}

/* Do the first n steps of the windows agree, and if not, where is the first that does not?
 * *compared: how many steps could be asked about, fewer than n after damage. *place counts from the
 * start of the windows. */
static int search_windows(struct pair *p, uint64_t n, bool *found, uint64_t *place,
                          uint64_t *compared, struct twin_error *err)
{
    struct answer last;
    int look = ask_prefix(p, n, false, 0, UINT64_MAX, &last, err);
    *compared = look == TW_GOOD ? last.n : 0;
    *found = look == TW_GOOD && !last.agree;
    if (!*found)
        return look < 0 ? look : 0;
    uint64_t low = 0, high = last.n; /* the first `low` steps agree, the first `high` do not */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        look = ask_prefix(p, middle, false, low, high, &last, err);
        if (look == TW_DAMAGED)
            look = ask_prefix(p, middle, true, low, high, &last, err);
        if (look != TW_GOOD)
            break;
        if (last.agree)
            low = last.n;
        else
            high = last.n;
    }
    *place = high - 1;
    return look < 0 ? look : 0;
}

/* The prefix before the window. */
static int begin_window(struct twin_trace *t, uint64_t n, bool order, struct twin_value_hash *out,
                        struct twin_error *err)
{
    struct place at;
    int look = nearest(t, n, false, order, &at, err);
    if (look == TW_GOOD && at.n != n)
        return no_step(t, (uint32_t)(n - 1), err);
    *out = at.prefix;
    return look < 0 ? look : 0;
}

/* Step s of `a` stands beside step s + shift of `b`. The windows are cut to what both have; an
 * empty window agrees. */
static int first_difference(struct twin_trace *a, struct twin_trace *b, bool order, int64_t shift,
                            uint32_t from, uint32_t limit, bool *found, uint32_t *step,
                            uint64_t *compared, struct twin_error *err)
{
    int64_t start = from, end = limit;
    *found = false;
    *step = 0;
    *compared = 0;
    if (shift < -(int64_t)UINT32_MAX || shift > (int64_t)UINT32_MAX)
        return twin_error_set(err, TWIN_EINVAL,
                              "a shift of %lld steps: at most 4294967295 are possible",
                              (long long)shift);
    start = start < -shift ? -shift : start;
    end = end > (int64_t)a->info.steps ? (int64_t)a->info.steps : end;
    end = end > (int64_t)b->info.steps - shift ? (int64_t)b->info.steps - shift : end;
    if (end <= start)
        return 0;
    struct pair p = {
        .a = a, .b = b, .at_a = (uint64_t)start, .at_b = (uint64_t)(start + shift), .order = order};
    int rc = begin_window(a, p.at_a, order, &p.before_a, err);
    if (rc == 0)
        rc = begin_window(b, p.at_b, order, &p.before_b, err);
    uint64_t place = 0;
    if (rc == 0)
        rc = search_windows(&p, (uint64_t)(end - start), found, &place, compared, err);
    if (rc == 0 && *found)
        *step = (uint32_t)((uint64_t)start + place);
    return rc;
}

int twin_trace_first_difference(struct twin_trace *a, struct twin_trace *b, int64_t shift,
                                uint32_t from, uint32_t limit, bool *found, uint32_t *step,
                                uint64_t *compared, struct twin_error *err)
{
    return first_difference(a, b, false, shift, from, limit, found, step, compared, err);
}

int twin_trace_first_order_difference(struct twin_trace *a, struct twin_trace *b, int64_t shift,
                                      uint32_t from, uint32_t limit, bool *found, uint32_t *step,
                                      uint64_t *compared, struct twin_error *err)
{
    return first_difference(a, b, true, shift, from, limit, found, step, compared, err);
}
