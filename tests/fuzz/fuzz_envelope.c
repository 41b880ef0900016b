/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an envelope. What is taken as ours is its own canonical text; what is taken as
 * others' has one, which is taken as ours where its payload is canonical; none is trusted, since
 * nobody has the key. Built with libFuzzer (-Dfuzz=true), or with replay.c. */
#include "sign_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct twin_trust *trust = trust_of_nobody();
    for (int foreign = 0; foreign <= 1; foreign++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_envelope e;
        struct twin_trust_verdict v;
        struct twin_statement st;
        char *text;
        size_t n;
        if (twin_envelope_parse((const char *)data, size, "input", foreign, &e, &err) != 0) {
            must(err.code < 0 && err.message[0] != '\0');
            continue;
        }
        must(twin_envelope_text(&e, &text, &n, &err) == 0);
        must(foreign || (n == size && memcmp(text, data, n) == 0));
        must(twin_trust_judge(trust, &e, 0, &v, &err) == 0 && !v.trusted && v.good == 0);
        if (twin_statement_parse(&e, "input", &st, &err) == 0) {
            must(st.subjects.count > 0 && st.subjects.item[0].digest_count > 0);
            twin_statement_free(&st);
        }
        twin_trust_verdict_free(&v);
        twin_envelope_free(&e);
        tw_free(text);
    }
    return 0;
}
