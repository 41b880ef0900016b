/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SHOW_LEDGER_H
#define TW_REPORT_SHOW_LEDGER_H
/*
 * What the ledger knows of a run. Trouble with the ledger is said to front and changes nothing
 * else.
 */
#include "front.h"

#include "src/ledger/ledger.h"

#include <jansson.h>
#include <stdio.h>

/* The comparisons that the run took part in: into j as "comparisons", or, where j is NULL, as text
 * to out. id: the run's whole id. */
void tw_ledger_show_comparisons(struct twin_ledger *l, const char *id, FILE *out, json_t *j,
                                const struct tw_front *front);
/* Likewise the searches for a cause that the run was made for, or told of: "searches". */
void tw_ledger_show_searches(struct twin_ledger *l, const char *id, FILE *out, json_t *j,
                             const struct tw_front *front);
/* Shows a run whose folder was removed, found by spec: its name, or how its id begins. owner: whose
 * runs are looked at (struct twin_ledger_filter). json not NULL: as an object into *json, the
 * caller's; else as text to out. TWIN_ENOENT: the ledger knows no such run, or several; nothing was
 * shown. */
int tw_ledger_show_gone(struct twin_ledger *l, const char *owner, const char *spec, FILE *out,
                        json_t **json, const struct tw_front *front);

#endif
