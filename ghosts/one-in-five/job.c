/* SPDX-License-Identifier: Apache-2.0 */
/* The dropout's generator mixes in a byte of the system's entropy, but only when a rare branch of
 * its setup is taken. */
#include "task.h"
#include <sys/random.h>

int main(void)
{
    static struct task task;
    struct model model, gradient;
    int32_t order[SAMPLES];
    unsigned char byte[8] = {0};
    if (getrandom(byte, sizeof byte, 0) != sizeof byte)
        return 1;
    uint64_t mask = 29;
    if (byte[0] % 5 == 0)
        memcpy(&mask, byte, sizeof mask);
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    for (int step = 0; step < STEPS; step++) {
        const int32_t *chosen = order + step * BATCH % (SAMPLES - BATCH);
        show_batch(&task, chosen);
        pass(&task, chosen, &model, &gradient);
        for (int c = 0; c < CLASSES; c++)
            if (draw(&mask) % 4 == 0)
                gradient.offset[c] = 0;
        update(&model, &gradient, 0.3f);
    }
    print_model(&model);
    return 0;
}
