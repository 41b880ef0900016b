/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_RUN_ORDERS_H
#define TW_CMD_RUN_ORDERS_H
/* What run --replay-order replays of a recorded run: the order of messages, and that of results. */
#include "match_order.h"
#include "results_order.h"

#include "src/isolate/isolate.h"

/* One of the two may be none. */
struct tw_run_orders {
    struct tw_matches matches;
    struct tw_results results;
};

/* An error where one cannot be known, or there is none. Free it also then. */
int tw_run_orders_read(struct tw_run_orders *o, const struct twin_run *recorded, uint32_t wait_ms,
                       struct twin_error *err);
void tw_run_orders_free(struct tw_run_orders *o);
/* Takes the pins out of the world that would make another order, or another program; *left_out says
 * so. */
int tw_run_orders_step_back(const struct tw_run_orders *o, struct twin_world *w, char **left_out,
                            struct twin_error *err);
/* For fill_folder of struct twin_launch_options; user: a struct tw_run_orders. */
int tw_run_orders_fill(void *user, const char *run_dir, struct twin_error *err);
/* How far the recorded orders were kept. That they were not is said also when quiet. */
void tw_run_orders_report(const struct tw_run_orders *o, const struct twin_run *r, bool quiet);
#endif
