/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint that keeps the weights and forgets the optimizer's momentum. */
#include "task.h"
#include <stdlib.h>

/* usage: job [FIRST [LAST]]: steps FIRST to LAST - 1; from step 1 on it begins with what
 * "checkpoint" holds */
int main(int argc, char **argv)
{
    static struct task task;
    struct {
        struct model weights, momentum;
    } state = {0};
    struct model gradient;
    int32_t order[SAMPLES];
    int first = argc > 1 ? atoi(argv[1]) : 0, last = argc > 2 ? atoi(argv[2]) : STEPS;
    size_t kept = sizeof state.weights;
    make_task(&task, 3);
    fill_model(&state.weights, 11);
    in_order(order, SAMPLES);
    if (first > 0) {
        FILE *f = fopen("checkpoint", "rb");
        if (!f || fread(&state, kept, 1, f) != 1 || fclose(f) != 0)
            return 1;
    }
    show_model(&state.weights);
    for (int step = first; step < last; step++) {
        const int32_t *chosen = order + step * BATCH % (SAMPLES - BATCH);
        show_batch(&task, chosen);
        pass(&task, chosen, &state.weights, &gradient);
        for (int c = 0; c < CLASSES; c++)
            gradient.offset[c] = state.momentum.offset[c] = 0.9f * state.momentum.offset[c] +
                                                            gradient.offset[c];
        update(&state.weights, &gradient, 0.1f);
    }
    if (last < STEPS) {
        FILE *f = fopen("checkpoint", "wb");
        if (!f || fwrite(&state, kept, 1, f) != 1 || fclose(f) != 0)
            return 1;
    }
    print_model(&state.weights);
    return 0;
}
