/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_ROLLOUT_WORDS_H
#define TW_REPORT_ROLLOUT_WORDS_H
/* What twinrun rollout says of a rollout and of its decisions. */
#include "src/rollout/rollout.h"

#include <jansson.h>
#include <stdio.h>

/* verb: "start", "step", "status", "stop", "fallback"; flag: the path. */
void tw_rollout_print(FILE *out, const char *verb, const char *flag,
                      const struct tw_rollout_result *r);
/* log: the decisions, or NULL. The caller's; NULL: no memory. */
json_t *tw_rollout_json(const char *verb, const char *flag, const struct tw_rollout_result *r,
                        const struct tw_rollout_log *log);

/* What the ledger says of all rollouts (tw_rollout_list_load): nothing where there is none. */
void tw_rollout_told_print(FILE *out, const struct tw_rollout_list *list);
json_t *tw_rollout_told_json(const struct tw_rollout_list *list);
/* "running", "fell back", "stopped" */
const char *tw_rollout_told_state(const struct tw_rollout_told *t);

/* The last decision of each rollout. */
void tw_rollout_print_list(FILE *out, const struct tw_rollout_log *log);
json_t *tw_rollout_list_json(const struct tw_rollout_log *log);

#endif
