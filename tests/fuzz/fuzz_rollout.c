/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the flag file of a rollout, as they are and with a checksum that is right: an error,
 * or a flag whose text is these bytes. */
#include "src/rollout/rollout.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int yes)
{
    if (!yes)
        abort();
}

static void take(const char *text, size_t n)
{
    struct tw_rollout_flag f;
    if (tw_rollout_flag_parse(text, n, "flag", &f, NULL) == 0) {
        char *again = tw_rollout_flag_text(&f, NULL);
        must(again && strlen(again) == n && memcmp(again, text, n) == 0);
        must(f.share <= TW_ROLLOUT_WHOLE && f.rule.steps >= 1 &&
             f.rule.steps <= TW_ROLLOUT_LADDER && f.rule.alpha > 0 && f.rule.alpha < .5);
        tw_free(again);
    }
    tw_rollout_flag_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { LAST_LINE = 13 }; /* "end XXXXXXXX\n" */
    take((const char *)data, size);
    if (size <= LAST_LINE || size > TW_ROLLOUT_FLAG_BYTES)
        return 0;
    char *copy = malloc(size + 1);
    must(copy != NULL);
    memcpy(copy, data, size);
    snprintf(copy + size - LAST_LINE, LAST_LINE + 1, "end %08x\n",
             tw_crc32c(0, data, size - LAST_LINE));
    take(copy, size);
    free(copy);
    return 0;
}
