/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of an HTML page: head, style sheet, foot, escaping, and blocks of binary data. page.c
 * and its neighbours build the body between head and foot and call these functions; no command
 * does.
 *
 * Style sheet and script come from web/ and are embedded in the program when it is built, so a page
 * needs no other file. All functions append to a buffer; a buffer that failed stays failed and
 * takes nothing more (struct tw_buf), so they return nothing.
 */
#include "html.h"

#include "page_assets.h"

#include <string.h>
#ifdef TW_HAVE_ZLIB
#include <zlib.h>
#endif

/* One file of web/, as tools/page_assets.py prepared it, becomes a constant string of the program:
 * the assembler copies the file (.incbin) and a NUL behind it. The content security policy of a
 * page allows, by their hashes, the style and the scripts that stand here, and nothing else. */
#define ASSET(name)                                                                 \
    __asm__(".section .rodata\n.global tw_asset_" #name "\n.hidden tw_asset_" #name \
            "\ntw_asset_" #name ":\n.incbin \"" TW_ASSETS "/page_" #name            \
            "\"\n.byte 0\n.previous\n");                                            \
    extern const char tw_asset_##name[]
ASSET(style);  /* CSS */
ASSET(boot);   /* JavaScript: unpacks the next */
ASSET(app);    /* JavaScript, deflated, in base64 */
ASSET(still);  /* content security policy of a page without script */
ASSET(policy); /* of one with ours */

/* Two guards, in this order: what a terminal or a reader's eye would be misled by becomes \xNN,
 * then the five characters that mean something in HTML become entities. */
void tw_html_text(struct tw_buf *b, const char *s)
{
    char *safe = tw_printable(s, strlen(s));
    if (safe)
        tw_say_markup(b, safe);
    else
        b->failed = TWIN_ENOMEM;
    tw_free(safe);
}

/* Line by line, because tw_printable would write a line break as \x0a. */
void tw_html_lines(struct tw_buf *b, const char *s)
{
    while (*s && !b->failed) {
        size_t n = strcspn(s, "\n");
        char *line = tw_strndup(s, n);
        if (line)
            tw_html_text(b, line);
        else
            b->failed = TWIN_ENOMEM;
        tw_free(line);
        tw_buf_puts(b, s[n] ? "\n" : "");
        s += n + (s[n] == '\n');
    }
}

void tw_html_open(struct tw_buf *b, const char *tag, const char *class)
{
    tw_buf_printf(b, "<%s", tag);
    if (class)
        tw_buf_printf(b, " class=\"%s\"", class);
    tw_buf_puts(b, ">");
}

void tw_html_element(struct tw_buf *b, const char *tag, const char *class, const char *text)
{
    tw_html_open(b, tag, class);
    tw_html_text(b, text);
    tw_buf_printf(b, "</%s>", tag);
}

/* The security policy stands before the style sheet and all of the body, so that it holds for them.
 */
void tw_html_begin(struct tw_buf *b, const char *title, bool script)
{
    tw_buf_puts(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                   /* should an escape ever be forgotten, a browser still loads and runs nothing */
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"");
    tw_buf_puts(b, script ? tw_asset_policy : tw_asset_still);
    tw_buf_puts(b, "\">\n<title>twinrun: ");
    tw_html_text(b, title);
    tw_buf_puts(b, "</title>\n<style>");
    tw_buf_puts(b, tw_asset_style);
    tw_buf_puts(b, "</style>\n</head>\n<body>\n<main>\n");
}

/* script: the page has at least one picture that a script draws. The application is put in as data;
 * the small boot script behind it unpacks and starts it. */
void tw_html_end(struct tw_buf *b, bool script)
{
    if (script) {
        tw_buf_puts(b, "<script type=\"text/plain\" id=\"app\">");
        tw_buf_puts(b, tw_asset_app);
        tw_buf_puts(b, "</script>\n<script>");
        tw_buf_puts(b, tw_asset_boot);
        tw_buf_puts(b, "</script>\n");
    }
    tw_buf_puts(b, "</body>\n</html>\n");
}

#ifdef TW_HAVE_ZLIB
/* Compresses data as a zlib stream. malloc'ed, *out is its length; NULL when there is no memory or
 * zlib refuses. */
static void *deflated(const void *data, size_t bytes, size_t *out)
{
    uLongf room = compressBound((uLong)bytes);
    void *z = tw_malloc(room);
    if (z && compress2(z, &room, data, (uLong)bytes, Z_DEFAULT_COMPRESSION) != Z_OK) {
        tw_free(z);
        z = NULL;
    }
    *out = room;
    return z;
}
#endif

/* The block is text (base64) in an element that a browser does not run. "data-raw" tells the script
 * that the bytes are not compressed: zlib was not there when twinrun was built. */
void tw_html_data(struct tw_buf *b, const char *id, const void *data, size_t bytes)
{
    size_t n = bytes;
#ifdef TW_HAVE_ZLIB
    void *z = deflated(data, bytes, &n);
    char *text = z ? tw_base64(z, n) : NULL;
    tw_free(z);
    tw_buf_printf(b, "<script type=\"text/plain\" id=\"%s\">", id);
#else
    char *text = tw_base64(data, n);
    tw_buf_printf(b, "<script type=\"text/plain\" id=\"%s\" data-raw>", id);
#endif
    if (text)
        tw_buf_puts(b, text);
    else
        b->failed = TWIN_ENOMEM;
    tw_free(text);
    tw_buf_puts(b, "</script>\n");
}
