/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links from a page to the pages of its runs, which lie beside it. A page that is told which runs
 * have one leads to it from each place where its words, captions, lists, facts, trees and legends
 * name such a run.
 */
#include "page_inside.h"

#include "html.h"
#include "phrase.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tw_run_page_name(size_t number, char out[TW_RUN_PAGE_NAME])
{
    snprintf(out, TW_RUN_PAGE_NAME, "run-%zu.html", number);
}

void twin_page_link_runs(struct twin_page *p, const uint32_t *number, size_t count)
{
    tw_free(p->linked);
    p->linked_count = 0;
    p->linked = tw_calloc(count + 1, sizeof *p->linked);
    if (!p->linked) {
        p->body.failed = TWIN_ENOMEM;
        return;
    }
    if (count)
        memcpy(p->linked, number, count * sizeof *number);
    p->linked_count = count;
}

static bool is_linked(const struct twin_page *p, unsigned long number)
{
    for (size_t i = 0; i < p->linked_count; i++)
        if (p->linked[i] == number)
            return true;
    return false;
}

void tw_page_link(struct twin_page *p, const char *href, const char *text)
{
    tw_buf_puts(&p->body, "<a href=\"");
    tw_html_text(&p->body, href);
    tw_buf_puts(&p->body, "\">");
    tw_html_text(&p->body, text);
    tw_buf_puts(&p->body, "</a>");
}

/* The number that digits at s say, 0 where none stands there by itself ("2.5", "3x"); *end is
 * behind it. */
static unsigned long number_at(const char *s, const char **end)
{
    const size_t digits = strspn(s, "0123456789");
    *end = s + digits;
    if (digits == 0 || digits > 9 || isalnum((unsigned char)**end) ||
        (**end == '.' && isdigit((unsigned char)(*end)[1])))
        return 0;
    return strtoul(s, NULL, 10);
}

/* The next run with a page that s names, as "run 3" or "Run 3": where it begins and where it ends.
 * 0: there is none. */
static unsigned long next_run(const struct twin_page *p, const char *s, const char **begin,
                              const char **end)
{
    const char *const from = s;
    for (; (s = strstr(s, "un ")); s += 3) {
        const bool is_word = s > from && (s[-1] == 'r' || s[-1] == 'R') &&
                             (s - 1 == from || !isalnum((unsigned char)s[-2]));
        const unsigned long number = is_word ? number_at(s + 3, end) : 0;
        *begin = s - 1;
        if (number && is_linked(p, number))
            return number;
    }
    return 0;
}

bool tw_page_run_file(const struct twin_page *p, const char *text, char out[TW_RUN_PAGE_NAME])
{
    const char *begin, *end;
    const unsigned long number = next_run(p, text, &begin, &end);
    if (number)
        tw_run_page_name(number, out);
    return number != 0 && begin == text;
}

/* Piece by piece: what stands between two links, then the link. */
static void put_linked(struct twin_page *p, char *safe)
{
    const char *at = safe, *begin, *end;
    unsigned long number;
    while ((number = next_run(p, at, &begin, &end))) {
        char file[TW_RUN_PAGE_NAME];
        const char first = *begin;
        tw_run_page_name(number, file);
        safe[begin - safe] = '\0';
        tw_say_markup(&p->body, at);
        tw_buf_printf(&p->body, "<a href=\"%s\">%cun %lu</a>", file, first, number);
        at = end;
    }
    tw_say_markup(&p->body, at);
}

void tw_page_words(struct twin_page *p, const char *text)
{
    char *safe = p->linked_count ? tw_printable(text, strlen(text)) : NULL;
    if (p->linked_count && !safe)
        p->body.failed = TWIN_ENOMEM;
    else if (safe)
        put_linked(p, safe);
    else
        tw_html_text(&p->body, text);
    tw_free(safe);
}

void tw_page_element(struct twin_page *p, const char *tag, const char *class, const char *text)
{
    tw_html_open(&p->body, tag, class);
    tw_page_words(p, text);
    tw_buf_printf(&p->body, "</%s>", tag);
}

void tw_page_run_links(struct twin_page *p)
{
    if (p->linked_count == 0)
        return;
    tw_buf_puts(&p->body, "<nav class=\"soft\">A page of each run:");
    for (size_t i = 0; i < p->linked_count; i++) {
        char file[TW_RUN_PAGE_NAME], text[24];
        tw_run_page_name(p->linked[i], file);
        snprintf(text, sizeof text, "run %u", p->linked[i]);
        tw_buf_puts(&p->body, i ? ", " : " ");
        tw_page_link(p, file, text);
    }
    tw_buf_puts(&p->body, "</nav>\n");
}
