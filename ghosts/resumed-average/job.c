/* SPDX-License-Identifier: Apache-2.0 */
/* False friend: the printed average of the loss starts anew after a resume; weights and everything
 * else go on as before. */
#include "task.h"
#include <stdlib.h>

/* usage: job [FIRST [LAST]]: steps FIRST to LAST - 1; from step 1 on it begins with the weights in
 * "checkpoint" */
int main(int argc, char **argv)
{
    static struct task task;
    struct model model;
    int32_t order[SAMPLES];
    int first = argc > 1 ? atoi(argv[1]) : 0, last = argc > 2 ? atoi(argv[2]) : STEPS;
    double sum = 0;
    make_task(&task, 3);
    fill_model(&model, 11);
    in_order(order, SAMPLES);
    if (first > 0) {
        FILE *f = fopen("checkpoint", "rb");
        if (!f || fread(&model, sizeof model, 1, f) != 1 || fclose(f) != 0)
            return 1;
    }
    show_model(&model);
    for (int step = first; step < last; step++)
        sum += train_step(&task, order + step * BATCH % (SAMPLES - BATCH), &model, 0.3f);
    printf("average loss %.6f\n", sum / (last - first));
    if (last < STEPS) {
        FILE *f = fopen("checkpoint", "wb");
        if (!f || fwrite(&model, sizeof model, 1, f) != 1 || fclose(f) != 0)
            return 1;
    }
    print_model(&model);
    return 0;
}
