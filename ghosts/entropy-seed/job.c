/* SPDX-License-Identifier: Apache-2.0 */
/* No seed was given, so the weights start from the system's random bytes. */
#include "task.h"
#include <sys/random.h>

int main(void)
{
    static struct task task;
    struct model model;
    int32_t order[SAMPLES];
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        return 1;
    make_task(&task, 3);
    make_model(&model, seed);
    in_order(order, SAMPLES);
    for (int step = 0; step < STEPS; step++)
        train_step(&task, order + step * BATCH % (SAMPLES - BATCH), &model, 0.3f);
    print_model(&model);
    return 0;
}
