/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of two simple commands: read into groups, and aligned.
 *
 * Nothing is known of the program, so what is an option is told by its form alone: an option takes
 * all words up to the next one for its values. Groups that are equal on both sides are found as a
 * longest common subsequence; what lies between two of them is matched by name, then by kind.
 */
#include "arms_match.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* ---- one simple command, understood */

/* A minus sign alone, "--" and negative numbers such as -1 and -.5 are no options. */
static bool is_option(const struct tw_word *w)
{
    const char *t = w->text;
    return w->kind == TW_WORD && t[0] == '-' && t[1] && !isdigit((unsigned char)t[1]) &&
           t[1] != '.' && strcmp(t, "--") != 0;
}

/* `env A=1 B=2 program` means the same as `A=1 B=2 program`, so the word `env` is passed over. With
 * options of its own, or without a program behind it, env is a program like others. Returns where
 * to go on, which is `at` in those cases. */
static size_t skip_env(const struct tw_word *w, size_t at, size_t end)
{
    size_t i = at + 1;
    if (at >= end || strcmp(w[at].text, "env") != 0)
        return at;
    while (i < end && w[i].kind == TW_WORD && tw_word_assigns(w[i].raw))
        i++;
    return i > at + 1 && i < end && w[i].kind == TW_WORD && !is_option(&w[i]) ? at + 1 : at;
}

/* Where the group that begins at `at` ends (the first word behind it). options_over: a "--" came
 * before, so that words with a minus sign are positionals. */
static size_t group_end(const struct tw_word *w, size_t at, size_t end, bool options_over)
{
    if (w[at].kind == TW_REDIRECT)
        return at + 1 < end && w[at + 1].kind == TW_WORD ? at + 2 : at + 1;
    size_t i = at + 1;
    if (!options_over && is_option(&w[at]) && !strchr(w[at].text, '='))
        while (i < end && w[i].kind == TW_WORD && !is_option(&w[i]) && strcmp(w[i].text, "--") != 0)
            i++;
    return i;
}

int tw_side_read(const struct tw_word *w, size_t at, size_t end, struct tw_side *s,
                 struct twin_error *err)
{
    *s = (struct tw_side){
        .word = w, .program = TW_NONE, .group = tw_calloc(end - at + 1, sizeof(struct tw_group))};
    if (!s->group)
        return tw_no_memory(err, "comparing the commands of two arms");
    /* First what stands in front of the program, then the program, then its arguments in groups. */
    at = skip_env(w, at, end);
    s->assignments_from = at;
    while (at < end && w[at].kind == TW_WORD && tw_word_assigns(w[at].raw))
        at++;
    s->assignments = at - s->assignments_from;
    if (at < end && w[at].kind == TW_WORD)
        s->program = at++;
    /* Variables that `export` is given are told apart by their names, as those in front of a
     * program are. */
    bool exports = s->program != TW_NONE && strcmp(w[s->program].text, "export") == 0, over = false;
    for (size_t first = at; at < end;) {
        struct tw_group *g = &s->group[s->groups++];
        size_t next = group_end(w, at, end, over);
        *g = (struct tw_group){.first = at,
                               .words = next - at,
                               .place = at - first + 1,
                               .mate = TW_NONE,
                               .difference = TW_COMMON};
        if (w[at].kind == TW_REDIRECT || (!over && is_option(&w[at]))) {
            g->name = w[at].text;
            g->name_bytes = strcspn(g->name, w[at].kind == TW_REDIRECT ? "" : "=");
        } else if (exports && tw_word_assigns(w[at].raw)) {
            g->name = w[at].text;
            g->name_bytes = tw_word_assigns(w[at].raw);
        }
        /* Behind "--" nothing is an option. */
        over |= w[at].kind == TW_WORD && strcmp(w[at].text, "--") == 0;
        at = next;
    }
    return 0;
}

/* ---- which groups are the same, or the same thing changed */

/* Do the groups consist of the same words, however they are quoted? a is of side 0, b of side 1. */
static bool same_words(const struct tw_side side[2], const struct tw_group *a,
                       const struct tw_group *b)
{
    if (a->words != b->words)
        return false;
    for (size_t i = 0; i < a->words; i++)
        if (!tw_word_same(&side[0].word[a->first + i], &side[1].word[b->first + i]))
            return false;
    return true;
}

static void mark_common(struct tw_group *a, struct tw_group *b, size_t i, size_t j)
{
    assert(a->mate == TW_NONE && b->mate == TW_NONE);
    a->mate = j;
    b->mate = i;
    a->common = b->common = true;
}

/* Marks the longest common subsequence of groups. What both sides have at their beginning and end
 * is taken off first; the rest is done by dynamic programming, whose table has (rows x columns)
 * entries of two bytes. When the rest is too large for the table (CELLS_MAX: 8 MiB), nothing in it
 * counts as common, and it is matched by name only. */
static int match_common(struct tw_side side[2], struct twin_error *err)
{
    enum { CELLS_MAX = 1 << 22 };
    struct tw_group *a = side[0].group, *b = side[1].group;
    size_t from = 0, n = side[0].groups, m = side[1].groups;
    for (; from < n && from < m && same_words(side, &a[from], &b[from]); from++)
        mark_common(&a[from], &b[from], from, from);
    for (; n > from && m > from && same_words(side, &a[n - 1], &b[m - 1]); n--, m--)
        mark_common(&a[n - 1], &b[m - 1], n - 1, m - 1);
    size_t rows = n - from + 1, columns = m - from + 1;
    if (rows == 1 || columns == 1 || rows > CELLS_MAX / columns)
        return 0;
    /* longest[i * columns + j]: length of the longest common subsequence of what begins at i and at
     * j. It is at most the number of groups on the shorter side, which is below 2,048 here, so 16
     * bits hold it. The last row and column stay 0. */
    uint16_t *longest = tw_calloc(rows * columns, sizeof *longest);
    if (!longest)
        return tw_no_memory(err, "comparing the commands of two arms");
    for (size_t i = rows - 1; i-- > 0;)
        for (size_t j = columns - 1; j-- > 0;) {
            uint16_t skip_a = longest[(i + 1) * columns + j], skip_b = longest[i * columns + j + 1];
            uint16_t best = skip_a > skip_b ? skip_a : skip_b;
            if (same_words(side, &a[from + i], &b[from + j]))
                best = (uint16_t)(longest[(i + 1) * columns + j + 1] + 1);
            longest[i * columns + j] = best;
        }
    /* From the front: take equal groups, else step over the side that loses nothing by it. */
    for (size_t i = 0, j = 0; i + 1 < rows && j + 1 < columns;) {
        if (same_words(side, &a[from + i], &b[from + j])) {
            mark_common(&a[from + i], &b[from + j], from + i, from + j);
            i++;
            j++;
        } else if (longest[(i + 1) * columns + j] >= longest[i * columns + j + 1]) {
            i++;
        } else {
            j++;
        }
    }
    tw_free(longest);
    return 0;
}

/* Numbers the stretches between common groups, so that groups of both sides which stand between the
 * same two common ones have the same number. */
static void number_blocks(struct tw_side *s)
{
    size_t block = 0;
    for (size_t i = 0; i < s->groups; i++) {
        s->group[i].block = block;
        block += s->group[i].common;
    }
}

bool tw_same_name(const struct tw_group *a, const struct tw_group *b)
{
    return a->name && b->name && a->name_bytes == b->name_bytes &&
           memcmp(a->name, b->name, a->name_bytes) == 0;
}

/* An option without a value, alone in its place: exchanged for another one (--adam, --sgd) the two
 * may exclude each other. */
static bool is_switch(const struct tw_group *g)
{
    return g->name && g->words == 1 && g->name[0] == '-' && g->name[g->name_bytes] == '\0';
}

static bool same_option(const struct tw_group *a, const struct tw_group *b)
{
    return tw_same_name(a, b);
}
static bool both_positional(const struct tw_group *a, const struct tw_group *b)
{
    return !a->name && !b->name && a->block == b->block;
}
static bool both_switches(const struct tw_group *a, const struct tw_group *b)
{
    return is_switch(a) && is_switch(b) && a->block == b->block;
}

/* Pairs each group of A that has no mate with the first such group of B that belongs to it. */
static void match_groups(struct tw_side side[2],
                         bool (*belong)(const struct tw_group *, const struct tw_group *))
{
    for (size_t i = 0; i < side[0].groups; i++)
        for (size_t j = 0; side[0].group[i].mate == TW_NONE && j < side[1].groups; j++)
            if (side[1].group[j].mate == TW_NONE && belong(&side[0].group[i], &side[1].group[j])) {
                side[0].group[i].mate = j;
                side[1].group[j].mate = i;
            }
}

/* The order matters: a name says more than a place, and switches are exchanged for each other only
 * when no switch of the same name is there. */
int tw_sides_match(struct tw_side side[2], struct twin_error *err)
{
    int rc = match_common(side, err);
    number_blocks(&side[0]);
    number_blocks(&side[1]);
    match_groups(side, same_option);
    match_groups(side, both_positional);
    match_groups(side, both_switches);
    return rc;
}
