/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_HTML_H
#define TW_REPORT_HTML_H
/* The frame of an HTML page: head, foot, style sheet and script out of web/, escaping. */
#include "wording.h"

/* Bytes of anybody's making as text or attribute value: made printable, then escaped. */
void tw_html_text(struct tw_buf *b, const char *s);
/* The same for text of several lines, which stay lines. */
void tw_html_lines(struct tw_buf *b, const char *s);
/* <tag class="class">text</tag>, text escaped; class may be NULL. */
void tw_html_element(struct tw_buf *b, const char *tag, const char *class, const char *text);
/* script: may this page run ours? Without it, it may run none. */
void tw_html_begin(struct tw_buf *b, const char *title, bool script);
void tw_html_end(struct tw_buf *b, bool script);
/* A block of binary data behind the page, compressed where zlib is there. */
void tw_html_data(struct tw_buf *b, const char *id, const void *data, size_t bytes);
#endif
