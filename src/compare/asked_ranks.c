/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of one command with several numbers of ranks (check --ranks): which of them are runs of one
 * number, which are compared beside those with the first run, and what is to be said of all that.
 * What is compared between numbers is decided by worlds.c.
 */
#include "arms.h"
#include "internal.h"

#include <string.h>

bool tw_of_one_number(const struct twin_compare_options *o, size_t a, size_t b)
{
    return o->ranks && o->ranks[a] == o->ranks[b];
}

size_t tw_first_of_number(const struct twin_compare_options *o, size_t i)
{
    size_t first = 0;
    while (o->ranks && o->ranks[first] != o->ranks[i])
        first++;
    return first;
}

size_t tw_of_other_command(const struct twin_compare_options *o, size_t n, size_t i)
{
    if (!o->ranks)
        return i ? 0 : 1;
    for (size_t k = 0; k < n; k++)
        if (o->ranks[k] != o->ranks[i])
            return k;
    return i; /* runs of one number alone: nothing tells their commands apart */
}

size_t tw_pairs_counted(const struct twin_compare_options *o, size_t n)
{
    size_t pairs = 0;
    for (size_t i = 1; i < n; i++)
        pairs += !tw_of_one_number(o, 0, i);
    return pairs;
}

/* "2, 4 and 8" */
static void say_numbers(struct tw_buf *b, const struct twin_compare_options *o, size_t n)
{
    size_t numbers = 0, said = 0;
    for (size_t i = 0; i < n; i++)
        numbers += tw_first_of_number(o, i) == i;
    for (size_t i = 0; i < n; i++) {
        if (tw_first_of_number(o, i) != i)
            continue;
        if (said > 0)
            tw_buf_puts(b, said + 1 == numbers ? " and " : ", ");
        tw_buf_printf(b, "%u", o->ranks[i]);
        said++;
    }
}

/* Has each run as many ranks as it was to have, or each the same multiple of that (nodes)? Says
 * what is not so: then nobody knows between which numbers was compared. */
static bool are_as_asked(struct tw_cmp *c, const struct tw_side *side, size_t n)
{
    const uint32_t *ranks = c->o->ranks;
    bool all = true;
    for (size_t i = 1; i < n; i++) {
        if (side[0].count == 0 || side[i].count == 0 || /* other reasons speak of these */
            (uint64_t)side[i].world * ranks[0] == (uint64_t)side[0].world * ranks[i])
            continue;
        all = false;
        tw_cmp_unseen(c,
                      "the numbers of ranks that were asked for: run 1 was to have %u and has %d, "
                      "run %zu was to have %u and has %d",
                      ranks[0], side[0].world, i + 1, ranks[i], side[i].world);
    }
    return all;
}

void tw_ranks_as_asked(struct tw_cmp *c, const struct tw_side *side, size_t n)
{
    struct tw_buf numbers = {0};
    const size_t between = tw_pairs_counted(c->o, n);
    if (!c->o->ranks)
        return;
    c->v->ranks = tw_calloc(n, sizeof *c->v->ranks);
    c->oom |= !c->v->ranks;
    if (c->v->ranks)
        memcpy(c->v->ranks, c->o->ranks, n * sizeof *c->v->ranks);
    if (between == 0 || !are_as_asked(c, side, n))
        return;
    say_numbers(&numbers, c->o, n);
    /* what was compared in each of these pairs of runs */
    const bool gradients = c->worlds > 0 && c->worlds_gradients.every == c->worlds;
    const bool moments = c->worlds > 0 && c->worlds_moments.every == c->worlds;
    const bool some_gradients = !gradients && c->worlds_gradients.any > 0;
    const bool some_moments = !moments && c->worlds_moments.any > 0;
    tw_cmp_note(c,
                "between %s ranks %s%s are compared, after each step and by their whole content, "
                "%s; %s%s%s%s%s%sbatches and losses are not",
                numbers.data ? numbers.data : "several", twin_state_compared(gradients, moments),
                gradients || moments || some_gradients || some_moments ? "" : " alone",
                c->tolerance ? "and the tolerance applies to them" : "bit for bit",
                some_gradients ? "gradients" : "", some_gradients && some_moments ? " and " : "",
                some_moments ? "optimizer state" : "",
                some_gradients || some_moments ? " in some of these runs or steps alone; " : "",
                gradients || some_gradients ? "" : "gradients, ",
                moments || some_moments ? "" : "optimizer state, ");
    if (between + 1 < n)
        tw_cmp_note(c,
                    "runs with the same number of ranks are compared record by record, bit for "
                    "bit%s",
                    c->tolerance ? ": the tolerance is for other numbers" : "");
    tw_buf_free(&numbers);
}
