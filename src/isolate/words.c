/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shell words by the rules of POSIX (XCU 2.2, 2.3): quotes and nested substitutions are followed,
 * nothing is expanded. All that is needed is where a word ends, and what it is without its quotes.
 */
#include "words.h"

#include <ctype.h>
#include <string.h>

/* A command that nests deeper is refused: each level is a call on the stack. */
enum { NESTING_MAX = 200 };

size_t tw_word_assigns(const char *raw)
{
    size_t n = 0;
    while (isalnum((unsigned char)raw[n]) || raw[n] == '_')
        n++;
    return n && raw[n] == '=' && !isdigit((unsigned char)raw[0]) ? n : 0;
}

/* ---- where a word ends */

static const char *skip_nested(const char *p, char end, unsigned depth);

/* Returns what lies behind the construct that begins at p: an escaped character, a quoted piece, a
 * substitution, or one character. NULL: it has no end. */
static const char *skip_piece(const char *p, unsigned depth)
{
    switch (*p) {
    case '\\': return p[1] ? p + 2 : p + 1;
    case '\'': p = strchr(p + 1, '\''); return p ? p + 1 : NULL;
    case '"': return skip_nested(p + 1, '"', depth + 1);
    case '`': return skip_nested(p + 1, '`', depth + 1);
    case '$':
        if (p[1] == '(')
            return skip_nested(p + 2, ')', depth + 1);
        return p[1] == '{' ? skip_nested(p + 2, '}', depth + 1) : p + 1;
    default: return p + 1;
    }
}

/* Up to and over the end character. Within double quotes a single quote is a character like others;
 * a bare ( nests in $( ). */
static const char *skip_nested(const char *p, char end, unsigned depth)
{
    while (p && *p && *p != end) {
        if (depth > NESTING_MAX)
            return NULL;
        if (end == '"' && *p == '\'')
            p++;
        else if (end == ')' && *p == '(')
            p = skip_nested(p + 1, ')', depth + 1);
        else
            p = skip_piece(p, depth);
    }
    return p && *p ? p + 1 : NULL;
}

/* Blanks and the characters that begin an operator; the end of the text as well. */
static bool ends_word(char c)
{
    return c == '\0' || strchr(" \t\n;&|<>()", c) != NULL;
}

/* NULL: a quote or substitution in the word has no end. */
static const char *word_end(const char *p)
{
    while (p && !ends_word(*p))
        p = skip_piece(p, 0);
    return p;
}

bool tw_word_same(const struct tw_word *a, const struct tw_word *b)
{
    return a->expands == b->expands && strcmp(a->text, b->text) == 0;
}

/* What the shell makes of a word in which it expands nothing; a word in which it does, as it is,
 * with *expands set. malloc'ed; NULL: no memory. word_end has seen to it that every quote has an
 * end. */
static char *unquoted(const char *raw, bool *expands)
{
    char *text = tw_malloc(strlen(raw) + 1), *to = text;
    bool quoted = false;
    for (const char *p = raw; text && *p; p++) {
        /* A pattern or a home folder (~) expands only outside of quotes; a substitution within
         * double quotes as well. */
        *expands = *p == '$' || *p == '`' || (!quoted && strchr("*?[~", *p));
        if (*expands) {
            strcpy(text, raw);
            return text;
        }
        if (*p == '\'' && !quoted) {
            const char *end = strchr(p + 1, '\'');
            memcpy(to, p + 1, (size_t)(end - p - 1));
            to += end - p - 1;
            p = end;
        } else if (*p == '"') {
            quoted = !quoted;
        } else if (*p == '\\' && p[1] && (!quoted || strchr("$`\"\\\n", p[1]))) {
            *to++ = *++p;
        } else {
            *to++ = *p;
        }
    }
    if (text)
        *to = '\0';
    return text;
}

/* ---- the list */

/* Adds one word. An operator's text is the operator itself. */
static int add_word(struct tw_words *w, enum tw_word_kind kind, const char *from, size_t bytes,
                    struct twin_error *err)
{
    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 32;
        struct tw_word *grown = tw_reallocarray(w->word, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(err, "reading a command");
        w->word = grown;
        w->room = room;
    }
    struct tw_word *x = &w->word[w->count];
    *x = (struct tw_word){.kind = kind, .raw = tw_strndup(from, bytes)};
    if (x->raw)
        x->text = kind == TW_WORD ? unquoted(x->raw, &x->expands) : tw_strdup(x->raw);
    if (!x->text) {
        tw_free(x->raw);
        return tw_no_memory(err, "reading a command");
    }
    w->count++;
    return 0;
}

/* Length of the operator at p; 0: a word begins here. A number directly before a redirection
 * belongs to it (2>), but not before &> and &>>. Longer operators stand first in the lists, since
 * their beginnings are operators, too. */
static size_t operator_at(const char *p, enum tw_word_kind *kind)
{
    static const char *const redirections[] = {"&>>", "<<<", "<<-", "<<", "<>", "<&",
                                               ">>",  ">&",  ">|",  "&>", "<",  ">"};
    static const char *const controls[] = {"&&", "||", ";;", ";", "&", "|", "(", ")", "\n"};
    size_t digits = strspn(p, "0123456789");
    *kind = TW_REDIRECT;
    for (size_t i = 0; i < sizeof redirections / sizeof *redirections; i++)
        if (tw_starts(p + digits, redirections[i]) && (digits == 0 || redirections[i][0] != '&'))
            return digits + strlen(redirections[i]);
    *kind = TW_CONTROL;
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
        if (tw_starts(p, controls[i]))
            return strlen(controls[i]);
    return 0;
}

/* Adds an operator, but not a newline that ends nothing. A here-document is refused: its text
 * stands in later lines, which are no words. */
static int add_operator(struct tw_words *w, enum tw_word_kind kind, const char *p, size_t bytes,
                        struct twin_error *err)
{
    const struct tw_word *last = w->count ? &w->word[w->count - 1] : NULL;
    if (kind == TW_REDIRECT && memmem(p, bytes, "<<", 2))
        return twin_error_set(
            err, TWIN_EUNSUPPORTED,
            "a here-document (%.*s) cannot be taken apart; put the text into a file", (int)bytes,
            p);
    /* an empty line, or one behind an operator, which goes on */
    if (kind == TW_CONTROL && *p == '\n' && (!last || last->kind == TW_CONTROL))
        return 0;
    return add_word(w, kind, p, bytes, err);
}

static void drop_last(struct tw_words *w)
{
    struct tw_word *x = &w->word[--w->count];
    tw_free(x->raw);
    tw_free(x->text);
}

/* One turn of the loop takes blanks, a continued line, a comment, and then one operator or word. */
int tw_words_split(const char *command, struct tw_words *out, struct twin_error *err)
{
    int rc = 0;
    *out = (struct tw_words){0};
    for (const char *p = command; rc == 0;) {
        enum tw_word_kind kind;
        p += strspn(p, " \t");
        if (p[0] == '\\' && p[1] == '\n') {
            p += 2;
            continue;
        }
        if (*p == '#')
            p += strcspn(p, "\n");
        if (!*p)
            break;
        size_t bytes = operator_at(p, &kind);
        if (bytes) {
            rc = add_operator(out, kind, p, bytes, err);
        } else {
            const char *end = word_end(p);
            if (!end)
                rc = twin_error_set(err, TWIN_EINVAL,
                                    "expected the end of a quote or substitution, found the end of "
                                    "the command: %.60s",
                                    p);
            else
                rc = add_word(out, TW_WORD, p, bytes = (size_t)(end - p), err);
        }
        p += bytes;
    }
    /* Semicolons and newlines at the end of the command mean nothing. */
    while (rc == 0 && out->count &&
           (strcmp(out->word[out->count - 1].raw, ";") == 0 ||
            out->word[out->count - 1].raw[0] == '\n'))
        drop_last(out);
    if (rc != 0)
        tw_words_free(out);
    return rc;
}

void tw_words_free(struct tw_words *w)
{
    while (w->count)
        drop_last(w);
    tw_free(w->word);
    *w = (struct tw_words){0};
}
