/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKLOAD_MODEL_H
#define WORKLOAD_MODEL_H
/* A perceptron with one hidden layer (ReLU) and softmax cross-entropy, in plain loops of fixed
 * order: equal inputs give equal bits. Gradients have the layout of the parameters. */
#include <stddef.h>
#include <stdint.h>
#include "idx.h"

enum { HIDDEN = 64 };

struct model {
    float w1[IDX_PIXELS][HIDDEN], b1[HIDDEN];
    float w2[HIDDEN][IDX_CLASSES], b2[IDX_CLASSES];
};
enum { MODEL_FLOATS = sizeof(struct model) / sizeof(float) };

/* splitmix64: the trainer's only generator. */
uint64_t random_next(uint64_t *state);

void model_init(struct model *m, uint64_t *random_state);
/* Adds the gradient of n images to g, their activations to hidden [n][HIDDEN]. Returns their summed
 * loss. */
double model_gradient(const struct model *m, const uint8_t *const *images, const uint8_t *labels,
                      size_t n, struct model *g, float (*hidden)[HIDDEN]);
int model_predict(const struct model *m, const uint8_t *image);
void model_add(struct model *to, const struct model *from);
void model_update(struct model *m, const struct model *g, float rate);
#endif
