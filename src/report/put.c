/* SPDX-License-Identifier: Apache-2.0 */
/* Prints words of a report to a FILE that the caller names. Names, paths and messages that other
 * people chose are escaped on the way (src/base/printable.c), so that no control sequence of theirs
 * reaches a terminal. The rooms of src/ print through these functions alone; the header says which
 * of them keeps line breaks and colours. */
#include "put.h"

#include "base.h"

/* The text is put together in memory first, since escaping works on whole values. When there is no
 * memory for it, the reader sees "out of memory" in its place: a report with a hole must not look
 * complete. */
void tw_vput_to(FILE *out, const char *format, va_list ap)
{
    struct tw_buf b = {0};
    /* An empty format would leave data NULL otherwise. */
    tw_buf_puts(&b, "");
    tw_buf_vprint_safe(&b, format, ap);
    fputs(b.failed ? "out of memory\n" : b.data, out);
    tw_buf_free(&b);
}

void tw_put_to(FILE *out, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    tw_vput_to(out, format, ap);
    va_end(ap);
}

/* Writes a text of several lines. coloured: ANSI colours in it stay, too. */
static void put_text(FILE *out, const char *text, bool coloured)
{
    char *safe = tw_printable_lines(text, coloured);
    fputs(safe ? safe : "out of memory\n", out);
    tw_free(safe);
}

void tw_put_lines(FILE *out, const char *text)
{
    put_text(out, text, false);
}

void tw_put_coloured(FILE *out, const char *text)
{
    put_text(out, text, true);
}
