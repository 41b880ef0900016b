/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TESTS_LOOK_TEST_H
#define TW_TESTS_LOOK_TEST_H
/*
 * Fingerprints made on a GPU, or on the double of one, against those that the host makes of the
 * same bytes: what both tests share.
 */
#include <stdbool.h>
#include <stdio.h>
#include "agents/cuda/device.h"
#include "agents/cuda/driver.h"
#include "emulated/libcuda.h"

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                                     \
        }                                                                   \
    } while (0)

extern int failures;      /* of this test; comparisons are counted in `unequal` first */
extern uint64_t compared; /* tensors held against the host's */
extern bool quiet;        /* comparisons that fail are counted in `unequal` alone */
extern int unequal;
extern tw_cu_context context;
extern int (*set_context)(tw_cu_context);
extern int (*to_device)(tw_cu_address, const void *, size_t);

enum { MANY = 700 };        /* more than fit into one launch, and than are waited for at once */
uint64_t next(uint64_t *s); /* 64 random bits */

/* n <= MANY tensors in one call: every type, length, offset, alignment, layout and wish. large: one
 * length in so many is beyond 10,000. */
void check_many(const struct tw_driver *d, size_t n, uint64_t seed, uint64_t large);
/* Tensors that are longer than the scratch memory, some of them: sums go on from run to run. */
void check_long(const struct tw_driver *d, uint64_t count);
/* `rounds` changes of one bit: no digest may stay as it was. */
void check_changes(const struct tw_driver *d, int rounds);
/* <twin/cuda_fingerprint.h>, behind the double: nothing waits, and everything can fail. */
void check_ring(const struct cuda_double *d);
/* Several devices from one thread, behind the double. */
void check_devices(const struct cuda_double *d);
/* What only the double can show: schedules, removed barriers, failures of the driver. */
void check_on_double(const struct cuda_double *d);

#endif
