/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over files, without libFuzzer: its seeds, or an input that once failed. With
 * -mutate N each file also comes in N versions with bytes changed by a fixed generator. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
    __attribute__((weak));
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static uint64_t state = 1;

static uint64_t next(void)
{
    return tw_mix64(state++);
}

/* Stands in for libFuzzer's: flips, sets, copies and cuts. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    (void)max_size;
    for (uint64_t edits = 1 + next() % 4; edits > 0 && size > 0; edits--) {
        size_t at = next() % size;
        switch (next() % 8) {
        case 0: data[at] = (uint8_t)next(); break;
        case 1: data[at] = (uint8_t)(next() % 2 ? 0xFF : 0); break;
        case 2: data[at]++; break;
        case 3: memmove(data + at, data + next() % (at + 1), (size - at) / 8); break;
        case 4: size = next() % 16 == 0 ? at : size; break;
        default: data[at] ^= (uint8_t)(1u << next() % 8); break;
        }
    }
    return size;
}

int main(int argc, char **argv)
{
    long versions = 0;
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "-mutate") == 0) {
        versions = strtol(argv[2], NULL, 10);
        first = 3;
    }
    for (int i = first; i < argc; i++) {
        char *data;
        size_t size;
        struct twin_error err = TWIN_ERROR_INIT;
        if (tw_read_file(argv[i], (size_t)1 << 28, &data, &size, &err) != 0) {
            fprintf(stderr, "%s\n", err.message);
            return 2;
        }
        uint8_t *copy = malloc(size + 1);
        for (long n = -1; copy && n < versions; n++) {
            size_t bytes = size;
            memcpy(copy, data, size);
            if (n >= 0)
                bytes = LLVMFuzzerCustomMutator
                            ? LLVMFuzzerCustomMutator(copy, size, size, (unsigned)next())
                            : LLVMFuzzerMutate(copy, size, size);
            LLVMFuzzerTestOneInput(copy, bytes);
        }
        free(copy);
        tw_free(data);
    }
    printf("%d files\n", argc - first);
    return argc > first ? 0 : 2;
}
