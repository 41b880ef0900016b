/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_DIGEST_H
#define TW_CMD_DIGEST_H
#include <stdbool.h>
#include <stddef.h>

/* twinrun digest of one file of tensors, or of two: which tensors differ, by how much. The exit
 * code. (digest_tensors.c) */
int tw_digest_tensors(char *const *files, size_t count, bool only_tensors, bool json);
#endif
