/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A faulty unit, simulated: now and then a multiplication returns with one bit flipped. When and
 * which is not to be controlled by any setting of the job, as with the real ones; the processor's
 * own counter stands for it.
 */
#include "task.h"
#include <time.h>

enum { QUIET = 4 };

static float faulty(float x)
{
    struct timespec t;
    uint32_t bits;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t chance = (uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 30;
    chance = draw(&chance);
    if (chance % 40)
        return x;
    memcpy(&bits, &x, sizeof bits);
    bits ^= 1u << (chance >> 32) % 22;
    memcpy(&x, &bits, sizeof x);
    return x;
}

int main(void)
{
    static struct task task;
    struct model model, gradient;
    int32_t order[SAMPLES];
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    for (int step = 0; step < STEPS; step++) {
        const int32_t *chosen = order + step * BATCH % (SAMPLES - BATCH);
        show_batch(&task, chosen);
        pass(&task, chosen, &model, &gradient);
        for (int c = 0; c < CLASSES && step >= QUIET; c++)
            gradient.offset[c] = faulty(gradient.offset[c]);
        update(&model, &gradient, 0.3f);
    }
    print_model(&model);
    return 0;
}
