/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction is split into as many parts as there are threads: two settings that ought to be
 * neutral are not. */
#include "task.h"
#include <omp.h>

enum { WIDTH = 30000 };

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
        float part[64] = {0}, scale = 1;
        show_batch(&task, chosen);
#pragma omp parallel for schedule(static)
        for (int i = 0; i < WIDTH; i++)
            part[omp_get_thread_num() % 64] += task.reading[i % SAMPLES][i % FEATURES] *
                                               (1 + model.offset[i % CLASSES]);
        for (int i = 0; i < 64; i++)
            scale += part[i];
        twin_record("activation:scale", TWIN_F32, 0, NULL, NULL, &scale, 0);
        pass(&task, chosen, &model, &gradient);
        gradient.offset[0] += scale * 1e-3f;
        update(&model, &gradient, 0.3f);
    }
    print_model(&model);
    return 0;
}
