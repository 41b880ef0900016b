/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRACE_KERNELS_H
#define TW_TRACE_KERNELS_H
/*
 * What the agent writes of launched kernels, and what the comparison reads (docs/internals/cupti.md
 * has the fields): the words that tell the kinds of records apart, and the digest of a sequence.
 *
 * That digest is a polynomial in a fixed base modulo the prime 2^61 - 1, the launches being its
 * coefficients. So those of two sequences give that of both, one behind the other: a thread whose
 * steps are cut elsewhere is seen to have launched the same.
 */
#include <stdint.h>

/* In the field `site`. */
#define TW_KERNELS_SEQUENCE "sequence" /* what one thread launched in one step */
#define TW_KERNELS_LAUNCH "launch"     /* one place in such a sequence */
#define TW_KERNELS_MODULE "module"     /* machine code that was loaded */

/* Notes of that trace: launches that were not counted; sequences whose launches are not listed. */
#define TW_KERNELS_LOST "kernels.lost"
#define TW_KERNELS_UNLISTED "kernels.unlisted"
/* why nothing more was recorded */
#define TW_KERNELS_STOPPED "kernels.stopped"

#define TW_SEQUENCE_PRIME (((uint64_t)1 << 61) - 1)
#define TW_SEQUENCE_BASE UINT64_C(0x13A5F09B6D2E471B) /* smaller than the prime */

static inline uint64_t tw_sequence_times(uint64_t x, uint64_t y)
{
    const unsigned __int128 z = (unsigned __int128)x * y;
    const uint64_t sum = (uint64_t)(z & TW_SEQUENCE_PRIME) + (uint64_t)(z >> 61);
    return sum >= TW_SEQUENCE_PRIME ? sum - TW_SEQUENCE_PRIME : sum;
}

static inline uint64_t tw_sequence_plus(uint64_t x, uint64_t y)
{
    const uint64_t sum = x + y;
    return sum >= TW_SEQUENCE_PRIME ? sum - TW_SEQUENCE_PRIME : sum;
}

/* One more launch; 0 is the digest of none. */
static inline uint64_t tw_sequence_add(uint64_t digest, uint64_t launch)
{
    return tw_sequence_plus(tw_sequence_times(digest, TW_SEQUENCE_BASE),
                            launch % TW_SEQUENCE_PRIME);
}

/* `digest`, and then `count` launches of the digest `next`. */
static inline uint64_t tw_sequence_join(uint64_t digest, uint64_t next, uint64_t count)
{
    uint64_t power = TW_SEQUENCE_BASE;
    for (; count; count >>= 1) {
        if (count & 1)
            digest = tw_sequence_times(digest, power);
        power = tw_sequence_times(power, power);
    }
    return tw_sequence_plus(digest, next);
}
#endif
