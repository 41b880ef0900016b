/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts, growing arrays and patterns of a comparison; every file of this room uses them. What
 * cannot be had for lack of memory is marked in struct tw_cmp (oom), so that callers can go on and
 * one check at the end is enough.
 */
#include "internal.h"

#include <stdio.h>
#include <string.h>

/* NULL only when memory runs out; the caller owns the text. */
char *tw_cmp_text(struct tw_cmp *c, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *s = tw_vprintf(format, ap);
    va_end(ap);
    c->oom |= !s;
    return s;
}

char *tw_cmp_copy(struct tw_cmp *c, const char *s)
{
    char *copy = tw_strdup(s);
    c->oom |= !copy;
    return copy;
}

bool tw_cmp_room(struct tw_cmp *c, void *array_pointer, size_t count, size_t *room,
                 size_t element_bytes)
{
    void **array = array_pointer;
    if (count < *room)
        return true;
    size_t more = *room ? *room * 2 : 16;
    void *grown = tw_reallocarray(*array, more, element_bytes);
    if (!grown) {
        c->oom = true;
        return false;
    }
    *array = grown;
    *room = more;
    return true;
}

/*
 * A list holds 1,000 texts at most; more are left out, since nobody reads them. Lists are short, so
 * a search through all is cheap enough.
 */
void tw_texts_add(struct tw_cmp *c, struct tw_texts *list, char *owned)
{
    bool known = !owned;
    for (size_t i = 0; i < list->n && !known; i++)
        known = strcmp(list->s[i], owned) == 0;
    if (known || list->n >= 1000 ||
        !tw_cmp_room(c, &list->s, list->n, &list->room, sizeof *list->s)) {
        tw_free(owned);
        return;
    }
    list->s[list->n++] = owned;
}

void tw_texts_free(struct tw_texts *list)
{
    for (size_t i = 0; i < list->n; i++)
        tw_free(list->s[i]);
    tw_free(list->s);
    *list = (struct tw_texts){0};
}

/* What both kinds of texts below do. */
static void add_formatted(struct tw_cmp *c, struct tw_texts *list, const char *format, va_list ap)
{
    char *s = tw_vprintf(format, ap);
    c->oom |= !s;
    tw_texts_add(c, list, s);
}

/* In a quick look nobody reads notes. */
void tw_cmp_note(struct tw_cmp *c, const char *format, ...)
{
    va_list ap;
    if (c->quick)
        return;
    va_start(ap, format);
    add_formatted(c, &c->notes, format, ap);
    va_end(ap);
}

/*
 * The count of doubts rises also in a quick look: that something was not seen matters there, too.
 */
void tw_cmp_unseen(struct tw_cmp *c, const char *format, ...)
{
    va_list ap;
    c->doubts++;
    if (c->quick && !c->judged) /* "within tolerance" is said of every pair */
        return;
    va_start(ap, format);
    add_formatted(c, &c->unseen, format, ap);
    va_end(ap);
}

size_t tw_tensor_name_length(const char *name)
{
    size_t n = strlen(name), at = n;
    const char *digits = "0123456789";
    if (n == 0 || name[n - 1] != ']')
        return n;
    while (at > 0 && name[at - 1] != '[')
        at--;
    size_t first = strspn(name + at, digits), end = 0;
    if (at > 0 && first > 0 && name[at + first] == ':')
        end = strspn(name + at + first + 1, digits);
    bool is_part = end > 0 && at + first + 1 + end == n - 1;
    return is_part ? at - 1 : n;
}

/*
 * The pattern is tried on "phase/kind/name" and on the name alone, then the same without the range
 * of a part. Names beyond the rooms are cut.
 */
bool tw_pattern_fits(const char *pattern, const char *phase, const char *kind, const char *name)
{
    char full[1100], whole[1000];
    snprintf(full, sizeof full, "%s/%s/%s", phase, kind, name);
    if (tw_glob(pattern, full) || tw_glob(pattern, name))
        return true;
    size_t n = tw_tensor_name_length(name);
    if (name[n] == '\0')
        return false;
    snprintf(whole, sizeof whole, "%.*s", (int)n, name);
    snprintf(full, sizeof full, "%s/%s/%s", phase, kind, whole);
    return tw_glob(pattern, full) || tw_glob(pattern, whole);
}

/* "line:" patterns are for lines (filters.c), "number:" patterns for single numbers (numbers.c),
 * "file:" patterns for files alone. */
bool tw_cmp_ignored(const struct tw_cmp *c, enum twin_phase phase, enum twin_kind kind,
                    const char *name)
{
    if (c->o->ignore_count == 0)
        return false;
    for (size_t i = 0; i < c->o->ignore_count; i++) {
        const char *pattern = c->o->ignore[i];
        if (tw_starts(pattern, "line:") || tw_starts(pattern, "number:"))
            continue;
        if (tw_starts(pattern, "file:")) {
            if (kind == TWIN_KIND_FILE && tw_glob(pattern + 5, name))
                return true;
        } else if (tw_pattern_fits(pattern, twin_phase_name(phase), twin_kind_name(kind), name)) {
            return true;
        }
    }
    return false;
}

static bool has_note(const struct twin_verdict *v, const char *text)
{
    for (size_t i = 0; i < v->note_count; i++)
        if (strcmp(v->notes[i], text) == 0)
            return true;
    return false;
}

/*
 * c->notes is empty afterwards. What the reruns of a zoom say that the runs have said already is
 * left out.
 */
void tw_cmp_append_notes(struct tw_cmp *c)
{
    struct twin_verdict *v = c->v;
    char **grown = tw_reallocarray(v->notes, v->note_count + c->notes.n + 1, sizeof *grown);
    if (!grown) {
        c->oom = true;
        return;
    }
    v->notes = grown;
    for (size_t i = 0; i < c->notes.n; i++) {
        if (has_note(v, c->notes.s[i]))
            tw_free(c->notes.s[i]);
        else
            v->notes[v->note_count++] = c->notes.s[i];
        c->notes.s[i] = NULL;
    }
    c->notes.n = 0;
}
