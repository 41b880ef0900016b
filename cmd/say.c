/* SPDX-License-Identifier: Apache-2.0 */
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

static void put_to(FILE *out, const char *format, va_list ap)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    tw_buf_vprint_safe(&b, format, ap);
    fputs(b.failed ? "out of memory\n" : b.data, out);
    tw_buf_free(&b);
}

void tw_put(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    put_to(stdout, format, ap);
    va_end(ap);
}

void tw_put_to(FILE *out, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    put_to(out, format, ap);
    va_end(ap);
}

static void put_lines(FILE *out, const char *text, bool coloured)
{
    char *safe = tw_printable_lines(text, coloured);
    fputs(safe ? safe : "out of memory\n", out);
    tw_free(safe);
}

void tw_put_lines(FILE *out, const char *text)
{
    put_lines(out, text, false);
}

void tw_put_coloured(const char *text)
{
    put_lines(stdout, text, true);
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
    const char *message = err && err->message[0] ? err->message : "";
    if (err && !*message)
        message = twin_error_name(err->code);
    char *safe = tw_printable_again(message, strlen(message)), *tail = err && safe ? tw_printf(": %s", safe) : NULL;
    va_list ap;
    va_start(ap, format);
    say("", format, ap, tail ? tail : "");
    va_end(ap);
    tw_free(tail);
    tw_free(safe);
    return TW_EXIT_TROUBLE;
}

int tw_bad_use(const char *command, const char *format, ...)
{
    char head[64] = "", tail[64];
    va_list ap;
    if (command)
        snprintf(head, sizeof head, "%s: ", command);
    snprintf(tail, sizeof tail, "\n  try: twinrun help%s%s", command ? " " : "", command ? command : "");
    va_start(ap, format);
    say(head, format, ap, tail);
    va_end(ap);
    return TW_EXIT_TROUBLE;
}

/* Characters that no shell gives a meaning to, anywhere in a word. */
static bool plain_word(const char *s)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+^";
    return *s && strspn(s, safe) == strlen(s);
}

/* Inside '...', where only the quote itself needs care. */
static void quote_single(struct tw_buf *b, const char *s)
{
    tw_buf_puts(b, "'");
    for (const char *p = s; *p; p++) {
        if (*p == '\'')
            tw_buf_puts(b, "'\\''");
        else
            tw_buf_append(b, p, 1);
    }
    tw_buf_puts(b, "'");
}

/* A word with bytes that a terminal would take for orders, as any POSIX shell makes it again. */
static void quote_by_printf(struct tw_buf *b, const char *s)
{
    tw_buf_puts(b, "\"$(printf '");
    for (const char *p = s; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c >= 0x7F || c == '\'' || c == '\\')
            tw_buf_printf(b, "\\%03o", c);
        else if (c == '%')
            tw_buf_puts(b, "%%");
        else
            tw_buf_append(b, p, 1);
    }
    tw_buf_puts(b, "')\"");
}

/* $(...) takes newlines off its end. Of such words only shells that know $'...' make the same again. */
static void quote_with_last_newline(struct tw_buf *b, const char *s)
{
    tw_buf_puts(b, "$'");
    for (const char *p = s; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c >= 0x7F)
            tw_buf_printf(b, "\\%03o", c);
        else if (c == '\'' || c == '\\')
            tw_buf_printf(b, "\\%c", c);
        else
            tw_buf_append(b, p, 1);
    }
    tw_buf_puts(b, "'");
}

/* The word as it may be shown: without secrets. malloc'ed. */
static char *without_secrets(const char *s, int *pending)
{
    size_t n = strlen(s), room = n * sizeof TW_SECRET_MASK + 64;
    char *safe = tw_malloc(room);
    if (safe)
        tw_secret_mask(pending, s, n, safe, room);
    return safe;
}

static void quote_word(struct tw_buf *b, const char *given, int *pending)
{
    char *s = without_secrets(given, pending);
    if (!s) {
        b->failed = TWIN_ENOMEM;
        return;
    }
    size_t n = strlen(s);
    char *safe = tw_printable(s, n);
    bool prints_as_it_is = safe && strcmp(safe, s) == 0;
    if (!safe)
        b->failed = TWIN_ENOMEM;
    if (plain_word(s))
        tw_buf_puts(b, s);
    else if (prints_as_it_is)
        quote_single(b, s);
    else if (s[n - 1] == '\n')
        quote_with_last_newline(b, s);
    else
        quote_by_printf(b, s);
    tw_free(safe);
    tw_free(s);
}

char *tw_shell_quote(char *const *argv, size_t count)
{
    struct tw_buf b = {0};
    int pending = TW_SECRET_NONE;
    tw_buf_puts(&b, "");
    for (size_t i = 0; count ? i < count : argv[i] != NULL; i++) {
        if (i)
            tw_buf_puts(&b, " ");
        quote_word(&b, argv[i], &pending);
    }
    return tw_buf_steal(&b);
}

char *tw_human_seconds(double s, char out[24])
{
    if (s < 99.95)
        snprintf(out, 24, "%.1f s", s);
    else if (s < 3600)
        snprintf(out, 24, "%d min %02d s", (int)(s + 0.5) / 60, (int)(s + 0.5) % 60);
    else
        snprintf(out, 24, "%.0f h %02d min", (double)((long long)s / 3600), (int)((long long)s % 3600 / 60));
    return out;
}

const char *tw_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
