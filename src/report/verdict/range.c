/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a verdict is about, in words: the steps that were compared of each process, and the share of
 * its records. A verdict that covers less than whole runs must say so, and which part it is.
 *
 * A process of run 1 may be compared with several processes of the other run (a job that was
 * stopped and resumed): its ranges then follow each other. Steps are counted as run 1 counts them.
 */
#include "wording.h"

#include <string.h>

typedef unsigned long long ull;

/* The steps of one process of run 1 that were compared, put together from its ranges: [first, end)
 * of the `of` steps that there are. gap: between two ranges some steps were not compared. */
struct reach {
    uint64_t first, end, of;
    bool gap;
};

/* Do two ranges belong to the same process of run 1? */
static bool of_one_process(const struct twin_range *x, const struct twin_range *y)
{
    return x->rank == y->rank && x->number_a == y->number_a && strcmp(x->process, y->process) == 0;
}

/* Puts all ranges of the process of r together. `of` is the length of the longer run. */
static struct reach reach_of(const struct twin_verdict *v, const struct twin_range *r)
{
    struct reach all = {r->first, r->end, r->of, false};
    for (size_t i = 0; i < v->range_count; i++) {
        const struct twin_range *x = &v->ranges[i];
        if (!of_one_process(x, r))
            continue;
        /* when the other run went on for longer, its steps count, too: in the numbers of run 1 */
        uint64_t there = x->of_b > x->first_b ? x->first + (x->of_b - x->first_b) : 0;
        all.of = there > all.of ? there : all.of;
        if (x->end <= x->first)
            continue;
        all.gap |= x->first > all.end;
        all.first = x->first < all.first ? x->first : all.first;
        all.end = x->end > all.end ? x->end : all.end;
    }
    return all;
}

/* Was every step of this process compared, without a gap? */
static bool is_whole(const struct twin_verdict *v, const struct twin_range *r)
{
    const struct reach all = reach_of(v, r);
    return !all.gap && all.first == 0 && all.end == all.of;
}

/* The range of the process of run 1 of which least was compared; NULL: of every process everything
 * was. */
static const struct twin_range *shortest_range(const struct twin_verdict *v)
{
    const struct twin_range *found = NULL;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < v->range_count; i++) {
        const struct reach all = reach_of(v, &v->ranges[i]);
        if (is_whole(v, &v->ranges[i]) || all.end - all.first >= least)
            continue;
        least = all.end - all.first;
        found = &v->ranges[i];
    }
    return found;
}

/* Speaks of the process of which least was compared: what was not seen there was not seen at all.
 * With ranges of weights only (other numbers of ranks) something is always said. */
bool tw_say_range(struct tw_buf *b, const struct twin_verdict *v)
{
    const struct twin_range *r = shortest_range(v);
    char steps[32], of[32];
    if (!r && v->range_count > 0 && v->ranges[0].weights_only)
        r = &v->ranges[0];
    if (!r)
        return false;
    if (r->weights_only)
        tw_buf_printf(b, "only %s, ", twin_state_compared(r->gradients, r->moments));
    const struct reach all = reach_of(v, r);
    if (all.end <= all.first)
        tw_buf_printf(b, "none of %s steps compared", tw_human_count(all.of, of));
    else if (all.end == all.first + 1)
        tw_buf_printf(b, "step %llu of %s compared", (ull)all.first, tw_human_count(all.of, of));
    else
        tw_buf_printf(b, "steps %llu to %llu of %s compared", (ull)all.first, (ull)all.end - 1,
                      tw_human_count(all.of, of));
    tw_buf_printf(b, ", %s", tw_human_count(v->records_compared, steps));
    if (v->records_compared != v->records_a)
        tw_buf_printf(b, " of %s", tw_human_count(v->records_a, of));
    tw_buf_puts(b, " records");
    return true;
}

/* Only where one range does not say it all: several trainers in one arm, or processes that were
 * compared over other steps. */
static bool worth_a_list(const struct twin_verdict *v)
{
    for (size_t i = 1; i < v->range_count; i++) {
        const struct twin_range *x = &v->ranges[i - 1], *y = &v->ranges[i];
        bool apart = x->first != y->first || x->end != y->end;
        if (apart && (of_one_process(x, y) || !is_whole(v, x) || !is_whole(v, y)))
            return true;
    }
    return false;
}

/* One process, in the words of tw_say_ranges. */
static void say_one(struct tw_buf *b, const struct twin_range *r)
{
    tw_buf_printf(b, "rank %d", r->rank);
    if (strcmp(r->process, "main") != 0) {
        tw_buf_puts(b, " (");
        tw_say_safe(b, r->process, 60);
        tw_buf_puts(b, ")");
    }
    if (r->number_b > 1 || r->number_a > 1)
        tw_buf_printf(b, ", process %zu", r->number_b);
    if (r->end <= r->first) {
        tw_buf_puts(b, ": no step");
        return;
    }
    tw_buf_printf(b, ": steps %llu to %llu of %llu", (ull)r->first, (ull)r->end - 1, (ull)r->of);
    if (r->first_b != r->first)
        tw_buf_printf(b, " (its %llu to %llu)", (ull)r->first_b,
                      (ull)(r->first_b + r->end - r->first) - 1);
}

/* Says nothing where tw_say_range has said it all. */
void tw_say_ranges(struct tw_buf *b, const struct twin_verdict *v, size_t most)
{
    if (!worth_a_list(v))
        return;
    for (size_t i = 0; i < v->range_count && i < most; i++) {
        tw_buf_puts(b, i ? "; " : "");
        say_one(b, &v->ranges[i]);
    }
    if (v->range_count > most)
        tw_buf_printf(b, "; %zu more processes", v->range_count - most);
}
