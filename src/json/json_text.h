/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_JSON_TEXT_H
#define TW_JSON_TEXT_H
/*
 * Values of C as JSON, and nothing else of jansson's work. Each returns a new reference, NULL when
 * out of memory: a NULL travels through jansson's own calls, so that only the whole needs to be
 * looked at.
 */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* any bytes: unprintable ones as \xNN; NULL gives null */
json_t *tw_json_text(const char *s);
json_t *tw_json_texts(char *const *items, size_t count);
/* "a,b" as a list of its words, which are UTF-8 and have no comma in them */
json_t *tw_json_split(const char *text);
json_t *tw_json_number(double v);                 /* null when not finite: JSON has no NaN */
json_t *tw_json_128(uint64_t high, uint64_t low); /* a digest of two words: 32 hex digits */
/* INT64_MAX stands for what is beyond it */
json_t *tw_json_count(uint64_t n);

#endif
