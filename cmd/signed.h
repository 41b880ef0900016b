/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SIGNED_H
#define TW_CMD_SIGNED_H
/* What sign and verify both know: which things an operand stands for, how a verdict is printed. */
#include "verify.h"

#include <jansson.h>
#include <twin/run.h>
#include <twin/sign.h>

/* How a verification of signatures came out. */
struct tw_signed {
    const char *kind, *predicate_type; /* NULL: not read */
    int rc;                            /* TW_EXIT_SAME, _DIFFER or _INCONCLUSIVE */
    char why[512];
    int64_t at_ns;                     /* against which validity was checked */
    size_t subjects;
    const struct twin_trust_verdict *trust;
    json_t *changes;                   /* of tw_signed_change */
};

/* Whom --key or --trust name, and the time of --at or now. */
int tw_signed_trust(const struct tw_verify_args *a, struct twin_trust **out, int64_t *at_ns, struct twin_error *err);
/* For twin_subjects_match: adds to a json list. */
void tw_signed_change(void *list, enum twin_subject_change c, const struct twin_subject *signed_one, const struct twin_subject *found);
/* Prints; returns the exit code. */
int tw_signed_print(const struct tw_signed *s, bool json);

/* *out: the run that `spec` means (a run's folder, or when no such path is there an id, last, last~1); NULL: it is a file or another folder. */
int tw_signed_run(const char *home, const char *spec, struct twin_run **out, struct twin_error *err);
/* What lies where the operands say, as the statement's kind names it. envelope_path is left out of a folder that it lies in. (signed.c) */
int tw_signed_found(const struct twin_statement *st, const char *home, const char *envelope_path, char *const *operands, size_t count, struct twin_subjects *found, bool *by_name,
                    struct twin_error *err);
/* Where in the folder the file lies, or will lie: relative; NULL when elsewhere. malloc'ed. */
char *tw_signed_inside(const char *folder, const char *file);
/* Is the statement about runs? Then what was added to their folders since does not count, and a file may stand for itself. */
bool tw_signed_is_run(const struct twin_statement *st);
/* The files of a folder, without `but` (a file in it, or elsewhere; NULL: none). */
int tw_signed_folder(const char *folder, const char *but, struct twin_subjects *out, struct twin_error *err);
#endif
