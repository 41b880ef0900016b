/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_ZOOM_H
#define TW_COMPARE_ZOOM_H
/*
 * Between the files of a zoom: the operation that one step of a zoom pair names. zoom_call.c looks
 * for it, zoom.c puts it into the verdict, zoom_replays.c says what replaying it showed.
 */
#include "internal.h"

/* What is known of the operation that is named, from the surest to the least sure. */
enum tw_zoom_how {
    TW_ZOOM_ORIGIN,    /* every input was seen whole and equal, and an output is another */
    TW_ZOOM_UNWRITTEN, /* memory that was used before anything was written to it */
    TW_ZOOM_DREW,      /* it drew from a generator whose state differed */
    TW_ZOOM_HIDDEN,    /* inputs are equal as far as they were seen, which is not whole */
    TW_ZOOM_INPUT,     /* an input differs, although every operation before it agreed */
    TW_ZOOM_ALONE      /* one run alone made this call, before the first difference */
};

/* What one step shows. The texts are malloc'ed: tw_zoom_found_free(). */
struct tw_zoom_found {
    /* in: a generator differed in an earlier step. out: or in this one */
    bool drew;
    /* to be named: an output, an input or a call of one run alone; NULL: nothing was found */
    const struct tw_diff *diff;
    enum tw_zoom_how how;
    char *op, *site;
    /* what was seen last and agreed; or what was not seen whole; may be NULL */
    char *before;
    size_t inputs;   /* of an origin: how many were equal */
    unsigned number; /* of the output */
    size_t calls[2]; /* of one run alone: how often each made such a call, in all of the step */
};

/*
 * Looks for the operation to name in one step. out->drew must be set by the caller, all else zero.
 * False: the step names none; then out->drew may still have changed.
 */
bool tw_zoom_find(struct tw_cmp *c, const struct tw_stepdiff *d, const struct tw_view *a,
                  const struct tw_view *b, struct tw_zoom_found *out);
/* Frees the texts; the struct is not for use afterwards. */
void tw_zoom_found_free(struct tw_zoom_found *f);
/* "aten::mm" of "aten::mm.out0" */
char *tw_zoom_op(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r);
bool tw_zoom_unwritten(const char *op);
/* What a zoom pair is looked at with: it is compared whole, without --ignore and --steps. */
static inline struct tw_cmp tw_zoom_comparison(struct twin_verdict *v)
{
    static const struct twin_compare_options no_options;
    return (struct tw_cmp){.o = &no_options, .v = v, .label_a = "run 1", .label_b = "run 2"};
}
/* Says what replays of the suspect showed, claims it, and sets v->replay. call: the call of run 2
 * that was named; NULL when it is not known. */
void tw_zoom_note_replays(struct tw_cmp *c, struct twin_finding *f, const struct tw_side *a,
                          const struct tw_side *b, const char *call);

#endif
