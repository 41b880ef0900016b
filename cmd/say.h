/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SAY_H
#define TW_CMD_SAY_H
/*
 * What a command says: messages to people (stderr, "twinrun: ...", the progress line cleared
 * first), and its answer on stdout, as words or as JSON.
 */
#include "json_text.h"
#include "put.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <twin/error.h>

void tw_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says err's message (NULL: none) with what was being done; returns TW_EXIT_TROUBLE. */
int tw_trouble(const struct twin_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Complaint about the command line, with the way to the help; returns TW_EXIT_TROUBLE. */
int tw_bad_use(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * What every command prints its answer with: tw_put_to (src/report/put.h) to stdout. Nothing else
 * of cmd/ writes to stdout or stderr but what put.h has (tools/check_printing.py).
 */
void tw_put(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From here on nothing is printed by tw_say and its kin; what they said is still kept. For a
 * process that another one speaks for. */
void tw_say_nothing(void);
/* What was said last: the JSON form of an error repeats it. "" at first. */
const char *tw_said(void);

/* ---- answers as JSON. A NULL json_t travels through jansson and ends here. */

/* Prints j on one line, gives it up; returns 0, or TW_EXIT_TROUBLE when it could not be built or
 * written. */
int tw_json_print(json_t *j);
/* The same with all digits: each number reads back as the double that it was. */
int tw_json_print_exact(json_t *j);

#endif
