/* SPDX-License-Identifier: Apache-2.0 */
/* Aligns two sequences of records along a shortest edit path: which record of a is which of b, so
 * that as many as possible correspond and none crosses another. This is the problem that diff
 * solves, with Myers' search from both ends (E. W. Myers, An O(ND) Difference Algorithm and Its
 * Variations, 1986). What cannot match is left out first; a box that takes too many edits is
 * aligned greedily, so that the time is bounded whatever the runs did. */
#include "align.h"

#include <twin/error.h>

#include "base.h"

#include <assert.h>

/* One alignment: what all boxes of it share. */
struct task {
    const uint64_t *a, *b;         /* the sequences without elements that occur on one side only */
    ptrdiff_t *forward, *backward; /* furthest x per diagonal; index = diagonal + offset */
    ptrdiff_t offset;
    size_t max_cost;
    size_t *to_b; /* over the reduced sequences */
};

/* The part a[a0..a1) against b[b0..b1) that is still to be aligned. */
struct box {
    ptrdiff_t a0, a1, b0, b1;
};
/* A point on a shortest path, at which a box falls into two; not found: the box takes more than
 * max_cost edits. */
struct split {
    ptrdiff_t x, y;
    bool found;
};

/*
 * Finds a point on a shortest edit path of the box by searching from both ends at once. The forward
 * search on diagonal k = x - y holds the furthest x reached with d edits, the backward search the
 * smallest; when they meet, the meeting point halves the problem. Diagonals that ran out of the box
 * are dropped from the range.
 */
static struct split find_middle(const struct task *t, struct box q)
{
    assert(q.a0 < q.a1 && q.b0 < q.b1 && t->max_cost > 0);
    ptrdiff_t low = q.a0 - q.b1, high = q.a1 - q.b0, fmid = q.a0 - q.b0, bmid = q.a1 - q.b1;
    ptrdiff_t fmin = fmid, fmax = fmid, bmin = bmid, bmax = bmid;
    ptrdiff_t *f = t->forward + t->offset, *r = t->backward + t->offset;
    bool odd = (fmid - bmid) & 1;
    f[fmid] = q.a0;
    r[bmid] = q.a1;
    for (size_t cost = 1; cost <= t->max_cost; cost++) {
        if (fmin > low)
            f[--fmin - 1] = -1;
        else
            fmin++;
        if (fmax < high)
            f[++fmax + 1] = -1;
        else
            fmax--;
        /* One edit further from the front: each diagonal goes on from its better neighbour. */
        for (ptrdiff_t k = fmax; k >= fmin; k -= 2) {
            ptrdiff_t x = f[k - 1] < f[k + 1] ? f[k + 1] : f[k - 1] + 1, y = x - k;
            while (x < q.a1 && y < q.b1 && t->a[x] == t->b[y]) {
                x++;
                y++;
            }
            f[k] = x;
            if (odd && bmin <= k && k <= bmax && r[k] <= x)
                return (struct split){x, y, true};
        }
        if (bmin > low)
            r[--bmin - 1] = PTRDIFF_MAX;
        else
            bmin++;
        if (bmax < high)
            r[++bmax + 1] = PTRDIFF_MAX;
        else
            bmax--;
        /* And one from the back. */
        for (ptrdiff_t k = bmax; k >= bmin; k -= 2) {
            ptrdiff_t x = r[k - 1] < r[k + 1] ? r[k - 1] : r[k + 1] - 1, y = x - k;
            while (x > q.a0 && y > q.b0 && t->a[x - 1] == t->b[y - 1]) {
                x--;
                y--;
            }
            r[k] = x;
            if (!odd && fmin <= k && k <= fmax && x <= f[k])
                return (struct split){x, y, true};
        }
    }
    return (struct split){0, 0, false};
}

/* Too many edits: takes the first equal token at or after y for each x, in order. Valid, not
 * longest. Bounded. */
static void align_greedily(const struct task *t, struct box q)
{
    ptrdiff_t y = q.b0;
    for (ptrdiff_t x = q.a0; x < q.a1; x++) {
        ptrdiff_t limit = q.b1 - y > (ptrdiff_t)t->max_cost ? y + (ptrdiff_t)t->max_cost : q.b1;
        for (ptrdiff_t z = y; z < limit; z++) {
            if (t->a[x] != t->b[z])
                continue;
            t->to_b[x] = (size_t)z;
            y = z + 1;
            break;
        }
    }
}

/* Aligns a box: equal ends are matched, what lies between is split at a point of a shortest path,
 * and each half is a box again. The smaller half is aligned by a call and the larger one by going
 * round, so the calls nest at most log2 of the box deep. */
static void align_box(const struct task *t, struct box q)
{
    for (;;) {
        assert(q.a0 <= q.a1 && q.b0 <= q.b1);
        while (q.a0 < q.a1 && q.b0 < q.b1 && t->a[q.a0] == t->b[q.b0])
            t->to_b[q.a0++] = (size_t)q.b0++;
        while (q.a0 < q.a1 && q.b0 < q.b1 && t->a[q.a1 - 1] == t->b[q.b1 - 1])
            t->to_b[--q.a1] = (size_t)--q.b1;
        if (q.a0 == q.a1 || q.b0 == q.b1)
            return;
        struct split s = find_middle(t, q);
        if (!s.found) {
            align_greedily(t, q);
            return;
        }
        /* The point lies in the box and is none of its two ends, so each half is smaller. */
        assert(q.a0 <= s.x && s.x <= q.a1 && q.b0 <= s.y && s.y <= q.b1);
        assert(s.x + s.y > q.a0 + q.b0 && s.x + s.y < q.a1 + q.b1);
        struct box first = {q.a0, s.x, q.b0, s.y}, second = {s.x, q.a1, s.y, q.b1};
        bool first_smaller = (first.a1 - first.a0) + (first.b1 - first.b0) <
                             (second.a1 - second.a0) + (second.b1 - second.b0);
        align_box(t, first_smaller ? first : second);
        q = first_smaller ? second : first;
    }
}

/* An open-addressing set of tokens, to leave out elements that cannot match. */
struct token_set {
    uint64_t *slot;
    unsigned char *used;
    size_t mask;
};

/* The slot of a token, or the free one where it would stand. */
static size_t slot_of(const struct token_set *s, uint64_t token)
{
    assert((s->mask & (s->mask + 1)) == 0); /* room for a power of two */
    size_t i = (size_t)tw_mix64(token) & s->mask;
    while (s->used[i] && s->slot[i] != token)
        i = (i + 1) & s->mask;
    return i;
}

/* Puts n tokens into the set, at most half full. 0 or TWIN_ENOMEM; the caller frees it in both
 * cases. */
static int set_fill(struct token_set *s, const uint64_t *token, size_t n)
{
    size_t room = 16;
    while (room < 2 * n)
        room *= 2;
    s->mask = room - 1;
    s->slot = tw_malloc(room * sizeof *s->slot);
    s->used = tw_calloc(room, 1);
    if (!s->slot || !s->used)
        return TWIN_ENOMEM;
    for (size_t k = 0; k < n; k++) {
        size_t i = slot_of(s, token[k]);
        s->slot[i] = token[k];
        s->used[i] = 1;
    }
    return 0;
}

/* Keeps the elements of `from` that occur in the other sequence: leaving the others out never
 * changes the longest common subsequence, and makes the edit count, which the run time grows with,
 * small. */
static int keep_common(const uint64_t *from, size_t n, const uint64_t *other, size_t m,
                       uint64_t *kept, size_t *where, size_t *count)
{
    struct token_set s = {0};
    int rc = set_fill(&s, other, m);
    *count = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (!s.used[slot_of(&s, from[i])])
            continue;
        kept[*count] = from[i];
        where[(*count)++] = i;
    }
    tw_free(s.slot);
    tw_free(s.used);
    return rc;
}

int tw_align(const uint64_t *a, size_t n, const uint64_t *b, size_t m, size_t max_cost,
             size_t *to_b)
{
    int rc = TWIN_ENOMEM;
    size_t ka = 0, kb = 0, diagonals;
    uint64_t *short_a = tw_reallocarray(NULL, n, sizeof *short_a);
    uint64_t *short_b = tw_reallocarray(NULL, m, sizeof *short_b);
    size_t *where_a = tw_reallocarray(NULL, n, sizeof *where_a);
    size_t *where_b = tw_reallocarray(NULL, m, sizeof *where_b);
    size_t *match = tw_reallocarray(NULL, n, sizeof *match);
    ptrdiff_t *work = NULL;
    for (size_t i = 0; i < n; i++)
        to_b[i] = TW_ALIGN_NONE;
    if (!short_a || !short_b || !where_a || !where_b || !match)
        goto out;
    if (keep_common(a, n, b, m, short_a, where_a, &ka) != 0 ||
        keep_common(b, m, a, n, short_b, where_b, &kb) != 0)
        goto out;
    /* One more diagonal at each side, for the bounds that the search puts there. */
    diagonals = ka + kb + 3;
    work = tw_reallocarray(NULL, 2 * diagonals, sizeof *work);
    if (!work)
        goto out;
    for (size_t i = 0; i < ka; i++)
        match[i] = TW_ALIGN_NONE;
    struct task t = {.a = short_a,
                     .b = short_b,
                     .forward = work,
                     .backward = work + diagonals,
                     .offset = (ptrdiff_t)kb + 1,
                     .max_cost = max_cost ? max_cost : 4096,
                     .to_b = match};
    align_box(&t, (struct box){0, (ptrdiff_t)ka, 0, (ptrdiff_t)kb});
    for (size_t i = 0; i < ka; i++)
        if (match[i] != TW_ALIGN_NONE)
            to_b[where_a[i]] = where_b[match[i]];
    rc = 0;
out:
    tw_free(short_a);
    tw_free(short_b);
    tw_free(where_a);
    tw_free(where_b);
    tw_free(match);
    tw_free(work);
    return rc;
}
