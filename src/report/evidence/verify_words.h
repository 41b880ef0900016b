/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_VERIFY_WORDS_H
#define TW_REPORT_VERIFY_WORDS_H
/* What twinrun verify says of packages and of envelopes of signatures, in words and as JSON. JSON
 * is the caller's; NULL: no memory. */
#include "verified.h"

#include "src/package/package.h"

#include <jansson.h>
#include <stdio.h>

/* ---- package_words.c */
json_t *tw_package_findings(const struct twin_bag_verdict *v);
json_t *tw_package_json(const char *dir, const struct twin_bag_verdict *v);
void tw_package_text(FILE *out, const char *dir, const struct twin_bag_verdict *v);

/* ---- signed_words.c: of an envelope of signatures */
/* at_ns: the time at which the validity of keys was checked. */
json_t *tw_signed_json(const struct tw_verified *v, int64_t at_ns);
void tw_signed_text(FILE *out, const struct tw_verified *v);

#endif
