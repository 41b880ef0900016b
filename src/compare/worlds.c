/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arms whose numbers of ranks differ, or whose ranks hold other parts of weights: of them weights,
 * gradients behind the reduction and optimizer state can be compared, step by step, those of rank 0
 * for all. pair.c compares the two rank 0 here; whether the other ranks hold what rank 0 holds is
 * asked by range.c of weights, by held.c of the rest. Tensors that are cut over ranks are put
 * together before (shards.c, turns.c).
 */
#include "shards.h"

#include "arms.h"
#include "phrase.h"
#include "scan.h"

bool tw_weights_alone(const struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b)
{
    if (!c->o->arms)
        return false;
    if (a->world != b->world)
        return true;
    for (size_t i = 0; i < a->count; i++)
        for (size_t k = 0; k < b->count; k++) {
            struct tw_proc *p = &a->proc[i], *q = &b->proc[k];
            if (p->rank == q->rank && tw_adds_to(p, q) && tw_cut_otherwise(p, q))
                return true;
        }
    return false;
}

/* For tw_view_filter(): what this process holds whole. */
static bool is_whole(const struct tw_view *v, const struct tw_rec *r, void *user)
{
    (void)v, (void)user;
    return !tw_is_shard(r);
}

static bool holds_parts(const struct tw_view *v)
{
    for (size_t i = 0; i < v->count; i++)
        if (tw_is_shard(&v->rec[i]))
            return true;
    return false;
}

static void keep_only(struct tw_view *v, struct tw_left_out *l)
{
    tw_left_out_sort(l);
    tw_view_filter(v, tw_is_kept, l);
}

/*
 * Leaves of rank 0's views of one step what stands for all ranks of its side: the wholes in the
 * place of its parts, and what every rank holds alike. What one side does not have so is left out
 * of both.
 */
static int stand_for_all(struct tw_cmp *c, const struct tw_side *sa, const struct tw_side *sb,
                         struct tw_view *a, uint32_t step_a, struct tw_view *b, uint32_t step_b,
                         bool tail, struct twin_error *err)
{
    struct tw_ranks ka = {.c = c, .side = sa, .step = step_a};
    struct tw_ranks kb = {.c = c, .side = sb, .step = step_b};
    struct tw_left_out l = {0}, of_a = {0}, of_b = {0}; /* of both, of one side alone */
    int rc = tw_ranks_load(&ka, a->proc, err);
    if (rc == 0)
        rc = tw_ranks_load(&kb, b->proc, err);
    if (rc == 0) {
        tw_held_alike(&ka, a, tail, &l, &of_a);
        tw_held_alike(&kb, b, tail, &l, &of_b);
        keep_only(a, &of_a);
        keep_only(b, &of_b);
        rc = tw_shards_whole(&ka, a, &l, err);
    }
    if (rc == 0)
        rc = tw_shards_whole(&kb, b, &l, err);
    keep_only(a, &l);
    keep_only(b, &l);
    if (rc == 0)
        tw_held_in_one_phase(c, sa, a, sb, b, &l);
    keep_only(a, &l);
    keep_only(b, &l);
    if (rc == 0 && c->oom)
        rc = tw_no_memory(err, "comparing the ranks of two runs");
    tw_ranks_free(&ka);
    tw_ranks_free(&kb);
    tw_free(l.token);
    tw_free(of_a.token);
    tw_free(of_b.token);
    return rc;
}

/*
 * Loads what is compared of one step of both, wholes in place of parts. Without sides that is the
 * weights that rank 0 holds whole. *shards: some were parts. tail: that is what came after the last
 * step, and a side may have recorded nothing there.
 */
static int load_state(struct tw_cmp *c, const struct tw_pair *p, const struct tw_side *sa,
                      const struct tw_side *sb, uint32_t step_a, uint32_t step_b, bool tail,
                      struct tw_view *a, struct tw_view *b, struct tw_scan *out, bool *shards,
                      size_t *by_turns, struct twin_error *err)
{
    const bool all = sa && sb;
    int rc = tw_view_load(c, p->a, step_a, step_a, a, err);
    if (rc == 0)
        rc = tw_view_load(c, p->b, step_b, step_b, b, err);
    tw_view_filter(a, all ? tw_is_training_state : tw_is_updated_weight, NULL);
    tw_view_filter(b, all ? tw_is_training_state : tw_is_updated_weight, NULL);
    if (tail)
        out->tail_seen = out->tail_compared = a->count > 0 && b->count > 0;
    if (rc != 0 || (tail && !out->tail_seen))
        return rc;
    /* also where nothing says which */
    *shards = out->added_up || holds_parts(a) || holds_parts(b);
    if (all)
        rc = stand_for_all(c, sa, sb, a, step_a, b, step_b, tail, err);
    tw_view_filter(a, is_whole, NULL);
    tw_view_filter(b, is_whole, NULL);
    if (rc == 0 && *shards)
        rc = tw_turns_join(c, a, b, out, by_turns, err);
    return rc;
}

static void count_step(struct tw_in_steps *in, uint32_t step)
{
    in->first = in->n ? in->first : step;
    in->last = step;
    in->n++;
}

void tw_worlds_count(struct tw_cmp *c, struct tw_scan *s, uint32_t step, const struct tw_view *a,
                     const struct tw_view *b)
{
    const bool gradients = tw_held_both(c, a, b, TWIN_KIND_GRADIENT);
    const bool moments = tw_held_both(c, a, b, TWIN_KIND_MOMENT);
    const bool tail = step >= s->pair->a->info->steps;
    s->gradients |= gradients;
    s->moments |= moments;
    if (tail || step < s->looked_to)
        return;
    s->looked_to = step + 1;
    s->looked++;
    if (gradients)
        count_step(&s->of_gradients, step);
    if (moments)
        count_step(&s->of_moments, step);
}

/*
 * Batches and activations are other ones in each number of ranks, and were not compared: so nothing
 * is an origin here.
 */
static void leave_open(struct tw_cmp *c, const struct tw_scan *s, struct twin_finding *f)
{
    const bool entered = f->phase != TWIN_PHASE_INIT && f->step_a > 0 &&
                         tw_weights_in_each(s, f->step_a - 1, f->step_a);
    f->role = TWIN_ROLE_UNKNOWN;
    if (entered)
        tw_finding_between(
            c, f, tw_cmp_text(c, "the weights as step %u left them", f->step_a - 1),
            tw_cmp_text(c, "%s%.120s of step %u",
                        f->kind == TWIN_KIND_WEIGHT ? "weight " : tw_state_word((uint8_t)f->kind),
                        f->name ? f->name : "", f->step_a));
}

/*
 * Compares the weights of step `s` of a. tail: that is what came after the last step, and a side
 * that recorded nothing there is not compared. by_turns: how many large ones were left out of it.
 */
static int compare_weights(struct tw_cmp *c, const struct tw_pair *p, const struct tw_side *sa,
                           const struct tw_side *sb, uint32_t s, bool tail, struct tw_scan *out,
                           size_t *by_turns, struct twin_error *err)
{
    const uint32_t step_b = (uint32_t)(s + out->shift);
    struct tw_view a = {0}, b = {0};
    bool shards = false;
    *by_turns = 0;
    int rc = load_state(c, p, sa, sb, s, step_b, tail, &a, &b, out, &shards, by_turns, err);
    if (rc != 0 || (tail && !out->tail_seen))
        goto out;
    out->undecided += a.dropped + b.dropped > 0;
    rc = tw_scan_views(c, &a, &b, NULL, NULL, out, err);
    tw_worlds_count(c, out, s, &a, &b); /* what is said of the steps before it is said by now */
    for (size_t i = 0; rc == 0 && shards && sa && out->found && i < out->origins.n; i++)
        tw_shards_name(c, sa, &a, sb, &b, &out->origins.f[i]);
    for (size_t i = 0; rc == 0 && out->found && i < out->origins.n; i++)
        leave_open(c, out, &out->origins.f[i]);
    out->added_up = shards && sa;
    if (tail && !out->found && (out->shares == 0 || out->shared[out->shares - 1].step != s))
        out->tail_seen = out->tail_compared = false; /* all of it was left out */
out:
    tw_view_free(&a);
    tw_view_free(&b);
    return rc;
}

int tw_weights_step(struct tw_cmp *c, const struct tw_scan *s, uint32_t step, struct tw_view *a,
                    struct tw_view *b, struct tw_stepdiff *d, size_t *left_out,
                    struct twin_error *err)
{
    struct tw_scan own = {.pair = s->pair, .shift = s->shift, .added_up = s->added_up};
    const bool tail = step == s->pair->a->info->steps;
    bool shards = false;
    *left_out = 0;
    *a = *b = (struct tw_view){0};
    *d = (struct tw_stepdiff){0};
    int rc = load_state(c, s->pair, s->side_a, s->side_b, step, (uint32_t)(step + s->shift), tail,
                        a, b, &own, &shards, left_out, err);
    tw_scan_free(&own);
    if (rc == 0 && tail && (!a->count || !b->count))
        a->count = b->count = 0; /* what one alone recorded at its end was compared with nothing */
    if (rc == 0)
        rc = tw_stepdiff_make(c, a, b, d);
    if (rc == 0) {
        tw_causes_mark(d, a, b);
        return 0;
    }
    tw_view_free(a);
    tw_view_free(b);
    tw_stepdiff_free(d);
    return rc;
}

/* Did every process of this side end by itself, so that what it recorded at its end is all there?
 */
static bool ended(const struct tw_side *side)
{
    bool all = tw_side_complete(side) && !tw_side_failed(side);
    for (size_t i = 0; i < side->count; i++)
        all &= side->proc[i].info->closed || side->proc[i].info->steps == 0;
    return all;
}

int tw_weights_only(struct tw_cmp *c, const struct tw_pair *p, const struct tw_side *sa,
                    const struct tw_side *sb, int64_t shift, struct tw_scan *out,
                    struct twin_error *err)
{
    int64_t end = (int64_t)p->a->info->steps, end_b = (int64_t)p->b->info->steps - shift;
    const bool to_the_end = end == end_b && !c->o->steps_given;
    size_t by_turns = 0;
    uint64_t steps_by_turns = 0;
    int rc = 0;
    out->pair = p;
    out->shift = shift;
    out->weights_only = true;
    out->side_a = sa;
    out->side_b = sb;
    out->added_up = sa && sb && (tw_side_has_shards(sa) || tw_side_has_shards(sb));
    end = end < end_b ? end : end_b;
    end = c->o->steps_given && end > c->o->steps ? c->o->steps : end;
    const int64_t begin = shift < 0 ? -shift : 0;
    out->steps_compared = end > begin ? (uint64_t)(end - begin) : 0;
    out->first = (uint64_t)begin;
    out->end = end > begin ? (uint64_t)end : out->first;
    for (int64_t s = begin; rc == 0 && s < end && !out->found; s++) {
        rc = compare_weights(c, p, sa, sb, (uint32_t)s, false, out, &by_turns, err);
        steps_by_turns += by_turns > 0;
    }
    /* what they recorded at the end of the job */
    if (rc == 0 && !out->found && to_the_end && end > begin && sa && sb && ended(sa) && ended(sb)) {
        size_t left_out;
        rc = compare_weights(c, p, sa, sb, (uint32_t)end, true, out, &left_out, err);
        by_turns = out->tail_seen ? left_out : by_turns;
    }
    if (rc == 0)
        tw_turns_say(c, out, steps_by_turns, by_turns);
    return rc;
}

/* ---- what is said of it */

/* One kind, in all scans of two runs. */
struct of_kind {
    const char *name;
    bool any;
    struct tw_in_steps in;
};

static void add_scan(struct of_kind *k, bool any, const struct tw_in_steps *in)
{
    k->any |= any;
    if (in->n == 0)
        return;
    k->in.first = k->in.n && k->in.first < in->first ? k->in.first : in->first;
    k->in.last = k->in.n && k->in.last > in->last ? k->in.last : in->last;
    k->in.n += in->n;
}

/* ", gradients in 2 of 4, the first step 1 and the last step 3". */
static void say_some(struct tw_buf *b, const struct of_kind *k, uint64_t looked)
{
    if (!k->any || k->in.n == looked)
        return;
    tw_buf_printf(b, "%s, %s", b->len ? "" : " in every step", k->name);
    if (k->in.n == 0)
        tw_buf_puts(b, " at the end of the job alone");
    else if (k->in.n == 1)
        tw_buf_printf(b, " in 1 of %llu, step %u", (unsigned long long)looked, k->in.first);
    else
        tw_buf_printf(b, " in %llu of %llu, the first step %u and the last step %u",
                      (unsigned long long)k->in.n, (unsigned long long)looked, k->in.first,
                      k->in.last);
}

void tw_worlds_say(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                   const struct tw_scan *scans, size_t n)
{
    const bool cut = tw_side_has_shards(a) || tw_side_has_shards(b);
    struct of_kind g = {.name = "gradients"}, m = {.name = "optimizer state"};
    struct tw_buf some = {0};
    uint64_t looked = 0;
    for (size_t i = 0; i < n; i++) {
        looked += scans[i].looked;
        add_scan(&g, scans[i].gradients, &scans[i].of_gradients);
        add_scan(&m, scans[i].moments, &scans[i].of_moments);
    }
    const bool gradients = g.any && g.in.n == looked, moments = m.any && m.in.n == looked;
    c->worlds++;
    c->worlds_gradients.every += gradients;
    c->worlds_gradients.any += g.any;
    c->worlds_moments.every += moments;
    c->worlds_moments.any += m.any;
    say_some(&some, &g, looked);
    say_some(&some, &m, looked);
    const char *what = twin_state_compared(gradients, moments);
    const char *parts = cut ? ", and those that the ranks hold parts of," : "";
    const char *more = some.data ? some.data : "";
    if (a->world != b->world)
        tw_cmp_note(c, "%s has %d rank%s, %s %d: only rank 0's %s%s can be compared%s", c->label_a,
                    a->world, tw_plural_s(a->world), c->label_b, b->world, what, parts, more);
    else
        tw_cmp_note(c,
                    "the ranks of %s and %s hold other parts of weights: only rank 0's %s%s can be "
                    "compared%s",
                    c->label_a, c->label_b, what, parts, more);
    tw_buf_free(&some);
}
