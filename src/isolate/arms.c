/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between two commands, and the commands in between (src/isolate/arms.h). `twinrun
 * isolate
 * --a CMD --b CMD` makes its candidates of the differences (search_arms.c), and asks for a mixed
 * command for each run.
 *
 * Both texts are split into words (words.c), and cut at their control operators (&&, ;, |) into
 * simple commands, which have to stand in pairs. In each pair variables are matched by name, and
 * arguments by the longest common subsequence of options (with their values) and positionals
 * (arms_match.c).
 *
 * The result is one list of pieces. Each piece belongs to both commands or to one of them, and the
 * list keeps the order of either. So a mix is the list without the pieces of the side that was not
 * chosen.
 */
#include "src/isolate/arms.h"

#include "arms_match.h"

#include <assert.h>
#include <string.h>

/* One word of the result. */
struct piece {
    /* as written, with its quotes; owned */
    char *raw;
    /* TW_COMMON: it stands in every mix; else the place of its difference in the list */
    int difference;
    /* of a difference: it stands in the mixes that have this difference as in B, else in those as
     * in A */
    bool in_b;
};

/* The answer: the differences, and the pieces that mixes are made of. */
struct twin_arms {
    /* A and B as they were given, so that mixes of none and of all differences are these to the
     * byte */
    char *text[2];
    struct twin_difference *difference;
    size_t count;
    struct piece *piece;
    size_t pieces;
};

/* Two simple commands that stand at the same place of A (side 0) and B (side 1), and the result to
 * which their pieces are added. */
struct pair {
    struct twin_arms *arms;
    struct tw_side side[2];
    struct twin_error *err;
};

/* ---- the result grows */

/* Adds a copy of `raw` at the end of the list. For a common piece in_b means nothing. */
static int add_piece(struct twin_arms *arms, const char *raw, int difference, bool in_b,
                     struct twin_error *err)
{
    struct piece *grown = tw_reallocarray(arms->piece, arms->pieces + 1, sizeof *grown);
    if (!grown)
        return tw_no_memory(err, "comparing the commands of two arms");
    arms->piece = grown;
    char *copy = tw_strdup(raw);
    if (!copy)
        return tw_no_memory(err, "comparing the commands of two arms");
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

/* Adds a difference and sets *out to its place. A name that is taken gets #2, #3, ... Takes the
 * texts a and b over, also on failure. b NULL: only A has it; a NULL: only B. With both NULL the
 * caller had no memory for them. */
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
    int rc = !id || !grown || (!a && !b) ? tw_no_memory(err, "comparing the commands of two arms")
                                         : 0;
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

/* The words as written, with blanks between them; malloc'ed, NULL when there is no memory. */
static char *joined_words(const struct tw_word *w, size_t count)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < count; i++) {
        tw_buf_puts(&b, i ? " " : "");
        tw_buf_puts(&b, w[i].raw);
    }
    return tw_buf_steal(&b);
}

/* Adds words of one side as pieces that all belong to one difference, or to none. */
static int add_words(struct pair *p, int side, size_t first, size_t count, int difference)
{
    assert(side == 0 || side == 1);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = add_piece(p->arms, p->side[side].word[first + i].raw, difference, side == 1, p->err);
    return rc;
}

/* The name of a group for the report: "arg:3" for the third argument, "arg:--lr" for an option,
 * "env:NAME" for an argument of `export`. malloc'ed; NULL when there is no memory. */
static char *name_of(const struct pair *p, int side, const struct tw_group *g)
{
    if (!g->name)
        return tw_printf("arg:%zu", g->place);
    bool exported = tw_word_assigns(p->side[side].word[g->first].raw);
    return tw_printf("%s:%.*s", exported ? "env" : "arg", (int)g->name_bytes, g->name);
}

/* Adds the difference that these words make, and sets *out to its place. A side with 0 words does
 * not have it. `name` is borrowed; NULL counts as out of memory. */
static int difference_of(struct pair *p, const char *name, const struct tw_word *a, size_t a_words,
                         const struct tw_word *b, size_t b_words, int *out)
{
    char *in_a = a_words ? joined_words(a, a_words) : NULL,
         *in_b = b_words ? joined_words(b, b_words) : NULL;
    if ((a_words && !in_a) || (b_words && !in_b) || !name) {
        tw_free(in_a);
        tw_free(in_b);
        return tw_no_memory(p->err, "comparing the commands of two arms");
    }
    return add_difference(p->arms, name, in_a, in_b, out, p->err);
}

/* Puts a whole group of one side at its place. A mate at another place belongs to the same
 * difference: whichever of the two comes first makes it, and the other finds it in its own
 * group. */
static int put_group(struct pair *p, int side, size_t at)
{
    assert(at < p->side[side].groups);
    const struct tw_side *own = &p->side[side], *other = &p->side[!side];
    struct tw_group *g = &own->group[at];
    struct tw_group *mate = g->mate == TW_NONE ? NULL : &other->group[g->mate];
    if (g->difference == TW_COMMON) {
        const struct tw_word *mine = own->word + g->first;
        const struct tw_word *its = mate ? other->word + mate->first : NULL;
        size_t words = mate ? mate->words : 0;
        /* A difference that both have is named as A has it. */
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

/* Puts two mates that stand at the same place. Where both have as many words, and more than one,
 * each word that differs is a difference of its own; an option with one value is shown with its
 * value. */
static int put_mates(struct pair *p, size_t i, size_t j)
{
    assert(i < p->side[0].groups && j < p->side[1].groups);
    struct tw_group *a = &p->side[0].group[i], *b = &p->side[1].group[j];
    const struct tw_word *wa = p->side[0].word + a->first, *wb = p->side[1].word + b->first;
    if (a->words != b->words || a->words == 1 || !tw_same_name(a, b)) {
        int rc = put_group(p, 0, i);
        return rc != 0 ? rc : put_group(p, 1, j);
    }
    char *name = name_of(p, 0, a);
    int rc = name ? 0 : tw_no_memory(p->err, "comparing the commands of two arms");
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

/* Does the group's mate come at or behind `at` on the other side, with no common group in between?
 * Then the two can be put together there. */
static bool mate_is_ahead(const struct tw_group *g, const struct tw_side *other, size_t at)
{
    return g->mate != TW_NONE && g->mate >= at && other->group[g->mate].block == g->block;
}

/* Merges both lists of groups. What is common goes once, what was changed in place goes as A's
 * piece and B's, and the rest goes where its own command has it. */
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
        } else if (x && !x->common && !mate_is_ahead(x, b, j)) {
            rc = put_group(p, 0, i++);
        } else if (y && !y->common && !mate_is_ahead(y, a, i)) {
            rc = put_group(p, 1, j++);
        } else if (x && x->mate == j) {
            rc = put_mates(p, i++, j++);
        } else { /* Both mates come later: the two pairs cross, and A's goes first. */
            rc = put_group(p, 0, i++);
        }
    }
    return rc;
}

/* Puts the variables in front of the program: first those of A, each with B's of the same name,
 * then those of B alone. */
static int put_assignments(struct pair *p)
{
    const struct tw_side *a = &p->side[0], *b = &p->side[1];
    bool *used = tw_calloc(b->assignments + 1, sizeof *used);
    int rc = used ? 0 : tw_no_memory(p->err, "comparing the commands of two arms");
    for (size_t i = 0; rc == 0 && i < a->assignments + b->assignments; i++) {
        bool of_a = i < a->assignments;
        size_t at = of_a ? i : i - a->assignments, mate = b->assignments;
        const struct tw_word *w = (of_a ? a : b)->word + (of_a ? a : b)->assignments_from + at;
        const struct tw_word *other = b->word + b->assignments_from;
        size_t bytes = tw_word_assigns(w->raw);
        if (!of_a && used[at])
            continue;
        /* The first variable of that name which is not taken: a name may be assigned twice. */
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

/* Puts the program: one difference when its name is not the same, or when only one side has a
 * program. */
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

/* The place of the next control operator; the number of words when there is none. */
static size_t next_control(const struct tw_words *w, size_t from)
{
    while (from < w->count && w->word[from].kind != TW_CONTROL)
        from++;
    return from;
}

/* What stands at a place, as the message of put_all calls it. */
static const char *shown_operator(const struct tw_words *w, size_t at)
{
    if (at == w->count)
        return "its end";
    return w->word[at].raw[0] == '\n' ? "a new line" : w->word[at].raw;
}

/* Walks through both commands, pair by pair of simple commands. TWIN_EINVAL when the operators
 * between them differ: then nothing says which command belongs to which. */
static int put_all(struct twin_arms *arms, const struct tw_words *a, const struct tw_words *b,
                   struct twin_error *err)
{
    for (size_t i = 0, j = 0, n = 1;; n++) {
        size_t a_end = next_control(a, i), b_end = next_control(b, j);
        bool over = a_end == a->count && b_end == b->count;
        if (!over && strcmp(shown_operator(a, a_end), shown_operator(b, b_end)) != 0)
            return twin_error_set(err, TWIN_EINVAL,
                                  "expected commands of one shape, found behind command %zu of A "
                                  "%s, of B %s; write variables in front of the program "
                                  "(NAME=value program), and the same steps in both",
                                  n, shown_operator(a, a_end), shown_operator(b, b_end));
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
                 : tw_no_memory(err, "comparing the commands of two arms");
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
        /* A line's end and a semicolon need no blank in front, and a line's beginning needs none
         * either. */
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
