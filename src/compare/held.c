/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients and optimizer state between runs of other numbers of ranks. Of weights range.c asks
 * whether every rank holds what rank 0 holds; of these it is asked here, in each step, before rank
 * 0's record may stand for all ranks:
 *
 * - optimizer state (moments, counts of steps) that rank 0 holds whole: every rank recorded the
 *   same of it. Where each rank holds its own (ZeroRedundancyOptimizer) it is not compared.
 * - a gradient that rank 0 holds whole: a run of one rank has nothing to reduce. Of several ranks
 * it is known to be recorded behind the reduction only where all of them noted that DDP averages
 * it, or that its parameter is replicated (replicas.h), and where they recorded the same. What was
 *   recorded before the reduction is of one rank's share of the batch, and is never compared.
 *
 * What ranks hold parts of is put together by shards.c: fully_shard and tensor parallelism leave a
 * part only when it is reduced. What should be alike and is not is a reason against "same"; where
 * the recording does not say enough, a note says that it was not compared.
 */
#include "replicas.h"
#include "shards.h"

#include "arms.h"
#include "phrase.h"

#include <stdlib.h>
#include <string.h>

static const char unreduced[] = "nothing says that they were recorded behind the reduction over "
                                "all ranks";
static const char several[] = "there are several of one name in a step, of other backward passes";
/* Said of no tensor: what it was written to became is a record of its own, which is compared, or
 * about which another of these reasons is said. */
static const char rewritten[] = "something wrote to them later in the step";
/* The agent does not see each write: to those of DTensors it is blind. */
static const char in_one_run[] = "something was seen to write to them behind the backward pass in "
                                 "one of the two runs alone";
static const char its_own[] = "each rank holds its own";
static const char not_at_end[] = "not every rank recorded it at the end of the job";
static const char no_steps[] = "not every rank of the run recorded steps";

/* ---- which records */

bool tw_is_updated_weight(const struct tw_view *v, const struct tw_rec *r, void *user)
{
    (void)user;
    return r->kind == TWIN_KIND_WEIGHT && !tw_rec_given_back(v, r) &&
           (r->phase == TWIN_PHASE_OPTIMIZER || r->phase == TWIN_PHASE_INIT);
}

bool tw_is_training_state(const struct tw_view *v, const struct tw_rec *r, void *user)
{
    if (r->kind == TWIN_KIND_MOMENT)
        return !tw_rec_given_back(v, r) &&
               (r->phase == TWIN_PHASE_OPTIMIZER || r->phase == TWIN_PHASE_INIT);
    if (r->kind == TWIN_KIND_GRADIENT)
        return r->phase == TWIN_PHASE_BACKWARD || r->phase == TWIN_PHASE_OPTIMIZER;
    return tw_is_updated_weight(v, r, user);
}

const char *twin_state_compared(bool gradients, bool moments)
{
    if (gradients && moments)
        return "weights, gradients and optimizer state";
    if (gradients)
        return "weights and gradients";
    return moments ? "weights and optimizer state" : "weights";
}

const char *tw_state_word(uint8_t kind)
{
    switch (kind) {
    case TWIN_KIND_GRADIENT: return "gradient ";
    case TWIN_KIND_MOMENT: return "optimizer state ";
    default: return "";
    }
}

/* ---- all ranks of a run */

void tw_ranks_free(struct tw_ranks *k)
{
    for (size_t i = 0; i < k->n; i++)
        tw_view_free(&k->view[i]);
    tw_free(k->view);
    tw_free(k->shared.token);
    *k = (struct tw_ranks){0};
}

/* Order of records: by token, then by occurrence. */
static int by_token(const void *x, const void *y)
{
    const struct tw_rec *a = x, *b = y;
    if (a->token != b->token)
        return a->token < b->token ? -1 : 1;
    return a->occurrence < b->occurrence ? -1 : a->occurrence > b->occurrence;
}

const struct tw_rec *tw_ranks_counterpart(const struct tw_view *v, const struct tw_rec *r)
{
    return v->count ? bsearch(r, v->rec, v->count, sizeof *r, by_token) : NULL;
}

void tw_say_lost_weights(struct tw_cmp *c, const struct tw_view *v, uint32_t step)
{
    if (v->dropped)
        tw_cmp_unseen(c,
                      "run %zu: %llu records of step %u of rank %d have no details: weights may be "
                      "among them",
                      v->proc->run + 1, (unsigned long long)v->dropped, step, v->proc->rank);
}

bool tw_adds_to(const struct tw_proc *p, const struct tw_proc *zero)
{
    return p->info->steps > 0 && p->attempt == zero->attempt && p->nth == zero->nth &&
           !tw_proc_is_loader(p) && strcmp(tw_proc_role(p), tw_proc_role(zero)) == 0;
}

/* The view of rank 0's process among those of all; NULL: it is not there. */
static const struct tw_view *own_view(const struct tw_ranks *k, const struct tw_proc *zero)
{
    for (size_t i = 0; i < k->n; i++)
        if (k->view[i].proc == zero)
            return &k->view[i];
    return NULL;
}

/* ---- what is left out */

static int by_number(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return a < b ? -1 : a > b;
}

/* Is it in a sorted list? */
static bool has_token(const struct tw_left_out *l, uint64_t token)
{
    return l->n && bsearch(&token, l->token, l->n, sizeof token, by_number);
}

bool tw_is_kept(const struct tw_view *v, const struct tw_rec *r, void *left_out)
{
    const struct tw_left_out *l = left_out;
    return l->n == 0 || !has_token(l, tw_tensor_token(v, r));
}

static void leave_out(struct tw_cmp *c, struct tw_left_out *l, uint64_t token)
{
    if (tw_cmp_room(c, &l->token, l->n, &l->room, sizeof *l->token))
        l->token[l->n++] = token;
}

void tw_left_out_sort(struct tw_left_out *l)
{
    if (l->n)
        qsort(l->token, l->n, sizeof *l->token, by_number);
}

/* ---- optimizer state that ranks share out */

/* What optimizer state is of: "0.weight" of "0.weight.exp_avg", in its scope. 0: no memory. */
static uint64_t owner_of(struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r)
{
    const char *name = tw_rec_name(v, r), *dot = strrchr(name, '.');
    char *owner = tw_printf("%.*s", (int)(dot ? (size_t)(dot - name) : strlen(name)), name);
    const uint64_t token =
        owner ? tw_key_hash(0, r->kind, owner, tw_rec_scope(v, r), tw_rec_role(v, r)) : 0;
    c->oom |= !owner;
    tw_free(owner);
    return token;
}

struct owned {
    uint64_t of;
    size_t rank; /* its index among the views */
};

static int by_owner(const void *x, const void *y)
{
    const struct owned *a = x, *b = y;
    if (a->of != b->of)
        return a->of < b->of ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Fills k->shared and k->own_moments. One rank alone that holds what the others do not is not
 * known to hold its own: they may lack it. */
static void find_own_state(struct tw_ranks *k)
{
    struct owned *o = NULL;
    size_t n = 0, room = 0, alone = k->n;
    for (size_t i = 0; i < k->n && k->n > 1; i++)
        for (size_t j = 0; j < k->view[i].count; j++) {
            const struct tw_rec *r = &k->view[i].rec[j];
            if (r->kind == TWIN_KIND_MOMENT && tw_cmp_room(k->c, &o, n, &room, sizeof *o))
                o[n++] = (struct owned){owner_of(k->c, &k->view[i], r), i};
        }
    if (n)
        qsort(o, n, sizeof *o, by_owner);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && o[end].of == o[i].of;)
            end++;
        if (o[end - 1].rank != o[i].rank) {
            leave_out(k->c, &k->shared, o[i].of);
            continue;
        }
        k->own_moments |= alone < k->n && alone != o[i].rank;
        alone = o[i].rank;
    }
    tw_left_out_sort(&k->shared);
    tw_free(o);
}

/* Is it optimizer state that a rank holds for itself, as others do of other tensors? */
static bool is_own(const struct tw_ranks *k, const struct tw_view *v, const struct tw_rec *r)
{
    return r->kind == TWIN_KIND_MOMENT && k->own_moments &&
           !has_token(&k->shared, owner_of(k->c, v, r));
}

int tw_ranks_load(struct tw_ranks *k, const struct tw_proc *zero, struct twin_error *err)
{
    k->view = tw_calloc(k->side->count, sizeof *k->view);
    if (!k->view)
        return tw_no_memory(err, "comparing the ranks of a run");
    for (size_t i = 0; i < k->side->count; i++) {
        struct tw_proc *p = &k->side->proc[i];
        if (!tw_adds_to(p, zero))
            continue;
        int rc = tw_view_load(k->c, p, k->step, k->step, &k->view[k->n], err);
        twin_trace_rest(p->trace); /* there may be more ranks than a process may have open files */
        if (rc != 0)
            return rc;
        struct tw_view *v = &k->view[k->n++];
        tw_say_lost_weights(k->c, v, k->step);
        tw_view_filter(v, tw_is_training_state, NULL);
        if (v->count)
            qsort(v->rec, v->count, sizeof *v->rec, by_token);
    }
    find_own_state(k);
    return 0;
}

static bool is_ignored(const struct tw_cmp *c, const struct tw_view *v, const struct tw_rec *r)
{
    return tw_cmp_ignored(c, r->phase, r->kind, tw_rec_name(v, r));
}

/* Records of one kind that were not compared for one reason. */
struct tw_not_held {
    enum twin_kind kind;
    const char *why;
    char *name; /* of the first of them */
    bool of[2]; /* in the first run at hand, in the second */
};

void tw_say_not_held(struct tw_cmp *c, const struct tw_side *side, const struct tw_view *v,
                     const struct tw_rec *r, const char *why)
{
    size_t i = 0;
    if (is_ignored(c, v, r))
        return;
    while (i < c->not_held_count &&
           (c->not_held[i].kind != r->kind || strcmp(c->not_held[i].why, why) != 0))
        i++;
    if (i == c->not_held_count) {
        if (!tw_cmp_room(c, &c->not_held, i, &c->not_held_room, sizeof *c->not_held))
            return;
        c->not_held[c->not_held_count++] = (struct tw_not_held){
            .kind = r->kind, .why = why, .name = tw_cmp_copy(c, tw_rec_name(v, r))};
    }
    c->not_held[i].of[side->index != c->run_a] = true;
}

void tw_not_held_told(struct tw_cmp *c)
{
    for (size_t i = 0; i < c->not_held_count; i++) {
        const struct tw_not_held *x = &c->not_held[i];
        const bool gradient = x->kind == TWIN_KIND_GRADIENT, both = x->of[0] && x->of[1];
        tw_cmp_note(c, "%s of %s%s%s, such as %.200s, %s not compared: %s",
                    gradient ? "gradients" : "optimizer state", x->of[0] ? c->label_a : c->label_b,
                    both ? " and " : "", both ? c->label_b : "", tw_text_or(x->name, ""),
                    gradient ? "were" : "was", x->why);
        tw_free(x->name);
    }
    tw_free(c->not_held);
    c->not_held = NULL;
    c->not_held_count = c->not_held_room = 0;
}

/* The token of the same gradient in the other phase in which gradients are recorded. */
static uint64_t in_other_phase(const struct tw_view *v, const struct tw_rec *r)
{
    const uint8_t phase = r->phase == TWIN_PHASE_BACKWARD ? TWIN_PHASE_OPTIMIZER
                                                          : TWIN_PHASE_BACKWARD;
    return tw_key_hash(phase, r->kind, tw_rec_name(v, r), tw_rec_scope(v, r), tw_rec_role(v, r));
}

void tw_leave_out_tensor(struct tw_cmp *c, struct tw_left_out *l, const struct tw_view *v,
                         const struct tw_rec *r)
{
    leave_out(c, l, tw_tensor_token(v, r));
    if (r->kind == TWIN_KIND_GRADIENT)
        leave_out(c, l, in_other_phase(v, r));
}

/* What ranks should hold alike and do not: a reason, the same for each step, but for what the user
 * does not ask about. */
static void say_other(const struct tw_ranks *k, const struct tw_view *v, const struct tw_rec *r,
                      int32_t rank, const char *what)
{
    if (is_ignored(k->c, v, r))
        return;
    tw_cmp_unseen(k->c, "run %zu: %s%.200s: rank %d %s", k->side->index + 1, tw_state_word(r->kind),
                  tw_rec_name(v, r), rank, what);
}

/* ---- gradients: recorded behind the reduction? */

void tw_side_replicas(struct tw_cmp *c, struct tw_side *side)
{
    if (!side->replicas_read)
        tw_replicas_noted(c, side, &side->replica, &side->replicas);
    side->replicas_read = true;
}

/* Do all ranks of the run say, of this step, that they hold this group's tensors alike? */
static bool holds_in(const struct tw_replica *g, const struct tw_ranks *k,
                     const struct tw_proc *zero)
{
    if (g->attempt != zero->attempt || g->members != (size_t)k->side->world || k->step < g->from)
        return false;
    for (size_t i = 0; i < g->members; i++) {
        const struct tw_replica_member *m = &g->member[i];
        if (!m->proc || m->otherwise || m->several || m->local <= k->step || m->end <= k->step)
            return false;
    }
    return true;
}

static bool is_reduced(const struct tw_ranks *k, const struct tw_proc *zero,
                       const struct tw_view *v, const struct tw_rec *r)
{
    uint32_t index;
    for (size_t i = 0; i < k->side->replicas; i++) {
        const struct tw_replica *g = &k->side->replica[i];
        if (holds_in(g, k, zero) && strcmp(g->scope, tw_rec_scope(v, r)) == 0 &&
            tw_replica_name(g, tw_rec_name(v, r), &index))
            return true;
    }
    return false;
}

/* Has any rank several records of this gradient in the step? */
static bool are_several(const struct tw_ranks *k, const struct tw_rec *r)
{
    const struct tw_rec second = {.token = r->token, .occurrence = 1};
    for (size_t i = 0; i < k->n; i++)
        if (tw_ranks_counterpart(&k->view[i], &second))
            return true;
    return false;
}

/* Why a gradient of rank 0 may be another thing than what the optimizer read, reduced; NULL: it is
 * that. */
static const char *why_not_read(const struct tw_ranks *k, const struct tw_view *own,
                                const struct tw_view *v, const struct tw_rec *r)
{
    const struct tw_rec other = {.token = in_other_phase(v, r)};
    if (are_several(k, r))
        return several;
    const struct tw_rec *x = tw_ranks_counterpart(own, &other);
    if (x && x->seq > r->seq)
        return rewritten;
    return k->side->world == 1 || tw_is_shard(r) || is_reduced(k, own->proc, v, r) ? NULL
                                                                                   : unreduced;
}

/* The sorted tokens of the records of one kind without these flags. */
static struct tw_left_out tokens_of(struct tw_cmp *c, const struct tw_view *v, enum twin_kind kind,
                                    uint32_t without)
{
    struct tw_left_out l = {0};
    for (size_t i = 0; i < v->count; i++)
        if (v->rec[i].kind == kind && !(v->rec[i].flags & without))
            leave_out(c, &l, v->rec[i].token);
    tw_left_out_sort(&l);
    return l;
}

void tw_held_in_one_phase(struct tw_cmp *c, const struct tw_side *sa, const struct tw_view *a,
                          const struct tw_side *sb, const struct tw_view *b, struct tw_left_out *l)
{
    const struct tw_side *side[2] = {sa, sb};
    const struct tw_view *view[2] = {a, b};
    struct tw_left_out token[2] = {tokens_of(c, a, TWIN_KIND_GRADIENT, 0),
                                   tokens_of(c, b, TWIN_KIND_GRADIENT, 0)};
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < view[i]->count && token[1 - i].n; k++) {
            const struct tw_rec *r = &view[i]->rec[k];
            const struct tw_left_out *theirs = &token[1 - i];
            if (r->kind != TWIN_KIND_GRADIENT || has_token(theirs, r->token) ||
                !has_token(theirs, in_other_phase(view[i], r)))
                continue;
            tw_say_not_held(c, side[i], view[i], r, in_one_run);
            tw_leave_out_tensor(c, l, view[i], r);
        }
    tw_free(token[0].token);
    tw_free(token[1].token);
}

bool tw_held_both(struct tw_cmp *c, const struct tw_view *a, const struct tw_view *b,
                  enum twin_kind kind)
{
    struct tw_left_out theirs = tokens_of(c, b, kind, TWIN_REC_UNOBSERVED);
    bool found = false;
    for (size_t i = 0; i < a->count && theirs.n && !found; i++) {
        const struct tw_rec *r = &a->rec[i];
        found = r->kind == kind && !(r->flags & TWIN_REC_UNOBSERVED) && !is_ignored(c, a, r) &&
                has_token(&theirs, r->token);
    }
    tw_free(theirs.token);
    return found;
}

/* ---- rank 0 for all */

/* Does every rank hold what rank 0 holds? Else a reason, or a note, was given. */
static bool all_hold(const struct tw_ranks *k, const struct tw_view *own, const struct tw_view *v,
                     const struct tw_rec *r, bool tail)
{
    if (k->n != (size_t)k->side->world) {
        tw_say_not_held(k->c, k->side, v, r, no_steps);
        return false;
    }
    for (size_t i = 0; i < k->n; i++) {
        const struct tw_rec *x = tw_ranks_counterpart(&k->view[i], r);
        const int32_t rank = k->view[i].proc->rank;
        if (&k->view[i] == own || (x && x->content == r->content && x->flags == r->flags))
            continue;
        if (!x && tail)
            tw_say_not_held(k->c, k->side, v, r, not_at_end);
        else if (!x && is_own(k, v, r))
            tw_say_not_held(k->c, k->side, v, r, its_own);
        else if (!x)
            say_other(k, v, r, rank, "recorded nothing of it, and rank 0 did");
        else if (x->flags & TWIN_REC_UNOBSERVED)
            say_other(k, v, r, rank, "could not read it");
        else
            say_other(k, v, r, rank, "holds other values than rank 0");
        return false;
    }
    return true;
}

/* Says of what other ranks hold whole, and rank 0 does not, that it was compared with nothing. The
 * other run may well have it, which is no difference. */
static void leave_out_others(const struct tw_ranks *k, const struct tw_view *own,
                             struct tw_left_out *l)
{
    for (size_t i = 0; i < k->n; i++)
        for (size_t j = 0; j < k->view[i].count; j++) {
            const struct tw_view *v = &k->view[i];
            const struct tw_rec *r = &v->rec[j];
            if (r->kind == TWIN_KIND_WEIGHT || tw_is_shard(r) || tw_ranks_counterpart(own, r))
                continue;
            if (r->kind == TWIN_KIND_GRADIENT && are_several(k, r))
                tw_say_not_held(k->c, k->side, v, r, several);
            else if (r->kind == TWIN_KIND_GRADIENT && !is_reduced(k, own->proc, v, r))
                tw_say_not_held(k->c, k->side, v, r, unreduced);
            else if (is_own(k, v, r))
                tw_say_not_held(k->c, k->side, v, r, its_own);
            else
                say_other(k, v, r, v->proc->rank, "recorded some of it, and rank 0 nothing");
            tw_leave_out_tensor(k->c, l, v, r);
        }
}

void tw_held_alike(const struct tw_ranks *k, const struct tw_view *zero, bool tail,
                   struct tw_left_out *l, struct tw_left_out *here)
{
    const struct tw_view *own = own_view(k, zero->proc);
    if (own && !tail)
        leave_out_others(k, own, l);
    for (size_t i = 0; i < zero->count; i++) {
        const struct tw_rec *r = &zero->rec[i];
        const char *why = NULL;
        if (r->kind == TWIN_KIND_WEIGHT || (tw_is_shard(r) && r->kind != TWIN_KIND_GRADIENT))
            continue;
        if (own && r->kind == TWIN_KIND_GRADIENT)
            why = why_not_read(k, own, zero, r);
        if (why && why != rewritten)
            tw_say_not_held(k->c, k->side, zero, r, why);
        if (why == rewritten)
            leave_out(k->c, here, r->token);
        else if (!own || why || (!tw_is_shard(r) && !all_hold(k, own, zero, r, tail)))
            tw_leave_out_tensor(k->c, l, zero, r);
    }
}
