/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_TAR_SUMS_H
#define FUZZ_TAR_SUMS_H
/* For targets that read tar archives. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A changed header is to get beyond the check of its sum. */
static void mend_sums(uint8_t *data, size_t size)
{
    enum { BLOCK = 512, SUM = 148, SUM_BYTES = 8, MAGIC = 257 };
    for (size_t at = 0; at + BLOCK <= size; at += BLOCK) {
        unsigned sum = 0;
        if (memcmp(data + at + MAGIC, "ustar", 5) != 0)
            continue;
        memset(data + at + SUM, ' ', SUM_BYTES);
        for (size_t i = 0; i < BLOCK; i++)
            sum += data[at + i];
        snprintf((char *)data + at + SUM, SUM_BYTES, "%06o", sum);
    }
}
#endif
