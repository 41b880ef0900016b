/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to people on stderr, and answers on stdout. */
#include "say.h"

#include "base.h"
#include "options.h"
#include "progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char last[2048]; /* one thread says things, and a message that is longer is cut here only */

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
static void say(const char *head, const char *format, va_list ap, const char *tail)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, head);
    tw_buf_vprint_safe(&b, format, ap);
    tw_buf_puts(&b, tail);
    snprintf(last, sizeof last, "%s", b.failed ? "out of memory" : b.data);
    tw_buf_free(&b);
    tw_progress_clear();
    fflush(stdout);
    fprintf(stderr, "twinrun: %s\n", last);
}

void tw_say(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say("", format, ap, "");
    va_end(ap);
}

int tw_trouble(const struct twin_error *err, const char *format, ...)
{
    char *tail = tw_error_tail(err);
    va_list ap;
    va_start(ap, format);
    say("", format, ap, tail ? tail : "");
    va_end(ap);
    tw_free(tail);
    return TW_EXIT_TROUBLE;
}

int tw_bad_use(const char *command, const char *format, ...)
{
    char head[64] = "", tail[64];
    va_list ap;
    if (command)
        snprintf(head, sizeof head, "%s: ", command);
    snprintf(tail, sizeof tail, "\n  try: twinrun help%s%s", command ? " " : "",
             command ? command : "");
    va_start(ap, format);
    say(head, format, ap, tail);
    va_end(ap);
    return TW_EXIT_TROUBLE;
}
