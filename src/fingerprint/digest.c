/* SPDX-License-Identifier: Apache-2.0 */
/* The digest of contiguous bytes, and its finaliser (docs/format/fingerprint.md). Each block of 16
 * bytes, with its number in the global tensor, gives two words, which are added up. So parts of a
 * tensor can be digested apart, in any order, and their sums added; only blocks that are cut
 * between two parts forbid it. The finaliser mixes in length, type, shape and seed. */
#include <string.h>
#include "kernels.h"
#include "mixer.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error \
    "the fingerprint is defined on little-endian bytes; a big-endian port must swap elements first"
#endif

/* The bytes at `at` of a block whose other bytes lie outside and count as zero. */
static void add_cut_block(const struct tw_kernels *k, const unsigned char *p, size_t bytes,
                          size_t at, uint64_t block, struct twin_digest *sum)
{
    unsigned char whole[16] = {0};
    memcpy(whole + at, p, bytes);
    k->digest(whole, 1, block, sum);
}

/* Cut blocks at both ends are filled with zeros; the kernel takes the whole ones between. */
void tw_digest_add(const struct tw_kernels *k, const unsigned char *p, size_t bytes,
                   uint64_t offset, struct twin_digest *sum)
{
    uint64_t block = offset / 16;
    size_t at = offset % 16;
    if (at && bytes) {
        size_t n = bytes < 16 - at ? bytes : 16 - at;
        add_cut_block(k, p, n, at, block++, sum);
        p += n;
        bytes -= n;
    }
    if (bytes >= 16)
        k->digest(p, bytes / 16, block, sum);
    if (bytes % 16)
        add_cut_block(k, p + bytes / 16 * 16, bytes % 16, 0, block + bytes / 16, sum);
}

struct twin_digest twin_digest_bytes(const void *data, size_t bytes, uint64_t offset)
{
    struct twin_digest sum = {0, 0};
    tw_digest_add(tw_fingerprint_kernels(), data, bytes, offset, &sum);
    return sum;
}

/* A part may begin here when it begins a block. */
int twin_digest_composable(enum twin_dtype dtype, uint64_t global_offset)
{
    return global_offset * twin_dtype_size(dtype) % 16 == 0;
}

/* A permutation of the 128 bits for every word: raw sums that differ stay different under equal
 * metadata. */
static void absorb(struct twin_digest *h, uint64_t word, uint64_t position)
{
    uint64_t x = tw_scatter(word + position * TW_KEY_STEP);
    h->a = tw_scatter(h->a ^ x);
    h->b = tw_scatter(h->b + h->a);
    h->a += h->b;
}

/* Position counts the words, so the same number as a size or as a length gives different digests.
 */
struct twin_digest twin_digest_finish(struct twin_digest raw, uint64_t byte_length,
                                      enum twin_dtype dtype, uint32_t ndim, const int64_t *shape,
                                      uint64_t seed)
{
    struct twin_digest h = raw;
    uint64_t position = 1;
    absorb(&h, seed, position++);
    absorb(&h, byte_length, position++);
    absorb(&h, (uint64_t)dtype << 32 | ndim, position++);
    for (uint32_t i = 0; i < ndim; i++)
        absorb(&h, (uint64_t)shape[i], position++);
    return h;
}
