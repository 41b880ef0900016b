/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which runs belong together: those of one job, and of these the ones of one machine. Equal texts
 * of a history are one text, so this is found without a comparison of texts, and without sorting.
 */
#include "slo_inside.h"

#include "base.h"

static bool is_same_job(const struct slo_run *a, const struct slo_run *b)
{
    return a->command == b->command && a->inputs == b->inputs;
}

/* Of times also the machine counts, and what was recorded: watching more takes longer. */
static bool is_same_setting(const struct slo_run *a, const struct slo_run *b)
{
    return is_same_job(a, b) && a->host == b->host && a->steps == b->steps &&
           a->records == b->records;
}

static uint64_t mix(uint64_t hash, uint64_t x)
{
    hash = (hash ^ x) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 31);
}

static uint64_t hash_job(const struct slo_run *r)
{
    return mix(mix(0, (uintptr_t)r->command), (uintptr_t)r->inputs);
}

static uint64_t hash_setting(const struct slo_run *r)
{
    return mix(mix(mix(hash_job(r), (uintptr_t)r->host), r->steps), r->records);
}

/* Gives each run the number of its group, in the order in which groups first appear. Returns how
 * many there are; slot: room for a power of two, `slots`, of them, all 0. */
static size_t number_groups(const struct tw_slo_history *h, bool setting, uint32_t *slot,
                            size_t slots, size_t *number)
{
    size_t groups = 0;
    for (size_t i = 0; i < h->runs; i++) {
        const struct slo_run *r = &h->run[i];
        size_t at = (size_t)((setting ? hash_setting(r) : hash_job(r)) >> 20) & (slots - 1);
        for (; slot[at]; at = (at + 1) & (slots - 1)) {
            const struct slo_run *x = &h->run[slot[at] - 1];
            if (setting ? is_same_setting(x, r) : is_same_job(x, r))
                break;
        }
        if (slot[at]) {
            number[i] = number[slot[at] - 1];
        } else {
            slot[at] = (uint32_t)i + 1;
            number[i] = groups++;
        }
    }
    return groups;
}

/* By setting, and then by job, which leaves the order within a job. */
static int order_by(const struct tw_slo_history *h, bool setting, size_t *number, size_t *order)
{
    struct slo_lists lists = {.first = NULL};
    size_t slots = 64;
    while (slots < 2 * h->runs)
        slots *= 2;
    uint32_t *slot = tw_calloc(slots, sizeof *slot);
    size_t *key = tw_calloc(h->runs + 1, sizeof *key);
    int rc = slot && key ? 0 : TWIN_ENOMEM;
    if (rc == 0) {
        const size_t groups = number_groups(h, setting, slot, slots, number);
        for (size_t i = 0; i < h->runs; i++)
            key[i] = number[order[i]];
        rc = slo_lists_make(&lists, groups, key, h->runs);
    }
    for (size_t i = 0; rc == 0 && i < h->runs; i++)
        key[i] = order[lists.item[i]];
    for (size_t i = 0; rc == 0 && i < h->runs; i++)
        order[i] = key[i];
    slo_lists_free(&lists);
    tw_free(key);
    tw_free(slot);
    return rc;
}

int slo_jobs_order(const struct tw_slo_history *h, size_t *order)
{
    size_t *number = tw_calloc(h->runs + 1, sizeof *number);
    int rc = number ? 0 : TWIN_ENOMEM;
    for (size_t i = 0; i < h->runs; i++)
        order[i] = i;
    rc = rc ? rc : order_by(h, true, number, order);
    rc = rc ? rc : order_by(h, false, number, order);
    tw_free(number);
    return rc;
}
