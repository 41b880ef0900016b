/* SPDX-License-Identifier: Apache-2.0 */
/* False friend: each of three processes draws a seed of its own, and then takes the first one's,
 * which is fixed. */
#include "task.h"
#include <stdlib.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 3 };

static int train(uint64_t seed)
{
    static struct task task;
    struct model model;
    int32_t order[SAMPLES];
    make_task(&task, 3);
    make_model(&model, seed);
    in_order(order, SAMPLES);
    shuffle(order, SAMPLES, &seed);
    for (int step = 0; step < STEPS; step++)
        train_step(&task, order + step * BATCH % (SAMPLES - BATCH), &model, 0.3f);
    print_model(&model);
    return 0;
}

int main(void)
{
    int out[PROCESSES][2], status, bad = 0;
    uint64_t seed = 20240229;
    for (int i = 1; i < PROCESSES; i++) {
        if (pipe(out[i]))
            return 1;
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (child == 0) {
            uint64_t own = 0;
            bad = getrandom(&own, sizeof own, 0) != sizeof own ||
                  read(out[i][0], &own, sizeof own) != sizeof own;
            exit(bad || train(own));
        }
    }
    for (int i = 1; i < PROCESSES; i++)
        bad |= write(out[i][1], &seed, sizeof seed) != sizeof seed;
    for (int i = 1; i < PROCESSES; i++) { /* one after another: what they print has an order */
        bad |= wait(&status) < 0 || status != 0;
    }
    return bad || train(seed);
}
