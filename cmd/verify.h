/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_VERIFY_H
#define TW_CMD_VERIFY_H
/* twinrun verify TARGET: one row for each kind of target (verify.c). A kind's functions stand in a
 * file of their own. */
#include "options.h"

#include <stdbool.h>
#include <stddef.h>

struct tw_verify_args {
    bool quick, json, quiet;
    struct tw_strings keys; /* of signatures */
    const char *trust, *at, *home, *precision;
    bool foreign;
};

struct tw_verify_kind {
    const char *name; /* what it is called in messages */
    /* Is it one? head: the first n bytes of the file (at most 4096, a NUL behind them); a folder:
     * NULL. */
    bool (*is)(const char *target, const char *head, size_t n);
    size_t most; /* operands, with the target */
    /* the exit code */
    int (*verify)(char *const *operands, size_t count, const struct tw_verify_args *a);
};

extern const struct tw_verify_kind tw_verify_snapshot; /* verify_snapshot.c */
extern const struct tw_verify_kind tw_verify_signed;   /* verify_signed.c */
/* verify_layout.c */
extern const struct tw_verify_kind tw_verify_dvc, tw_verify_lfs, tw_verify_huggingface;
extern const struct tw_verify_kind tw_verify_package; /* verify_package.c */
/* verify_precision.c: the exit code of --precision, whose target is a run by path or name. */
int tw_verify_precision(const char *target, const struct tw_verify_args *a);
#endif
