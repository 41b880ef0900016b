/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <math.h>

uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static float uniform(uint64_t *state, float limit)
{
    return ((float)(random_next(state) >> 40) / 8388608.0f - 1.0f) * limit;
}

void model_init(struct model *m, uint64_t *random_state)
{
    /* Glorot's uniform limits */
    float limit1 = sqrtf(6.0f / (IDX_PIXELS + HIDDEN));
    float limit2 = sqrtf(6.0f / (HIDDEN + IDX_CLASSES));
    *m = (struct model){0};
    for (size_t i = 0; i < IDX_PIXELS; i++)
        for (size_t j = 0; j < HIDDEN; j++)
            m->w1[i][j] = uniform(random_state, limit1);
    for (size_t j = 0; j < HIDDEN; j++)
        for (size_t k = 0; k < IDX_CLASSES; k++)
            m->w2[j][k] = uniform(random_state, limit2);
}

static void forward(const struct model *m, const uint8_t *image, float hidden[HIDDEN],
                    float logits[IDX_CLASSES])
{
    for (size_t j = 0; j < HIDDEN; j++)
        hidden[j] = m->b1[j];
    for (size_t i = 0; i < IDX_PIXELS; i++) {
        float x = (float)image[i] / 255.0f;
        for (size_t j = 0; x != 0 && j < HIDDEN; j++)
            hidden[j] += x * m->w1[i][j];
    }
    for (size_t k = 0; k < IDX_CLASSES; k++)
        logits[k] = m->b2[k];
    for (size_t j = 0; j < HIDDEN; j++) {
        hidden[j] = hidden[j] > 0 ? hidden[j] : 0;
        for (size_t k = 0; k < IDX_CLASSES; k++)
            logits[k] += hidden[j] * m->w2[j][k];
    }
}

static double softmax(const float logits[IDX_CLASSES], int label, float probability[IDX_CLASSES])
{
    float top = logits[0], sum = 0;
    for (size_t k = 1; k < IDX_CLASSES; k++)
        top = logits[k] > top ? logits[k] : top;
    for (size_t k = 0; k < IDX_CLASSES; k++)
        sum += probability[k] = expf(logits[k] - top);
    for (size_t k = 0; k < IDX_CLASSES; k++)
        probability[k] /= sum;
    return log((double)sum) - (double)(logits[label] - top);
}

double model_gradient(const struct model *m, const uint8_t *const *images, const uint8_t *labels,
                      size_t n, struct model *g, float (*hidden)[HIDDEN])
{
    double loss = 0;
    for (size_t s = 0; s < n; s++) {
        float logits[IDX_CLASSES], d_logits[IDX_CLASSES], d_hidden[HIDDEN];
        forward(m, images[s], hidden[s], logits);
        loss += softmax(logits, labels[s], d_logits);
        d_logits[labels[s]] -= 1;
        for (size_t k = 0; k < IDX_CLASSES; k++)
            g->b2[k] += d_logits[k];
        for (size_t j = 0; j < HIDDEN; j++) {
            float d = 0;
            for (size_t k = 0; k < IDX_CLASSES; k++) {
                g->w2[j][k] += hidden[s][j] * d_logits[k];
                d += m->w2[j][k] * d_logits[k];
            }
            d_hidden[j] = hidden[s][j] > 0 ? d : 0;
            g->b1[j] += d_hidden[j];
        }
        for (size_t i = 0; i < IDX_PIXELS; i++) {
            float x = (float)images[s][i] / 255.0f;
            for (size_t j = 0; x != 0 && j < HIDDEN; j++)
                g->w1[i][j] += x * d_hidden[j];
        }
    }
    return loss;
}

int model_predict(const struct model *m, const uint8_t *image)
{
    float hidden[HIDDEN], logits[IDX_CLASSES];
    int best = 0;
    forward(m, image, hidden, logits);
    for (int k = 1; k < IDX_CLASSES; k++)
        best = logits[k] > logits[best] ? k : best;
    return best;
}

void model_add(struct model *to, const struct model *from)
{
    float *a = &to->w1[0][0];
    const float *b = &from->w1[0][0];
    for (size_t i = 0; i < MODEL_FLOATS; i++)
        a[i] += b[i];
}

void model_update(struct model *m, const struct model *g, float rate)
{
    float *a = &m->w1[0][0];
    const float *b = &g->w1[0][0];
    for (size_t i = 0; i < MODEL_FLOATS; i++)
        a[i] -= rate * b[i];
}
