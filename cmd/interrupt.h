/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_INTERRUPT_H
#define TW_CMD_INTERRUPT_H
/* Ctrl-C and SIGTERM between two runs, while runs are compared: what is known is still reported.
 * (While a job runs, the launcher reads these signals itself.) */
#include <stdbool.h>

/* From here on the first of them only leaves a mark; the second one ends twinrun as ever. */
void tw_interrupt_hold(void);
bool tw_interrupted(void);

#endif
