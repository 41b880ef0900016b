/* SPDX-License-Identifier: Apache-2.0 */
/* Colours and wrapping of texts for people. Two ways lead here: a text that is made paragraph by
 * paragraph (a verdict), and one whose lines are there already (a search, a report). */
#include "paragraphs.h"

#include "put.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *const codes[] = {
    [TW_PAINT_OFF] = "\033[0m",     [TW_PAINT_DIM] = "\033[2m",    [TW_PAINT_BOLD] = "\033[1m",
    [TW_PAINT_GOOD] = "\033[1;32m", [TW_PAINT_BAD] = "\033[1;31m", [TW_PAINT_OPEN] = "\033[1;33m",
};

size_t tw_columns_of(const char *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xC0) != 0x80;
    return count;
}

void tw_paragraphs_paint(struct tw_paragraphs *p, enum tw_paint paint)
{
    if (p->look.colour)
        tw_buf_puts(&p->out, codes[paint]);
}

void tw_paragraphs_pad(struct tw_paragraphs *p, size_t n)
{
    while (n--)
        tw_buf_puts(&p->out, " ");
}

void tw_paragraphs_wrap(struct tw_paragraphs *p, const char *text, size_t indent)
{
    size_t column = indent;
    const size_t width = p->look.width;
    while (*text) {
        size_t n = strcspn(text, " "), w = tw_columns_of(text, n);
        bool first = column == indent;
        /* the word does not fit: a new line */
        if (!first && column + 1 + w > width) {
            tw_buf_puts(&p->out, "\n");
            tw_paragraphs_pad(p, indent);
            column = indent;
            first = true;
        }
        if (!first) {
            tw_buf_puts(&p->out, " ");
            column++;
        }
        tw_buf_append(&p->out, text, n);
        column += w;
        text += n;
        size_t blanks = strspn(text, " ");
        const size_t next = tw_columns_of(text + blanks, strcspn(text + blanks, " "));
        /* what was set apart on purpose stays apart, if only by a line of its own */
        if (blanks > 1 && column + blanks + next <= width) {
            tw_paragraphs_pad(p, blanks - 1);
            column += blanks - 1;
        } else if (blanks > 1 && next) {
            tw_buf_puts(&p->out, "\n");
            tw_paragraphs_pad(p, indent);
            column = indent;
        }
        text += blanks;
    }
    tw_buf_puts(&p->out, "\n");
}

void tw_paragraphs_label(struct tw_paragraphs *p, const char *name)
{
    size_t n = strlen(name);
    tw_paragraphs_paint(p, TW_PAINT_DIM);
    tw_buf_puts(&p->out, name);
    tw_paragraphs_paint(p, TW_PAINT_OFF);
    tw_paragraphs_pad(p, n < p->label ? p->label - n : 1);
}

void tw_paragraphs_put(struct tw_paragraphs *p, const char *name, struct tw_buf *text)
{
    if (text->failed)
        p->out.failed = text->failed;
    if (text->len > 0) {
        tw_paragraphs_label(p, name);
        tw_paragraphs_wrap(p, text->data, p->label);
    }
    tw_buf_free(text);
}

/* ---- texts that are there already */

/* How long the label at the beginning of a line is, and where its text begins; 0: it has none. */
static size_t label_of(const char *line, const struct tw_style *s, size_t *text)
{
    *text = 0;
    if (strncmp(line, "rank ", 5) == 0 && line[5] >= '0' && line[5] <= '9') {
        const size_t n = 5 + strspn(line + 5, "0123456789");
        if (strncmp(line + n, "  ", 2) == 0) {
            *text = n + 2;
            return n;
        }
    }
    if (!s->label || *line == ' ' || strnlen(line, s->label + 1) <= s->label ||
        line[s->label - 1] != ' ' || line[s->label] == ' ')
        return 0;
    size_t n = s->label;
    while (n > 0 && line[n - 1] == ' ')
        n--;
    *text = s->label;
    return n;
}

/* Where the second column of a row begins, if the row is one: behind its first word stand two
 * blanks or more. 0: it is none, or so little room is left there that nothing could be read. */
static size_t second_column(const char *line, size_t indent, unsigned width)
{
    const size_t word = indent + strcspn(line + indent, " ");
    const size_t at = word + strspn(line + word, " ");
    return at >= word + 2 && line[at] && at <= width / 2 ? at : 0;
}

/* The colour of what stands here, and how long it is; NULL: nothing that has one. */
static const struct tw_painted *painted_at(const char *text, const struct tw_style *s, size_t *n)
{
    for (const struct tw_painted *w = s->words; w && w->word; w++) {
        *n = strlen(w->word);
        if (*n && strncmp(text, w->word, *n) == 0 && !isalnum((unsigned char)text[*n]))
            return w;
    }
    *n = 0;
    return NULL;
}

static bool is_whole(const char *line, size_t n, const struct tw_style *s)
{
    for (size_t i = 0; s->whole && s->whole[i]; i++)
        if (strlen(s->whole[i]) == n && strncmp(line, s->whole[i], n) == 0)
            return true;
    return false;
}

/* Text whose first n bytes have a colour; w NULL: it has none. */
static void add_painted(struct tw_paragraphs *p, const char *text, const struct tw_painted *w,
                        size_t n)
{
    if (w) {
        tw_paragraphs_paint(p, w->paint);
        tw_buf_append(&p->out, text, n);
        tw_paragraphs_paint(p, TW_PAINT_OFF);
    }
    tw_buf_puts(&p->out, text + (w ? n : 0));
}

/* What a terminal obeys takes no columns, so the colour is put in once the line is broken: it is a
 * word at the beginning, which stays where it is. */
static void add_line(struct tw_paragraphs *p, const char *line, const struct tw_style *s,
                     bool *whole)
{
    size_t text = 0, painted;
    const size_t label = painted_at(line, s, &painted) ? 0 : label_of(line, s, &text);
    size_t indent = text ? text : strspn(line, " ");
    if (*line != ' ')
        *whole = is_whole(line, label, s);
    const bool wraps = s->whole && !*whole && p->look.width;
    if (label) {
        tw_paragraphs_paint(p, TW_PAINT_DIM);
        tw_buf_append(&p->out, line, label);
        tw_paragraphs_paint(p, TW_PAINT_OFF);
        tw_paragraphs_pad(p, text - label);
    } else {
        tw_paragraphs_pad(p, indent);
    }
    const char *whole_line = line;
    line += indent;
    const struct tw_painted *w = *line ? painted_at(line, s, &painted) : NULL;
    if (!wraps) {
        add_painted(p, line, w, painted);
        tw_buf_puts(&p->out, "\n");
        return;
    }
    struct tw_paragraphs broken = {.look = {.width = p->look.width}};
    const size_t second = text ? 0 : second_column(whole_line, indent, p->look.width);
    if (second) { /* what is broken goes on below its own column */
        char *cell = tw_strndup(line, second - indent);
        if (cell)
            add_painted(p, cell, w, painted);
        else
            p->out.failed = TWIN_ENOMEM;
        tw_free(cell);
        line += second - indent;
        indent = second;
        w = NULL;
    }
    tw_paragraphs_wrap(&broken, line, indent);
    if (broken.out.failed)
        p->out.failed = broken.out.failed;
    const char *made = broken.out.data ? broken.out.data : "";
    /* a word that was broken itself stays plain */
    add_painted(p, made, w && strncmp(made, w->word, painted) == 0 ? w : NULL, painted);
    tw_buf_free(&broken.out);
}

void tw_put_styled(FILE *out, const char *text, const struct tw_look *look,
                   const struct tw_style *style)
{
    struct tw_paragraphs p = {.look = *look, .label = style->label};
    bool whole = false;
    tw_buf_puts(&p.out, "");
    while (*text) {
        const size_t n = strcspn(text, "\n");
        char *line = tw_strndup(text, n);
        if (line)
            add_line(&p, line, style, &whole);
        else
            p.out.failed = TWIN_ENOMEM;
        tw_free(line);
        text += n + (text[n] == '\n');
    }
    const char *made = p.out.failed ? "out of memory\n" : p.out.data;
    if (look->colour)
        tw_put_coloured(out, made);
    else
        tw_put_lines(out, made);
    tw_buf_free(&p.out);
}

int tw_keep_text(struct tw_kept_text *k, struct twin_error *err)
{
    *k = (struct tw_kept_text){.file = NULL};
    k->file = open_memstream(&k->text, &k->bytes);
    return k->file ? 0 : tw_no_memory(err, "for a text");
}

void tw_put_kept(FILE *out, struct tw_kept_text *k, const struct tw_look *look,
                 const struct tw_style *style)
{
    bool kept = k->file && !ferror(k->file);
    if (k->file)
        kept &= fclose(k->file) == 0;
    tw_put_styled(out, kept && k->text ? k->text : "out of memory\n", look, style);
    free(k->text);
    *k = (struct tw_kept_text){.file = NULL};
}
