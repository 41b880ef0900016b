/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_VALUES_PATH_H
#define TW_CMD_VALUES_PATH_H
/* Which file of numbers an operand means. */

/*
 * The path itself, or the one file of tensors that a run wrote. malloc'ed; NULL after a complaint.
 */
char *tw_values_path(const char *command, const char *operand, const char *home);

#endif
