/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SAY_H
#define TW_CMD_SAY_H
/* Messages to people: always stderr, always "twinrun: ...", the progress line cleared first. */
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

/* What was said last: the JSON form of an error repeats it. "" at first. */
const char *tw_said(void);

#endif
