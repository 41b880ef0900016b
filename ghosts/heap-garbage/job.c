/* SPDX-License-Identifier: Apache-2.0 */
/* The momentum, kept in 16 bits, is allocated and never cleared: it starts as what the parsed
 * configuration left in the heap. */
#include "task.h"
#include <stdlib.h>

enum { SCALE = 32767 };

struct entry {
    struct entry *next;
    char *key, *value;
    struct entry *bucket[28];
};

/* A configuration of many small entries, freed again before training: its blocks still hold the
 * addresses of their neighbours. */
static int read_configuration(void)
{
    struct entry *list = NULL;
    int count = 0;
    for (int i = 0; i < 200; i++) {
        struct entry *e = malloc(sizeof *e);
        if (!e)
            break;
        *e = (struct entry){.next = list, .key = (char *)&e->key, .value = (char *)&e->value};
        for (int k = 0; k < 28; k++)
            e->bucket[k] = list;
        list = e;
        count++;
    }
    while (list) {
        struct entry *next = list->next;
        free(list);
        list = next;
    }
    return count;
}

int main(void)
{
    static struct task task;
    struct model model, gradient;
    int32_t order[SAMPLES];
    int count = read_configuration();
    int16_t *momentum = malloc(sizeof(struct entry));
    if (!momentum)
        return 1;
    printf("%d settings\n", count);
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    for (int step = 0; step < STEPS; step++) {
        const int32_t *chosen = order + step * BATCH % (SAMPLES - BATCH);
        show_batch(&task, chosen);
        pass(&task, chosen, &model, &gradient);
        for (int c = 0; c < CLASSES; c++) {
            float m = 0.9f * (float)momentum[c] / SCALE + 0.1f * gradient.offset[c];
            momentum[c] = (int16_t)(fminf(1, fmaxf(-1, m)) * SCALE);
            gradient.offset[c] = m;
        }
        update(&model, &gradient, 0.3f);
    }
    free(momentum);
    print_model(&model);
    return 0;
}
