/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 4648, both alphabets. OpenSSL's own decoder passes over blanks and does not look at the
 * unused bits. */
#include "base.h"

#include <errno.h>
#include <string.h>

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *tw_base64(const void *data, size_t n)
{
    const unsigned char *d = data;
    char *out = n > SIZE_MAX / 2 ? NULL : tw_malloc((n + 2) / 3 * 4 + 1), *o = out;
    if (!out)
        return NULL;
    for (size_t i = 0; i < n; i += 3) {
        const unsigned v = (unsigned)d[i] << 16 | (i + 1 < n ? (unsigned)d[i + 1] << 8 : 0) |
                           (i + 2 < n ? d[i + 2] : 0);
        *o++ = standard[v >> 18];
        *o++ = standard[v >> 12 & 63];
        *o++ = i + 1 < n ? standard[v >> 6 & 63] : '=';
        *o++ = i + 2 < n ? standard[v & 63] : '=';
    }
    *o = '\0';
    return out;
}

static int value_of(char c, bool url)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    const char *last = url ? "-_" : "+/";
    if (c == last[0])
        return 62;
    return c == last[1] ? 63 : -1;
}

/* *bytes: how many there are; a NUL stands behind them. */
unsigned char *tw_base64_read(const char *text, bool foreign, size_t *bytes)
{
    size_t n = strlen(text), pad = 0;
    /* one alphabet or the other, not both */
    const bool url = foreign && strpbrk(text, "-_") != NULL;
    while (pad < 2 && n > 0 && text[n - 1] == '=') {
        n--;
        pad++;
    }
    if (n % 4 == 1 || ((pad || !foreign) && (n + pad) % 4 != 0)) {
        errno = EINVAL;
        return NULL;
    }
    unsigned char *out = tw_malloc(n / 4 * 3 + 3), *o = out;
    unsigned v = 0, bits = 0;
    if (!out)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const int six = value_of(text[i], url);
        if (six < 0)
            goto refuse;
        v = v << 6 | (unsigned)six;
        if ((bits += 6) >= 8) {
            bits -= 8;
            *o++ = (unsigned char)(v >> bits);
            v &= (1u << bits) - 1;
        }
    }
    if (v != 0) /* bits that no byte takes up: another text would give the same bytes */
        goto refuse;
    *bytes = (size_t)(o - out);
    *o = '\0';
    return out;
refuse:
    tw_free(out);
    errno = EINVAL;
    return NULL;
}
