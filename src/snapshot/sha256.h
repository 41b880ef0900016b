/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SHA256_H
#define TW_SHA256_H
/*
 * SHA-256 of two messages at a time on one core. Its rounds wait for each other: with the SHA
 * instructions a second, independent message fits into the gaps and costs little. Where those
 * instructions are missing, OpenSSL digests one after the other.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_sha256 {
    void *other; /* EVP_MD_CTX; NULL with the SHA instructions */
    bool failed; /* OpenSSL did */
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64]; /* the last, begun */
};

/* Each may be begun again. False: no memory. */
bool tw_sha256_begin(struct tw_sha256 *s);
void tw_sha256_add(struct tw_sha256 *s, const void *data, size_t n);
/* The same for two at once; they differ. Fastest with like sizes. */
void tw_sha256_add_two(struct tw_sha256 *a, const void *p, size_t n, struct tw_sha256 *b,
                       const void *q, size_t m);
/* False: it failed. It may be begun again. */
bool tw_sha256_end(struct tw_sha256 *s, unsigned char digest[32]);
void tw_sha256_free(struct tw_sha256 *s); /* of one that was begun, or is all zeros */

/* Of n bytes in memory, as 64 small hex digits. False: it failed, for lack of memory; hex is "". */
bool tw_sha256_of(const void *data, size_t n, char hex[65]);

/* Tests: false takes the way of machines without the instructions; returns whether they are there.
 * For messages begun afterwards. */
bool tw_sha256_use_instructions(bool yes);
#endif
