/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a page: verdict, text, facts, tables. Plain HTML, no script. The functions are those
 * of src/report/page.h, which says what each one shows and what it expects; the pages of
 * verdicts, searches and studies are built with them.
 *
 * A page is two buffers that grow (page.h): the body, and the blocks of data that go behind it. A
 * failure stays in the buffer, each later call leaves the page as it is, and twin_page_finish
 * reports it. So callers need not look at every call.
 */
#include "page_inside.h"

#include "html.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* CSS classes of web/, by enum twin_mood. */
static const char *const mood_class[] = {"found", "clean", "open", "trouble"};

struct twin_page *twin_page_open(const char *title)
{
    struct twin_page *p = tw_calloc(1, sizeof *p);
    if (p && !(p->title = tw_strdup(title))) {
        tw_free(p);
        p = NULL;
    }
    return p;
}

void twin_page_close(struct twin_page *p)
{
    if (!p)
        return;
    tw_buf_free(&p->body);
    tw_buf_free(&p->data);
    tw_free(p->title);
    tw_free(p->linked);
    tw_free(p);
}

bool tw_page_failed(const struct twin_page *p)
{
    return p->body.failed || p->data.failed;
}

/* The first failure decides, that of the body before that of the data. tw_report_finish turns each
 * of them into TWIN_ENOMEM. */
int twin_page_finish(struct twin_page *p, char **html, size_t *bytes, struct twin_error *err)
{
    struct tw_buf b = {.failed = p->body.failed ? p->body.failed : p->data.failed};
    tw_html_begin(&b, p->title, p->pictures > 0);
    if (p->body.len)
        tw_buf_append(&b, p->body.data, p->body.len);
    tw_buf_puts(&b, "</main>\n");
    if (p->data.len)
        tw_buf_append(&b, p->data.data, p->data.len);
    tw_html_end(&b, p->pictures > 0);
    *bytes = b.len;
    return tw_report_finish(&b, html, err);
}

/* ---- words */

/* One element with text made as by printf. The whole text is escaped, the caller's format
 * included. */
static void formatted(struct twin_page *p, const char *tag, const char *class, const char *format,
                      va_list ap)
{
    struct tw_buf text = {0};
    tw_buf_vprintf(&text, format, ap);
    if (text.failed)
        p->body.failed = text.failed;
    else
        tw_page_element(p, tag, class, text.len ? text.data : "");
    tw_buf_free(&text);
}

/* A page has one of these, at its top. */
void twin_page_verdict(struct twin_page *p, enum twin_mood mood, const char *word,
                       const char *sentence, const char *about)
{
    assert((size_t)mood < sizeof mood_class / sizeof *mood_class);
    tw_buf_printf(&p->body, "<header>\n<div class=\"word %s\">", mood_class[mood]);
    tw_html_text(&p->body, word);
    tw_buf_puts(&p->body, "</div>\n");
    tw_html_element(&p->body, "h1", NULL, sentence);
    if (*about)
        tw_html_element(&p->body, "p", "soft", about);
    tw_buf_puts(&p->body, "\n</header>\n");
}

void twin_page_heading(struct twin_page *p, const char *text)
{
    tw_html_element(&p->body, "h2", NULL, text);
    tw_buf_puts(&p->body, "\n");
}

void twin_page_text(struct twin_page *p, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    formatted(p, "p", NULL, format, ap);
    va_end(ap);
    tw_buf_puts(&p->body, "\n");
}

void twin_page_small(struct twin_page *p, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    formatted(p, "p", "soft", format, ap);
    va_end(ap);
    tw_buf_puts(&p->body, "\n");
}

void twin_page_code(struct twin_page *p, const char *text)
{
    tw_buf_puts(&p->body, "<pre>");
    tw_html_lines(&p->body, text);
    tw_buf_puts(&p->body, "</pre>\n");
}

/* A browser breaks lines behind each hyphen, and "--" at the end of a line would be read as the one
 * that stands alone. Blanks stay outside, so a word goes to the next line as a whole. */
void twin_page_command(struct twin_page *p, const char *text)
{
    tw_buf_puts(&p->body, "<pre>");
    while (*text && !p->body.failed) {
        const size_t n = strcspn(text, " \n"), gap = strspn(text + n, " \n");
        char *word = tw_strndup(text, n);
        if (!word)
            p->body.failed = TWIN_ENOMEM;
        else if (strchr(word, '-'))
            tw_html_element(&p->body, "span", "whole", word);
        else
            tw_html_text(&p->body, word);
        tw_buf_append(&p->body, text + n, gap);
        tw_free(word);
        text += n + gap;
    }
    tw_buf_puts(&p->body, "</pre>\n");
}

void twin_page_list(struct twin_page *p, const char *const *item, size_t count)
{
    tw_buf_puts(&p->body, "<ul>\n");
    for (size_t i = 0; i < count; i++) {
        tw_page_element(p, "li", NULL, item[i]);
        tw_buf_puts(&p->body, "\n");
    }
    tw_buf_puts(&p->body, "</ul>\n");
}

void twin_page_links(struct twin_page *p, const char *before, const struct twin_page_link *link,
                     size_t count)
{
    tw_buf_puts(&p->body, "<nav class=\"soft\">");
    tw_html_text(&p->body, before);
    for (size_t i = 0; i < count; i++) {
        tw_buf_puts(&p->body, i ? ", " : " ");
        tw_page_link(p, link[i].href, link[i].text);
    }
    tw_buf_puts(&p->body, "</nav>\n");
}

void twin_page_fold(struct twin_page *p, const char *summary)
{
    tw_buf_puts(&p->body, "<details>");
    tw_html_element(&p->body, "summary", NULL, summary);
    tw_buf_puts(&p->body, "\n");
}

void twin_page_unfold(struct twin_page *p)
{
    tw_buf_puts(&p->body, "</details>\n");
}

/* ---- facts */

void twin_page_facts(struct twin_page *p, const char *title)
{
    tw_buf_puts(&p->body, "<section class=\"card\">\n");
    if (*title)
        tw_html_element(&p->body, "h3", NULL, title);
    tw_buf_puts(&p->body, "<dl>\n");
}

/* A fact whose text is empty is left out with its name. */
void twin_page_fact(struct twin_page *p, const char *name, const char *format, ...)
{
    struct tw_buf value = {0};
    va_list ap;
    va_start(ap, format);
    tw_buf_vprintf(&value, format, ap);
    va_end(ap);
    if (value.failed) {
        p->body.failed = value.failed;
    } else if (value.len) {
        tw_html_element(&p->body, "dt", NULL, name);
        tw_page_element(p, "dd", NULL, value.data);
        tw_buf_puts(&p->body, "\n");
    }
    tw_buf_free(&value);
}

void twin_page_facts_end(struct twin_page *p)
{
    tw_buf_puts(&p->body, "</dl>\n</section>\n");
}

/* ---- tables */

/* The CSS class of the cells of a column; NULL: none. The letters are explained at twin_page_table
 * in the public header. */
static const char *class_of(const struct twin_page *p, size_t column)
{
    assert(column < p->columns);
    if (p->align[column] == 'n')
        return "n";
    return p->align[column] == 't' ? "what" : NULL;
}

/* Begins a table. Column names beyond TW_PAGE_COLUMNS are dropped. */
void twin_page_table(struct twin_page *p, const char *const *columns, const char *align)
{
    p->columns = p->column = 0;
    /* tabindex: a table wider than the window can be scrolled with the keyboard, too */
    tw_buf_puts(&p->body, "<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>");
    for (; columns[p->columns] && p->columns < TW_PAGE_COLUMNS; p->columns++) {
        p->align[p->columns] = align[p->columns];
        tw_buf_printf(&p->body, "<th scope=\"col\"%s>",
                      align[p->columns] == 'n' ? " class=\"n\"" : "");
        tw_html_text(&p->body, columns[p->columns]);
        tw_buf_puts(&p->body, "</th>");
    }
    tw_buf_puts(&p->body, "</tr></thead>\n<tbody>\n");
}

/* Cells come one after the other; a row opens before its first cell and closes behind its last
 * one. */
static void cell_begin(struct twin_page *p)
{
    assert(p->column < p->columns); /* a table is open, and its row is not full */
    if (p->column == 0)
        tw_buf_puts(&p->body, "<tr>");
}

static void cell_end(struct twin_page *p)
{
    if (++p->column >= p->columns) {
        tw_buf_puts(&p->body, "</tr>\n");
        p->column = 0;
    }
}

void twin_page_cell(struct twin_page *p, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    cell_begin(p);
    formatted(p, "td", class_of(p, p->column), format, ap);
    cell_end(p);
    va_end(ap);
}

void twin_page_cell_link(struct twin_page *p, const char *href, const char *text)
{
    cell_begin(p);
    tw_html_open(&p->body, "td", class_of(p, p->column));
    tw_page_link(p, href, text);
    tw_buf_puts(&p->body, "</td>");
    cell_end(p);
}

void twin_page_cell_run(struct twin_page *p, size_t number)
{
    char file[TW_RUN_PAGE_NAME], text[32];
    snprintf(text, sizeof text, "run %zu", number);
    if (tw_page_run_file(p, text, file))
        twin_page_cell_link(p, file, text + strlen("run "));
    else
        twin_page_cell(p, "%zu", number);
}

/* The colour of the mood takes the place of the column's own class. */
void twin_page_cell_mood(struct twin_page *p, enum twin_mood mood, const char *text)
{
    assert((size_t)mood < sizeof mood_class / sizeof *mood_class);
    cell_begin(p);
    tw_html_element(&p->body, "td", mood_class[mood], text);
    cell_end(p);
}

/* A row that was not filled is completed with empty cells, so that the HTML stays well-formed. */
void twin_page_table_end(struct twin_page *p)
{
    while (p->column)
        twin_page_cell(p, "%s", "");
    tw_buf_puts(&p->body, "</tbody>\n</table></div>\n");
}

/* The words say more than once that this is a hint: the case was seen elsewhere, and nothing was
 * tested for it here. */
void tw_page_hint(struct twin_page *p, const struct twin_hint *h, const char *disclaimer)
{
    struct tw_buf title = {0};
    tw_buf_printf(&title, "Perhaps a known case: %s", h->title);
    if (title.failed)
        p->body.failed = title.failed;
    else
        twin_page_facts(p, title.data);
    tw_buf_free(&title);
    twin_page_fact(p, "A hint", "from the collection of known cases, %s", disclaimer);
    twin_page_fact(p, "Case", "%s", h->id);
    twin_page_fact(p, "Cause there", "%s", h->cause);
    twin_page_fact(p, "Remedy there", "%s", h->fix);
    twin_page_fact(p, "Looks alike in", "%s; whether that is what happens here was not tried",
                   h->why);
    twin_page_facts_end(p);
}
