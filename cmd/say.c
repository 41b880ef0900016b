/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to people on stderr, and answers on stdout. All that is foreign in them (what a job is
 * called, or printed) is escaped on its way, so no name of a file can speak to the terminal.
 */
#include "say.h"

#include "options.h"
#include "terminal.h"

#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char last[2048]; /* one thread says things, and a message that is longer is cut here only */

static bool silent; /* another process speaks */

void tw_say_nothing(void)
{
    silent = true;
}

const char *tw_said(void)
{
    return last;
}

void tw_put(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    tw_vput_to(stdout, format, ap);
    va_end(ap);
}

/* Formats head, format and tail as one message, keeps it, and prints it. */
static void say_message(const char *head, const char *format, va_list ap, const char *tail)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, head);
    tw_buf_vprint_safe(&b, format, ap);
    tw_buf_puts(&b, tail);
    snprintf(last, sizeof last, "%s", b.failed ? "out of memory" : b.data);
    tw_buf_free(&b);
    if (silent)
        return;
    tw_progress_clear();
    fflush(stdout);
    fprintf(stderr, "twinrun: %s\n", last);
}

void tw_say(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say_message("", format, ap, "");
    va_end(ap);
}

/* What happened in err comes behind what was being done. */
int tw_trouble(const struct twin_error *err, const char *format, ...)
{
    char *tail = tw_error_tail(err);
    va_list ap;
    va_start(ap, format);
    say_message("", format, ap, tail ? tail : "");
    va_end(ap);
    tw_free(tail);
    return TW_EXIT_TROUBLE;
}

/* The way to the help is part of the message. */
int tw_bad_use(const char *command, const char *format, ...)
{
    char head[64] = "", tail[64];
    va_list ap;
    if (command)
        snprintf(head, sizeof head, "%s: ", command);
    snprintf(tail, sizeof tail, "\n  try: twinrun help%s%s", command ? " " : "",
             command ? command : "");
    va_start(ap, format);
    say_message(head, format, ap, tail);
    va_end(ap);
    return TW_EXIT_TROUBLE;
}

/* ---- answers as JSON */

/* Prints the object with so many digits, and frees it. Characters that a terminal would obey stay
 * escaped, as JSON allows it anywhere. */
static int print_json(json_t *j, size_t digits)
{
    int rc = 0;
    char *dumped = j ? json_dumps(j, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits)) : NULL;
    char *shown = dumped ? tw_printable_json(dumped) : NULL;
    if (!shown || fputs(shown, stdout) < 0 || putchar('\n') < 0) {
        tw_say("cannot write the JSON answer%s", shown ? "" : ": out of memory");
        rc = TW_EXIT_TROUBLE;
    }
    tw_free(shown);
    free(dumped);
    json_decref(j);
    return rc;
}

/* Nine digits tell any two numbers of 32 bits apart. */
int tw_json_print(json_t *j)
{
    return print_json(j, 9);
}

/* Seventeen give every double back, for what is read in again. */
int tw_json_print_exact(json_t *j)
{
    return print_json(j, 17);
}
