/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that ran together. Where several processes print into one stream, a program that writes a
 * line and its end in two calls (Python without a buffer, as torchrun starts it) lets another's
 * line begin in between: "loss 0.5[12] loss 0.7" and an empty line, in another place in each run.
 * Such a line is taken apart only when it is, to the byte and with noise left out, several whole
 * lines that the other run printed and that have no other counterpart, and when no seam could
 * make one number or a number's unit out of two.
 */
#include "lines.h"

#include <ctype.h>
#include <string.h>

#define PIECES_MAX 8u
#define TRIES_MAX 100000u /* of one line: what takes more stays without a counterpart */

struct search {
    struct tw_cmp *c;
    struct text *pieces; /* lines of the other run */
    struct line *used[PIECES_MAX];
    size_t count, tries;
};

static bool may_belong_to_number(char ch)
{
    return isdigit((unsigned char)ch) || strchr(".,+-", ch) != NULL;
}

static bool seam_is_clear(char left, char right)
{
    bool left_word = isalnum((unsigned char)left) || may_belong_to_number(left);
    bool right_word = isalnum((unsigned char)right) || may_belong_to_number(right);
    bool number = may_belong_to_number(left) || may_belong_to_number(right);
    return !(left_word && right_word && number);
}

static bool is_used(const struct search *s, const struct line *l)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->used[i] == l)
            return true;
    return false;
}

/* Does the rest of a line consist of whole lines of the other run? */
static bool take_apart(struct search *s, const char *rest)
{
    if (*rest == '\0')
        return s->count > 1;
    if (s->count == PIECES_MAX)
        return false;
    for (size_t i = 0; i < s->pieces->count && s->tries < TRIES_MAX; i++) {
        struct line *l = &s->pieces->line[i];
        if (l->matched || is_used(s, l))
            continue;
        s->tries++;
        const char *piece = tw_line_masked(s->c, s->pieces, l);
        size_t n = strlen(piece);
        if (n == 0 || strncmp(rest, piece, n) != 0)
            continue;
        if (rest[n] != '\0' && !seam_is_clear(rest[n - 1], rest[n]))
            continue;
        s->used[s->count++] = l;
        if (take_apart(s, rest + n))
            return true;
        s->count--;
    }
    return false;
}

static size_t without_counterpart(const struct text *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        n += !t->line[i].matched;
    return n;
}

static size_t unglue_one_side(struct tw_cmp *c, struct text *glued, struct text *pieces)
{
    size_t found = 0;
    for (size_t i = 0; i < glued->count; i++) {
        struct line *l = &glued->line[i];
        struct search s = {.c = c, .pieces = pieces};
        if (l->matched || !take_apart(&s, tw_line_masked(c, glued, l)))
            continue;
        l->matched = true;
        for (size_t k = 0; k < s.count; k++)
            s.used[k]->matched = true;
        found++;
    }
    return found;
}

size_t tw_lines_unglue(struct tw_cmp *c, struct text *a, struct text *b)
{
    if (without_counterpart(a) > SINGLES_MAX || without_counterpart(b) > SINGLES_MAX)
        return 0;
    return unglue_one_side(c, a, b) + unglue_one_side(c, b, a);
}
