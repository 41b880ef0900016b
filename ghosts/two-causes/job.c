/* SPDX-License-Identifier: Apache-2.0 */
/* Two causes at once: the samples' order comes from the time of day, the noise on the weights from
 * the system's random bytes. */
#include "task.h"
#include <sys/random.h>
#include <sys/time.h>

int main(void)
{
    static struct task task;
    struct model model;
    int32_t order[SAMPLES];
    struct timeval now;
    uint64_t noise = 0, seed = 0;
    gettimeofday(&now, NULL);
    seed = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_usec;
    if (getrandom(&noise, sizeof noise, 0) != sizeof noise)
        return 1;
    make_task(&task, 3);
    make_model(&model, noise);
    in_order(order, SAMPLES);
    shuffle(order, SAMPLES, &seed);
    for (int step = 0; step < STEPS; step++)
        train_step(&task, order + step * BATCH % (SAMPLES - BATCH), &model, 0.3f);
    print_model(&model);
    return 0;
}
