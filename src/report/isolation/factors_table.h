/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_FACTORS_TABLE_H
#define TW_REPORT_FACTORS_TABLE_H
/* Every source of variation that twinrun can hold still or shake (twinrun factors): what its pin
 * does, and whether it applies here and to a job. */
#include "applies.h"

#include <jansson.h>
#include <stdio.h>

void tw_factors_text(FILE *out, const struct twin_factors *f, const struct tw_factor_job *j);
/* One object, schema twinrun.factors/1. The caller's; NULL: no memory. */
json_t *tw_factors_json(const struct twin_factors *f, const struct tw_factor_job *j);

#endif
