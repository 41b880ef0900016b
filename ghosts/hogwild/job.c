/* SPDX-License-Identifier: Apache-2.0 */
/* Four threads train one set of weights without locks (Hogwild): each reads and writes while the
 * others do. */
#include "task.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 300 };

static struct task task;
static _Atomic float shared[FEATURES][CLASSES];
static pthread_barrier_t start;

static void *train(void *argument)
{
    int id = *(int *)argument;
    pthread_barrier_wait(&start);
    for (int round = 0; round < ROUNDS; round++) {
        struct model seen = {0}, gradient = {0};
        for (int f = 0; f < FEATURES; f++)
            for (int c = 0; c < CLASSES; c++)
                seen.dense[f][c] = atomic_load_explicit(&shared[f][c], memory_order_relaxed);
        add_sample(&task, (round * THREADS + id) % SAMPLES, &seen, &gradient);
        if (round % 7 == id)
            sched_yield();
        for (int f = 0; f < FEATURES; f++)
            for (int c = 0; c < CLASSES; c++)
                atomic_store_explicit(&shared[f][c],
                                      seen.dense[f][c] - 0.05f * gradient.dense[f][c],
                                      memory_order_relaxed);
    }
    return NULL;
}

int main(void)
{
    struct model model;
    make_task(&task, 3);
    make_model(&model, 11);
    for (int f = 0; f < FEATURES; f++)
        for (int c = 0; c < CLASSES; c++)
            shared[f][c] = model.dense[f][c];
    for (int step = 0; step < STEPS / 5; step++) {
        pthread_t thread[THREADS];
        int id[THREADS];
        pthread_barrier_init(&start, NULL, THREADS);
        for (int i = 0; i < THREADS; i++) {
            id[i] = i;
            if (pthread_create(&thread[i], NULL, train, &id[i]))
                return 1;
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        pthread_barrier_destroy(&start);
        for (int f = 0; f < FEATURES; f++)
            for (int c = 0; c < CLASSES; c++)
                model.dense[f][c] = shared[f][c];
        twin_record("weight:dense", TWIN_F32, 2, (int64_t[]){FEATURES, CLASSES}, NULL, model.dense,
                    0);
        twin_step();
    }
    print_model(&model);
    return 0;
}
