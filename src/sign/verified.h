/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SIGN_VERIFIED_H
#define TW_SIGN_VERIFIED_H
/*
 * Verification as a whole: whose signatures are good, are they enough, and is what lies here what
 * they are about? The answer is a finding, with the sentence that says why; errors are for what
 * could not be read. (verified.c, bytes.c)
 */
#include "src/sign/sign.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

struct json_t;

/* The answer in one word. What could not be read at all is an error and no outcome. */
enum tw_verified_outcome {
    TW_VERIFIED_SAME,   /* trusted, and what was given is what was signed */
    TW_VERIFIED_FAILED, /* not trusted, or something else than was signed */
    TW_VERIFIED_OPEN    /* trusted, but what it is about was not given */
};

/* What is to be verified, by whose keys, and as of when. All of it is borrowed. */
struct tw_verified_question {
    const char *envelope;  /* path of an envelope or of a bundle */
    char *const *operands; /* what is to be held against it */
    size_t operand_count;
    const char *home; /* where runs are looked for by name; NULL: the default home */
    const struct twin_trust *trust;
    int64_t at_ns; /* the time against which validity is checked */
    bool foreign;  /* also take an envelope in the form of another tool */
};

/* What verification found. It is filled as far as it went: what stands behind the first refusal was
 * never looked at. */
struct tw_verified {
    enum tw_verified_outcome outcome;
    bool bundle;   /* a model's signature, not an envelope */
    char why[512]; /* the verdict as a sentence */
    struct twin_envelope envelope;
    struct twin_trust_verdict
        trust; /* points into the envelope, and into the trust that was asked */
    struct twin_statement
        statement;          /* empty when it is not trusted: what is not trusted is not read */
    size_t subjects;        /* of the statement */
    struct json_t *changes; /* [{"change", "name", "signed", "found"}] */
};

/* Needs tw_verified_free after success; q->trust has to live until then. TWIN_EIO, TWIN_ENOENT,
 * TWIN_EFORMAT, TWIN_EINVAL, TWIN_ENOMEM. */
int tw_verified_envelope(const struct tw_verified_question *q, struct tw_verified *out,
                         struct twin_error *err);
void tw_verified_free(struct tw_verified *v);

/*
 * Do those who are trusted say that these very bytes, which were read from `path`, are what they
 * signed? The envelope lies beside it, as path.dsse.json. *signers: who did, "team.key.pub, ana";
 * tw_free. TWIN_EFORMAT: they do not.
 */
int tw_signed_bytes(const char *path, const char *text, size_t bytes,
                    const struct twin_trust *trust, int64_t at_ns, char **signers,
                    struct twin_error *err);
#endif
