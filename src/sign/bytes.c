/* SPDX-License-Identifier: Apache-2.0 */
/* A file that counts only when those who are trusted signed its very bytes (the baseline of check
 * --against). */
#include "verified.h"

#include "base.h"
#include "sha256.h"

#include <string.h>

/* Counts the calls of twin_subjects_match: here it is enough whether there is any. */
static void count_change(void *user, enum twin_subject_change c,
                         const struct twin_subject *signed_one, const struct twin_subject *found)
{
    (void)c;
    (void)signed_one;
    (void)found;
    ++*(size_t *)user;
}

/* Whose signatures counted, for a sentence: "team.key.pub, ana". malloc'ed; NULL: no memory. */
static char *signers(const struct twin_trust_verdict *v)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < v->judged_count; i++)
        if (v->judged[i].state == TWIN_SIGNATURE_GOOD)
            tw_buf_printf(&b, "%s%s", b.len ? ", " : "", v->judged[i].name);
    return tw_buf_steal(&b);
}

/*
 * Holds the statement against the bytes that were read. They are hashed, not the file once more: it
 * may be another one by now. Names count, so that a signed file cannot stand in for another one; so
 * does the kind of statement, since a run's statement about a file says something else. Returns 0
 * or TWIN_EFORMAT.
 */
static int same_bytes(const struct twin_statement *st, const char *path, const char *text,
                      size_t bytes, struct twin_error *err)
{
    char hex[65];
    size_t changes = 0;
    struct twin_subjects found = {0};
    int rc = tw_sha256_of(text, bytes, hex)
                 ? 0
                 : twin_error_set(err, TWIN_ENOMEM, "SHA-256 cannot be computed");
    rc = rc ? rc : twin_subjects_add(&found, tw_base_name(path), "sha256", hex, err);
    if (rc == 0)
        twin_subjects_match(&st->subjects, &found, true, count_change, &changes);
    if (rc == 0 && (changes || strcmp(st->predicate_type, TWIN_PREDICATE_SIGNED) != 0))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s is not what was signed", path);
    twin_subjects_free(&found);
    return rc;
}

/* The order is the room's (sign.h): signatures first, and the statement is read only when they are
 * enough. */
int tw_signed_bytes(const char *path, const char *text, size_t bytes,
                    const struct twin_trust *trust, int64_t at_ns, char **who,
                    struct twin_error *err)
{
    struct twin_trust_verdict judged = {0};
    struct twin_envelope e = {0};
    struct twin_statement st = {0};
    size_t n;
    char *beside = tw_printf("%s.dsse.json", path), *envelope = NULL;
    int rc = beside ? 0 : tw_no_memory(err, "verifying a signature");
    *who = NULL;
    rc = rc ? rc : tw_read_file(beside, TWIN_ENVELOPE_MAX, &envelope, &n, err);
    rc = rc ? rc : twin_envelope_parse(envelope, n, beside, false, &e, err);
    rc = rc ? rc : twin_trust_judge(trust, &e, at_ns, &judged, err);
    if (rc == 0 && !judged.trusted)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s is not to be trusted: %s", beside, judged.why);
    rc = rc ? rc : twin_statement_parse(&e, beside, &st, err);
    rc = rc ? rc : same_bytes(&st, path, text, bytes, err);
    if (rc == 0 && !(*who = signers(&judged)))
        rc = tw_no_memory(err, "verifying a signature");
    twin_statement_free(&st);
    twin_trust_verdict_free(&judged);
    twin_envelope_free(&e);
    tw_free(envelope);
    tw_free(beside);
    return rc;
}
