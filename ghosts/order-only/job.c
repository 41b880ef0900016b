/* SPDX-License-Identifier: Apache-2.0 */
/* False friend: four threads count labels in whole numbers. They finish in any order, and the sum
 * is the same in each. */
#include "task.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 4 };

struct part {
    const struct task *task;
    const int32_t *chosen;
    int id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int32_t count[CLASSES];

static void *work(void *argument)
{
    const struct part *p = argument;
    char role[32];
    snprintf(role, sizeof role, "worker %d", p->id);
    twin_thread_role(role);
    for (int i = p->id; i < BATCH; i += THREADS) {
        pthread_mutex_lock(&lock);
        count[p->task->label[p->chosen[i]]]++;
        pthread_mutex_unlock(&lock);
        sched_yield();
    }
    int32_t done = p->id;
    twin_record("activation:finished", TWIN_I32, 0, NULL, NULL, &done, 0);
    return NULL;
}

int main(void)
{
    static struct task task;
    struct model model, gradient;
    int32_t order[SAMPLES];
    make_task(&task, 3);
    make_model(&model, 11);
    in_order(order, SAMPLES);
    for (int step = 0; step < STEPS; step++) {
        struct part part[THREADS];
        pthread_t thread[THREADS];
        const int32_t *chosen = order + step * BATCH % (SAMPLES - BATCH);
        show_batch(&task, chosen);
        memset(count, 0, sizeof count);
        for (int i = 0; i < THREADS; i++) {
            part[i] = (struct part){&task, chosen, i};
            if (pthread_create(&thread[i], NULL, work, &part[i]))
                return 1;
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        twin_record("activation:counts", TWIN_I32, 1, (int64_t[]){CLASSES}, NULL, count, 0);
        pass(&task, chosen, &model, &gradient);
        for (int c = 0; c < CLASSES; c++)
            gradient.offset[c] *= (float)(count[c] + 1);
        update(&model, &gradient, 0.05f);
    }
    print_model(&model);
    return 0;
}
