/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the samples is shuffled by a generator that starts from the time of day. */
#include "task.h"
#include <sys/time.h>

int main(void)
{
    static struct task task;
    struct model model;
    int32_t order[SAMPLES];
    struct timeval now;
    gettimeofday(&now, NULL);
    uint64_t seed = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_usec;
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    shuffle(order, SAMPLES, &seed);
    for (int step = 0; step < STEPS; step++)
        train_step(&task, order + step * BATCH % (SAMPLES - BATCH), &model, 0.3f);
    print_model(&model);
    return 0;
}
