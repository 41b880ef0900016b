/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SIMULATE_REPORT_H
#define TW_REPORT_SIMULATE_REPORT_H
/* What twinrun simulate found (src/study/simulate.h), in words and as JSON. */
#include "simulate.h"

#include <jansson.h>
#include <stdio.h>

/* For people: what was simulated, then each algorithm. */
void tw_simulate_text(FILE *out, const struct tw_simulation *s);
/* The caller's; NULL: no memory. Every digit counts: print it exactly. */
json_t *tw_simulate_json(const struct tw_simulation *s);

#endif
