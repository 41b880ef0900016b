/* SPDX-License-Identifier: Apache-2.0 */
/* A page's words: verdict, text, facts, tables. */
#include "page_inside.h"

#include "html.h"

#include <stdarg.h>
#include <string.h>

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
    tw_free(p);
}

bool tw_page_failed(const struct twin_page *p)
{
    return p->body.failed || p->data.failed;
}

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

static void formatted(struct twin_page *p, const char *tag, const char *class, const char *format,
                      va_list ap)
{
    struct tw_buf text = {0};
    tw_buf_vprintf(&text, format, ap);
    if (text.failed)
        p->body.failed = text.failed;
    else
        tw_html_element(&p->body, tag, class, text.len ? text.data : "");
    tw_buf_free(&text);
}

void twin_page_verdict(struct twin_page *p, enum twin_mood mood, const char *word,
                       const char *sentence, const char *about)
{
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

void twin_page_list(struct twin_page *p, const char *const *item, size_t count)
{
    tw_buf_puts(&p->body, "<ul>\n");
    for (size_t i = 0; i < count; i++) {
        tw_html_element(&p->body, "li", NULL, item[i]);
        tw_buf_puts(&p->body, "\n");
    }
    tw_buf_puts(&p->body, "</ul>\n");
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
        tw_html_element(&p->body, "dd", NULL, value.data);
        tw_buf_puts(&p->body, "\n");
    }
    tw_buf_free(&value);
}

void twin_page_facts_end(struct twin_page *p)
{
    tw_buf_puts(&p->body, "</dl>\n</section>\n");
}

/* ---- tables */

static const char *class_of(const struct twin_page *p, size_t column)
{
    if (p->align[column] == 'n')
        return "n";
    return p->align[column] == 't' ? "what" : NULL;
}

void twin_page_table(struct twin_page *p, const char *const *columns, const char *align)
{
    p->columns = p->column = 0;
    /* one that is too wide is scrolled, with the keyboard too */
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

static void cell_begin(struct twin_page *p)
{
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

void twin_page_cell_mood(struct twin_page *p, enum twin_mood mood, const char *text)
{
    cell_begin(p);
    tw_html_element(&p->body, "td", mood_class[mood], text);
    cell_end(p);
}

void twin_page_table_end(struct twin_page *p)
{
    while (p->column)
        twin_page_cell(p, "%s", "");
    tw_buf_puts(&p->body, "</tbody>\n</table></div>\n");
}

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
