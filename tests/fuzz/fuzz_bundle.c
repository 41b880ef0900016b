/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a model's signature. None is trusted; what a statement says of a model's files is
 * compared with an empty folder, in which all of them are missing. Built with libFuzzer
 * (-Dfuzz=true), or with replay.c. The statement's own bytes are tried, too: base64 would hide them
 * from a mutator. */
#include "sign_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count(void *user, enum twin_subject_change c, const struct twin_subject *signed_one,
                  const struct twin_subject *found)
{
    must(c == TWIN_SUBJECT_MISSING && signed_one && !found && signed_one->name[0] != '/');
    ++*(size_t *)user;
}

static void compare(const struct twin_envelope *e)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_statement st;
    size_t changes = 0, seen = 0;
    if (twin_statement_parse(e, "input", &st, &err) != 0) {
        must(err.code < 0 && err.message[0] != '\0');
        return;
    }
    if (twin_model_match(&st, "input", empty_folder(), NULL, count, &seen, &changes, &err) == 0)
        must(changes > 0 && seen == changes);
    else
        must(err.code < 0 && err.message[0] != '\0');
    twin_statement_free(&st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_envelope e;
    struct twin_trust_verdict v;
    if (twin_bundle_parse((const char *)data, size, "input", &e, &err) == 0) {
        must(e.signature_count == 1);
        must(twin_trust_judge(trust_of_nobody(), &e, 0, &v, &err) == 0 && !v.trusted);
        twin_trust_verdict_free(&v);
        compare(&e);
        twin_envelope_free(&e);
    } else
        must(err.code < 0 && err.message[0] != '\0');
    if (twin_envelope_make(TWIN_PAYLOAD_INTOTO, data, size, &e, NULL) == 0) {
        compare(&e);
        twin_envelope_free(&e);
    }
    return 0;
}
