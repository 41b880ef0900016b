/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign text as it may be shown. Whatever others chose (names of files, tensors and hosts,
 * messages, notes, key ids) is escaped here before a person sees it: what a terminal would obey,
 * what turns the text around, and what nobody sees. One table says which characters these are; the
 * functions differ only in how they write them.
 */
#include "base.h"

#include <stdio.h>
#include <string.h>

/* Length of the well-formed UTF-8 sequence at p (at most n bytes), or 0. RFC 3629. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    static const struct {
        unsigned char low, high, second_low, second_high, length;
    } rows[] = {
        {0x00, 0x7F, 0x00, 0x00, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        size_t length = rows[r].length;
        if (p[0] < rows[r].low || p[0] > rows[r].high)
            continue;
        if (n < length || (length > 1 && (p[1] < rows[r].second_low || p[1] > rows[r].second_high)))
            return 0;
        for (size_t i = 2; i < length; i++)
            if ((p[i] & 0xC0) != 0x80)
                return 0;
        return length;
    }
    return 0;
}

/* The code point of a well-formed sequence. */
static unsigned code_point(const unsigned char *p, size_t length)
{
    static const unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    unsigned code = p[0] & first_bits[length];
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (p[i] & 0x3Fu);
    return code;
}

/*
 * Characters that are not shown as they are: controls (C0, DEL, C1); the line and paragraph
 * separators; all that Unicode 15 calls Default_Ignorable_Code_Point, which is drawn as nothing
 * (zero-width characters, the bidirectional marks, embeddings, overrides and isolates, the byte
 * order mark, variation selectors, tags); the interlinear annotations; and the noncharacters U+FFFE
 * and U+FFFF, which XML forbids.
 */
static bool is_hidden(unsigned code)
{
    static const struct {
        unsigned from, to;
    } rows[] = {
        {0x0000, 0x001F}, {0x007F, 0x009F},   {0x00AD, 0x00AD},   {0x034F, 0x034F},
        {0x061C, 0x061C}, {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},
        {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F},   {0x3164, 0x3164},
        {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},
        {0xFFFE, 0xFFFF}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        if (code >= rows[r].from && code <= rows[r].to)
            return true;
    return false;
}

/* How many bytes at p (of n > 0) are one character that is shown as it is; 0: its first byte must
 * be escaped. */
static size_t shown_length(const unsigned char *p, size_t n)
{
    size_t length = utf8_length(p, n);
    return length > 0 && !is_hidden(code_point(p, length)) ? length : 0;
}

static bool is_hex(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Does the text itself say \xNN here, as an escape of ours would? */
static bool looks_like_ours(const unsigned char *p, size_t n)
{
    return n >= 4 && p[0] == '\\' && p[1] == 'x' && is_hex(p[2]) && is_hex(p[3]);
}

/* The text with everything that is not shown as \xNN. once: also what looks like an escape already.
 */
static char *escape(const char *s, size_t n, bool once)
{
    struct tw_buf b = {0};
    const unsigned char *p = (const unsigned char *)s;
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < n;) {
        size_t length = shown_length(p + i, n - i);
        if (once && looks_like_ours(p + i, n - i))
            length = 0;
        if (length) {
            tw_buf_append(&b, s + i, length);
            i += length;
        } else {
            tw_buf_printf(&b, "\\x%02x", p[i]);
            i++;
        }
    }
    return tw_buf_steal(&b);
}

char *tw_printable(const char *s, size_t n)
{
    return escape(s, n, true);
}

char *tw_printable_again(const char *s, size_t n)
{
    return escape(s, n, false);
}

char *tw_error_tail(const struct twin_error *err)
{
    if (!err)
        return NULL;
    const char *message = err->message[0] ? err->message : twin_error_name(err->code);
    char *safe = tw_printable_again(message, strlen(message));
    char *tail = safe ? tw_printf(": %s", safe) : NULL;
    tw_free(safe);
    return tail;
}

/* The length of a colour that begins at s ("\033[1;31m"), or 0. */
static size_t colour_length(const char *s)
{
    size_t n = 2;
    if (s[0] != '\033' || s[1] != '[')
        return 0;
    n += strspn(s + n, "0123456789;");
    return s[n] == 'm' ? n + 1 : 0;
}

/* Line by line and colour by colour; what is between them goes through tw_printable_again(). */
char *tw_printable_lines(const char *text, bool coloured)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    while (*text) {
        size_t colour = coloured ? colour_length(text) : 0;
        size_t kept = *text == '\n' ? 1 : colour;
        size_t n = kept ? 0 : 1 + strcspn(text + 1, "\n\033");
        char *safe = tw_printable_again(text, n);
        tw_buf_append(&b, text, kept);
        if (safe)
            tw_buf_puts(&b, safe);
        else
            b.failed = TWIN_ENOMEM;
        tw_free(safe);
        text += kept + n;
    }
    return tw_buf_steal(&b);
}

/* Hidden characters occur in strings only, where an escape means the same. */
char *tw_printable_json(const char *json)
{
    struct tw_buf b = {0};
    const unsigned char *p = (const unsigned char *)json;
    size_t n = strlen(json);
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < n;) {
        size_t length = utf8_length(p + i, n - i);
        /* a JSON writer makes only UTF-8 */
        unsigned code = length ? code_point(p + i, length) : 0xFFFD;
        bool layout = length == 1 && (p[i] == '\n' || p[i] == '\t' || p[i] == '\r');
        if (length && (layout || !is_hidden(code)))
            tw_buf_append(&b, json + i, length);
        else if (code < 0x10000)
            tw_buf_printf(&b, "\\u%04X", code);
        else /* JSON writes these as a pair of surrogates: RFC 8259, section 7 */
            tw_buf_printf(&b, "\\u%04X\\u%04X", 0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF));
        i += length ? length : 1;
    }
    return tw_buf_steal(&b);
}

/* ---- printf for foreign text */

/* One conversion of a format: "%-*.3s". The stars have been read: width and precision are what they
 * stood for. */
struct conversion {
    char flags[8];
    int width, precision; /* precision < 0: none given */
    char length[4];
    char letter;
};

/* A number of the format, or the argument that a star stands for. */
static int number_or_star(const char **p, va_list *ap)
{
    int n = 0;
    if (**p == '*') {
        (*p)++;
        return va_arg(*ap, int);
    }
    for (; **p >= '0' && **p <= '9'; (*p)++)
        n = n < 100000 ? n * 10 + (**p - '0') : n;
    return n;
}

/* p: behind the percent sign. Returns where the text goes on. */
static const char *read_conversion(const char *p, va_list *ap, struct conversion *c)
{
    size_t flags = strspn(p, "-+ #0"), length = 0;
    *c = (struct conversion){.precision = -1};
    memcpy(c->flags, p, flags < sizeof c->flags ? flags : sizeof c->flags - 1);
    p += flags;
    c->width = number_or_star(&p, ap);
    if (*p == '.') {
        p++;
        c->precision = number_or_star(&p, ap);
    }
    while (length < sizeof c->length - 1 && *p && strchr("hlzjtL", *p))
        c->length[length++] = *p++;
    c->letter = *p;
    return *p ? p + 1 : p;
}

/* A text argument, made printable before its width is applied; the precision counts bytes of the
 * original. */
static void print_value(struct tw_buf *b, const struct conversion *c, const char *value)
{
    const char *text = value ? value : "(null)";
    size_t n = c->precision >= 0 ? strnlen(text, (size_t)c->precision) : strlen(text);
    char *safe = tw_printable_again(text, n);
    bool left = strchr(c->flags, '-') != NULL || c->width < 0;
    int width = c->width < 0 ? -c->width : c->width;
    if (!safe) {
        b->failed = TWIN_ENOMEM;
        return;
    }
    tw_buf_printf(b, left ? "%-*s" : "%*s", width, safe);
    tw_free(safe);
}

/* The same conversion as text, now with numbers for its stars. length: of the argument that goes
 * with it. */
static void spell(const struct conversion *c, const char *length, char out[64])
{
    if (c->precision >= 0)
        snprintf(out, 64, "%%%s%d.%d%s%c", c->flags, c->width, c->precision, length, c->letter);
    else if (c->width != 0)
        snprintf(out, 64, "%%%s%d%s%c", c->flags, c->width, length, c->letter);
    else
        snprintf(out, 64, "%%%s%s%c", c->flags, length, c->letter);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
/* An integer of any length, printed as intmax_t. */
static void print_integer(struct tw_buf *b, const struct conversion *c, va_list *ap)
{
    bool is_signed = c->letter == 'd' || c->letter == 'i';
    char spec[64];
    intmax_t value = 0;
    spell(c, "j", spec);
    if (strcmp(c->length, "l") == 0)
        value = va_arg(*ap, long);
    else if (strcmp(c->length, "ll") == 0)
        value = va_arg(*ap, long long);
    else if (strcmp(c->length, "z") == 0 || strcmp(c->length, "t") == 0)
        value = va_arg(*ap, ssize_t);
    else if (strcmp(c->length, "j") == 0)
        value = va_arg(*ap, intmax_t);
    else if (is_signed)
        value = va_arg(*ap, int);
    else
        value = (intmax_t)va_arg(*ap, unsigned);
    tw_buf_printf(b, spec, value);
}

/* One argument is taken off *ap, of the type that the conversion says. */
static void print_conversion(struct tw_buf *b, const struct conversion *c, va_list *ap)
{
    char spec[64];
    switch (c->letter) {
    case '%': tw_buf_puts(b, "%"); return;
    case 's': print_value(b, c, va_arg(*ap, const char *)); return;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': print_integer(b, c, ap); return;
    case 'c': {
        char one[2] = {(char)va_arg(*ap, int), '\0'};
        print_value(b, c, one);
        return;
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
        spell(c, "", spec);
        tw_buf_printf(b, spec, va_arg(*ap, double));
        return;
    /*
     * a format of ours that this function does not know: a mistake that the first test of it shows
     */
    default: b->failed = TWIN_EINVAL;
    }
}
#pragma GCC diagnostic pop

int tw_buf_vprint_safe(struct tw_buf *b, const char *format, va_list ap)
{
    va_list rest;
    va_copy(rest, ap);
    while (*format && !b->failed) {
        size_t n = strcspn(format, "%");
        struct conversion c;
        tw_buf_append(b, format, n);
        format += n;
        if (*format != '%')
            break;
        format = read_conversion(format + 1, &rest, &c);
        print_conversion(b, &c, &rest);
    }
    va_end(rest);
    return b->failed;
}

int tw_buf_print_safe(struct tw_buf *b, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int rc = tw_buf_vprint_safe(b, format, ap);
    va_end(ap);
    return rc;
}
