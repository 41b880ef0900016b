/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SIGNED_H
#define TW_CMD_SIGNED_H
/* The options --key, --trust and --at, which check, replay and verify share. (verify_signed.c) */
#include "verify.h"

#include "src/sign/sign.h"

/* Whom --key or --trust name, and the time of --at or now. */
int tw_signed_trust(const struct tw_verify_args *a, struct twin_trust **out, int64_t *at_ns,
                    struct twin_error *err);
#endif
