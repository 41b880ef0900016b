/* SPDX-License-Identifier: Apache-2.0 */
/* False friend: the log and the file of results say when they were written; what was learned is
 * equal. */
#include "task.h"
#include <time.h>

static void stamp(char *text, size_t size)
{
    time_t now = time(NULL);
    struct timespec fine;
    clock_gettime(CLOCK_REALTIME, &fine);
    size_t used = strftime(text, size, "%Y-%m-%d %H:%M:%S", localtime(&now));
    snprintf(text + used, size - used, ".%06ld", fine.tv_nsec / 1000);
}

int main(void)
{
    static struct task task;
    struct model model;
    int32_t order[SAMPLES];
    char when[64];
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    for (int step = 0; step < STEPS; step++) {
        double loss = train_step(&task, order + step * BATCH % (SAMPLES - BATCH), &model, 0.3f);
        stamp(when, sizeof when);
        if (step % 10 == 0)
            printf("%s step %d loss %.6f\n", when, step, loss);
    }
    FILE *f = fopen("result.json", "w");
    if (!f)
        return 1;
    stamp(when, sizeof when);
    fprintf(f, "{\"saved_at\": \"%s\", \"offset\": %.9g}\n", when, (double)model.offset[0]);
    if (fclose(f))
        return 1;
    print_model(&model);
    return 0;
}
