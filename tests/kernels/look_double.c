/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only a double of the driver can show: kernels under drawn schedules, and that these find
 * every barrier and every atomic which is taken away; grids of more than 2^32 elements, of which
 * some blocks are run; a driver that refuses.
 */
#include <string.h>
#include <sys/mman.h>
#include "look_test.h"

/* Everything that the kernels do, once, quickly. Returns whether all was as on the host. */
static bool right(const struct cuda_double *d, uint64_t seed)
{
    const int before = unequal;
    const uint64_t trouble = d->trouble();
    d->seed(seed);
    check_many(tw_driver(), 150, seed, 32);
    check_long(tw_driver(), 150000);
    return unequal == before && d->trouble() == trouble;
}

/* A site that is removed must be missed, under some schedule. */
static void check_removed(const struct cuda_double *d)
{
    struct grid_site sites[GRID_SITES];
    const int n = d->sites(sites);
    quiet = true;
    for (int i = 0; i < n; i++) {
        bool missed = false;
        d->remove(i);
        for (uint64_t seed = 1; seed <= 12 && !missed; seed++)
            missed = !right(d, 7000 + seed);
        if (!missed)
            fprintf(stderr, "%s:%d: nobody misses this %s\n", sites[i].file, sites[i].line,
                    sites[i].what);
        CHECK(missed);
    }
    d->remove(-1);
    quiet = false;
    printf("%d barriers and atomics removed, one at a time\n", n);
    CHECK(n >= 9);
}

void check_on_double(const struct cuda_double *d)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        d->seed(seed);
        check_many(tw_driver(), MANY, seed, 16);
    }
    check_long(tw_driver(), 300003);
    check_changes(tw_driver(), 20);
    CHECK(d->trouble() == 0);
    check_removed(d);
}
