/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SAY_H
#define TW_CMD_SAY_H
/* Messages to people: always stderr, always "twinrun: ...", the progress line cleared first. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <twin/error.h>

void tw_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says err's message (NULL: none) with what was being done; returns TW_EXIT_TROUBLE. */
int tw_trouble(const struct twin_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Complaint about the command line, with the way to the help; returns TW_EXIT_TROUBLE. */
int tw_bad_use(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * What every command prints with; nothing else of cmd/ writes to stdout or stderr (tools/check_printing.py). As printf,
 * but the text arguments are foreign (names, folders, hosts, messages, key ids): what a terminal would obey, what turns
 * text around, what hides and what breaks a line is written out in them. Line breaks of the format stay.
 */
void tw_put(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tw_put_to(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text that was made in lines: these stay. */
void tw_put_lines(FILE *out, const char *text);
/* The same to stdout, where colours stay, too: for a text whose values are escaped already. */
void tw_put_coloured(const char *text);

/* What was said last: the JSON form of an error repeats it. "" at first. */
const char *tw_said(void);

#endif
