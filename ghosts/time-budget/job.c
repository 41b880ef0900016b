/* SPDX-License-Identifier: Apache-2.0 */
/* Trains for as long as its budget of time lasts, as jobs in a nightly slot do. */
#include "task.h"
#include <sys/time.h>

enum { MILLISECONDS = 40 };

static double seconds(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (double)now.tv_sec + (double)now.tv_usec * 1e-6;
}

int main(void)
{
    static struct task task;
    struct model model;
    int32_t order[SAMPLES];
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    double end = seconds() + MILLISECONDS * 1e-3;
    for (int step = 0; seconds() < end; step++)
        train_step(&task, order + step * BATCH % (SAMPLES - BATCH), &model, 0.3f);
    print_model(&model);
    return 0;
}
