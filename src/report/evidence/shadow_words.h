/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SHADOW_WORDS_H
#define TW_REPORT_SHADOW_WORDS_H
/* What twinrun shadow says of the repeats that it made. */
#include "src/shadow/shadow.h"

#include <jansson.h>
#include <stdio.h>

void tw_shadow_print(FILE *out, const struct tw_shadow *s);
/* The caller's; NULL: no memory. */
json_t *tw_shadow_json(const struct tw_shadow *s);

#endif
