/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that a job's loop carries from call to call: what a function was given is, byte for byte,
 * what it gave back before. Where that is so in one run and not in the other, a finding says it:
 * the state was lost or replaced between two calls, and is not what the function made of it.
 */
#include "internal.h"
#include "scan.h"

#include <assert.h>
#include <string.h>

/* In place of the step in which the bytes were given back. */
enum { IN_NO_STEP = -1, NOT_KNOWN = -2 };

static bool is_result_of(const struct tw_view *v, const struct tw_rec *r, const char *function)
{
    const bool output = r->phase == TWIN_PHASE_FORWARD && r->kind == TWIN_KIND_ACTIVATION;
    return (output || tw_rec_given_back(v, r)) && strcmp(tw_rec_scope(v, r), function) == 0;
}

/*
 * Looks among the first `count` records of the view for a result with these contents, of this step.
 * A result that was not read, or in part, may be the one.
 */
static int64_t step_among(const struct tw_view *v, size_t count, uint32_t step,
                          const char *function, uint64_t content)
{
    int64_t found = v->dropped ? NOT_KNOWN : IN_NO_STEP;
    for (size_t i = 0; i < count && found != NOT_KNOWN; i++) {
        const struct tw_rec *r = &v->rec[i];
        if (r->step != step || !is_result_of(v, r, function))
            continue;
        if (tw_rec_in_part(v, r))
            found = NOT_KNOWN;
        else if (r->content == content)
            found = step;
    }
    return found;
}

/* Sets *step to the step, this one or the one before, in which the function that was given this had
 * given it back. Returns 0 or an error of loading. */
static int given_back(struct tw_cmp *c, const struct tw_view *v, size_t index, int64_t *step,
                      struct twin_error *err)
{
    assert(index < v->count);
    const struct tw_rec *r = &v->rec[index];
    const char *function = tw_rec_scope(v, r);
    *step = tw_rec_in_part(v, r) ? NOT_KNOWN : step_among(v, index, r->step, function, r->content);
    if (*step != IN_NO_STEP || r->step == 0)
        return 0;
    struct tw_view before = {0};
    int rc = tw_view_load(c, v->proc, r->step - 1, r->step - 1, &before, err);
    if (rc == 0)
        *step = step_among(&before, before.count, r->step - 1, function, r->content);
    tw_view_free(&before);
    return rc;
}

int tw_carried_say(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                   const struct tw_diff *x, struct twin_finding *f, struct twin_error *err)
{
    int64_t in_a, in_b;
    if (f->type != TWIN_FINDING_VALUE || !tw_is_handed((uint8_t)f->phase, (uint8_t)f->kind) ||
        !f->scope[0] || f->text[0])
        return 0;
    int rc = given_back(c, a, x->a, &in_a, err);
    if (rc == 0)
        rc = given_back(c, b, x->b, &in_b, err);
    if (rc != 0 || in_a == NOT_KNOWN || in_b == NOT_KNOWN || (in_a < 0) == (in_b < 0))
        return rc;
    const bool first = in_a >= 0;
    tw_finding_set(c, &f->text,
                   tw_cmp_text(c,
                               "%s was given, byte for byte, what %.100s gave back in step %u; "
                               "%s was not",
                               first ? c->label_a : c->label_b, f->scope,
                               (unsigned)(first ? in_a : in_b), first ? c->label_b : c->label_a));
    return 0;
}
