/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orders of additions of collectives, from the algorithms' descriptions: MPICH's binomial
 * reduce and recursive doubling, NCCL's double binary tree (ncclGetDtree), chunks as in Open MPI's
 * ring. docs/internals/spread.md defines each of them; a test plays them rank by rank with
 * messages.
 */
#include "orders.h"

#include "base.h"

#include <assert.h>
#include <string.h>

static const char *const names[TWIN_ALGORITHMS] = {
    "rank-order", "ring", "tree", "double-tree", "recursive-doubling", "arrival"};

const char *twin_algorithm_name(enum twin_algorithm a)
{
    return (unsigned)a < TWIN_ALGORITHMS ? names[a] : "?";
}

int twin_algorithm_parse(const char *s, enum twin_algorithm *out)
{
    for (int i = 0; i < TWIN_ALGORITHMS; i++)
        if (strcmp(s, names[i]) == 0) {
            *out = (enum twin_algorithm)i;
            return 0;
        }
    return TWIN_EINVAL;
}

static void emit_op(struct tw_program *p, uint32_t op)
{
    p->op[p->count++] = op;
}

/* What was emitted from `start` on goes into the sum below. One contribution alone is added as it
 * is, which saves a place on the stack. */
static void fold_since(struct tw_program *p, size_t start)
{
    assert(start < p->count);
    if (p->count - start == 1)
        p->op[start] |= TW_ADD;
    else
        emit_op(p, TW_FOLD);
}

/* The sum at rank r, which receives from r + 1, r + 2, r + 4... below r + limit (MPICH's
 * reduce). */
static void emit_binomial(struct tw_program *p, uint32_t r, uint32_t limit, uint32_t ranks)
{
    assert(r < ranks);
    emit_op(p, TW_PUSH | r);
    for (uint32_t mask = 1; mask < limit && r + mask < ranks; mask <<= 1) {
        size_t start = p->count;
        emit_binomial(p, r + mask, mask, ranks);
        fold_since(p, start);
    }
}

/* The sum of `size` ranks (a power of two) from `first` on, in new numbers. With P no power of two
 * the first 2 * extra ranks have gone together in pairs, and each pair has one new number. */
static void emit_doubling(struct tw_program *p, uint32_t first, uint32_t size, uint32_t extra)
{
    assert((size & (size - 1)) == 0 && size > 0);
    if (size == 1) {
        /* New rank `first` stands for a pair of old ranks, or for the old rank behind all pairs. */
        emit_op(p, TW_PUSH | (first < extra ? 2 * first : first + extra));
        if (first < extra)
            emit_op(p, TW_ADD | (2 * first + 1));
        return;
    }
    emit_doubling(p, first, size / 2, extra);
    size_t start = p->count;
    emit_doubling(p, first + size / 2, size / 2, extra);
    fold_since(p, start);
}

/* In a tree the lowest bit of a rank's number that is set is its height: odd ranks are leaves. The
 * parent has the next higher bit set instead; where that rank does not exist, the parent is the one
 * below. Where the right child does not exist, the next smaller number that does takes its
 * place. */
struct tw_family tw_double_tree(uint32_t ranks, uint32_t rank, int half)
{
    assert(rank < ranks && (half == 0 || half == 1));
    const int n = (int)ranks;
    const bool odd = n % 2;
    /* shifted by one, or in the mirror */
    int r = (int)rank;
    if (half)
        r = odd ? (r - 1 + n) % n : n - 1 - r;
    struct tw_family f = {-1, {-1, -1}};
    int bit = 1;
    while (bit < n && !(bit & r))
        bit <<= 1;
    if (r == 0) {
        f.child[1] = n > 1 ? bit >> 1 : -1;
    } else {
        f.parent = (r ^ bit) | bit << 1;
        if (f.parent >= n)
            f.parent = r ^ bit;
        int low = bit >> 1, down = low ? r + low : -1;
        f.child[0] = low ? r - low : -1;
        while (down >= n) {
            down = low ? r + low : -1;
            low >>= 1;
        }
        f.child[1] = down;
    }
    int *link[] = {&f.parent, &f.child[0], &f.child[1]};
    /* back from shifted or mirrored numbers */
    for (int i = 0; half && i < 3; i++)
        if (*link[i] >= 0)
            *link[i] = odd ? (*link[i] + 1) % n : n - 1 - *link[i];
    return f;
}

uint32_t tw_double_tree_root(uint32_t ranks, int half)
{
    if (!half)
        return 0;
    return ranks % 2 ? 1 % ranks : ranks - 1;
}

/* A rank adds its first child's sum to its own contribution, then its second one's. */
static void emit_binary(struct tw_program *p, uint32_t rank, uint32_t ranks, int half)
{
    const struct tw_family f = tw_double_tree(ranks, rank, half);
    emit_op(p, TW_PUSH | rank);
    for (int i = 0; i < 2; i++)
        if (f.child[i] >= 0) {
            size_t start = p->count;
            emit_binary(p, (uint32_t)f.child[i], ranks, half);
            fold_since(p, start);
        }
}

/* At most one operation for each contribution, and one fold for each sum but the last: 2 P are
 * enough. */
int tw_program_make(enum twin_algorithm a, uint32_t ranks, int half, struct tw_program *p,
                    struct twin_error *err)
{
    uint32_t power = 1;
    *p = (struct tw_program){0};
    if (ranks < 1 || ranks > TWIN_MAX_RANKS)
        return twin_error_set(err, TWIN_EINVAL, "expected 1 to %d ranks, found %u", TWIN_MAX_RANKS,
                              ranks);
    p->op = tw_reallocarray(NULL, 2 * (size_t)ranks, sizeof *p->op);
    if (!p->op)
        return tw_no_memory(err, "for %u ranks", ranks);
    switch (a) {
    case TWIN_TREE: emit_binomial(p, 0, UINT32_MAX, ranks); break;
    case TWIN_DOUBLE_TREE: emit_binary(p, tw_double_tree_root(ranks, half), ranks, half); break;
    case TWIN_RECURSIVE_DOUBLING:
        while (2 * power <= ranks)
            power *= 2;
        emit_doubling(p, 0, power, ranks - power);
        break;
    default:
        for (uint32_t r = 0; r < ranks; r++)
            emit_op(p, (r ? TW_ADD : TW_PUSH) | r);
    }
    assert(p->count >= ranks && p->count <= 2 * (size_t)ranks);
    return 0;
}

void tw_program_free(struct tw_program *p)
{
    tw_free(p->op);
    *p = (struct tw_program){0};
}

uint32_t tw_chunk_of(uint64_t element, uint64_t all, uint32_t ranks)
{
    assert(all > 0 && element < all && ranks > 0);
    __extension__ typedef unsigned __int128 wide;
    /* The largest c with floor(c all / P) <= element, that is c all < (element + 1) P. */
    wide c = ((wide)(element + 1) * ranks - 1) / all;
    return c >= ranks ? ranks - 1 : (uint32_t)c;
}
