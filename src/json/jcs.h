/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_JCS_H
#define TW_JCS_H
/*
 * The JSON Canonicalization Scheme (RFC 8785) over jansson's values: one text for one value, so
 * that a digest or a signature of the text is one of the value. (jcs.c)
 */
#include <stddef.h>
#include <twin/error.h>

struct json_t;
struct tw_buf;

enum { TW_JCS_DEPTH = 200 }; /* values nested deeper have no canonical form here */

/* Appends the canonical text of a value. TWIN_EFORMAT (NaN, infinity), TWIN_ELIMIT (depth),
 * TWIN_ENOMEM. */
int tw_jcs_write(const struct json_t *value, struct tw_buf *out, struct twin_error *err);
/* The keys of an object in its order; *count of them, borrowed from the object, the list itself
 * tw_free'd. NULL: no memory (or none). */
const char **tw_jcs_keys(const struct json_t *object, size_t *count);
/* ECMAScript's Number::toString of a finite number; out takes 32 bytes. */
void tw_jcs_number(double v, char out[32]);
#endif
