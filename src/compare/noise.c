/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks the noise in printed lines and in names of files, so that two runs can be held against each
 * other. lines.c, files.c and others call this with text of one run and the facts of that run.
 *
 * A line is cut into tokens: words, numbers, single characters, and forms such as dates. Each token
 * gets a worth: noise, result, or open, when nobody can tell. What is noise is shown, not guessed:
 * first by the facts of the run (run_facts.c, shape.c), then by the grammar of times and speeds
 * (grammar.c, own_time.c, duration.c). Everything else is a result. From the tokens come a masked
 * copy of the line, an answer whether two lines mean the same, or a list of their open numbers.
 */
#include "internal.h"
#include "printed.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/*
 * Tokens of one line; the rest of a longer line is one token, so that a line of megabytes stays
 * cheap.
 */
enum { TOKENS_MAX = 20000 };

/*
 * line[at .. at + n) of the plain copy. number: a number, or a form such as a date that takes the
 * place of one.
 */
struct token {
    size_t at, n;
    bool number;
    enum tw_worth worth;
};
struct tokens {
    char *line; /* a copy, NUL-terminated, without the colours of a terminal */
    struct token *token;
    size_t count, room;
};

/* Is this byte part of a word? Bytes of UTF-8 sequences beyond ASCII count as letters. */
static bool is_word(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_' || (unsigned char)ch >= 0x80;
}

/*
 * A copy of line[0 .. n) in which NULs are blanks and the sequences that colour a terminal's text
 * ("\033[1;32m") are left out. Ends with a NUL. NULL: no memory; the caller frees it.
 */
static char *plain_copy(const char *line, size_t n)
{
    char *copy = tw_malloc(n + 1);
    size_t out = 0;
    for (size_t i = 0; copy && i < n;) {
        size_t sequence = 0;
        if (line[i] == '\033' && i + 1 < n && line[i + 1] == '[') {
            sequence = 2;
            while (i + sequence < n &&
                   (isdigit((unsigned char)line[i + sequence]) || strchr(";?", line[i + sequence])))
                sequence++;
            sequence += i + sequence < n;
        }
        if (sequence > 0) {
            i += sequence;
            continue;
        }
        copy[out++] = line[i] ? line[i] : ' ';
        i++;
    }
    if (copy)
        copy[out] = '\0';
    return copy;
}

/*
 * The length of the number that begins at line[at], or 0. A number does not begin inside a word or
 * behind "12." of a version. A sign belongs to it unless a closing bracket stands before it: there
 * it is an operator.
 */
static size_t number_at(const char *line, size_t at)
{
    char before = at > 0 ? line[at - 1] : ' ';
    bool sign = line[at] == '-' || line[at] == '+';
    if (is_word(before) ||
        (!sign && before == '.' && at > 1 && isdigit((unsigned char)line[at - 2])))
        return 0;
    if (sign && (before == ')' || before == ']'))
        return 0;
    return tw_number_length(line + at);
}

/* Is the number of n bytes written in hexadecimal, as every bit of a float is? No clock is. */
static bool hexadecimal(const char *number, size_t n)
{
    return memchr(number, 'x', n) || memchr(number, 'X', n);
}

/*
 * The length of "nan", "inf" or "infinity" at line[at], with its sign, in any case of letters, as
 * C, Python and NumPy print them; else 0. These are results.
 */
static size_t not_finite_at(const char *line, size_t at)
{
    static const char *const words[] = {"nan", "inf", "infinity", NULL};
    const char *p = line + at;
    size_t sign = *p == '-' || *p == '+', n = 0;
    if (at > 0 && is_word(line[at - 1]))
        return 0;
    while (isalpha((unsigned char)p[sign + n]))
        n++;
    if (n == 0 || is_word(p[sign + n]))
        return 0;
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == n && strncasecmp(p + sign, words[i], n) == 0)
            return sign + n;
    return 0;
}

/*
 * The length of what tqdm prints before it knows a rate or a time, "?it/s" or the "?" of "00:00<?";
 * else 0.
 */
static size_t unknown_rate_at(const char *line, size_t at)
{
    if (line[at] != '?')
        return 0;
    if (at > 0 && line[at - 1] == '<')
        return 1;
    size_t n = 1;
    while (isalpha((unsigned char)line[at + n]))
        n++;
    return n > 1 && line[at + n] == '/' && line[at + n + 1] == 's' && !is_word(line[at + n + 2])
               ? n + 2
               : 0;
}

/*
 * Is the number at `at` the spread, the average or the next value of the same meter as the number
 * before it: "Time 0.45 ( 1.2)", "0.12 +- 0.01", "time 1.2/3.4"? Then it has the worth of that
 * number, `last`. by_label: the worth of `last` came from its label and so may be handed on.
 */
static bool continues(const char *line, const struct token *last, bool by_label, size_t at)
{
    assert(!last || at >= last->at + last->n);
    if (!last || !by_label || last->worth == TW_RESULT)
        return false;
    const char *gap = line + last->at + last->n;
    size_t n = at - (last->at + last->n);
    static const char *const joins[] = {"(", "(avg", "+-",           "+/-", "\xC2\xB1",
                                        "/", ",",    "\xE2\x80\xA6", NULL};
    while (n > 0 && *gap == ' ') {
        gap++;
        n--;
    }
    while (n > 0 && gap[n - 1] == ' ')
        n--;
    if (n > 2 && gap[0] == '(' && gap[n - 1] == '(') { /* "2.457 (per dom)  ( 0.307 overall)" */
        size_t words = 1 + strspn(gap + 1, "abcdefghijklmnopqrstuvwxyz ");
        if (gap[words] == ')' && words + 1 + strspn(gap + words + 1, " ") + 1 == n)
            return true;
    }
    for (int i = 0; joins[i]; i++)
        if (strlen(joins[i]) == n && strncmp(gap, joins[i], n) == 0)
            /*
             * A comma joins numbers of one meter only inside of a list: "[1.2, 3.4" or its further
             * elements.
             */
            return gap[0] != ',' || strchr("[(", line[last->at ? last->at - 1 : 0]) ||
                   (last->at > 1 && line[last->at - 1] == ' ' && line[last->at - 2] == ',');
    return false;
}

/*
 * Between arms: does the number line[at .. at + n) repeat an option that only this arm was given?
 * "workers=2" or "'workers': 2" says what the arm was asked for, and is no result. Always false
 * outside of arms, where f has no options.
 */
static bool echoes_option(const char *line, size_t at, size_t n, const struct tw_facts *f)
{
    for (size_t i = 0; i < f->option_count; i++) {
        const char *equal = strchr(f->option[i], '='), *value = equal + 1;
        size_t name = (size_t)(equal - f->option[i]), end = at;
        if (strlen(value) != n || strncmp(line + at, value, n) != 0)
            continue;
        while (end > 0 && strchr(" :='\"", line[end - 1]))
            end--;
        if (end >= name && end < at && strncmp(line + end - name, f->option[i], name) == 0 &&
            (end == name || !is_word(line[end - name - 1])))
            return true;
    }
    return false;
}

/* Appends a token. False: no memory; t stays as it is. */
static bool add_token(struct tokens *t, size_t at, size_t n, bool number, enum tw_worth worth)
{
    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 32;
        struct token *grown = tw_reallocarray(t->token, room, sizeof *grown);
        if (!grown)
            return false;
        t->token = grown;
        t->room = room;
    }
    t->token[t->count++] = (struct token){at, n, number, worth};
    return true;
}

static void tokens_free(struct tokens *t)
{
    tw_free(t->line);
    tw_free(t->token);
    *t = (struct tokens){0};
}

/*
 * Reads the token at `at`, which is no blank unless names is set. names: the text is a path, in
 * which only facts of the run count and units mean nothing. *by_label is carried from number to
 * number of a line: in, whether the last number's worth came from its label; out, the same for this
 * one. The order of the questions matters: a number with a unit comes first, then forms (dates,
 * ids, addresses), then plain numbers, words last.
 */
static struct token next_token(const struct tokens *t, size_t at, const struct tw_facts *f,
                               bool names, bool *by_label)
{
    const char *line = t->line;
    struct token out = {.at = at, .n = 1};
    bool label = false;
    size_t n = names ? 0 : number_at(line, at), whole = 0;
    if (n > 0 && hexadecimal(line + at, n)) {
        *by_label = false;
        return (struct token){at, n, true, TW_RESULT};
    }
    enum tw_worth worth = n > 0 ? tw_grammar_worth(line, at, n, &whole, &label) : TW_RESULT;
    if (worth != TW_RESULT && whole > n) { /* its unit says it all */
        *by_label = label;
        if (!tw_duration_fits(line, at, n, f))
            worth = TW_OPEN;
        return (struct token){at, whole, true, worth};
    }
    /* A form that is a fact of the run: it has no label whose worth the next number could share. */
    n = tw_shape_at(line, at, f);
    if (n == 0 && !names)
        n = unknown_rate_at(line, at);
    if (n > 0) {
        *by_label = false;
        return (struct token){at, n, true, TW_NOISE};
    }
    n = number_at(line, at);
    if (n > 0) {
        /* The number before this one in the line; NULL: this is the first. */
        const struct token *last = NULL;
        for (size_t i = t->count; i-- > 0 && !last;)
            if (t->token[i].number)
                last = &t->token[i];
        out = (struct token){at, n, true, TW_RESULT};
        if (!names && echoes_option(line, at, n, f))
            out.worth = TW_NOISE;
        else if (!names)
            out.worth = tw_grammar_worth(line, at, n, &out.n, &label);
        if (label && out.worth == TW_NOISE && !tw_duration_fits(line, at, n, f))
            out.worth = TW_OPEN;
        if (!names && out.worth == TW_RESULT && continues(line, last, *by_label, at)) {
            out.worth = last->worth;
            label = true;
        }
        *by_label = label;
        return out;
    }
    n = not_finite_at(line, at);
    if (n > 0)
        return (struct token){at, n, true, TW_RESULT};
    /*
     * A word goes on to its end, except where a form of the run begins inside of it: behind a '_',
     * or where digits follow letters ("events1763971200"). 4,096 bytes bound that search, which
     * costs more than walking over the word.
     */
    if (is_word(line[at]))
        while (is_word(line[at + out.n]) &&
               !(out.n < 4096 && !isalnum((unsigned char)line[at + out.n - 1]) &&
                 tw_shape_at(line, at + out.n, f)) &&
               !(isdigit((unsigned char)line[at + out.n]) &&
                 isalpha((unsigned char)line[at + out.n - 1]) && tw_shape_at(line, at + out.n, f)))
            out.n++;
    return out;
}

/*
 * Cuts a line into tokens. names: see next_token(); blanks of a path are tokens, those of a line
 * only separate. False: no memory, and t is empty. Else the caller calls tokens_free().
 */
static bool tokens_make(const char *line, size_t length, const struct tw_facts *f, bool names,
                        struct tokens *t)
{
    bool by_label = false;
    *t = (struct tokens){.line = plain_copy(line, length)};
    if (!t->line)
        return false;
    size_t n = strlen(t->line);
    for (size_t at = 0; at < n;) {
        if (isspace((unsigned char)t->line[at]) && !names) {
            at++;
            continue;
        }
        struct token next = t->count < TOKENS_MAX ? next_token(t, at, f, names, &by_label)
                                                  : (struct token){.at = at, .n = n - at};
        if (!add_token(t, next.at, next.n, next.number, next.worth)) {
            tokens_free(t);
            return false;
        }
        at = next.at + next.n;
    }
    return true;
}

/* The character that stands for a token under this mask; NUL: the token is shown as it is. */
static char mask_of(const struct token *t, enum tw_mask mask)
{
    if (mask == TW_MASK_NUMBERS && t->number)
        return '#';
    if (t->worth == TW_NOISE || (t->worth == TW_OPEN && mask != TW_MASK_NOISE))
        return '~';
    return '\0';
}

/*
 * Does a blank go before token i? Only where the line has one, and between two words or numbers:
 * how numbers are padded and lists are spaced means nothing.
 */
static bool wants_blank(const struct tokens *t, size_t i, const struct tw_buf *out)
{
    assert(i < t->count);
    if (i == 0 || out->len == 0 || t->token[i].at == t->token[i - 1].at + t->token[i - 1].n)
        return false;
    return (is_word(out->data[out->len - 1]) || strchr("~#", out->data[out->len - 1])) &&
           (is_word(t->line[t->token[i].at]) || strchr("+-.", t->line[t->token[i].at]));
}

/*
 * Joins the tokens to the masked text. Several noisy tokens in a row become a single '~', since a
 * duration may take more parts in one run than in the other. NULL: no memory.
 */
static char *mask_tokens(const struct tokens *t, enum tw_mask mask)
{
    struct tw_buf out = {0};
    char last = '\0';
    tw_buf_puts(&out, "");
    for (size_t i = 0; i < t->count && !out.failed; i++) {
        const struct token *k = &t->token[i];
        char ch = mask_of(k, mask);
        if (ch && ch == last && ch == '~') /* "1m 23s", "2026-11-22 08:30" */
            continue;
        if (wants_blank(t, i, &out))
            tw_buf_puts(&out, " ");
        if (ch)
            tw_buf_append(&out, &ch, 1);
        else
            tw_buf_append(&out, t->line + k->at, k->n);
        last = ch;
    }
    return tw_buf_steal(&out);
}

char *tw_noise_mask(const char *line, size_t n, const struct tw_facts *f, enum tw_mask mask)
{
    struct tokens t;
    if (!tokens_make(line, n, f, false, &t))
        return NULL;
    char *out = mask_tokens(&t, mask);
    tokens_free(&t);
    return out;
}

char *tw_noise_name(const char *name, const struct tw_facts *f)
{
    struct tokens t;
    if (!tokens_make(name, strlen(name), f, true, &t))
        return NULL;
    char *out = mask_tokens(&t, TW_MASK_NOISE);
    tokens_free(&t);
    return out;
}

static bool same_text(const struct tokens *x, const struct token *a, const struct tokens *y,
                      const struct token *b)
{
    return a->n == b->n && memcmp(x->line + a->at, y->line + b->at, a->n) == 0;
}

/*
 * Lines with other numbers of tokens are not equal and not open either. A lack of memory gives
 * false, which is the side on which nothing is taken for noise.
 */
bool tw_noise_equal(const char *a, size_t n, const struct tw_facts *fa, const char *b, size_t m,
                    const struct tw_facts *fb, bool *open)
{
    struct tokens x, y = {0};
    bool equal = true;
    *open = false;
    if (!tokens_make(a, n, fa, false, &x))
        return false;
    if (!tokens_make(b, m, fb, false, &y) || x.count != y.count)
        equal = false;
    for (size_t i = 0; equal && i < x.count; i++) {
        const struct token *p = &x.token[i], *q = &y.token[i];
        if (same_text(&x, p, &y, q) || (p->worth == TW_NOISE && q->worth == TW_NOISE))
            continue;
        if (p->worth == TW_RESULT || q->worth == TW_RESULT)
            equal = false;
        else /* open in one at least, and a result in neither */
            *open = true;
    }
    /* "Open" is said only of lines that hold no result that differs. */
    *open &= equal;
    equal &= !*open;
    tokens_free(&x);
    tokens_free(&y);
    return equal;
}

bool tw_noise_each_open(const char *a, size_t n, const struct tw_facts *fa, const char *b, size_t m,
                        const struct tw_facts *fb, tw_noise_pair_fn *each, void *user)
{
    struct tokens x, y = {0};
    bool ok = tokens_make(a, n, fa, false, &x) && tokens_make(b, m, fb, false, &y);
    for (size_t i = 0; ok && x.count == y.count && i < x.count; i++) {
        const struct token *p = &x.token[i], *q = &y.token[i];
        if (!p->number || !q->number || (p->worth != TW_OPEN && q->worth != TW_OPEN))
            continue;
        bool of_result = p->worth == TW_RESULT || q->worth == TW_RESULT ||
                         tw_grammar_names_result(x.line, p->at);
        each(user,
             &(struct tw_noise_pair){i, x.line + p->at, y.line + q->at, p->n, q->n, of_result});
    }
    tokens_free(&x);
    tokens_free(&y);
    return ok;
}

double tw_noise_alike(const char *a, size_t n, const char *b, size_t m)
{
    static const struct tw_facts none;
    struct tokens x, y = {0};
    size_t same = 0, longest = 0;
    if (tokens_make(a, n, &none, false, &x) && tokens_make(b, m, &none, false, &y)) {
        longest = x.count > y.count ? x.count : y.count;
        for (size_t i = 0, j = 0; i < x.count; i++) { /* in order, so far as they are found */
            /*
             * A word is looked for among the next 8 tokens of the other line only, which keeps the
             * cost linear in the length of the lines.
             */
            size_t k = j;
            while (k < y.count && k < j + 8 && !same_text(&x, &x.token[i], &y, &y.token[k]))
                k++;
            if (k < y.count && k < j + 8) {
                same++;
                j = k + 1;
            }
        }
    }
    tokens_free(&x);
    tokens_free(&y);
    return longest ? (double)same / (double)longest : 0;
}

/*
 * Only a whole word counts as a name of steps; between it and the number may stand blanks and "
 * :=[#'\"(". Numbers of 10 digits and more, and fractions, are no steps.
 */
int64_t tw_noise_step(const char *line)
{
    static const char *const words[] = {"step",        "steps", "iter",  "iteration",
                                        "global_step", "batch", "epoch", NULL};
    for (int w = 0; words[w]; w++)
        for (const char *p = line; (p = strcasestr(p, words[w])); p++) {
            const char *q = p + strlen(words[w]);
            if ((p > line && isalpha((unsigned char)p[-1])) || isalpha((unsigned char)*q))
                continue;
            while (*q && strchr(" :=[#'\"(", *q))
                q++;
            size_t n = strspn(q, "0123456789");
            if (n > 0 && n < 10 && q[n] != '.')
                return strtol(q, NULL, 10);
        }
    return -1;
}
