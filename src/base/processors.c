/* SPDX-License-Identifier: Apache-2.0 */
/* How many processors this process may use: for who divides work among threads. */
#include "base.h"

#include <sched.h>

/* More threads than this would read one disk no faster. */
#define MOST 64

unsigned tw_processors(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    if (n < 1)
        return 1;
    return n > MOST ? MOST : (unsigned)n;
}
