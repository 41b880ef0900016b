/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what may be called an origin. causes.c gives the role "origin" to a difference when
 * nothing recorded before it in its step explains it; this file asks whether that is proven. scan.c
 * calls tw_origin_judge() for each finding of a frontier.
 *
 * A difference is an origin when everything that it is made from was seen whole, in both runs, and
 * was equal. Where a part of that was sampled, could not be read, lies in a gap, or is of a sort
 * that only shows what was made elsewhere, the role becomes "unknown", and the finding says between
 * which two places the difference was made: what was not seen whole, and what differs.
 * docs/internals/compare.md ("When ORIGIN may be said") has the rules. Texts that the functions
 * here return, or put into *found, are malloc'ed; they go into the finding.
 */
#include "arms.h"
#include "internal.h"
#include "scan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/*
 * The length of the tensor's name where the record's name says that it is a sample ("w[1/16]",
 * "w.exp_avg[:16384]", as older agents wrote) or a part ("w[0:4096]"); 0 for any other name.
 */
static size_t sampled_name(const char *name)
{
    const char *open = strrchr(name, '[');
    if (!open)
        return 0;
    size_t from = strspn(open + 1, "0123456789");
    size_t to = open[1 + from] == ':' ? strspn(open + 2 + from, "0123456789") : 0;
    bool range = to > 0 && strcmp(open + 2 + from + to, "]") == 0;
    return range || strcmp(open, "[1/16]") == 0 ? (size_t)(open - name) : 0;
}

bool tw_rec_in_part(const struct tw_view *v, const struct tw_rec *r)
{
    return r->flags & (TWIN_REC_UNOBSERVED | TWIN_REC_PART) || sampled_name(tw_rec_name(v, r)) > 0;
}

/*
 * Does the view hold the same tensor whole, beside this sample of it? Then the sample hides
 * nothing. False for records whose names do not say that they are samples.
 */
static bool whole_beside(const struct tw_view *v, const struct tw_rec *part)
{
    const char *name = tw_rec_name(v, part);
    size_t n = sampled_name(name);
    for (size_t i = 0; n > 0 && i < v->count; i++) {
        const struct tw_rec *r = &v->rec[i];
        const char *other = tw_rec_name(v, r);
        if (r->phase == part->phase && r->kind == part->kind && strlen(other) == n &&
            strncmp(other, name, n) == 0 && !tw_rec_in_part(v, r))
            return true;
    }
    return false;
}

/* A part hides something only where the parts beside it do not cover the whole tensor (whole.c). */
bool tw_rec_hidden(const struct tw_view *v, const struct tw_rec *r)
{
    if (!tw_rec_in_part(v, r) || whole_beside(v, r))
        return false;
    return r->flags & TWIN_REC_UNOBSERVED || !(r->flags & TWIN_REC_PART) || tw_part_alone(v, r);
}

char *tw_rec_say(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r)
{
    const char *op = tw_rec_op(v, r), *name = tw_rec_name(v, r), *scope = tw_rec_scope(v, r);
    if (r->phase == TWIN_PHASE_KERNEL && op[0])
        return tw_cmp_text(c, "%.200s of step %u", op, r->step);
    if (r->kind == TWIN_KIND_ACTIVATION && strcmp(name, "output") == 0 && scope[0])
        return tw_cmp_text(c, "output of %.200s in step %u", scope, r->step);
    if (tw_is_mpi(r->phase, name) || (r->phase == TWIN_PHASE_COLLECTIVE &&
                                      (r->kind == TWIN_KIND_IN || r->kind == TWIN_KIND_OUT)))
        return tw_cmp_text(c, "the %s of %.160s in step %u",
                           r->kind == TWIN_KIND_IN ? "input" : "output", name, r->step);
    if (tw_is_handed(r->phase, r->kind) || (r->kind == TWIN_KIND_BATCH && scope[0]))
        return tw_cmp_text(c, "%.200s of %.200s in step %u", name, scope, r->step);
    if (r->phase == TWIN_PHASE_INIT && r->kind == TWIN_KIND_WEIGHT)
        return tw_cmp_text(c, "the initial value of %.200s", name);
    if (r->kind == TWIN_KIND_HYPER)
        return tw_cmp_text(c, "hyperparameter %.200s of step %u", name, r->step);
    if (r->kind == TWIN_KIND_INDICES) /* all of them are called "sample indices" */
        return tw_cmp_text(c, "the %.200s of step %u", name, r->step);
    return tw_cmp_text(c, "%s %.200s of step %u", twin_kind_name(r->kind), name, r->step);
}

/* "weight w of step 3 (was seen in part)". NULL: no memory. */
static char *say_hidden(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r)
{
    char *what = tw_rec_say(c, v, r);
    const char *how = r->flags & TWIN_REC_UNOBSERVED ? "could not be read" : "was seen in part";
    char *text = what ? tw_cmp_text(c, "%s (%s)", what, how) : NULL;
    tw_free(what);
    return text;
}

/*
 * Was this value made by computing on what stands in its step or entered it? Initial values, and
 * what is drawn or loaded, come from outside.
 */
static bool is_computed(const struct tw_view *v, const struct tw_rec *r)
{
    if (tw_rec_given_back(v, r))
        return true;
    switch (r->kind) {
    case TWIN_KIND_ACTIVATION:
    case TWIN_KIND_LOSS:
    case TWIN_KIND_GRADIENT_LOCAL:
    case TWIN_KIND_GRADIENT:
    case TWIN_KIND_MOMENT: return r->phase != TWIN_PHASE_INIT;
    case TWIN_KIND_WEIGHT: return r->phase == TWIN_PHASE_OPTIMIZER;
    default: return false;
    }
}

/*
 * Looks at the records that r consumed, where the trace has such links: in this step or in an
 * earlier one. Sets *found to the first one that hides something or was not kept. Returns 0 or an
 * error of loading a step.
 *
 * A link is a step (upper 32 bits) and a record's number in it (lower 32 bits). `other` keeps the
 * last earlier step that was loaded, since several links tend to lead to the same one.
 */
static int hidden_link(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r,
                       char **found, struct twin_error *err)
{
    struct tw_view other = {0};
    int rc = 0;
    for (size_t i = 0; i < r->link_count && !*found && rc == 0; i++) {
        uint32_t step = (uint32_t)(v->link[r->link + i] >> 32);
        uint32_t seq = (uint32_t)v->link[r->link + i];
        const struct tw_view *in = step == r->step ? v : &other;
        if (in == &other && (other.count == 0 || other.rec[0].step != step)) {
            tw_view_free(&other);
            rc = tw_view_load(c, v->proc, step, step, &other, err);
        }
        const struct tw_rec *x = NULL;
        for (size_t k = 0; rc == 0 && k < in->count && !x; k++)
            if (in->rec[k].seq == seq && in->rec[k].step == step)
                x = &in->rec[k];
        if (rc == 0 && !x)
            *found = tw_cmp_text(c, "record %u of step %u, which was not kept", seq, step);
        else if (x && tw_rec_hidden(in, x))
            *found = say_hidden(c, in, x);
    }
    tw_view_free(&other);
    return rc;
}

/*
 * The first record before r in its view that may have been used for it and hides something; NULL:
 * none.
 */
static const struct tw_rec *hidden_before(const struct tw_view *v, const struct tw_rec *r)
{
    for (const struct tw_rec *x = v->rec; x < r; x++)
        if (tw_may_cause(v, x, r) && tw_rec_hidden(v, x))
            return x;
    return NULL;
}

/*
 * A weight or a moment of the view that hides something: with `first` among the initial ones, else
 * among those that the step left. NULL: none. What a function gave back does not count: each call
 * shows what it is given.
 */
static const struct tw_rec *hidden_state(const struct tw_view *v, bool first)
{
    for (size_t i = 0; i < v->count; i++) {
        const struct tw_rec *x = &v->rec[i];
        bool state = x->kind == TWIN_KIND_WEIGHT || x->kind == TWIN_KIND_MOMENT;
        if (state && (x->phase == TWIN_PHASE_INIT) == first && !tw_rec_given_back(v, x) &&
            tw_rec_hidden(v, x))
            return x;
    }
    return NULL;
}

bool tw_left_whole(struct tw_cmp *c, struct tw_proc *p, uint32_t step)
{
    struct tw_view v = {0};
    if (tw_view_load(c, p, step, step, &v, NULL) != 0)
        return false;
    bool whole = v.dropped == 0;
    for (size_t i = 0; i < v.count && whole; i++) {
        const struct tw_rec *r = &v.rec[i];
        const bool left = r->kind == TWIN_KIND_WEIGHT && r->phase != TWIN_PHASE_INIT;
        /* what a function gave back may have been lost since: each call shows what it is given */
        whole = !tw_rec_given_back(&v, r) &&
                (!left || r->flags & TWIN_REC_PART || !tw_rec_hidden(&v, r));
    }
    tw_view_free(&v);
    return whole;
}

/* Is there an input (a batch, indices, an operation's input, a recorded value) before `end`? */
static bool is_fed(const struct tw_view *v, const struct tw_rec *end)
{
    for (const struct tw_rec *x = v->rec; x < end; x++)
        if (x->kind == TWIN_KIND_BATCH || x->kind == TWIN_KIND_INDICES || x->kind == TWIN_KIND_IN ||
            x->kind == TWIN_KIND_VALUE)
            return true;
    return false;
}

/*
 * Looks at what the step before handed on. Its value hash is equal in both runs, and covers dropped
 * records, too; what it does not cover are tensors seen in part. Sets *found to such a one. *fed
 * becomes true when an input was seen there: the step of a second optimizer has no batch of its
 * own. Returns 0 or an error of loading.
 */
static int hidden_in_step_before(struct tw_cmp *c, const struct tw_view *v, uint32_t step,
                                 char **found, bool *fed, struct twin_error *err)
{
    struct tw_view before = {0};
    int rc = tw_view_load(c, v->proc, step - 1, step - 1, &before, err);
    if (rc != 0)
        return rc;
    const struct tw_rec *x = hidden_state(&before, false);
    *fed |= before.count > 0 && is_fed(&before, before.rec + before.count);
    if (x)
        *found = say_hidden(c, &before, x);
    tw_view_free(&before);
    return 0;
}

/*
 * Sets *found to what entered the step and hides something, or, when no input at all was seen, to
 * the step's beginning. Returns 0 or an error of loading the step before.
 */
static int hidden_entry(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r,
                        char **found, struct twin_error *err)
{
    const struct tw_rec *x = hidden_state(v, true);
    bool fed = is_fed(v, r);
    int rc = 0;
    if (x)
        *found = say_hidden(c, v, x);
    else if (r->step > 0)
        rc = hidden_in_step_before(c, v, r->step, found, &fed, err);
    if (rc == 0 && !*found && !fed)
        *found = tw_cmp_text(c, "the beginning of step %u (no input was seen)", r->step);
    return rc;
}

/*
 * Sets *found to the first thing that record `index` may be made from and that was not seen whole;
 * leaves it NULL when all was seen. Links are trusted where the record has some; without them
 * everything before it may be a cause. Returns 0 or an error of loading.
 */
static int hidden_input(struct tw_cmp *c, const struct tw_view *v, size_t index, char **found,
                        struct twin_error *err)
{
    assert(index < v->count);
    const struct tw_rec *r = &v->rec[index], *x = NULL;
    if (v->dropped) /* what it was made from may be among them */
        *found = tw_cmp_text(c, "%llu records of step %u without details",
                             (unsigned long long)v->dropped, r->step);
    else if (r->link_count > 0)
        return hidden_link(c, v, r, found, err);
    else
        x = hidden_before(v, r);
    if (x)
        *found = say_hidden(c, v, x);
    else if (!*found && is_computed(v, r))
        return hidden_entry(c, v, r, found, err);
    return 0;
}

/* Did the backward pass of the same step record a gradient of this name and scope? */
static bool left_by_backward(const struct tw_view *v, const struct tw_rec *r)
{
    for (size_t i = 0; i < v->count; i++) {
        const struct tw_rec *x = &v->rec[i];
        bool gradient = x->phase == TWIN_PHASE_BACKWARD && x->kind == TWIN_KIND_GRADIENT &&
                        x->step == r->step;
        if (gradient && strcmp(tw_rec_name(v, x), tw_rec_name(v, r)) == 0 &&
            strcmp(tw_rec_scope(v, x), tw_rec_scope(v, r)) == 0)
            return true;
    }
    return false;
}

/*
 * The last thing seen before a line of the job wrote to a weight or a gradient; no operation that
 * was seen made such a value. NULL: no memory.
 */
static char *say_before_writing(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r)
{
    if (r->kind == TWIN_KIND_GRADIENT)
        return tw_cmp_text(c, "the %s of step %u", left_by_backward(v, r) ? "backward" : "forward",
                           r->step);
    if (r->phase == TWIN_PHASE_BACKWARD)
        return tw_cmp_text(c, "the forward of step %u", r->step);
    if (r->step == 0)
        return tw_cmp_copy(c, "the first weights");
    return tw_cmp_text(c, "the weights as step %u left them", r->step - 1);
}

/*
 * Reads the trace's notes "written.unseen", such as "12 Net are looked at in part": from step 12 on
 * nobody knows what lines of the job wrote to the weights of a model between the steps. Sets *found
 * when r was computed in such a step. 120 and 200 bytes bound what of a note or a name goes into a
 * text.
 */
static void unseen_writing(struct tw_cmp *c, const struct tw_proc *p, const struct tw_view *v,
                           const struct tw_rec *r, char **found)
{
    const char *key, *value;
    const bool computed = is_computed(v, r);
    for (size_t i = 0; computed && !*found && twin_trace_note(p->trace, i, &key, &value); i++) {
        unsigned long from;
        char *end;
        if (strcmp(key, "written.unseen") != 0)
            continue;
        from = strtoul(value, &end, 10);
        if (end != value && r->step >= from)
            *found = tw_cmp_text(c, "the weights as step %u began (those of%.120s)", r->step, end);
    }
}

/* A script of which the agent looked at what variables held at the ends of functions, and at its
 * own end (note "held"), shows no lines in between: what differs there was made since the record
 * before, which is equal. Sets *found then. */
static void held_at_the_end(const struct tw_view *v, size_t index, struct tw_cmp *c, char **found)
{
    const struct tw_rec *r = &v->rec[index];
    const bool state = r->kind == TWIN_KIND_STATE && tw_rec_scope(v, r)[0];
    const bool fit = !state && r->phase != TWIN_PHASE_OUTPUT &&
                     twin_trace_note_of(v->proc->trace, "fits");
    if (fit || !twin_trace_note_of(v->proc->trace, "held"))
        return;
    if (index > 0 && v->rec[index - 1].step == r->step)
        *found = tw_rec_say(c, v, &v->rec[index - 1]);
    else
        *found = tw_cmp_copy(c, "the beginning");
}

/*
 * Reads the notes "gradient.unseen", such as "16 SGD": from step 16 on a write past PyTorch's
 * version counter, between a backward and what its optimizer reads, can be missed. Sets *found for
 * a gradient of the backward pass of such a step.
 */
static void unseen_gradient(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r,
                            char **found)
{
    const char *key, *value;
    bool its = r->phase == TWIN_PHASE_BACKWARD && r->kind == TWIN_KIND_GRADIENT;
    for (size_t i = 0; its && !*found && twin_trace_note(v->proc->trace, i, &key, &value); i++) {
        if (strcmp(key, "gradient.unseen") == 0 && r->step >= strtoul(value, NULL, 10))
            *found = tw_cmp_text(c, "the forward of step %u", r->step);
    }
}

/*
 * Does a note "input.unseen" or "call.unseen" of the function `label` speak of r? The first of what
 * that module gives out or its fit has left; the second of all that is left behind a step, since
 * variables do not say which function wrote to them.
 */
static bool is_left_by(const struct tw_view *v, const struct tw_rec *r, const char *key,
                       const char *label, size_t n)
{
    const char *scope = tw_rec_scope(v, r);
    bool left = r->phase == TWIN_PHASE_OPTIMIZER;
    if (strcmp(key, "call.unseen") == 0)
        return left;
    bool made = r->phase == TWIN_PHASE_FORWARD &&
                (r->kind == TWIN_KIND_ACTIVATION || r->kind == TWIN_KIND_LOSS);
    /* a fit is the method of its scope, "Ridge.fit"; an optimizer is none of its model's */
    made |= left && r->kind == TWIN_KIND_WEIGHT && tw_starts(tw_rec_op(v, r), scope);
    made |= tw_rec_given_back(v, r);
    /* "Net" is not "Net2" */
    return strcmp(key, "input.unseen") == 0 && made && n > 0 && strncmp(label, scope, n) == 0;
}

/*
 * Reads these notes, such as "3 MSELoss was given what no record shows": from step 3 on nobody saw
 * what this module makes its output of. Sets *found for what it made in such a step.
 */
static void unseen_input(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r,
                         char **found)
{
    const char *key, *value;
    for (size_t i = 0; !*found && twin_trace_note(v->proc->trace, i, &key, &value); i++) {
        char *end;
        unsigned long from = strtoul(value, &end, 10);
        if (end == value || *end != ' ' || r->step < from)
            continue;
        const char *label = end + 1;
        bool call = strcmp(key, "call.unseen") == 0;
        size_t n = call ? strcspn(label, " ") : strlen(tw_rec_scope(v, r));
        if (is_left_by(v, r, key, label, n) && label[n] == ' ')
            *found = tw_cmp_text(c, "the call of %.*s in step %u (which%.200s)",
                                 (int)(n < 200 ? n : 200), label, r->step, label + n);
    }
}

/* What a call of jax.distributed made on one rank follows from what each rank gave to it
 * (jax_calls.py). */
int tw_joint_turn(const struct tw_view *v, const struct tw_rec *r)
{
    static const char joint[] = " computes with what other processes hold";
    const char *key, *value;
    const size_t n = strlen(tw_rec_scope(v, r));
    for (size_t i = 0; twin_trace_note(v->proc->trace, i, &key, &value); i++) {
        char *end;
        unsigned long from = strtoul(value, &end, 10);
        bool its = strcmp(key, "input.unseen") == 0 && end != value && *end == ' ';
        its = its && r->step >= from && is_left_by(v, r, key, end + 1, n);
        if (its && strcmp(end + 1 + n, joint) == 0)
            return 1;
    }
    return 0;
}

static char *say_end_of_step_before(struct tw_cmp *c, uint32_t step)
{
    return step > 0 ? tw_cmp_text(c, "the end of step %u", step - 1)
                    : tw_cmp_copy(c, "the beginning");
}

/*
 * Says which operation was recorded last before the record at `index`; what came before that record
 * is equal, since it is the first that differs. Other inputs of the same operation are passed over.
 */
static char *say_operation_before(struct tw_cmp *c, const struct tw_view *v, size_t index)
{
    assert(index < v->count);
    const struct tw_rec *r = &v->rec[index];
    for (size_t i = index; i-- > 0;) {
        const struct tw_rec *x = &v->rec[i];
        bool same_call = strcmp(tw_rec_op(v, x), tw_rec_op(v, r)) == 0 && x->kind == TWIN_KIND_IN;
        if (x->phase == TWIN_PHASE_KERNEL && x->step == r->step && !same_call)
            return tw_rec_say(c, v, x);
    }
    return say_end_of_step_before(c, r->step);
}

/*
 * Is it what a backward starts from, and no module gave it out? Lines of the job computed it, from
 * whatever they had.
 */
static bool is_loss_of_lines(const struct tw_view *v, const struct tw_rec *r)
{
    const char *op = tw_rec_op(v, r);
    return r->phase == TWIN_PHASE_FORWARD && r->kind == TWIN_KIND_LOSS &&
           (strcmp(op, "backward") == 0 || strcmp(op, "autograd.grad") == 0);
}

/*
 * Says which output of a module was recorded last before the record at `index` in its step; it is
 * equal.
 */
static char *say_output_before(struct tw_cmp *c, const struct tw_view *v, size_t index)
{
    for (size_t i = index; i-- > 0;)
        if (v->rec[i].kind == TWIN_KIND_ACTIVATION && v->rec[i].step == v->rec[index].step)
            return tw_rec_say(c, v, &v->rec[i]);
    return say_end_of_step_before(c, v->rec[index].step);
}

/*
 * Is it a generator's state for which no drawing module, loader or operation is named? Lines of the
 * job drew from that generator, or set it.
 */
static bool is_state_of_lines(const struct tw_view *v, const struct tw_rec *r)
{
    const char *op = tw_rec_op(v, r);
    return r->kind == TWIN_KIND_STATE && (op[0] == '\0' || strcmp(op, "user code") == 0);
}

/*
 * Says where the same generator's state was recorded last before the record at `index`; it was
 * equal there.
 */
static char *say_state_before(struct tw_cmp *c, const struct tw_view *v, size_t index)
{
    assert(index < v->count);
    const struct tw_rec *r = &v->rec[index];
    for (size_t i = index; i-- > 0;) {
        const struct tw_rec *x = &v->rec[i];
        if (x->kind == TWIN_KIND_STATE && x->step == r->step &&
            strcmp(tw_rec_name(v, x), tw_rec_name(v, r)) == 0 && tw_rec_op(v, x)[0])
            return tw_cmp_text(c, "state %.200s of step %u behind %.200s", tw_rec_name(v, x),
                               x->step, tw_rec_op(v, x));
    }
    return r->phase == TWIN_PHASE_INIT ? tw_cmp_copy(c, "the beginning")
                                       : say_end_of_step_before(c, r->step);
}

static bool is_exchanged(const struct tw_rec *r, const char *name)
{
    return tw_is_mpi(r->phase, name) || tw_is_given(r->phase, r->kind, name);
}

/* Of a program of MPI its messages and collectives are recorded; a job of PyTorch computes between
 * them, and that is recorded, too. */
static char *say_before_exchange(struct tw_cmp *c, const struct tw_view *v, size_t index)
{
    const struct tw_rec *r = &v->rec[index];
    const bool computed = !tw_is_mpi(r->phase, tw_rec_name(v, r)) && r->kind == TWIN_KIND_IN;
    if (computed && index > 0 && v->rec[index - 1].step == r->step)
        return tw_rec_say(c, v, &v->rec[index - 1]);
    return tw_mpi_before(c, v, index);
}

/*
 * For a record of a thing that was made elsewhere, out of sight: what an operation or a module was
 * given, what a rank gave to others or got in a message, a module that is first called when steps
 * have passed, tensors that a file is made of. Such a record shows a difference and cannot be the
 * place where it was made. Sets *found to the last
 * thing seen before it; leaves it NULL for other records.
 */
static void only_shown(struct tw_cmp *c, const struct tw_view *v, size_t index, char **found)
{
    assert(index < v->count);
    const struct tw_rec *r = &v->rec[index];
    if (is_exchanged(r, tw_rec_name(v, r)))
        *found = say_before_exchange(c, v, index);
    else if (r->phase == TWIN_PHASE_KERNEL && r->kind == TWIN_KIND_IN)
        *found = say_operation_before(c, v, index);
    else if (is_state_of_lines(v, r))
        *found = say_state_before(c, v, index);
    else if (is_loss_of_lines(v, r))
        *found = say_output_before(c, v, index);
    else if (tw_is_handed(r->phase, r->kind) && strcmp(tw_rec_op(v, r), "written") == 0)
        *found = tw_cmp_text(c, "the batch of step %u as the loader delivered it", r->step);
    else if (tw_is_handed(r->phase, r->kind) ||
             (r->phase == TWIN_PHASE_INIT && r->kind != TWIN_KIND_STATE && r->step > 0))
        *found = tw_cmp_copy(c, "the beginning");
    else if (r->phase == TWIN_PHASE_CHECKPOINT)
        *found = say_end_of_step_before(c, r->step);
}

/*
 * Does the view hold a moment: among the initial values (`first`), else in a step before `before`?
 */
static bool has_moment(const struct tw_view *v, uint32_t before, bool first)
{
    for (size_t i = 0; i < v->count; i++) {
        const struct tw_rec *r = &v->rec[i];
        bool there = first ? r->phase == TWIN_PHASE_INIT : r->step < before;
        if (r->kind == TWIN_KIND_MOMENT && there)
            return true;
    }
    return false;
}

/*
 * The first step of a resumed arm stands beside two steps of the other arm: what the optimizer had
 * gathered by then is in the earlier one of them. Sets *found for an updated moment or weight when
 * the other arm had such moments and nothing shows with which ones the resumed optimizer began.
 */
static void hidden_at_seam(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                           const struct tw_rec *r, char **found)
{
    bool updated = r->phase == TWIN_PHASE_OPTIMIZER &&
                   (r->kind == TWIN_KIND_MOMENT || r->kind == TWIN_KIND_WEIGHT);
    bool seam = updated && a->count > 0 && b->count > 0 &&
                a->rec[0].step < a->rec[a->count - 1].step;
    if (seam && has_moment(a, a->rec[a->count - 1].step, false) && !has_moment(b, 0, true))
        *found = tw_cmp_text(c, "the optimizer state with which %s began, which was not recorded",
                             c->label_b);
}

/*
 * Weights and gradients are looked at again where they are about to be used, the optimizer's state
 * is not: what it left in the step before may have been written to by a line of the job. Sets
 * *found for what it left of that state, where the step before left some. Returns 0 or an error of
 * loading.
 */
static int moment_unseen(struct tw_cmp *c, const struct tw_diff *x, const struct tw_view *a,
                         const struct tw_view *b, char **found, struct twin_error *err)
{
    struct tw_view before = {0};
    if (x->a == TW_NONE || x->b == TW_NONE)
        return 0;
    const struct tw_rec *r = &a->rec[x->a], *other = &b->rec[x->b];
    const bool left = r->phase == TWIN_PHASE_OPTIMIZER && other->phase == TWIN_PHASE_OPTIMIZER;
    if (r->kind != TWIN_KIND_MOMENT || !left || r->step == 0 || tw_rec_given_back(a, r))
        return 0;
    int rc = tw_view_load(c, a->proc, r->step - 1, r->step - 1, &before, err);
    for (size_t i = 0; rc == 0 && !*found && i < before.count; i++)
        if (before.rec[i].kind == TWIN_KIND_MOMENT && before.rec[i].phase == TWIN_PHASE_OPTIMIZER)
            *found = tw_cmp_text(c, "the optimizer state as step %u left it", r->step - 1);
    tw_view_free(&before);
    return rc;
}

/*
 * One run had failed by then, and its records end: what the other one went on to record was not
 * made of anything new. Sets *found for a record of one run alone behind the other's end. Arms are
 * left out.
 */
static void behind_the_end(struct tw_cmp *c, const struct tw_diff *x, const struct tw_view *a,
                           const struct tw_view *b, char **found)
{
    const struct tw_view *ended = x->a == TW_NONE ? a : b, *v;
    const struct tw_rec *r = tw_diff_rec(x, a, b, &v);
    bool alone = x->type == TWIN_FINDING_ONLY_A || x->type == TWIN_FINDING_ONLY_B;
    if (!alone || c->o->arms || ended->proc->info->steps > r->step ||
        !(ended == a ? c->failed_a : c->failed_b))
        return;
    *found = tw_cmp_text(c, "the end of %s, which failed", ended == a ? c->label_a : c->label_b);
}

/*
 * For a gradient that one run alone has: in the other one the operation that makes it did not run,
 * so no inputs of it were seen there. What decided that it runs (a branch, a set to None) lies
 * before it. NULL for any other difference, or when there is no memory.
 */
static char *say_before_alone(struct tw_cmp *c, const struct tw_diff *x, const struct tw_rec *r)
{
    bool alone = x->type == TWIN_FINDING_ONLY_A || x->type == TWIN_FINDING_ONLY_B;
    bool gradient = r->kind == TWIN_KIND_GRADIENT || r->kind == TWIN_KIND_GRADIENT_LOCAL;
    return alone && gradient ? tw_cmp_text(c, "the forward of step %u", r->step) : NULL;
}

/* The value recorded last before the record at `index`, in its step, that it may be made of: not
 * one beside it, of its own sort. It is equal. */
static char *say_value_before(struct tw_cmp *c, const struct tw_view *v, size_t index)
{
    const struct tw_rec *r = &v->rec[index];
    for (size_t i = index; i-- > 0;) {
        const struct tw_rec *x = &v->rec[i];
        bool beside = x->phase == r->phase && x->kind == r->kind;
        if (x->step == r->step && !beside && (is_computed(v, x) || x->kind == TWIN_KIND_BATCH))
            return tw_rec_say(c, v, x);
    }
    return say_end_of_step_before(c, r->step);
}

/*
 * PyTorch's operations read with how many threads they are to compute, so what a process computed
 * with another number was not made of equal inputs. An operation whose own inputs were seen is left
 * out: it is the place, and the number is said in a note. Sets *from, and *by: with how many.
 */
static void other_threads(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                          const struct tw_view *v, const struct tw_rec *r, char **from, char **by)
{
    if (r->phase != TWIN_PHASE_KERNEL && is_computed(v, r))
        *by = tw_threads_unlike(c, a->proc, b->proc);
    if (*by)
        *from = say_value_before(c, v, (size_t)(r - v->rec));
}

/* "gradient w of step 3, by 1 thread of PyTorch in run 1 and 2 in run 2". by: NULL: only what it
 * is. Takes `what` over. */
static char *say_with(struct tw_cmp *c, char *what, const char *by)
{
    if (!what || !by)
        return what;
    char *text = tw_cmp_text(c, "%s, by %s", what, by);
    tw_free(what);
    return text;
}

/*
 * Is it of a sort that lines of the job make? These lines are no records: a data set holds what it
 * likes, an option sets a learning rate, first weights are read from a file or drawn from a
 * generator that nobody saw. So such a thing is no origin, also where all that was seen before it
 * is equal. A value that names what it was made of is left to its links.
 */
static bool is_made_by_lines(const struct tw_view *v, const struct tw_rec *r)
{
    if (tw_rec_given_back(v, r))
        return false;
    switch (r->kind) {
    case TWIN_KIND_BATCH:
    case TWIN_KIND_INDICES: return r->phase == TWIN_PHASE_DATA;
    case TWIN_KIND_HYPER: return true;
    case TWIN_KIND_VALUE: return r->link_count == 0;
    default: return r->phase == TWIN_PHASE_INIT && r->kind != TWIN_KIND_STATE;
    }
}

/*
 * Asks one reason after the other and stops at the first that holds: what kind of record it is,
 * then what it is made from, then what the agents noted that they cannot see.
 */
int tw_origin_judge(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                    const struct tw_diff *x, struct twin_finding *f, struct twin_error *err)
{
    char *from = NULL, *by = NULL;
    const struct tw_view *v;
    int rc = 0;
    if (f->role != TWIN_ORIGIN)
        return 0;
    const struct tw_rec *named = tw_diff_rec(x, a, b, &v);
    held_at_the_end(v, v == a ? x->a : x->b, c, &from);
    if (from)
        ; /* nothing is to be asked of single records */
    else if (tw_is_written(named->phase, named->kind))
        from = say_before_writing(c, v, named);
    else if (x->a != TW_NONE)
        only_shown(c, a, x->a, &from);
    else
        only_shown(c, b, x->b, &from);
    if (!from)
        behind_the_end(c, x, a, b, &from);
    if (!from && is_made_by_lines(v, named)) /* maybe long before it was used, or recorded */
        from = tw_cmp_copy(c, "the beginning");
    if (!from)
        from = say_before_alone(c, x, named);
    if (!from && x->a != TW_NONE)
        rc = hidden_input(c, a, x->a, &from, err);
    if (rc == 0 && !from && x->b != TW_NONE)
        rc = hidden_input(c, b, x->b, &from, err);
    if (rc == 0 && !from)
        hidden_at_seam(c, a, b, named, &from);
    if (rc == 0 && !from)
        rc = moment_unseen(c, x, a, b, &from, err);
    if (rc == 0 && !from)
        unseen_input(c, v, named, &from);
    if (rc == 0 && !from)
        unseen_gradient(c, v, named, &from);
    if (rc == 0 && !from)
        unseen_writing(c, a->proc, v, named, &from);
    if (rc == 0 && !from)
        unseen_writing(c, b->proc, v, named, &from);
    if (rc == 0 && !from)
        other_threads(c, a, b, v, named, &from, &by);
    if (rc == 0 && from) {
        char *to = say_with(c, tw_rec_say(c, v, named), by);
        if (to && v == b && a->count && b->count && a->rec[0].step != b->rec[0].step) {
            char *whose = tw_cmp_text(c, "%s, as %s counts its steps", to, c->label_b);
            tw_free(to);
            to = whose;
        }
        tw_finding_between(c, f, from, to);
    }
    tw_free(by);
    return rc;
}
