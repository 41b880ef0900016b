/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of kernels in sentences. Those of C++ are mangled, with all template arguments, and may
 * have thousands of letters. What is said is the function with its namespaces; the full name is in
 * the trace.
 */
#include "kernels.h"

#include <string.h>

enum { NAME_MOST = 160, BEFORE = 12, APART = 48 };

static bool is_digit(char x)
{
    return x >= '0' && x <= '9';
}

/* One more "5names" at *at is added, behind "::" unless it is the first. false: it is none. */
static bool add_part(const char **at, char *out, size_t room, size_t *used)
{
    static const char hidden[] = "(anonymous namespace)";
    size_t n = 0;
    const char *s = *at;
    while (is_digit(*s) && n < 100000)
        n = n * 10 + (size_t)(*s++ - '0');
    if (n == 0 || strnlen(s, n) < n)
        return false;
    const bool anonymous = n > 11 && strncmp(s, "_GLOBAL__N_", 11) == 0;
    const char *part = anonymous ? hidden : s;
    const size_t letters = anonymous ? sizeof hidden - 1 : n, colons = *used ? 2 : 0;
    if (*used + colons + letters + sizeof "<...>" > room)
        return false;
    memcpy(out + *used, "::", colons);
    memcpy(out + *used + colons, part, letters);
    *used += colons + letters;
    *at = s + n;
    return true;
}

/* false: not a mangled name, or one of another make. */
static bool short_name(const char *name, char out[NAME_MOST + 1])
{
    size_t used = 0;
    const char *at = name + 2;
    if (strncmp(name, "_Z", 2) != 0)
        return false;
    const bool nested = *at == 'N';
    at += nested;
    do {
        if (!add_part(&at, out, NAME_MOST + 1, &used))
            return false;
    } while (nested && is_digit(*at));
    if (*at == 'I')
        memcpy(out + used, "<...>", 5);
    out[used + (*at == 'I' ? 5 : 0)] = '\0';
    return true;
}

static void say_name(const char *name, char out[NAME_MOST + 1])
{
    if (!short_name(name, out)) {
        const size_t n = strnlen(name, NAME_MOST + 1);
        memcpy(out, name, n > NAME_MOST ? NAME_MOST : n);
        out[n > NAME_MOST ? NAME_MOST : n] = '\0';
        if (n > NAME_MOST)
            memcpy(out + NAME_MOST - 3, "...", 3);
    }
    for (char *s = out; *s; s++)
        if (*s < ' ' || *s > '~' || *s == ';') /* it stands in a sentence */
            *s = '_';
}

char *tw_kernel_said(struct tw_cmp *c, const struct tw_listed *k, const struct tw_listed *other)
{
    char name[NAME_MOST + 1], its[NAME_MOST + 1] = "", apart[APART + 1];
    say_name(k->name, name);
    if (other)
        say_name(other->name, its);
    if (!other || strcmp(name, its) != 0 || strcmp(k->shape, other->shape) != 0 ||
        strcmp(k->name, other->name) == 0)
        return tw_cmp_text(c, "%s (%s)", name, k->shape);
    size_t at = 0;
    while (k->name[at] == other->name[at])
        at++;
    at = at > BEFORE ? at - BEFORE : 0;
    const size_t n = strnlen(k->name + at, APART);
    for (size_t i = 0; i < n; i++)
        apart[i] = k->name[at + i] < ' ' || k->name[at + i] > '~' || k->name[at + i] == ';'
                       ? '_'
                       : k->name[at + i];
    apart[n] = '\0';
    return tw_cmp_text(c, "%s [...%s%s] (%s)", name, apart, k->name[at + n] ? "..." : "", k->shape);
}
