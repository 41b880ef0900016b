/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_FILLED_H
#define TW_TRIAL_FILLED_H
/* Commands with a number in place of a word in braces: {n} of scale, {ranks} of check --ranks. */
#include <stdint.h>

/* The command with `number` wherever `placeholder` stands in a word. NULL-terminated, the caller's
 * (tw_filled_free); NULL: no memory. */
char **tw_filled(char *const *argv, const char *placeholder, uint64_t number);
/* NULL is allowed. */
void tw_filled_free(char **argv);

#endif
