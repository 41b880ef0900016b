/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The columns of the clock experiment (clock_world.c says what it is for): the numbers at one place
 * of lines that say the same. While the experiment learns, each pair of lines shows how a number
 * moved; afterwards a number of which it is not known whether it is a time is looked up here.
 */
#include "clock.h"
#include "printed.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WITHIN 3.0    /* machines are not steady */
#define UNDISTURBED 3 /* runs under the real clock agree at least that well */
/* More columns than this: the experiment is given up, and says nothing. */
#define COLUMNS_MAX 4096u

/* ---- what a printed number can have been before it was rounded */

/* All numbers that are printed as this one: "0.2" may have been 0.15 to 0.25. */
struct span {
    double low, high;
};

/* Half of the last digit that was printed: 0.05 of "0.2", 0.5 of "12". */
static double half_a_digit(const char *p, size_t n)
{
    double digit = 1;
    bool fraction = false;
    for (size_t i = 0; i < n && p[i] != 'e' && p[i] != 'E'; i++) {
        fraction |= p[i] == '.';
        if (fraction && isdigit((unsigned char)p[i]))
            digit /= 10;
    }
    const char *e = memchr(p, 'e', n);
    if (!e)
        e = memchr(p, 'E', n);
    return e ? digit / 2 * pow(10, strtod(e + 1, NULL)) : digit / 2;
}

/* The seconds of a unit in a time of several parts ("1h02m"). The last part counts seconds. */
static double seconds_in(char unit)
{
    if (unit == 'd')
        return 86400;
    if (unit == 'h')
        return 3600;
    return unit == 'm' ? 60 : 1;
}

/* "3.25 s", "1,300 it/s", "1m23s". False: not one number that is finite and not negative. */
static bool read_span(const char *text, size_t n, struct span *out)
{
    double sum = 0, half = 0;
    size_t at = 0;
    for (size_t parts = 0; at < n; parts++) {
        char digits[64];
        size_t length = tw_number_length(text + at), k = 0;
        if (length == 0 || length >= sizeof digits || text[at] == '-')
            return false;
        if (memchr(text + at, 'x', length) || memchr(text + at, 'X', length))
            return false; /* no clock is printed in hexadecimal */
        for (size_t i = 0; i < length; i++)
            if (text[at + i] != ',')
                digits[k++] = text[at + i];
        digits[k] = '\0';
        at += length;
        bool more = at + 1 < n && strchr("dhm", text[at]) && strpbrk(text + at, "0123456789") &&
                    strpbrk(text + at, "0123456789") < text + n;
        bool last = parts > 0 && at < n;
        double unit = more || last ? seconds_in(text[at]) : 1;
        sum += strtod(digits, NULL) * unit;
        half = half_a_digit(digits, k) * unit;
        if (!more)
            break;
        at += 1 + strspn(text + at + 1, " ");
    }
    *out = (struct span){fmax(sum - half, 0), sum + half};
    return isfinite(sum);
}

/* The quotients that the two numbers can have had, between low and high. */
static struct span quotient(struct span x, struct span y)
{
    return (struct span){y.low / x.high, x.low > 0 ? y.high / x.low : INFINITY};
}

/* ---- learning from a run under a faster clock */

/* The column of a number; NULL: none was seen there before. */
static struct tw_column *find_column(struct tw_clock *k, uint64_t said, size_t token)
{
    for (size_t i = 0; i < k->count; i++)
        if (k->column[i].said == said && k->column[i].token == token)
            return &k->column[i];
    return NULL;
}

/* What a line says, and where: the same words in another file are another column. */
static uint64_t said_by(struct tw_cmp *c, const struct line *l, const struct tw_facts *f)
{
    const char *stream = c->clock->lines->name;
    char *said = tw_noise_mask(l->text, l->n, f, TW_MASK_NUMBERS);
    uint64_t h =
        said ? tw_hash_bytes(said, strlen(said), tw_hash_bytes(stream, strlen(stream), 17).a).a : 0;
    c->oom |= !said;
    tw_free(said);
    return h;
}

/* A column that has followed both clocks so far, for want of a line that shows otherwise. */
static struct tw_column *new_column(struct tw_cmp *c, uint64_t said, const struct tw_noise_pair *p)
{
    struct tw_clock *k = c->clock;
    if (k->count == COLUMNS_MAX ||
        !tw_cmp_room(c, &k->column, k->count, &k->room, sizeof *k->column)) {
        k->failed = true;
        return NULL;
    }
    struct tw_column *col = &k->column[k->count++];
    size_t shown = k->line->n < 100 ? k->line->n : 100;
    *col = (struct tw_column){.said = said,
                              .token = p->token,
                              .grows = {true, true},
                              .shrinks = {true, true},
                              .stream = k->lines->name,
                              .line = k->line->number,
                              .text = tw_strndup(p->a, p->a_bytes),
                              .quoted = tw_strndup(k->line->text, shown)};
    c->oom |= !col->text || !col->quoted;
    return col;
}

/* Looks how a number moved from run 1 to a run under a faster clock: did it grow as a time does, or
 * shrink as a rate does? A number that has the name of a result, or is none, denies its column for
 * good. */
static void learn_column(void *user, const struct tw_noise_pair *p)
{
    struct tw_cmp *c = user;
    struct tw_clock *k = c->clock;
    struct span x, y;
    uint64_t said = said_by(c, k->line, k->facts);
    struct tw_column *col = find_column(k, said, p->token);
    if (!col)
        col = new_column(c, said, p);
    if (!col)
        return;
    col->lines[k->which]++;
    if (p->of_result || !read_span(p->a, p->a_bytes, &x) || !read_span(p->b, p->b_bytes, &y)) {
        col->denied = true;
        return;
    }
    double f = k->factor[k->which];
    struct span up = quotient(x, y), down = quotient(y, x);
    bool grows = up.low <= f * WITHIN && up.high >= f / WITHIN;
    bool rate = memchr(p->a, '/', p->a_bytes) && memchr(p->b, '/', p->b_bytes);
    bool shrinks = rate && down.low <= f * WITHIN && down.high >= f / WITHIN;
    col->grows[k->which] &= grows;
    col->shrinks[k->which] &= shrinks;
    /* "0.0" and "0.0" fits anything; "0.2" and "12.8" does not */
    const struct span *moved = grows ? &up : &down;
    col->decided[k->which] |= (grows || shrinks) && moved->low >= f / WITHIN / 2 &&
                              moved->high <= f * WITHIN * 2;
}

void tw_clock_look(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                   const struct text *b, size_t x, size_t y)
{
    struct tw_clock *k = c->clock;
    if (!k || !k->learning || l->grows)
        return;
    k->lines = l;
    k->line = &a->line[x];
    k->facts = a->facts;
    c->oom |= !tw_noise_each_open(a->line[x].text, a->line[x].n, a->facts, b->line[y].text,
                                  b->line[y].n, b->facts, learn_column, c);
}

/* Did the column follow both clocks, in as many lines under each, the same way, and in one line at
 * least that could have shown otherwise? */
bool tw_column_follows(const struct tw_column *col)
{
    bool decided = col->decided[0] && col->decided[1] && col->lines[0] == col->lines[1];
    bool one_way = (col->grows[0] && col->grows[1]) || (col->shrinks[0] && col->shrinks[1]);
    return decided && one_way && !col->denied;
}

/* ---- using what was learnt */

/* Is a number of two runs under the real clock a time? Its column must follow the clocks, and the
 * two must be near each other: a time of 3 s that takes 300 s in the other run is worth a look. */
static void check_number(void *user, const struct tw_noise_pair *p)
{
    struct tw_cmp *c = user;
    struct tw_clock *k = c->clock;
    struct span x, y;
    const struct tw_column *col = find_column(k, said_by(c, k->line, k->facts), p->token);
    bool near = read_span(p->a, p->a_bytes, &x) && read_span(p->b, p->b_bytes, &y) &&
                quotient(x, y).low <= UNDISTURBED && quotient(y, x).low <= UNDISTURBED;
    bool equal = p->a_bytes == p->b_bytes && memcmp(p->a, p->b, p->a_bytes) == 0;
    k->followed &= equal || (near && col && tw_column_follows(col));
}

bool tw_clock_takes(struct tw_cmp *c, const struct tw_lines *l, const struct text *a,
                    const struct text *b, size_t x, size_t y)
{
    struct tw_clock *k = c->clock;
    if (!k || k->learning || k->failed || l->grows)
        return false;
    k->followed = true;
    k->lines = l;
    k->line = &a->line[x];
    k->facts = a->facts;
    c->oom |= !tw_noise_each_open(a->line[x].text, a->line[x].n, a->facts, b->line[y].text,
                                  b->line[y].n, b->facts, check_number, c);
    return k->followed;
}

bool tw_clock_learns(const struct tw_cmp *c)
{
    return c->clock && c->clock->learning;
}

void tw_clock_free(struct tw_cmp *c)
{
    for (size_t i = 0; c->clock && i < c->clock->count; i++) {
        tw_free(c->clock->column[i].text);
        tw_free(c->clock->column[i].quoted);
    }
    if (c->clock)
        tw_free(c->clock->column);
    tw_free(c->clock);
    c->clock = NULL;
}
