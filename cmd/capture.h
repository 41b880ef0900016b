/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_CAPTURE_H
#define TW_CMD_CAPTURE_H
#include <stddef.h>
#include <twin/error.h>

/*
 * Runs a small helper program with /dev/null as input and keeps what it prints to stdout (at most 1 MiB) in *out
 * (malloc'ed, NUL-terminated). Its stderr goes to /dev/null. *status is from waitpid.
 * TWIN_ENOENT: not found; TWIN_ELIMIT: still running after timeout_s (killed) or printed too much; TWIN_EIO; TWIN_ENOMEM.
 */
int tw_capture(char *const *argv, double timeout_s, char **out, int *status, struct twin_error *err);

#endif
