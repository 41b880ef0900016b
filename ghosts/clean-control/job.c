/* SPDX-License-Identifier: Apache-2.0 */
/* No cause at all: the same command again must be the same. */
#include "task.h"

int main(void)
{
    static struct task task;
    struct model model;
    int32_t order[SAMPLES];
    uint64_t seed = 42;
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    shuffle(order, SAMPLES, &seed);
    for (int step = 0; step < STEPS; step++)
        train_step(&task, order + step * BATCH % (SAMPLES - BATCH), &model, 0.3f);
    print_model(&model);
    return 0;
}
