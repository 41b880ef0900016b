/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that ran together. Where several processes print into one stream, a program that writes a
 * line and its end in two calls (Python without a buffer, as torchrun starts it) lets another's
 * line begin in between: "loss 0.5[12] loss 0.7" and an empty line, in another place in each run.
 * Such a line is taken apart only when it is, to the byte and with noise left out, several whole
 * lines that the other run printed and that have no other counterpart, and when no seam could
 * make one number or a number's unit out of two. Finer mixtures ("lossloss  0.50.7", of a line
 * printed in four calls) are recognised, but not taken apart: which number was whose is not known.
 */
#include "lines.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PIECES_MAX 8u
#define TRIES_MAX 100000u /* of one line: what takes more stays without a counterpart */

/* The search for whole lines that one line consists of. */
struct search {
    struct tw_cmp *c;
    struct text *pieces; /* lines of the other run */
    struct line *used[PIECES_MAX];
    size_t count, tries;
};

/* Can the character be part of a number? */
static bool may_belong_to_number(char ch)
{
    return isdigit((unsigned char)ch) || strchr(".,+-", ch) != NULL;
}

/* Can a line end with `left` and the next begin with `right` so that no number runs over the seam?
 * In "loss 0.5" and "12 steps" it would: "loss 0.512 steps" is another number. */
static bool seam_is_clear(char left, char right)
{
    bool left_word = isalnum((unsigned char)left) || may_belong_to_number(left);
    bool right_word = isalnum((unsigned char)right) || may_belong_to_number(right);
    bool number = may_belong_to_number(left) || may_belong_to_number(right);
    return !(left_word && right_word && number);
}

/* Is the line a piece of this one already? */
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

/* How many lines of a text have no counterpart yet. */
static size_t without_counterpart(const struct text *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        n += !t->line[i].matched;
    return n;
}

/* Takes lines of `glued` apart into lines of `pieces`. Returns how many. */
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

/* ---- mixtures of parts of lines */

static int by_size(const void *x, const void *y)
{
    size_t a = *(const size_t *)x;
    size_t b = *(const size_t *)y;
    return (a > b) - (a < b);
}

/* What the lines without a counterpart are made of: how often each byte that is no space, and how
 * long the lines are, in order of size. */
struct make {
    size_t bytes[256];
    size_t *sizes;
    size_t count;
};

/* What the lines of t that have no counterpart are made of. False: no memory. The caller frees
 * m->sizes. */
static bool make_of(struct tw_cmp *c, struct text *t, struct make *m)
{
    *m = (struct make){.sizes = tw_reallocarray(NULL, t->count + 1, sizeof *m->sizes)};
    c->oom |= !m->sizes;
    for (size_t i = 0; m->sizes && i < t->count; i++) {
        struct line *l = &t->line[i];
        if (l->matched)
            continue;
        const char *text = tw_line_masked(c, t, l);
        m->sizes[m->count++] = strlen(text);
        for (; *text; text++)
            m->bytes[(unsigned char)*text] += !isspace((unsigned char)*text);
    }
    if (m->count)
        qsort(m->sizes, m->count, sizeof *m->sizes, by_size);
    return m->sizes != NULL;
}

/* Are there as many lines, of the same lengths? */
static bool same_sizes(const struct make *a, const struct make *b)
{
    return a->count == b->count && memcmp(a->sizes, b->sizes, a->count * sizeof *a->sizes) == 0;
}

/* The same bytes in lines of other lengths: each run printed them, some into each other. Where the
 * lengths agree, too, the lines are whole and say something else. */
size_t tw_lines_mixed(struct tw_cmp *c, struct text *a, struct text *b)
{
    struct make x;
    struct make y;
    bool made = make_of(c, a, &x) & make_of(c, b, &y);
    bool mixed = made && x.count && y.count && memcmp(x.bytes, y.bytes, sizeof x.bytes) == 0;
    size_t lines = 0;
    if (mixed && !same_sizes(&x, &y)) {
        lines = x.count > y.count ? x.count : y.count;
        for (size_t i = 0; i < a->count; i++)
            a->line[i].matched = true;
        for (size_t i = 0; i < b->count; i++)
            b->line[i].matched = true;
    }
    tw_free(x.sizes);
    tw_free(y.sizes);
    return lines;
}
