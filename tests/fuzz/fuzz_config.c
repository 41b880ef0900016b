/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a configuration in JSON and YAML (TOML is read by Python). What is accepted has a
 * canonical form, and that, read as JSON where it holds no tag of ours, is its own canonical form.
 * Built with libFuzzer (-Dfuzz=true), or with replay.c. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "config_values.h"
#include "jcs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int yes)
{
    if (!yes)
        abort();
}

/* 1e20 prints as an integer, and integers beyond 2^53 get a tag, or are refused beyond 64 bits. */
static int long_number(const char *s)
{
    while ((s = strpbrk(s, "0123456789")) != NULL) {
        const size_t digits = strspn(s, "0123456789");
        if (digits > 15)
            return 1;
        s += digits;
    }
    return 0;
}

static void try_one(json_t *(*read)(const char *, size_t, const char *, struct twin_error *),
                    const char *text, size_t n)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_buf once = {0}, twice = {0};
    json_t *value = read(text, n, "input", &err), *again;
    if (!value) {
        must(err.code < 0 && err.message[0] != '\0');
        return;
    }
    if (tw_jcs_write(value, &once, &err) == 0 && !strstr(once.data, TW_TAG) &&
        !long_number(once.data)) {
        again = tw_config_from_json(once.data, once.len, "canonical form", &err);
        must(again && tw_jcs_write(again, &twice, &err) == 0 && twice.len == once.len &&
             memcmp(twice.data, once.data, once.len) == 0);
        json_decref(again);
    }
    json_decref(value);
    tw_buf_free(&once);
    tw_buf_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    try_one(tw_config_from_json, text, size);
    try_one(tw_config_from_yaml, text, size);
    free(text);
    return 0;
}
