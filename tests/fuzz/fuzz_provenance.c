/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a record of provenance: compared with an empty one, with itself (no difference) and
 * rank by rank. And as a command line in which secrets are looked for: every span lies within, and
 * what is masked once has nothing left to mask.
 */
#include "src/provenance/provenance.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int yes)
{
    if (!yes)
        abort();
}

static void compare(const json_t *a, const json_t *b, int same)
{
    struct twin_world_differences d = {0};
    must(twin_provenance_diff(a, b, &d, NULL) == 0);
    must(!same || d.count == 0);
    for (size_t i = 0; i < d.count; i++)
        must(d.item[i].what && twin_power_name(d.item[i].power)[0] != '?' &&
             (i == 0 || d.item[i].power >= d.item[i - 1].power));
    twin_world_differences_free(&d);
}

static void secrets(const char *text, size_t n)
{
    size_t at = 0, from = 0, to = 0, last = 0, room = n * 12 + 64;
    int pending = TW_SECRET_NONE;
    while (tw_secret_next(&pending, text, n, &at, &from, &to)) {
        must(from >= last && from < to && to <= n && at >= to);
        last = to;
    }
    char *out = malloc(room);
    if (!out)
        return;
    pending = TW_SECRET_NONE;
    must(tw_secret_mask(&pending, text, n, out, room) < room);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *empty = json_object();
    json_t *o = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    secrets((const char *)data, size);
    if (o && empty) {
        struct twin_world_differences d = {0};
        compare(o, empty, 1);
        compare(o, o, 1);
        must(twin_provenance_parity(o, &d, NULL) == 0);
        twin_world_differences_free(&d);
    }
    json_decref(o);
    json_decref(empty);
    return 0;
}
