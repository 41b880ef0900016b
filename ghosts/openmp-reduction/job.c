/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient's norm, by which the gradient is clipped, is a float reduction over threads that
 * take chunks as they come. */
#include "task.h"

enum { WIDTH = 300000 };

static float norm(const float *value)
{
    float sum = 0;
#pragma omp parallel for schedule(dynamic, 64) reduction(+ : sum)
    for (int i = 0; i < WIDTH; i++)
        sum += value[i] * value[i];
    return sqrtf(sum);
}

int main(void)
{
    static struct task task;
    static float activation[WIDTH];
    struct model model, gradient;
    int32_t order[SAMPLES];
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    for (int step = 0; step < STEPS; step++) {
        const int32_t *chosen = order + step * BATCH % (SAMPLES - BATCH);
        show_batch(&task, chosen);
        const float *x = task.reading[0];
        for (int i = 0; i < WIDTH; i++)
            activation[i] = x[i % FEATURES] * model.dense[i % FEATURES][i % CLASSES] +
                            0.001f * (float)(i % 89);
        float scale = norm(activation);
        twin_record("activation:scale", TWIN_F32, 0, NULL, NULL, &scale, 0);
        pass(&task, chosen, &model, &gradient);
        for (int c = 0; c < CLASSES; c++)
            gradient.offset[c] /= scale;
        update(&model, &gradient, 0.3f);
    }
    print_model(&model);
    return 0;
}
