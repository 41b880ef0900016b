/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_MPI_AGENT_ORDER_FILE_H
#define TW_MPI_AGENT_ORDER_FILE_H
/* An order file in memory. */
#include "src/trace/order.h"

#include <stdbool.h>

struct tw_order {
    struct tw_order_head head;
    char (*names)[TW_ORDER_NAME];
    struct tw_order_match *matches, *ends; /* ends: behind the matches, in one piece with them */
};
/* Reads it whole; nothing in it is trusted. False: it is none, and *out is empty. */
bool tw_order_load(int fd, struct tw_order *out);
void tw_order_drop(struct tw_order *o);
#endif
