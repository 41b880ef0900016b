/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_JSON_H
#define TW_CMD_JSON_H
/* Glue to jansson for the commands' own lists. A NULL json_t travels through and ends in tw_json_print. */
#include <jansson.h>
#include <stddef.h>

json_t *tw_json_text(const char *s);                         /* any bytes: unprintable ones as \xNN; NULL gives null */
json_t *tw_json_texts(char *const *items, size_t count);
json_t *tw_json_number(double v);                            /* null when not finite: JSON has no NaN */
/* Prints j on one line, gives it up; returns 0, or TW_EXIT_TROUBLE when it could not be built or written. */
int tw_json_print(json_t *j);
/* The same with all digits: each number reads back as the double that it was. */
int tw_json_print_exact(json_t *j);

#endif
