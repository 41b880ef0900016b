/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between two commands, and the commands in between. The commands' simple commands
 * stand side by side; in each pair variables are matched by name, arguments by the longest common
 * subsequence of options (with their values) and positionals. The result is one list of pieces,
 * each of both commands or of one, in an order that keeps the order of either. */
#include "src/isolate/arms.h"

#include "arms_match.h"

#include <string.h>

struct piece {
    char *raw;
    int difference;
    bool in_b;
};

struct twin_arms {
    char *text[2];
    struct twin_difference *difference;
    size_t count;
    struct piece *piece;
    size_t pieces;
};

struct pair {
    struct twin_arms *arms;
    struct tw_side side[2];
    struct twin_error *err;
};

static int no_memory(struct twin_error *err)
{
    return twin_error_set(err, TWIN_ENOMEM, "out of memory");
}

/* ---- the result grows */

static int add_piece(struct twin_arms *arms, const char *raw, int difference, bool in_b,
                     struct twin_error *err)
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
static int add_difference(struct twin_arms *arms, const char *name, char *a, char *b, int *out,
                          struct twin_error *err)
{
    char *id = tw_strdup(name);
    for (unsigned n = 2; id && taken(arms, id); n++) {
        tw_free(id);
        id = tw_printf("%s#%u", name, n);
    }
    struct twin_difference *grown = tw_reallocarray(arms->difference, arms->count + 1,
                                                    sizeof *grown);
    if (grown)
        arms->difference = grown;
    int rc = !id || !grown || (!a && !b) ? no_memory(err) : 0;
    if (rc == 0 && arms->count == TWIN_SEARCH_FACTORS)
        rc = twin_error_set(err, TWIN_ELIMIT,
                            "expected commands that differ in at most %d things, found more",
                            TWIN_SEARCH_FACTORS);
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

static char *name_of(const struct pair *p, int side, const struct tw_group *g)
{
    if (!g->name)
        return tw_printf("arg:%zu", g->place);
    bool exported = tw_word_assigns(p->side[side].word[g->first].raw);
    return tw_printf("%s:%.*s", exported ? "env" : "arg", (int)g->name_bytes, g->name);
}

/*
 * The difference that these words make; either side may be empty. *out is set once for the group.
 */
static int difference_of(struct pair *p, const char *name, const struct tw_word *a, size_t a_words,
                         const struct tw_word *b, size_t b_words, int *out)
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
    const struct tw_side *own = &p->side[side], *other = &p->side[!side];
    struct tw_group *g = &own->group[at];
    struct tw_group *mate = g->mate == TW_NONE ? NULL : &other->group[g->mate];
    if (g->difference == TW_COMMON) {
        const struct tw_word *mine = own->word + g->first;
        const struct tw_word *its = mate ? other->word + mate->first : NULL;
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

/* Mates at the same place. With as many words each, the words that differ are differences of their
 * own. */
static int put_mates(struct pair *p, size_t i, size_t j)
{
    struct tw_group *a = &p->side[0].group[i], *b = &p->side[1].group[j];
    const struct tw_word *wa = p->side[0].word + a->first, *wb = p->side[1].word + b->first;
    if (a->words != b->words || a->words == 1 || !tw_same_name(a, b)) {
        int rc = put_group(p, 0, i);
        return rc != 0 ? rc : put_group(p, 1, j);
    }
    char *name = name_of(p, 0, a);
    int rc = name ? 0 : no_memory(p->err);
    for (size_t k = 0; rc == 0 && k < a->words; k++) {
        int difference = TW_COMMON;
        if (!tw_word_same(wa + k, wb + k))
            rc = a->words == 2 ? difference_of(p, name, wa, 2, wb, 2, &difference)
                               : difference_of(p, name, wa + k, 1, wb + k, 1, &difference);
        if (rc == 0)
            rc = add_words(p, 0, a->first + k, 1, difference);
        if (rc == 0 && difference != TW_COMMON)
            rc = add_words(p, 1, b->first + k, 1, difference);
    }
    tw_free(name);
    return rc;
}

/* Does the group's mate come later in the same block, so that the two can be put together? */
static bool ahead(const struct tw_group *g, const struct tw_side *other, size_t at)
{
    return g->mate != TW_NONE && g->mate >= at && other->group[g->mate].block == g->block;
}

/* Both lists of groups, merged: what is common or changed in place goes once, the rest where its
 * own command has it. */
static int put_arguments(struct pair *p)
{
    const struct tw_side *a = &p->side[0], *b = &p->side[1];
    int rc = 0;
    for (size_t i = 0, j = 0; rc == 0 && (i < a->groups || j < b->groups);) {
        const struct tw_group *x = i < a->groups ? &a->group[i] : NULL;
        const struct tw_group *y = j < b->groups ? &b->group[j] : NULL;
        if (x && y && x->common && x->mate == j) {
            rc = add_words(p, 0, x->first, x->words, TW_COMMON);
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
    const struct tw_side *a = &p->side[0], *b = &p->side[1];
    bool *used = tw_calloc(b->assignments + 1, sizeof *used);
    int rc = used ? 0 : no_memory(p->err);
    for (size_t i = 0; rc == 0 && i < a->assignments + b->assignments; i++) {
        bool of_a = i < a->assignments;
        size_t at = of_a ? i : i - a->assignments, mate = b->assignments;
        const struct tw_word *w = (of_a ? a : b)->word + (of_a ? a : b)->assignments_from + at;
        const struct tw_word *other = b->word + b->assignments_from;
        size_t bytes = tw_word_assigns(w->raw);
        if (!of_a && used[at])
            continue;
        for (size_t j = 0; of_a && j < b->assignments && mate == b->assignments; j++)
            if (!used[j] && tw_word_assigns(other[j].raw) == bytes &&
                memcmp(w->raw, other[j].raw, bytes) == 0)
                mate = j;
        bool changed = mate < b->assignments, equal = changed && tw_word_same(w, other + mate);
        int difference = TW_COMMON;
        char *name = equal ? NULL : tw_printf("env:%.*s", (int)bytes, w->raw);
        if (!equal)
            rc = difference_of(p, name, w, of_a, of_a ? other + mate : w, of_a ? changed : 1,
                               &difference);
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
    const struct tw_word *wa = p->side[0].word + (a == TW_NONE ? 0 : a);
    const struct tw_word *wb = p->side[1].word + (b == TW_NONE ? 0 : b);
    int difference = TW_COMMON, rc = 0;
    bool equal = (a == TW_NONE) == (b == TW_NONE) && (a == TW_NONE || tw_word_same(wa, wb));
    if (!equal)
        rc = difference_of(p, "program", wa, a != TW_NONE, wb, b != TW_NONE, &difference);
    if (rc == 0 && a != TW_NONE)
        rc = add_piece(p->arms, wa->raw, difference, false, p->err);
    if (rc == 0 && b != TW_NONE && !equal)
        rc = add_piece(p->arms, wb->raw, difference, true, p->err);
    return rc;
}

static int put_command(struct pair *p)
{
    int rc = tw_sides_match(p->side, p->err);
    if (rc == 0)
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
    if (at == w->count)
        return "its end";
    return w->word[at].raw[0] == '\n' ? "a new line" : w->word[at].raw;
}

static int put_all(struct twin_arms *arms, const struct tw_words *a, const struct tw_words *b,
                   struct twin_error *err)
{
    for (size_t i = 0, j = 0, n = 1;; n++) {
        size_t a_end = next_control(a, i), b_end = next_control(b, j);
        bool over = a_end == a->count && b_end == b->count;
        if (!over && strcmp(shown(a, a_end), shown(b, b_end)) != 0)
            return twin_error_set(err, TWIN_EINVAL,
                                  "expected commands of one shape, found behind command %zu of A "
                                  "%s, of B %s; write variables in front of the program "
                                  "(NAME=value program), and the same steps in both",
                                  n, shown(a, a_end), shown(b, b_end));
        struct pair p = {.arms = arms, .err = err};
        int rc = tw_side_read(a->word, i, a_end, &p.side[0], err);
        if (rc == 0)
            rc = tw_side_read(b->word, j, b_end, &p.side[1], err);
        if (rc == 0)
            rc = put_command(&p);
        tw_free(p.side[0].group);
        tw_free(p.side[1].group);
        if (rc == 0 && !over)
            rc = add_piece(arms, a->word[a_end].raw, TW_COMMON, false, err);
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
    int rc = arms && (arms->text[0] = tw_strdup(a)) && (arms->text[1] = tw_strdup(b))
                 ? 0
                 : no_memory(err);
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
        if (p->difference != TW_COMMON && twin_search_has(as_b, (size_t)p->difference) != p->in_b)
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
