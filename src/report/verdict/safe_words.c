/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends bytes of a job's making to a report, so that no terminal obeys them and no page takes
 * them for markup. All other files of words stand on this one (wording.h says what each function
 * does).
 */
#include "wording.h"

#include <string.h>

/* Appends s through escape(), cut behind max bytes (0: whole). The cut is made before escaping, so
 * that it cannot split a \xNN. */
static void say_safely(struct tw_buf *b, const char *s, size_t max,
                       char *(*escape)(const char *, size_t))
{
    size_t n = strlen(s);
    bool cut = max && n > max;
    if (cut) {
        n = max;
        /* the bytes behind the first one of a character begin with the bits 10 */
        while (n > 0 && ((unsigned char)s[n] & 0xC0) == 0x80) /* not inside a UTF-8 sequence */
            n--;
    }
    char *safe = escape(s, n);
    if (!safe) {
        b->failed = TWIN_ENOMEM;
        return;
    }
    tw_buf_puts(b, safe);
    if (cut)
        tw_buf_puts(b, "...");
    tw_free(safe);
}

void tw_say_safe(struct tw_buf *b, const char *s, size_t max)
{
    say_safely(b, s, max, tw_printable);
}

void tw_say_again(struct tw_buf *b, const char *s, size_t max)
{
    say_safely(b, s, max, tw_printable_again);
}

/* How a character stands in HTML and XML; NULL: as it is. */
static const char *entity_of(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&apos;";
    default: return NULL;
    }
}

/* The two code points that are replaced by "?" are three bytes each in UTF-8: EF BF BE and EF BF
 * BF. */
void tw_say_markup(struct tw_buf *b, const char *s)
{
    for (; *s; s++) {
        if (tw_starts(s, "\xEF\xBF\xBE") || tw_starts(s, "\xEF\xBF\xBF")) {
            tw_buf_puts(b, "?");
            s += 2;
            continue;
        }
        const char *entity = entity_of(*s);
        if (entity)
            tw_buf_puts(b, entity);
        else
            tw_buf_append(b, s, 1);
    }
}
