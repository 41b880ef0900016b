/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_VERIFY_H
#define TW_CMD_VERIFY_H
/*
 * twinrun verify TARGET: one row for each kind of target (verify.c), whose functions stand in a
 * file of their own; and what other commands share with it: whom a person trusts, and a package
 * that is held against its manifest.
 */
#include "options.h"

#include "src/package/package.h"
#include "src/sign/sign.h"

#include <stdbool.h>
#include <stddef.h>

/* The options of verify; check and replay fill in those about trust. */
struct tw_verify_args {
    bool quick, json, quiet;
    struct tw_strings keys; /* of signatures */
    const char *trust, *at, *home, *precision;
    bool foreign;
};

/* One kind of target: how it is told, and how it is verified. */
struct tw_verify_kind {
    const char *name; /* what it is called in messages */
    /* Is it one? head: the first n bytes of the file (at most 4096, a NUL behind them); a folder:
     * NULL. */
    bool (*is)(const char *target, const char *head, size_t n);
    size_t most; /* operands, with the target */
    /* the exit code */
    int (*verify)(char *const *operands, size_t count, const struct tw_verify_args *a);
};

/* verify_data.c */
extern const struct tw_verify_kind tw_verify_snapshot;
extern const struct tw_verify_kind tw_verify_dvc, tw_verify_lfs, tw_verify_huggingface;
extern const struct tw_verify_kind tw_verify_signed;  /* verify_signed.c */
extern const struct tw_verify_kind tw_verify_package; /* verify_package.c */

/* ---- --key, --trust and --at, which check, replay and verify share (verify_signed.c) */

/* Whom --key or --trust name, and the time of --at or now. */
int tw_signed_trust(const struct tw_verify_args *a, struct twin_trust **out, int64_t *at_ns,
                    struct twin_error *err);

/* ---- packages (verify_package.c) */

/* -1: *out holds what was found. Else the exit code; what went wrong was said. */
int tw_package_open(const char *dir, struct twin_trust *trust, int64_t at_ns, const char *copy,
                    struct twin_bag_verdict *out);

#endif
