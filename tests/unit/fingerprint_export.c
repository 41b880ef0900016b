/* SPDX-License-Identifier: Apache-2.0 */
/* The fingerprint as a shared library with plain arguments, for tests written in Python. */
#include <twin/fingerprint.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void export_raw(const void *data, uint64_t bytes, uint64_t offset, uint64_t out[2]);
EXPORT void export_finish(const uint64_t raw[2], uint64_t bytes, int dtype, uint32_t ndim,
                          const int64_t *shape, uint64_t seed, uint64_t out[2]);
EXPORT int export_statistics(const void *data, int dtype, int64_t n, uint64_t offset,
                             struct twin_stats *stats, struct twin_sketch *sketch);

void export_raw(const void *data, uint64_t bytes, uint64_t offset, uint64_t out[2])
{
    struct twin_digest d = twin_digest_bytes(data, (size_t)bytes, offset);
    out[0] = d.a;
    out[1] = d.b;
}

void export_finish(const uint64_t raw[2], uint64_t bytes, int dtype, uint32_t ndim,
                   const int64_t *shape, uint64_t seed, uint64_t out[2])
{
    struct twin_digest d = {raw[0], raw[1]};
    d = twin_digest_finish(d, bytes, (enum twin_dtype)dtype, ndim, shape, seed);
    out[0] = d.a;
    out[1] = d.b;
}

int export_statistics(const void *data, int dtype, int64_t n, uint64_t offset,
                      struct twin_stats *stats, struct twin_sketch *sketch)
{
    struct twin_tensor t = {data, (enum twin_dtype)dtype, 1, &n, NULL, offset};
    return twin_fingerprint(&t, NULL, stats, sketch, NULL);
}
