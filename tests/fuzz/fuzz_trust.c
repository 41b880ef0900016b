/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a trust.toml. What is accepted asks for at least one key. Built with libFuzzer
 * (-Dfuzz=true), or with replay.c. */
#include "sign_key.h"

#include "internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *t;
    struct twin_envelope e;
    struct twin_trust_verdict v;
    char *text = malloc(size + 1), path[256];
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    snprintf(path, sizeof path, "%s/trust.toml", key_folder());
    if (tw_trust_parse(text, size, path, &t, &err) == 0) {
        must(twin_envelope_make("t", "p", 1, &e, NULL) == 0);
        must(twin_trust_judge(t, &e, 0, &v, NULL) == 0 && !v.trusted && v.needed >= 1);
        twin_trust_verdict_free(&v);
        twin_envelope_free(&e);
        twin_trust_free(t);
    } else
        must(err.code < 0 && err.message[0] != '\0');
    free(text);
    return 0;
}
