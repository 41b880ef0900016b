/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_TERMINAL_H
#define TW_CMD_TERMINAL_H
/* The person in front of the terminal, as rooms see them: messages and progress go to stderr,
 * Ctrl-C asks for an end. */
#include "front.h"

extern const struct tw_front tw_terminal;

#endif
