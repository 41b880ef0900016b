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

/* The comparisons that the run took part in: into j, or, where that is NULL, as text to out. */
void tw_ledger_show_comparisons(struct twin_ledger *l, const char *id, FILE *out, json_t *j,
                                const struct tw_front *front);
/*
 * Shows a run whose folder was removed. owner: whose runs are looked at (struct
 * twin_ledger_filter). json not NULL: as
 * an object into *json, the caller's. TWIN_ENOENT: the ledger knows no such run, or several;
 * nothing was shown.
 */
int tw_ledger_show_gone(struct twin_ledger *l, const char *owner, const char *spec, FILE *out,
                        json_t **json, const struct tw_front *front);

#endif
