/* SPDX-License-Identifier: Apache-2.0 */
/* Each layer is summed by one of two kernels; which one is decided at the start by timing both and
 * taking the quicker. */
#include "task.h"
#include <time.h>

enum { LAYERS = 24, WIDTH = 2048 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The sum of a row, begun at FIRST and carried on from the row's start: each kernel adds in an
 * order of its own. */
static float sum_from(const float *x, int first)
{
    float sum = 0;
    for (int i = first; i < WIDTH; i++)
        sum += x[i];
    for (int i = 0; i < first; i++)
        sum += x[i];
    return sum;
}

static const int kernels[2] = {WIDTH / 4, 3 * WIDTH / 4};

/* As autotuners do: a few repeats of each, the better one stays. */
static int choose(const float *x)
{
    volatile float sink = sum_from(x, kernels[0]) + sum_from(x, kernels[1]); /* warm-up */
    double took[2];
    for (int k = 0; k < 2; k++) {
        double start = seconds();
        for (int repeat = 0; repeat < 7; repeat++)
            sink = sum_from(x, kernels[k]);
        took[k] = seconds() - start;
    }
    (void)sink;
    return took[1] < took[0] ? kernels[1] : kernels[0];
}

int main(void)
{
    static struct task task;
    static float hidden[LAYERS][WIDTH];
    struct model model, gradient;
    int best[LAYERS];
    int32_t order[SAMPLES];
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < WIDTH; i++)
            hidden[l][i] = task.reading[(l * 37 + i) % SAMPLES][i % FEATURES];
    for (int l = 0; l < LAYERS; l++)
        best[l] = choose(hidden[l]);
    for (int step = 0; step < STEPS; step++) {
        const int32_t *chosen = order + step * BATCH % (SAMPLES - BATCH);
        float pooled[LAYERS];
        show_batch(&task, chosen);
        for (int l = 0; l < LAYERS; l++)
            pooled[l] = sum_from(hidden[l], best[l]) * (1 + model.offset[0]);
        twin_record("activation:pooled", TWIN_F32, 1, (int64_t[]){LAYERS}, NULL, pooled, 0);
        pass(&task, chosen, &model, &gradient);
        for (int l = 0; l < LAYERS; l++)
            gradient.offset[l % CLASSES] += pooled[l] * 0.05f;
        update(&model, &gradient, 0.3f);
    }
    print_model(&model);
    return 0;
}
