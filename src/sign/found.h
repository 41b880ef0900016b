/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SIGN_FOUND_H
#define TW_SIGN_FOUND_H
/* What an operand of sign and verify stands for: a run, a folder, a file. (found.c) */
#include "src/launch/run.h"
#include "src/sign/sign.h"

#include <stdbool.h>
#include <stddef.h>
#include <twin/error.h>

/*
 * *out: the run that `spec` means (a run's folder, or when no such path is there an id, last,
 * last~1); NULL: it is a file or another folder. home: the folder that holds the runs; NULL: the
 * default one. TWIN_ENOENT, TWIN_EFORMAT, TWIN_ENOMEM.
 */
int tw_signed_run(const char *home, const char *spec, struct twin_run **out,
                  struct twin_error *err);
/*
 * What lies where the operands say, as the statement's kind names it. envelope_path is left out of
 * a folder that it lies in. *by_name: whether names count when it is held against the statement.
 * `found` needs twin_subjects_free in any case.
 */
int tw_signed_found(const struct twin_statement *st, const char *home, const char *envelope_path,
                    char *const *operands, size_t count, struct twin_subjects *found, bool *by_name,
                    struct twin_error *err);
/* Where in the folder the file lies, or will lie: relative; NULL when elsewhere. malloc'ed. */
char *tw_signed_inside(const char *folder, const char *file);
/* Is the statement about runs? Then what was added to their folders since does not count, and a
 * file may stand for itself. */
bool tw_signed_is_run(const struct twin_statement *st);
/* The files of a folder, without `but` (a file in it, or elsewhere; NULL: none). */
int tw_signed_folder(const char *folder, const char *but, struct twin_subjects *out,
                     struct twin_error *err);
#endif
