/* SPDX-License-Identifier: Apache-2.0 */
/* Does a verdict look like a known case? Each key that a case has is asked: it agrees, contradicts,
 * or is not known. Points of those that agree are summed, one contradiction rules the case out, and
 * too few points are none. */
#include "internal.h"

#include "base.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

const struct tw_case_key tw_case_keys[TWIN_CASE_KEYS] = {
    [TWIN_CASE_FACTORS] = {"factors", 4, true}, [TWIN_CASE_OP] = {"op", 3, true},
    [TWIN_CASE_STACK] = {"stack", 3, true},     [TWIN_CASE_ARMS] = {"arms", 3, true},
    [TWIN_CASE_KIND] = {"kind", 2, false},      [TWIN_CASE_PHASE] = {"phase", 1, false},
    [TWIN_CASE_LAYER] = {"layer", 1, false},    [TWIN_CASE_NAME] = {"name", 1, false},
};

unsigned tw_case_worth(const bool asked[TWIN_CASE_KEYS])
{
    unsigned points = 0;
    bool particular = false;
    for (int k = 0; k < TWIN_CASE_KEYS; k++)
        if (asked[k]) {
            points += tw_case_keys[k].points;
            particular |= tw_case_keys[k].particular;
        }
    return particular && points >= TWIN_CASE_POINTS ? points : 0;
}

/* Models differ in their numbers of layers, not in what layers are called. */
char *tw_name_shape(const char *name)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    for (const char *p = name; *p;) {
        size_t digits = strspn(p, "0123456789");
        tw_buf_append(&b, digits ? "#" : p, 1);
        p += digits ? digits : 1;
    }
    return tw_buf_steal(&b);
}

/* "/home/ana/train.py:12 in load" gives "train.py:load". A line of another form stays as it is. */
char *tw_frame_shape(const char *line, size_t n)
{
    size_t path = 0, file = 0;
    while (path + 1 < n && !(line[path] == ':' && isdigit((unsigned char)line[path + 1])))
        path++;
    for (size_t i = 0; i < path; i++)
        if (line[i] == '/')
            file = i + 1;
    const char *in = memmem(line + path, n - path, " in ", 4);
    if (path + 1 >= n || !in)
        return tw_strndup(line, n);
    in += 4;
    return tw_printf("%.*s:%.*s", (int)(path - file), line + file, (int)(line + n - in), in);
}

/* ---- one key */

/* What one key says. A key that the verdict does not show speaks neither for nor against a case. */
enum answer { AGREES, CONTRADICTS, NOT_KNOWN };

/* The pattern that s matches; NULL: none. */
static const char *pattern_for(const struct twin_case *c, enum twin_case_key key, const char *s)
{
    assert((unsigned)key < TWIN_CASE_KEYS);
    for (size_t i = 0; i < c->accepts[key].count; i++)
        if (tw_glob(c->accepts[key].text[i], s))
            return c->accepts[key].text[i];
    return NULL;
}

/* Bytes that cannot be printed stand in case files as \xNN. */
static enum answer ask_text(const struct twin_case *c, enum twin_case_key key, const char *s)
{
    char *safe = *s ? tw_printable(s, strlen(s)) : NULL;
    enum answer a = NOT_KNOWN;
    if (safe)
        a = pattern_for(c, key, safe) ? AGREES : CONTRADICTS;
    tw_free(safe);
    return a;
}

/* All that was isolated must be among the case's factors: two causes are another case than one of
 * them. */
static enum answer ask_factors(const struct twin_case *c, const struct twin_signature *s)
{
    for (size_t i = 0; i < s->factor_count; i++)
        if (!pattern_for(c, TWIN_CASE_FACTORS, s->factors[i]))
            return CONTRADICTS;
    return s->factor_count ? AGREES : NOT_KNOWN;
}

/* Is one of the source lines that of the case? Any frame will do: who calls whom changes with
 * versions. */
static enum answer ask_stack(const struct twin_case *c, const char *site)
{
    if (!*site)
        return NOT_KNOWN;
    while (*site) {
        size_t n = strcspn(site, "\n");
        char *frame = tw_frame_shape(site, n);
        bool found = frame && ask_text(c, TWIN_CASE_STACK, frame) == AGREES;
        tw_free(frame);
        if (found)
            return AGREES;
        site += n + (site[n] == '\n');
    }
    return CONTRADICTS;
}

static enum answer ask_name(const struct twin_case *c, const char *name)
{
    char *shape = tw_name_shape(name);
    enum answer a = shape ? ask_text(c, TWIN_CASE_NAME, shape) : NOT_KNOWN;
    tw_free(shape);
    return a;
}

static enum answer ask_key(const struct twin_case *c, enum twin_case_key key,
                           const struct twin_signature *s)
{
    switch (key) {
    case TWIN_CASE_FACTORS: return ask_factors(c, s);
    case TWIN_CASE_OP: return ask_text(c, key, s->op);
    case TWIN_CASE_STACK: return ask_stack(c, s->site);
    case TWIN_CASE_ARMS: return ask_text(c, key, s->arms);
    case TWIN_CASE_KIND: return ask_text(c, key, s->kind);
    case TWIN_CASE_PHASE: return ask_text(c, key, s->phase);
    case TWIN_CASE_LAYER: return ask_text(c, key, s->layer);
    case TWIN_CASE_NAME: return ask_name(c, s->name);
    default: return NOT_KNOWN;
    }
}

/* ---- a case */

/* Adds what agreed to the match's reason; what does not fit is cut. */
static void explain(struct twin_case_match *m, enum twin_case_key key,
                    const struct twin_signature *s)
{
    assert((unsigned)key < TWIN_CASE_KEYS);
    const char *const values[TWIN_CASE_KEYS] = {
        [TWIN_CASE_FACTORS] = s->factor_count ? s->factors[0] : "",
        [TWIN_CASE_OP] = s->op,
        [TWIN_CASE_ARMS] = s->arms,
        [TWIN_CASE_KIND] = s->kind,
        [TWIN_CASE_PHASE] = s->phase,
        [TWIN_CASE_LAYER] = s->layer};
    size_t n = strlen(m->why);
    const char *name = key == TWIN_CASE_FACTORS ? "factor" : tw_case_keys[key].name;
    const char *space = values[key] ? " " : "";
    const char *value = values[key] ? values[key] : "";
    snprintf(m->why + n, sizeof m->why - n, "%s%s%s%s", n ? ", " : "", name, space, value);
}

/*
 * Advice that the job follows already is none, and where it is followed this case is not the cause.
 */
static bool is_followed(const struct twin_case *c, const struct twin_signature *s)
{
    for (size_t i = 0; i < c->unless_count; i++)
        for (size_t k = 0; k < s->setting_count; k++)
            if (tw_glob(c->unless[i], s->settings[k]))
                return true;
    return false;
}

/* True: the case looks alike, and *out says how much. */
static bool match_case(const struct twin_case *c, const struct twin_signature *s,
                       struct twin_case_match *out)
{
    bool agrees[TWIN_CASE_KEYS] = {false};
    *out = (struct twin_case_match){.one = c};
    if (is_followed(c, s))
        return false;
    for (int k = 0; k < TWIN_CASE_KEYS; k++) {
        if (c->accepts[k].count == 0)
            continue;
        enum answer a = ask_key(c, (enum twin_case_key)k, s);
        if (a == CONTRADICTS)
            return false;
        agrees[k] = a == AGREES;
        out->of += tw_case_keys[k].points;
        if (agrees[k])
            explain(out, (enum twin_case_key)k, s);
    }
    out->points = tw_case_worth(agrees);
    return out->points > 0;
}

/* Matches are put in by insertion, best first; equal points stay in the order of the files. */
size_t twin_cases_match(const struct twin_cases *c, const struct twin_signature *s,
                        struct twin_case_match *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct twin_case_match m;
        if (!match_case(&c->one[i], s, &m))
            continue;
        size_t at = n;
        while (at > 0 && out[at - 1].points < m.points)
            at--;
        if (at == room)
            continue;
        n += n < room;
        memmove(out + at + 1, out + at, (n - 1 - at) * sizeof *out);
        out[at] = m;
    }
    return n;
}
