/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SIGN_SIGNING_H
#define TW_SIGN_SIGNING_H
/*
 * Signing as a whole: what an operand stands for, the statement about it, who signs, and the file
 * in which it ends. What verifies it is verified.h.
 */
#include "src/sign/sign.h"

#include <stdbool.h>
#include <stddef.h>
#include <twin/error.h>

struct twin_compare_options;
struct twin_verdict;

/* What a person asked to be signed. Everything is borrowed. */
struct tw_signing {
    const char *home;   /* the folder that holds the runs; NULL: the default one */
    const char *target; /* a file, a folder, a run; with add an envelope */
    const char *out;    /* where it goes; NULL: beside the target; "-": the caller writes it */
    bool add;           /* the target is an envelope, to which a signature is added */
    bool model;         /* the target is a folder with a model, for the client model_signing */
};

/*
 * The statement about the target, which nobody (with add: not everybody) has signed yet, and the
 * path of its file (tw_free). *e needs twin_envelope_free in any case. TWIN_EINVAL: there is
 * nothing to sign; others as of what is read.
 */
int tw_signing_prepare(const struct tw_signing *s, struct twin_envelope *e, char **path,
                       struct twin_error *err);

/* Each key signs, in this order. model: only ECDSA keys may, as its client demands
 * (TWIN_EUNSUPPORTED). */
int tw_envelope_sign_all(struct twin_envelope *e, const char *const *keys, size_t count, bool model,
                         struct twin_error *err);

/* The text of its file: an envelope, or a model's bundle. malloc'ed. */
int tw_signing_text(const struct twin_envelope *e, bool model, char **text, size_t *bytes,
                    struct twin_error *err);
/* Writes it. replace: the file is the envelope that got a signature more; else one that is there
 * stays, since it may hold others' signatures: TWIN_EIO. */
int tw_signing_write(const char *path, const char *text, size_t bytes, bool replace,
                     struct twin_error *err);

/* Compares the named runs, as twin_reproduced_envelope does, which says what *v and *e are.
 * TWIN_EINVAL: one of them is no run. */
int tw_signing_reproduced(const char *home, char *const *names, size_t count,
                          const struct twin_compare_options *o, struct twin_verdict **v,
                          struct twin_envelope *e, struct twin_error *err);
#endif
