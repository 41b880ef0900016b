/* SPDX-License-Identifier: Apache-2.0 */
/* Six threads each pass a part of the batch and add their gradients to the sum in the order in
 * which they finish. */
#include "task.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 6 };

struct part {
    const struct task *task;
    const struct model *model;
    const int32_t *chosen;
    int id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct model sum;

static void add(const struct model *gradient)
{
    pthread_mutex_lock(&lock);
    for (int c = 0; c < CLASSES; c++) {
        sum.offset[c] += gradient->offset[c];
        for (int f = 0; f < FEATURES; f++)
            sum.dense[f][c] += gradient->dense[f][c];
    }
    pthread_mutex_unlock(&lock);
}

static void *work(void *argument)
{
    const struct part *p = argument;
    struct model gradient = {0};
    for (int repeat = 0; repeat < 8; repeat++) {
        for (int i = p->id; i < BATCH; i += THREADS)
            add_sample(p->task, p->chosen[i], p->model, &gradient);
        sched_yield();
    }
    add(&gradient);
    return NULL;
}

int main(void)
{
    static struct task task;
    struct model model;
    int32_t order[SAMPLES];
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    for (int step = 0; step < STEPS; step++) {
        struct part part[THREADS];
        pthread_t thread[THREADS];
        const int32_t *chosen = order + step * BATCH % (SAMPLES - BATCH);
        show_batch(&task, chosen);
        memset(&sum, 0, sizeof sum);
        for (int i = 0; i < THREADS; i++) {
            part[i] = (struct part){&task, &model, chosen, i};
            if (pthread_create(&thread[i], NULL, work, &part[i]))
                return 1;
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        update(&model, &sum, 0.05f);
    }
    print_model(&model);
    return 0;
}
