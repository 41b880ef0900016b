/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a baseline. What is accepted is written and read again to the same text, and a run
 * may be held against it. Built with libFuzzer (-Dfuzz=true), or with replay.c. */
#include "src/compare/baseline.h"

#include <stdlib.h>
#include <string.h>

#include "base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int yes)
{
    if (!yes)
        abort();
}

static void hold_against(const struct twin_baseline *b)
{
    static char path[] = GOLDEN "/trace/v1-basic.twt", empty[] = "";
    static char *traces[] = {path};
    static const struct twin_run run = {.dir = empty,
                                        .id = empty,
                                        .label = empty,
                                        .cwd = empty,
                                        .host = empty,
                                        .message = empty,
                                        .agents = true,
                                        .traces = traces,
                                        .trace_count = 1,
                                        .wall_s = 1};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_verdict *v = NULL;
    if (twin_baseline_judge(b, &run, NULL, &v, &err) != 0)
        must(err.code < 0 && err.message[0] != '\0');
    twin_verdict_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_baseline *b = NULL, *again = NULL;
    char *text = NULL, *second = NULL;
    if (twin_baseline_read((const char *)data, size, "input", &b, &err) != 0) {
        must(err.code < 0 && err.message[0] != '\0' && !b);
        return 0;
    }
    if (twin_baseline_write(b, &text, &err) == 0) { /* else it is larger than a file may be */
        must(twin_baseline_read(text, strlen(text), "written", &again, &err) == 0);
        must(twin_baseline_write(again, &second, &err) == 0 && strcmp(text, second) == 0);
    }
    hold_against(b);
    twin_baseline_free(b);
    twin_baseline_free(again);
    tw_free(text);
    tw_free(second);
    return 0;
}
