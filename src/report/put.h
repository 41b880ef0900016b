/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_PUT_H
#define TW_REPORT_PUT_H
/*
 * What the words of a report are printed with: to a FILE that the caller chose, never to one of
 * this room's choice.
 *
 * Nothing else of the rooms prints (tools/check_printing.py). All functions write to out and return
 * nothing: whoever closes or flushes the file learns whether it took the words.
 */
#include <stdarg.h>
#include <stdio.h>

/*
 * As printf, but the text arguments are foreign (names, folders, hosts, messages, key ids): what a
 * terminal would obey, what turns text around, what hides and what breaks a line is written out in
 * them. Line breaks of the format stay.
 */
void tw_put_to(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tw_vput_to(FILE *out, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));
/* Text of several lines: line breaks stay, and all else is escaped as above. For texts that this
 * room has put together itself. */
void tw_put_lines(FILE *out, const char *text);
/* The same, and ANSI colours stay, too: for a text whose foreign values are escaped already. */
void tw_put_coloured(FILE *out, const char *text);

#endif
