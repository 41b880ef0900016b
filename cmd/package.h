/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_PACKAGE_H
#define TW_CMD_PACKAGE_H
/* What verify, audit and replay of a package share. (verify_package.c) */
#include "src/package/package.h"
#include "src/sign/sign.h"

/* -1: *out holds what was found. Else the exit code; what went wrong was said. */
int tw_package_open(const char *dir, struct twin_trust *trust, int64_t at_ns, const char *copy,
                    struct twin_bag_verdict *out);
#endif
