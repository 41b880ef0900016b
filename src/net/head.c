/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in addresses and in the heads of answers. Asks nobody. */
#include "http.h"

#include "base.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Four numbers, the first of which is 127: a name that only begins so is another machine. */
static bool is_127(const char *host, size_t n)
{
    unsigned a, b, c, d;
    int end = 0;
    return sscanf(host, "%3u.%3u.%3u.%3u%n", &a, &b, &c, &d, &end) == 4 && (size_t)end == n &&
           strspn(host, "0123456789.") == n && a == 127 && b < 256 && c < 256 && d < 256;
}

bool tw_http_is_loopback(const char *authority)
{
    const size_t whole = strcspn(authority, "/?#");
    const size_t host = tw_starts(authority, "[::1]") ? 5 : strcspn(authority, ":/?#");
    /* behind : digits alone: localhost:x@other is a user of another machine */
    if (host < whole &&
        (authority[host] != ':' || strspn(authority + host + 1, "0123456789") != whole - host - 1))
        return false;
    return tw_starts(authority, "[::1]") ||
           (host == strlen("localhost") && strncasecmp(authority, "localhost", host) == 0) ||
           is_127(authority, host);
}

/* ---- heads */

const char *tw_http_value(const char *line, size_t n, const char *name, size_t *bytes)
{
    const size_t length = strlen(name);
    if (n <= length || strncasecmp(line, name, length) != 0 || line[length] != ':')
        return NULL;
    const char *value = line + length + 1, *end = line + n;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *bytes = (size_t)(end - value);
    return value;
}

bool tw_http_given(const char *line, size_t n, const char *name, char *out, size_t room)
{
    size_t bytes = 0;
    const char *value = tw_http_value(line, n, name, &bytes);
    if (!value)
        return false;
    const size_t fits = bytes < room ? bytes : room - 1;
    memcpy(out, value, fits);
    out[fits] = '\0';
    return fits == bytes;
}

bool tw_http_given_number(const char *line, size_t n, const char *name, uint64_t max, uint64_t *out)
{
    char digits[32];
    if (!tw_http_given(line, n, name, digits, sizeof digits))
        return false;
    if (tw_parse_u64(digits, max, out) != 0)
        *out = 0;
    return true;
}

void tw_http_encode(struct tw_buf *b, const char *text, bool slash)
{
    for (const char *c = text; *c; c++) {
        const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                           (*c >= '0' && *c <= '9') || strchr("-._~", *c) || (slash && *c == '/');
        if (plain)
            tw_buf_append(b, c, 1);
        else
            tw_buf_printf(b, "%%%02X", (unsigned char)*c);
    }
}
