/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: formatted text, globs, numbers in and out, and sizes, counts and times as a person reads
 * them. Texts that are returned are the caller's to
 * free, those that go into an array are bounded by its size. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As sprintf into memory of the right size. */
char *tw_vprintf(const char *format, va_list ap)
{
    struct tw_buf b = {0};
    tw_buf_vprintf(&b, format, ap);
    return tw_buf_steal(&b);
}

char *tw_printf(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *text = tw_vprintf(format, ap);
    va_end(ap);
    return text;
}

bool tw_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool tw_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    return n >= k && memcmp(s + n - k, suffix, k) == 0;
}

/* Matches one [...] class at p (just after '['); *end is set behind the ']' or to NULL when it is
 * not closed. */
static bool glob_class(const char *p, unsigned char c, const char **end)
{
    bool negate = *p == '!' || *p == '^', hit = false;
    p += negate;
    for (const char *first = p; *p && (*p != ']' || p == first); p++) {
        if (p[1] == '-' && p[2] && p[2] != ']') {
            hit |= (unsigned char)p[0] <= c && c <= (unsigned char)p[2];
            p += 2;
        } else {
            hit |= (unsigned char)*p == c;
        }
    }
    *end = *p ? p + 1 : NULL;
    return hit != negate;
}

/* Iterative with one backtrack point: linear in practice, never exponential, no recursion on
 * hostile patterns. */
bool tw_glob(const char *pattern, const char *s)
{
    const char *star = NULL, *resume = NULL;
    for (;;) {
        const char *next = NULL;
        bool step = false;
        if (*pattern == '*') {
            star = ++pattern;
            resume = s;
            continue;
        }
        if (*s == '\0')
            return *pattern == '\0';
        if (*pattern == '?') {
            next = pattern + 1;
            step = true;
        } else if (*pattern == '[') {
            step = glob_class(pattern + 1, (unsigned char)*s, &next);
            if (!next) { /* unclosed: a literal '[' */
                next = pattern + 1;
                step = *s == '[';
            }
        } else if (*pattern != '\0') {
            next = pattern + 1;
            step = *pattern == *s;
        }
        if (step) {
            pattern = next;
            s++;
        } else if (star) {
            pattern = star;
            s = ++resume;
        } else {
            return false;
        }
    }
}

/* Digits only: no sign, no blanks. *out is set on success only. */
int tw_parse_u64(const char *s, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;
    if (!*s)
        return TWIN_EINVAL;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return TWIN_EINVAL;
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return TWIN_EINVAL;
    }
    if (v > max)
        return TWIN_EINVAL;
    *out = v;
    return 0;
}

/* 1023.95 would be rounded to "1024.0" of the smaller unit. */
char *tw_human_bytes(uint64_t n, char out[16])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)n;
    size_t u = 0;
    while (v >= 1023.95 && u < 5) {
        v /= 1024;
        u++;
    }
    snprintf(out, 16, u ? "%.1f %s" : "%.0f %s", v, unit[u]);
    return out;
}

char *tw_human_count(uint64_t n, char out[32])
{
    char plain[24];
    int len = snprintf(plain, sizeof plain, "%llu", (unsigned long long)n);
    int w = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out[w++] = ',';
        out[w++] = plain[i];
    }
    out[w] = '\0';
    return out;
}

/* Below 100 s with a tenth, where a tenth still says something; above an hour the seconds are cut
 * off. */
char *tw_human_seconds(double s, char out[24])
{
    if (s < 99.95)
        snprintf(out, 24, "%.1f s", s);
    else if (s < 3600)
        snprintf(out, 24, "%d min %02d s", (int)(s + 0.5) / 60, (int)(s + 0.5) % 60);
    else
        snprintf(out, 24, "%.0f h %02d min", (double)((long long)s / 3600),
                 (int)((long long)s % 3600 / 60));
    return out;
}

/* More and more digits until the text reads back as x: 17 always do for a double, and 9 for a
 * float. */
char *tw_shortest(double x, char out[40])
{
    const bool single = (double)(float)x == x;
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        snprintf(out, 40, "%.*g", digits, x);
        if (single ? strtof(out, NULL) == (float)x : strtod(out, NULL) == x)
            break;
    }
    return out;
}

/* Three digits of the unit that suits. */
char *tw_human_time(double s, char out[24])
{
    if (s < 1e-6)
        snprintf(out, 24, "%.3g ns", s * 1e9);
    else if (s < 1e-3)
        snprintf(out, 24, "%.3g us", s * 1e6);
    else if (s < 1)
        snprintf(out, 24, "%.3g ms", s * 1e3);
    else
        snprintf(out, 24, "%.4g s", s);
    return out;
}
