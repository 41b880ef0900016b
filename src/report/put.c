/* SPDX-License-Identifier: Apache-2.0 */
/* Prints words to a FILE of the caller's; what others chose is made harmless for a terminal first
 * (src/base/printable.c). */
#include "put.h"

#include "base.h"

void tw_vput_to(FILE *out, const char *format, va_list ap)
{
    struct tw_buf b = {0};
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
