/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between two commands, and the commands in between. The commands' simple commands stand side by side; in each pair
 * variables are matched by name, arguments by the longest common subsequence of options (with their values) and positionals. The
 * result is one list of pieces, each of both commands or of one, in an order that keeps the order of either. */
#include <twin/arms.h>

#include "words.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum { COMMON = -1 }; /* difference of a piece that both have */

struct piece { char *raw; int difference; bool in_b; };

struct twin_arms {
    char *text[2];
    struct twin_difference *difference; size_t count;
    struct piece *piece; size_t pieces;
};

/* Words that belong together: an option with what follows it, a redirection with its target, or one positional. */
struct group {
    size_t first, words;
    const char *name;   /* of the option as written, up to a '='; NULL: positional */
    size_t name_bytes;
    size_t place;       /* of a positional: its number among the arguments, from 1 on */
    size_t mate;        /* the group of the other command that it is paired with; NONE */
    bool common;        /* with its mate it is the same */
    size_t block;       /* between the same two common groups as others of that number */
    int difference;
};
#define NONE SIZE_MAX

/* One simple command of one side. */
struct side {
    const struct tw_word *word;
    size_t assignments, assignments_from;
    size_t program;     /* NONE: only assignments or redirections */
    struct group *group; size_t groups;
};

struct pair { struct twin_arms *arms; struct side side[2]; struct twin_error *err; };

static int no_memory(struct twin_error *err)
{
    return twin_error_set(err, TWIN_ENOMEM, "out of memory");
}

/* ---- the result grows */

static int add_piece(struct twin_arms *arms, const char *raw, int difference, bool in_b, struct twin_error *err)
{
    struct piece *grown = tw_reallocarray(arms->piece, arms->pieces + 1, sizeof *grown);
    if (!grown)
        return no_memory(err);
    arms->piece = grown;
    char *copy = tw_strdup(raw);
    if (!copy)
        return no_memory(err);
    arms->piece[arms->pieces++] = (struct piece){copy, difference, in_b};
    return 0;
}

static bool taken(const struct twin_arms *arms, const char *id)
{
    for (size_t i = 0; i < arms->count; i++)
        if (strcmp(arms->difference[i].id, id) == 0)
            return true;
    return false;
}

/* Takes the texts over, also on failure. b NULL: only A has it; a NULL: only B. */
static int add_difference(struct twin_arms *arms, const char *name, char *a, char *b, int *out, struct twin_error *err)
{
    char *id = tw_strdup(name);
    for (unsigned n = 2; id && taken(arms, id); n++) {
        tw_free(id);
        id = tw_printf("%s#%u", name, n);
    }
    struct twin_difference *grown = tw_reallocarray(arms->difference, arms->count + 1, sizeof *grown);
    if (grown)
        arms->difference = grown;
    int rc = !id || !grown || (!a && !b) ? no_memory(err) : 0;
    if (rc == 0 && arms->count == TWIN_SEARCH_FACTORS)
        rc = twin_error_set(err, TWIN_ELIMIT, "expected commands that differ in at most %d things, found more", TWIN_SEARCH_FACTORS);
    if (rc != 0) {
        tw_free(id);
        tw_free(a);
        tw_free(b);
        return rc;
    }
    *out = (int)arms->count;
    arms->difference[arms->count++] = (struct twin_difference){id, a, b};
    return 0;
}

/* ---- one simple command, understood */

static bool is_option(const struct tw_word *w)
{
    const char *t = w->text;
    return w->kind == TW_WORD && t[0] == '-' && t[1] && !isdigit((unsigned char)t[1]) && t[1] != '.' && strcmp(t, "--") != 0;
}

/* `env A=1 B=2 program` is `A=1 B=2 program`. With options it is a program like others. */
static size_t skip_env(const struct tw_word *w, size_t at, size_t end)
{
    size_t i = at + 1;
    if (at >= end || strcmp(w[at].text, "env") != 0)
        return at;
    while (i < end && w[i].kind == TW_WORD && tw_word_assigns(w[i].raw))
        i++;
    return i > at + 1 && i < end && w[i].kind == TW_WORD && !is_option(&w[i]) ? at + 1 : at;
}

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

/* Fills a side with word[at .. end). */
static int understand(const struct tw_word *w, size_t at, size_t end, struct side *s, struct twin_error *err)
{
    *s = (struct side){.word = w, .program = NONE, .group = tw_calloc(end - at + 1, sizeof(struct group))};
    if (!s->group)
        return no_memory(err);
    at = skip_env(w, at, end);
    s->assignments_from = at;
    while (at < end && w[at].kind == TW_WORD && tw_word_assigns(w[at].raw))
        at++;
    s->assignments = at - s->assignments_from;
    if (at < end && w[at].kind == TW_WORD)
        s->program = at++;
    bool exports = s->program != NONE && strcmp(w[s->program].text, "export") == 0, over = false;
    for (size_t first = at; at < end;) {
        struct group *g = &s->group[s->groups++];
        size_t next = group_end(w, at, end, over);
        *g = (struct group){.first = at, .words = next - at, .place = at - first + 1, .mate = NONE, .difference = COMMON};
        if (w[at].kind == TW_REDIRECT || (!over && is_option(&w[at]))) {
            g->name = w[at].text;
            g->name_bytes = strcspn(g->name, w[at].kind == TW_REDIRECT ? "" : "=");
        } else if (exports && tw_word_assigns(w[at].raw)) {
            g->name = w[at].text;
            g->name_bytes = tw_word_assigns(w[at].raw);
        }
        over |= w[at].kind == TW_WORD && strcmp(w[at].text, "--") == 0;
        at = next;
    }
    return 0;
}

/* ---- which groups are the same, or the same thing changed */

static bool same_words(const struct pair *p, const struct group *a, const struct group *b)
{
    if (a->words != b->words)
        return false;
    for (size_t i = 0; i < a->words; i++)
        if (!tw_word_same(&p->side[0].word[a->first + i], &p->side[1].word[b->first + i]))
            return false;
    return true;
}

static void mark_common(struct group *a, struct group *b, size_t i, size_t j)
{
    a->mate = j;
    b->mate = i;
    a->common = b->common = true;
}

/* The longest common subsequence, by dynamic programming over what lies between the common ends. A middle too large for that is
 * taken for different: matched by name only. */
static int match_common(struct pair *p)
{
    enum { CELLS_MAX = 1 << 22 };
    struct group *a = p->side[0].group, *b = p->side[1].group;
    size_t from = 0, n = p->side[0].groups, m = p->side[1].groups;
    for (; from < n && from < m && same_words(p, &a[from], &b[from]); from++)
        mark_common(&a[from], &b[from], from, from);
    for (; n > from && m > from && same_words(p, &a[n - 1], &b[m - 1]); n--, m--)
        mark_common(&a[n - 1], &b[m - 1], n - 1, m - 1);
    size_t rows = n - from + 1, columns = m - from + 1;
    if (rows == 1 || columns == 1 || rows > CELLS_MAX / columns)
        return 0;
    uint16_t *longest = tw_calloc(rows * columns, sizeof *longest); /* of the suffixes that begin here; at most 2,048 of a side fit */
    if (!longest)
        return no_memory(p->err);
    for (size_t i = rows - 1; i-- > 0;)
        for (size_t j = columns - 1; j-- > 0;) {
            uint16_t skip_a = longest[(i + 1) * columns + j], skip_b = longest[i * columns + j + 1];
            longest[i * columns + j] = same_words(p, &a[from + i], &b[from + j]) ? (uint16_t)(longest[(i + 1) * columns + j + 1] + 1)
                                       : skip_a > skip_b                         ? skip_a
                                                                                 : skip_b;
        }
    for (size_t i = 0, j = 0; i + 1 < rows && j + 1 < columns;) {
        if (same_words(p, &a[from + i], &b[from + j])) {
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

static void number_blocks(struct side *s)
{
    size_t block = 0;
    for (size_t i = 0; i < s->groups; i++) {
        s->group[i].block = block;
        block += s->group[i].common;
    }
}

static bool same_name(const struct group *a, const struct group *b)
{
    return a->name && b->name && a->name_bytes == b->name_bytes && memcmp(a->name, b->name, a->name_bytes) == 0;
}

/* An option without a value, alone in its place: exchanged for another one (--adam, --sgd) the two may exclude each other. */
static bool is_switch(const struct group *g)
{
    return g->name && g->words == 1 && g->name[0] == '-' && g->name[g->name_bytes] == '\0';
}

static bool same_option(const struct group *a, const struct group *b) { return same_name(a, b); }
static bool both_positional(const struct group *a, const struct group *b) { return !a->name && !b->name && a->block == b->block; }
static bool both_switches(const struct group *a, const struct group *b) { return is_switch(a) && is_switch(b) && a->block == b->block; }

static void match(struct pair *p, bool (*belong)(const struct group *, const struct group *))
{
    for (size_t i = 0; i < p->side[0].groups; i++)
        for (size_t j = 0; p->side[0].group[i].mate == NONE && j < p->side[1].groups; j++)
            if (p->side[1].group[j].mate == NONE && belong(&p->side[0].group[i], &p->side[1].group[j])) {
                p->side[0].group[i].mate = j;
                p->side[1].group[j].mate = i;
            }
}

/* ---- pieces */

static char *joined(const struct tw_word *w, size_t count)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < count; i++) {
        tw_buf_puts(&b, i ? " " : "");
        tw_buf_puts(&b, w[i].raw);
    }
    return tw_buf_steal(&b);
}

static int add_words(struct pair *p, int side, size_t first, size_t count, int difference)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = add_piece(p->arms, p->side[side].word[first + i].raw, difference, side == 1, p->err);
    return rc;
}

static char *name_of(const struct pair *p, int side, const struct group *g)
{
    bool exported = g->name && tw_word_assigns(p->side[side].word[g->first].raw);
    return g->name ? tw_printf("%s:%.*s", exported ? "env" : "arg", (int)g->name_bytes, g->name) : tw_printf("arg:%zu", g->place);
}

/* The difference that these words make; either side may be empty. *out is set once for the group. */
static int difference_of(struct pair *p, const char *name, const struct tw_word *a, size_t a_words, const struct tw_word *b, size_t b_words,
                         int *out)
{
    char *in_a = a_words ? joined(a, a_words) : NULL, *in_b = b_words ? joined(b, b_words) : NULL;
    if ((a_words && !in_a) || (b_words && !in_b) || !name) {
        tw_free(in_a);
        tw_free(in_b);
        return no_memory(p->err);
    }
    return add_difference(p->arms, name, in_a, in_b, out, p->err);
}

/* A whole group of one side at its place; with a mate elsewhere both are one difference. */
static int put_group(struct pair *p, int side, size_t at)
{
    const struct side *own = &p->side[side], *other = &p->side[!side];
    struct group *g = &own->group[at], *mate = g->mate == NONE ? NULL : &other->group[g->mate];
    if (g->difference == COMMON) {
        const struct tw_word *mine = own->word + g->first, *its = mate ? other->word + mate->first : NULL;
        size_t words = mate ? mate->words : 0;
        char *name = side == 1 && mate ? name_of(p, 0, mate) : name_of(p, side, g);
        int rc = side == 0 ? difference_of(p, name, mine, g->words, its, words, &g->difference)
                           : difference_of(p, name, its, words, mine, g->words, &g->difference);
        tw_free(name);
        if (rc != 0)
            return rc;
        if (mate)
            mate->difference = g->difference;
    }
    return add_words(p, side, g->first, g->words, g->difference);
}

/* Mates at the same place. With as many words each, the words that differ are differences of their own. */
static int put_mates(struct pair *p, size_t i, size_t j)
{
    struct group *a = &p->side[0].group[i], *b = &p->side[1].group[j];
    const struct tw_word *wa = p->side[0].word + a->first, *wb = p->side[1].word + b->first;
    if (a->words != b->words || a->words == 1 || !same_name(a, b)) {
        int rc = put_group(p, 0, i);
        return rc != 0 ? rc : put_group(p, 1, j);
    }
    char *name = name_of(p, 0, a);
    int rc = name ? 0 : no_memory(p->err);
    for (size_t k = 0; rc == 0 && k < a->words; k++) {
        int difference = COMMON;
        if (!tw_word_same(wa + k, wb + k))
            rc = a->words == 2 ? difference_of(p, name, wa, 2, wb, 2, &difference) : difference_of(p, name, wa + k, 1, wb + k, 1, &difference);
        if (rc == 0)
            rc = add_words(p, 0, a->first + k, 1, difference);
        if (rc == 0 && difference != COMMON)
            rc = add_words(p, 1, b->first + k, 1, difference);
    }
    tw_free(name);
    return rc;
}

/* Does the group's mate come later in the same block, so that the two can be put together? */
static bool ahead(const struct group *g, const struct side *other, size_t at)
{
    return g->mate != NONE && g->mate >= at && other->group[g->mate].block == g->block;
}

/* Both lists of groups, merged: what is common or changed in place goes once, the rest where its own command has it. */
static int put_arguments(struct pair *p)
{
    const struct side *a = &p->side[0], *b = &p->side[1];
    int rc = 0;
    for (size_t i = 0, j = 0; rc == 0 && (i < a->groups || j < b->groups);) {
        const struct group *x = i < a->groups ? &a->group[i] : NULL, *y = j < b->groups ? &b->group[j] : NULL;
        if (x && y && x->common && x->mate == j) {
            rc = add_words(p, 0, x->first, x->words, COMMON);
            i++;
            j++;
        } else if (x && !x->common && !ahead(x, b, j)) {
            rc = put_group(p, 0, i++);
        } else if (y && !y->common && !ahead(y, a, i)) {
            rc = put_group(p, 1, j++);
        } else if (x && x->mate == j) {
            rc = put_mates(p, i++, j++);
        } else { /* the mates of both come later: they cross */
            rc = put_group(p, 0, i++);
        }
    }
    return rc;
}

static int put_assignments(struct pair *p)
{
    const struct side *a = &p->side[0], *b = &p->side[1];
    bool *used = tw_calloc(b->assignments + 1, sizeof *used);
    int rc = used ? 0 : no_memory(p->err);
    for (size_t i = 0; rc == 0 && i < a->assignments + b->assignments; i++) {
        bool of_a = i < a->assignments;
        size_t at = of_a ? i : i - a->assignments, mate = b->assignments;
        const struct tw_word *w = (of_a ? a : b)->word + (of_a ? a : b)->assignments_from + at, *other = b->word + b->assignments_from;
        size_t bytes = tw_word_assigns(w->raw);
        if (!of_a && used[at])
            continue;
        for (size_t j = 0; of_a && j < b->assignments && mate == b->assignments; j++)
            if (!used[j] && tw_word_assigns(other[j].raw) == bytes && memcmp(w->raw, other[j].raw, bytes) == 0)
                mate = j;
        bool changed = mate < b->assignments, equal = changed && tw_word_same(w, other + mate);
        int difference = COMMON;
        char *name = equal ? NULL : tw_printf("env:%.*s", (int)bytes, w->raw);
        if (!equal)
            rc = difference_of(p, name, w, of_a, of_a ? other + mate : w, of_a ? changed : 1, &difference);
        tw_free(name);
        if (changed)
            used[mate] = true;
        if (rc == 0)
            rc = add_piece(p->arms, w->raw, difference, !of_a, p->err);
        if (rc == 0 && changed && !equal)
            rc = add_piece(p->arms, other[mate].raw, difference, true, p->err);
    }
    tw_free(used);
    return rc;
}

static int put_program(struct pair *p)
{
    size_t a = p->side[0].program, b = p->side[1].program;
    const struct tw_word *wa = p->side[0].word + (a == NONE ? 0 : a), *wb = p->side[1].word + (b == NONE ? 0 : b);
    int difference = COMMON, rc = 0;
    bool equal = (a == NONE) == (b == NONE) && (a == NONE || tw_word_same(wa, wb));
    if (!equal)
        rc = difference_of(p, "program", wa, a != NONE, wb, b != NONE, &difference);
    if (rc == 0 && a != NONE)
        rc = add_piece(p->arms, wa->raw, difference, false, p->err);
    if (rc == 0 && b != NONE && !equal)
        rc = add_piece(p->arms, wb->raw, difference, true, p->err);
    return rc;
}

static int put_command(struct pair *p)
{
    int rc = match_common(p);
    if (rc != 0)
        return rc;
    number_blocks(&p->side[0]);
    number_blocks(&p->side[1]);
    match(p, same_option);
    match(p, both_positional);
    match(p, both_switches);
    rc = put_assignments(p);
    if (rc == 0)
        rc = put_program(p);
    return rc ? rc : put_arguments(p);
}

/* ---- all of it */

static size_t next_control(const struct tw_words *w, size_t from)
{
    while (from < w->count && w->word[from].kind != TW_CONTROL)
        from++;
    return from;
}

static const char *shown(const struct tw_words *w, size_t at)
{
    return at == w->count ? "its end" : w->word[at].raw[0] == '\n' ? "a new line" : w->word[at].raw;
}

static int put_all(struct twin_arms *arms, const struct tw_words *a, const struct tw_words *b, struct twin_error *err)
{
    for (size_t i = 0, j = 0, n = 1;; n++) {
        size_t a_end = next_control(a, i), b_end = next_control(b, j);
        bool over = a_end == a->count && b_end == b->count;
        if (!over && strcmp(shown(a, a_end), shown(b, b_end)) != 0)
            return twin_error_set(err, TWIN_EINVAL, "expected commands of one shape, found behind command %zu of A %s, of B %s; write variables in "
                                  "front of the program (NAME=value program), and the same steps in both", n, shown(a, a_end), shown(b, b_end));
        struct pair p = {.arms = arms, .err = err};
        int rc = understand(a->word, i, a_end, &p.side[0], err);
        if (rc == 0)
            rc = understand(b->word, j, b_end, &p.side[1], err);
        if (rc == 0)
            rc = put_command(&p);
        tw_free(p.side[0].group);
        tw_free(p.side[1].group);
        if (rc == 0 && !over)
            rc = add_piece(arms, a->word[a_end].raw, COMMON, false, err);
        if (rc != 0 || over)
            return rc;
        i = a_end + 1;
        j = b_end + 1;
    }
}

int twin_arms_compare(const char *a, const char *b, struct twin_arms **out, struct twin_error *err)
{
    struct tw_words words[2] = {{0}};
    struct twin_arms *arms = tw_calloc(1, sizeof *arms);
    *out = NULL;
    int rc = arms && (arms->text[0] = tw_strdup(a)) && (arms->text[1] = tw_strdup(b)) ? 0 : no_memory(err);
    if (rc == 0)
        rc = tw_words_split(a, &words[0], err);
    if (rc == 0)
        rc = tw_words_split(b, &words[1], err);
    if (rc == 0)
        rc = put_all(arms, &words[0], &words[1], err);
    tw_words_free(&words[0]);
    tw_words_free(&words[1]);
    if (rc == 0)
        *out = arms;
    else
        twin_arms_free(arms);
    return rc;
}

struct twin_difference *twin_arms_differences(const struct twin_arms *arms, size_t *count)
{
    *count = arms->count;
    return arms->difference;
}

char *twin_arms_mix(const struct twin_arms *arms, const struct twin_search_set *as_b)
{
    struct tw_buf text = {0};
    size_t of_b = 0;
    for (size_t i = 0; i < arms->count; i++)
        of_b += twin_search_has(as_b, i);
    if (of_b == 0 || of_b == arms->count)
        return tw_strdup(arms->text[of_b > 0]);
    for (size_t i = 0; i < arms->pieces; i++) {
        const struct piece *p = &arms->piece[i];
        if (p->difference != COMMON && twin_search_has(as_b, (size_t)p->difference) != p->in_b)
            continue;
        bool close = p->raw[0] == '\n' || strcmp(p->raw, ";") == 0;
        tw_buf_puts(&text, text.len == 0 || close || text.data[text.len - 1] == '\n' ? "" : " ");
        tw_buf_puts(&text, p->raw);
    }
    return tw_buf_steal(&text);
}

void twin_arms_free(struct twin_arms *arms)
{
    if (!arms)
        return;
    for (size_t i = 0; i < arms->count; i++) {
        tw_free(arms->difference[i].id);
        tw_free(arms->difference[i].a);
        tw_free(arms->difference[i].b);
    }
    for (size_t i = 0; i < arms->pieces; i++)
        tw_free(arms->piece[i].raw);
    tw_free(arms->difference);
    tw_free(arms->piece);
    tw_free(arms->text[0]);
    tw_free(arms->text[1]);
    tw_free(arms);
}
