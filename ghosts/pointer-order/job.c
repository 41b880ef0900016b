/* SPDX-License-Identifier: Apache-2.0 */
/* The shards of a data set live in a table that is keyed by their address, and are read in the
 * order of the table. */
#include "task.h"
#include <stdlib.h>

enum { SHARDS = 20, SLOTS = 97 };

struct shard {
    int32_t first;
    char name[88];
};

int main(void)
{
    static struct task task;
    static struct shard *slot[SLOTS];
    struct model model;
    int32_t order[SAMPLES];
    int count = 0;
    for (int i = 0; i < SHARDS; i++) {
        struct shard *s = malloc(sizeof *s);
        if (!s)
            return 1;
        s->first = i * (SAMPLES / SHARDS);
        snprintf(s->name, sizeof s->name, "part-%04d", i);
        size_t at = (uintptr_t)s / 16 % SLOTS;
        while (slot[at])
            at = (at + 1) % SLOTS;
        slot[at] = s;
    }
    for (int at = 0; at < SLOTS; at++)
        for (int i = 0; slot[at] && i < SAMPLES / SHARDS; i++)
            order[count++] = slot[at]->first + i;
    make_task(&task, 3);
    make_model(&model, 11);
    for (int step = 0; step < STEPS; step++)
        train_step(&task, order + step * BATCH % (count - BATCH), &model, 0.3f);
    print_model(&model);
    return 0;
}
