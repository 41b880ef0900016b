/* SPDX-License-Identifier: Apache-2.0 */
/* False friend: two runs take different times, and say so; what they compute is equal. */
#include "task.h"
#include <sys/random.h>
#include <time.h>

int main(void)
{
    static struct task task;
    struct model model;
    int32_t order[SAMPLES];
    unsigned char wait = 0;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (getrandom(&wait, 1, 0) != 1)
        return 1;
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    for (int step = 0; step < STEPS; step++) {
        nanosleep(&(struct timespec){0, wait * 4000L}, NULL);
        train_step(&task, order + step * BATCH % (SAMPLES - BATCH), &model, 0.3f);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took = (double)(end.tv_sec - start.tv_sec) +
                  (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
    printf("%d steps in %.3f s, %.0f samples/s\n", STEPS, took, STEPS * BATCH / took);
    print_model(&model);
    return 0;
}
