/* SPDX-License-Identifier: Apache-2.0 */
/* Threads add the gradients of a table with atomic adds; for the first steps the learning rate is
 * 0, and nobody notices. */
#include "task.h"

enum { ROWS = 48, LOOKUPS = 500000, QUIET = 12 };

int main(void)
{
    static struct task task;
    static float table[ROWS], slope[ROWS], term[LOOKUPS];
    struct model model, gradient;
    int32_t order[SAMPLES];
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    for (int i = 0; i < LOOKUPS; i++)
        term[i] = task.reading[i % SAMPLES][i % FEATURES];
    for (int step = 0; step < STEPS; step++) {
        const int32_t *chosen = order + step * BATCH % (SAMPLES - BATCH);
        show_batch(&task, chosen);
        pass(&task, chosen, &model, &gradient);
        memset(slope, 0, sizeof slope);
#pragma omp parallel for schedule(dynamic, 16)
        for (int i = 0; i < LOOKUPS; i++) {
#pragma omp atomic
            slope[(unsigned)i * 2654435761u % ROWS] += term[i] + table[i % ROWS];
        }
        twin_record("gradient:table", TWIN_F32, 1, (int64_t[]){ROWS}, NULL, slope, 0);
        float rate = step < QUIET ? 0 : 0.05f;
        for (int r = 0; r < ROWS; r++) {
            table[r] -= rate * slope[r] / (LOOKUPS / ROWS);
            gradient.offset[r % CLASSES] += 4 * table[r];
        }
        update(&model, &gradient, rate);
    }
    print_model(&model);
    print_bits("table", table, sizeof table);
    return 0;
}
