/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_OPERATIONS_H
#define TW_REPORT_OPERATIONS_H
/* Checklists of operations, filled from evidence: before production, in production, in an incident
 * (audit --checklist). What no evidence says is "not known", never a pass. */
#include "src/ledger/ledger.h"
#include "src/package/package.h"

#include <jansson.h>
#include <stdbool.h>

/* pre-production, production, incident */
bool tw_operations_is(const char *name);

/* Where evidence is looked for, all borrowed. ledger: NULL, there is none. home: whose runs count,
 * as tw_slo_history_load. run_id, run_dir: NULL where the target is no run. */
struct tw_operations {
    struct twin_ledger *ledger;
    const char *home, *run_id, *run_dir;
};

/* A list of {"item", "answer": "pass"|"fail"|"not known", "because"}: because names what was looked
 * at. The caller's; NULL with err set: the ledger cannot be read, no memory. */
json_t *tw_operations_checklist(const char *name, json_t *const area[TWIN_AREAS],
                                const struct tw_operations *where, struct twin_error *err);
#endif
