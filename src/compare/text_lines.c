/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text as lines: cuts what a run printed or wrote where a reader sees a line end, leaves out what
 * --ignore names, and keeps each line without its noise when that was asked for once. The bytes
 * stay where they are; lines.c, glued.c and clock_columns.c match and judge the lines.
 */
#include "lines.h"
#include "printed.h"

#include <string.h>

/* The first '\n' or '\r' of n bytes; NULL: none. */
static const char *line_end(const char *start, size_t n)
{
    const char *newline = memchr(start, '\n', n);
    const char *other = memchr(start, '\r', newline ? (size_t)(newline - start) : n);
    return other ? other : newline;
}

/* Of a progress bar, which overwrites itself with '\r', only what a terminal would show at the end
 * is kept. Nobody looks at a file of results (bars: false) through a terminal: there, '\r' ends a
 * line. */
void tw_text_split(struct tw_cmp *c, const struct tw_text *from, bool bars, struct text *t)
{
    size_t place = 0;
    *t = (struct text){.facts = from->facts};
    for (size_t at = 0; at < from->bytes;) {
        const char *start = from->data + at;
        const char *end = bars ? memchr(start, '\n', from->bytes - at)
                               : line_end(start, from->bytes - at);
        size_t n = end ? (size_t)(end - start) : from->bytes - at;
        at += n + 1;
        place++;
        if (end && end[0] == '\r' && end + 1 < from->data + from->bytes && end[1] == '\n')
            at++; /* both end one line */
        while (n > 0 && (start[n - 1] == '\r' || start[n - 1] == ' '))
            n--;
        const char *shown = memrchr(start, '\r', n);
        if (shown) {
            n -= (size_t)(shown + 1 - start);
            start = shown + 1;
        }
        if (n == 0)
            continue;
        if (tw_lines_left_out(c, start, n)) {
            t->filtered++;
            continue;
        }
        if (t->count >= LINES_MAX) {
            t->cut = true;
            return;
        }
        if (!tw_cmp_room(c, &t->line, t->count, &t->room, sizeof *t->line))
            return;
        t->line[t->count] = (struct line){
            .text = start, .n = n, .number = t->count + t->filtered, .place = place};
        t->count++;
    }
}

void tw_text_free(struct text *t)
{
    for (size_t i = 0; i < t->count; i++)
        tw_free(t->line[i].masked);
    tw_free(t->line);
}

const char *tw_line_masked(struct tw_cmp *c, const struct text *t, struct line *l)
{
    if (!l->masked)
        l->masked = tw_noise_mask(l->text, l->n, t->facts, TW_MASK_NOISE);
    c->oom |= !l->masked;
    return l->masked ? l->masked : "";
}
