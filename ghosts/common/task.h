/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training job that the ghosts in C share: a softmax classifier of made-up sensor readings.
 * Everything in it is deterministic; each ghost adds its one cause. The sizes and the tensors'
 * names are redrawn by ghosts/run.
 */
#ifndef GHOST_TASK_H
#define GHOST_TASK_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <twin/twin.h>

enum { FEATURES = 24, CLASSES = 5, SAMPLES = 640, BATCH = 32, STEPS = 30 };

struct task {
    float reading[SAMPLES][FEATURES];
    int32_t label[SAMPLES];
};

struct model {
    float dense[FEATURES][CLASSES], offset[CLASSES];
};

/* splitmix64 */
static inline uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline float draw_float(uint64_t *state)
{
    return (float)(draw(state) >> 40) / (1 << 23) - 1;
}

static inline void make_task(struct task *t, uint64_t seed)
{
    for (int i = 0; i < SAMPLES; i++) {
        for (int f = 0; f < FEATURES; f++)
            t->reading[i][f] = draw_float(&seed);
        t->label[i] = (int32_t)(fabsf(t->reading[i][0] + t->reading[i][1]) * 2.5f) % CLASSES;
    }
}

static inline void fill_model(struct model *m, uint64_t seed)
{
    for (int f = 0; f < FEATURES; f++)
        for (int c = 0; c < CLASSES; c++)
            m->dense[f][c] = draw_float(&seed) * 0.1f;
    for (int c = 0; c < CLASSES; c++)
        m->offset[c] = 0;
}

/* The weights before training. */
static inline void show_model(const struct model *m)
{
    twin_record("init:dense", TWIN_F32, 2, (int64_t[]){FEATURES, CLASSES}, NULL, m->dense, 0);
    twin_record("init:offset", TWIN_F32, 1, (int64_t[]){CLASSES}, NULL, m->offset, 0);
}

static inline void make_model(struct model *m, uint64_t seed)
{
    fill_model(m, seed);
    show_model(m);
}

static inline void in_order(int32_t *order, int n)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
}

/* Fisher-Yates */
static inline void shuffle(int32_t *order, int n, uint64_t *state)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(draw(state) % (uint64_t)(i + 1));
        int32_t keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
}

/* The chosen samples, shown as the batch of this step. */
static inline void show_batch(const struct task *t, const int32_t *chosen)
{
    float reading[BATCH][FEATURES];
    int32_t label[BATCH];
    for (int i = 0; i < BATCH; i++) {
        memcpy(reading[i], t->reading[chosen[i]], sizeof reading[i]);
        label[i] = t->label[chosen[i]];
    }
    twin_record("batch:readings", TWIN_F32, 2, (int64_t[]){BATCH, FEATURES}, NULL, reading, 0);
    twin_record("batch:labels", TWIN_I32, 1, (int64_t[]){BATCH}, NULL, label, 0);
}

/* Adds one sample's gradient to G; returns its loss. */
static inline double add_sample(const struct task *t, int32_t sample, const struct model *m,
                                struct model *g)
{
    const float *x = t->reading[sample];
    float score[CLASSES], most = -INFINITY, sum = 0;
    for (int c = 0; c < CLASSES; c++) {
        score[c] = m->offset[c];
        for (int f = 0; f < FEATURES; f++)
            score[c] += x[f] * m->dense[f][c];
        most = fmaxf(most, score[c]);
    }
    for (int c = 0; c < CLASSES; c++)
        sum += score[c] = expf(score[c] - most);
    for (int c = 0; c < CLASSES; c++) {
        float error = score[c] / sum - (float)(c == t->label[sample]);
        g->offset[c] += error;
        for (int f = 0; f < FEATURES; f++)
            g->dense[f][c] += error * x[f];
    }
    return -log((double)score[t->label[sample]] / sum + 1e-9);
}

/* Forward and backward pass over the chosen samples: the gradient's sum. */
static inline double pass(const struct task *t, const int32_t *chosen, const struct model *m,
                          struct model *gradient)
{
    double loss = 0;
    memset(gradient, 0, sizeof *gradient);
    for (int i = 0; i < BATCH; i++)
        loss += add_sample(t, chosen[i], m, gradient);
    loss /= BATCH;
    twin_record("loss:loss", TWIN_F64, 0, NULL, NULL, &loss, 0);
    return loss;
}

/* The optimizer's step, which ends the training step. */
static inline void update(struct model *m, const struct model *gradient, float rate)
{
    twin_record("gradient:dense", TWIN_F32, 2, (int64_t[]){FEATURES, CLASSES}, NULL,
                gradient->dense, 0);
    twin_record("gradient:offset", TWIN_F32, 1, (int64_t[]){CLASSES}, NULL, gradient->offset, 0);
    for (int c = 0; c < CLASSES; c++) {
        m->offset[c] -= rate / BATCH * gradient->offset[c];
        for (int f = 0; f < FEATURES; f++)
            m->dense[f][c] -= rate / BATCH * gradient->dense[f][c];
    }
    twin_record("weight:dense", TWIN_F32, 2, (int64_t[]){FEATURES, CLASSES}, NULL, m->dense, 0);
    twin_record("weight:offset", TWIN_F32, 1, (int64_t[]){CLASSES}, NULL, m->offset, 0);
    twin_step();
}

/* One whole step without any cause. */
static inline double train_step(const struct task *t, const int32_t *chosen, struct model *m,
                                float rate)
{
    struct model gradient;
    show_batch(t, chosen);
    double loss = pass(t, chosen, m, &gradient);
    update(m, &gradient, rate);
    return loss;
}

/* The result, in every bit: what the job prints last shows, without twinrun, whether two runs
 * agree. */
static inline void print_bits(const char *name, const void *value, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const unsigned char *byte = value; size--; byte++)
        hash = (hash ^ *byte) * 0x100000001b3u;
    printf("%s %016llx\n", name, (unsigned long long)hash);
}

static inline void print_model(const struct model *m)
{
    print_bits("weights", m, sizeof *m);
}
#endif
