/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ISOLATE_CHECK_CLOCK_H
#define TW_ISOLATE_CHECK_CLOCK_H
/* The clock experiment of a check. It stands in this room since a faster clock is a factor's
 * world. */
#include "check.h"

/* Makes it where the verdict hangs on whether numbers are times, and puts the verdict that it leads
 * to in place of the one before. Says what it does. */
void tw_check_clock(struct tw_check *c);

#endif
