/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what another process of `twinrun diff --mpi` sends (src/compare/share.h). The
 * checksum is put right first, else nothing would come past it. Whatever is accepted stays within
 * its share. Built with libFuzzer (-Dfuzz=true), or with replay.c. */
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "share.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int yes)
{
    if (!yes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { TRACES = 3, CRC = 8, CRC_FROM = 12 };
    static char *names[] = {(char *)"ranks/0.1.twt", (char *)"ranks/1.2.twt",
                            (char *)"ranks/2.3.twt"};
    static const struct twin_run run = {.traces = names, .trace_count = TRACES};
    static const struct twin_run *const runs[2] = {&run, &run};
    const struct twin_share share = {.parts = 2};
    struct tw_shares shares = {.count = 2 * TRACES};
    shares.found = tw_calloc(shares.count, sizeof *shares.found);
    char *message = tw_malloc(size + 1); /* as long as it is, so that ASan sees who reads on */
    must(shares.found && message);
    memcpy(message, data, size);
    if (size >= CRC_FROM) {
        const uint32_t crc = tw_crc32c(0, message + CRC_FROM, size - CRC_FROM);
        memcpy(message + CRC, &crc, sizeof crc);
    }
    char *exact = tw_realloc(message, size > 0 ? size : 1);
    must(exact != NULL);
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_shares_read(runs, 2, &share, 1, exact, size, &shares, &err);
    must(rc == 0 || rc == TWIN_EFORMAT || rc == TWIN_EIO);
    must(rc == 0 || err.message[0] != '\0');
    volatile unsigned seen = 0;
    for (size_t i = 0; i < shares.count; i++) {
        const struct twin_trace_verified *v = &shares.found[i];
        must(v->bytes == 0 || i % 2 == 1);
        must(v->series <= TW_SHARE_SERIES);
        for (uint32_t k = 0; v->observed && k < v->series; k += 8)
            seen += v->observed[k / 8]; /* all of it is there to be read */
    }
    tw_shares_free(&shares);
    tw_free(exact);
    return 0;
}
