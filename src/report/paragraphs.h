/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_PARAGRAPHS_H
#define TW_REPORT_PARAGRAPHS_H
/*
 * How a text for people looks: labels in dim print, outcomes in their colour, long lines broken at
 * blanks with a hanging indent. The one place of colours and of wrapping; what is said is the
 * callers'. Who may have colours, and how wide a terminal is, the command knows (struct tw_look).
 */
#include "base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum tw_paint {
    TW_PAINT_OFF,  /* back to plain */
    TW_PAINT_DIM,  /* labels */
    TW_PAINT_BOLD, /* what to look at first */
    TW_PAINT_GOOD, /* outcomes: same, no divergence */
    TW_PAINT_BAD,  /* differ, isolated, failed */
    TW_PAINT_OPEN  /* nothing that could be said for sure */
};

/* What the terminal can show. */
struct tw_look {
    unsigned width; /* columns; 0: lines are not broken */
    bool colour;
};

/* A text while it is made. */
struct tw_paragraphs {
    struct tw_buf out;
    struct tw_look look;
    unsigned label; /* columns of the labels */
};

/* Columns that n bytes of well-formed UTF-8 take: one for each code point, which is right for what
 * we print. */
size_t tw_columns_of(const char *s, size_t n);
/* Appends the code of a colour where colours are wanted. Codes take no columns. */
void tw_paragraphs_paint(struct tw_paragraphs *p, enum tw_paint paint);
/* Appends n blanks. */
void tw_paragraphs_pad(struct tw_paragraphs *p, size_t n);
/* Appends text that begins in column indent, broken at blanks, further lines indented as far, and
 * ends the line. A word too long for a line (a path) is not broken: it can be copied as a whole. */
void tw_paragraphs_wrap(struct tw_paragraphs *p, const char *text, size_t indent);
/* A label in dim print, filled up to its columns. "": blanks, which continue the one above. */
void tw_paragraphs_label(struct tw_paragraphs *p, const char *name);
/* Appends a label with its text, and empties text for the next one. Nothing is printed for an empty
 * text; one that failed makes p->out fail. */
void tw_paragraphs_put(struct tw_paragraphs *p, const char *name, struct tw_buf *text);

/* ---- texts that are there already, line by line */

/* How such a text is built. */
struct tw_style {
    /* Columns of labels at the beginning of lines; 0: there are none. What begins with a blank goes
     * on with the paragraph above. */
    unsigned label;
    /* Lines of these labels, and those that go on with them, are kept whole, to be copied; NULL
     * ends the list. NULL itself: lines are not broken at all. */
    const char *const *whole;
    /* What stands at the beginning of a line, behind a label or behind "rank N", has its colour; a
     * NULL word ends the list. */
    const struct tw_painted {
        const char *word;
        enum tw_paint paint;
    } *words;
};
/* Prints it. Foreign values in it are escaped already (tw_put_to). */
void tw_put_styled(FILE *out, const char *text, const struct tw_look *look,
                   const struct tw_style *style);

/* A file in memory that texts are printed into first, for tw_put_styled. */
struct tw_kept_text {
    FILE *file;
    char *text;
    size_t bytes;
};
/* 0, or TWIN_ENOMEM: then there is no file. */
int tw_keep_text(struct tw_kept_text *k, struct twin_error *err);
/* Ends it, prints what was written, or that there was no memory for it, and frees it. */
void tw_put_kept(FILE *out, struct tw_kept_text *k, const struct tw_look *look,
                 const struct tw_style *style);

#endif
