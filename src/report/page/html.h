/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_HTML_H
#define TW_REPORT_HTML_H
/*
 * The frame of an HTML page: head, foot, style sheet and script out of web/, escaping. Used by the
 * files of page/ and by the pages of the other folders of this room.
 *
 * Every function appends to b and returns nothing: b->failed tells whether one of them found no
 * memory.
 */
#include "wording.h"

/* Bytes of anybody's making as text or attribute value: made printable, then escaped. */
void tw_html_text(struct tw_buf *b, const char *s);
/* The same for text of several lines, which stay lines. */
void tw_html_lines(struct tw_buf *b, const char *s);
/* <tag class="class">; class may be NULL. */
void tw_html_open(struct tw_buf *b, const char *tag, const char *class);
/* The same with text, escaped, and </tag>. */
void tw_html_element(struct tw_buf *b, const char *tag, const char *class, const char *text);
/* Everything up to <main>. title: of the browser's tab, any bytes. script: the page may run our
 * script, and its security policy names it by its hash; without it the policy allows no script at
 * all. */
void tw_html_begin(struct tw_buf *b, const char *title, bool script);
/* What comes behind the last block of data. script: as tw_html_begin was told. */
void tw_html_end(struct tw_buf *b, bool script);
/* A block of binary data, for the script to read: base64 in an element of this id. It is compressed
 * where twinrun was built with zlib. id is ours and is not escaped. */
void tw_html_data(struct tw_buf *b, const char *id, const void *data, size_t bytes);
#endif
