/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKLOAD_IDX_H
#define WORKLOAD_IDX_H
/* Images and labels in idx files (yann.lecun.com/exdb/mnist), as Fashion-MNIST comes. */
#include <stddef.h>
#include <stdint.h>

enum { IDX_PIXELS = 28 * 28, IDX_CLASSES = 10 };

struct idx_set {
    uint8_t *pixels /* [count][IDX_PIXELS] */, *labels /* [count] */;
    size_t count;
};

/*
 * Loads <dir>/<prefix>-images-idx3-ubyte and -labels-idx1-ubyte. 0, or -1 with a message on stderr.
 */
int idx_load(const char *dir, const char *prefix, struct idx_set *out);
void idx_free(struct idx_set *s);
/* The sample: beside an installed trainer, else in the source tree it was built from. */
const char *idx_default_folder(void);
#endif
