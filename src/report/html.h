/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_HTML_H
#define TW_REPORT_HTML_H
/* The frame of an HTML page: head, style sheet, foot, escaping. A page needs no network and no script. */
#include "internal.h"

/* Bytes of anybody's making as text or attribute value: made printable, then escaped. */
void tw_html_text(struct tw_buf *b, const char *s);
/* <tag class="class">text</tag>, text escaped; class may be NULL. */
void tw_html_element(struct tw_buf *b, const char *tag, const char *class, const char *text);
void tw_html_begin(struct tw_buf *b, const char *title);
void tw_html_end(struct tw_buf *b);
#endif
