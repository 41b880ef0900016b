/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as one could type them into a shell: quoted so that any POSIX shell reads the same words
 * again. */
#include "base.h"

#include <string.h>

/* Characters that no shell gives a meaning to, anywhere in a word. */
static bool plain_word(const char *s)
{
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+^";
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

/* $(...) takes newlines off its end. Of such words only shells that know $'...' make the same
 * again. */
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

/* Writes one word in the plainest form that stands for it. What is shown has no secret in it. */
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

char *tw_shell_word(const char *s)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    if (plain_word(s))
        tw_buf_puts(&b, s);
    else
        quote_single(&b, s);
    return tw_buf_steal(&b);
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

void tw_shell_argv(const char *text, char *argv[4])
{
    argv[0] = (char *)"sh";
    argv[1] = (char *)"-c";
    argv[2] = (char *)text;
    argv[3] = NULL;
}
