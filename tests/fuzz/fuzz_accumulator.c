/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an accumulator. What is accepted is written back to the same bytes, and adds and
 * rounds without harm. The mutator makes the checksum good again, so that what lies behind it is
 * reached. Built with libFuzzer (-Dfuzz=true), or with replay.c. */
#include <stdlib.h>
#include <string.h>
#include <twin/exact.h>

#include "base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));

static void must(int yes)
{
    if (!yes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum twin_dtype dtypes[] = {TWIN_F64, TWIN_F32, TWIN_F16, TWIN_BF16};
    struct twin_acc acc, taken;
    struct twin_error err = TWIN_ERROR_INIT;
    unsigned char bytes[TWIN_ACC_BYTES];
    uint64_t out, again;
    twin_acc_init(&acc);
    if (twin_acc_read(&acc, data, size, &err) != 0) {
        must(err.message[0] != '\0'); /* a refusal says why */
        return 0;
    }
    twin_acc_write(&acc, bytes);
    must(size == sizeof bytes && !memcmp(bytes, data, size));
    const double x[3] = {1.5, -0x1p1023, 0x1p-1074};
    taken = acc;
    if (twin_acc_add(&taken, TWIN_F64, x, 3, NULL) == 0) {
        twin_acc_write(&taken, bytes); /* a sum with more in it is as good as any other */
        must(twin_acc_read(&taken, bytes, sizeof bytes, NULL) == 0);
    }
    if (twin_acc_merge(&taken, &taken, NULL) == 0) {
        twin_acc_write(&taken, bytes);
        must(twin_acc_read(&taken, bytes, sizeof bytes, NULL) == 0);
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        out = again = 0;
        must(twin_acc_round(&acc, dtypes[i], &out, NULL) == 0 &&
             twin_acc_round(&acc, dtypes[i], &again, NULL) == 0);
        must(out == again);
    }
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = LLVMFuzzerMutate ? LLVMFuzzerMutate(data, size, max_size) : size;
    if (seed % 8 && size == TWIN_ACC_BYTES) {
        const uint32_t crc = tw_crc32c(0, data, TWIN_ACC_BYTES - 8);
        for (int i = 0; i < 8; i++)
            data[TWIN_ACC_BYTES - 8 + i] = i < 4 ? (uint8_t)(crc >> 8 * i) : 0;
    }
    return size;
}
