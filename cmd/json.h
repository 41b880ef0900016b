/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_JSON_H
#define TW_CMD_JSON_H
/* JSON answers to stdout. A NULL json_t travels through jansson and ends here. */
#include "json_text.h"

/* Prints j on one line, gives it up; returns 0, or TW_EXIT_TROUBLE when it could not be built or
 * written. */
int tw_json_print(json_t *j);
/* The same with all digits: each number reads back as the double that it was. */
int tw_json_print_exact(json_t *j);

#endif
