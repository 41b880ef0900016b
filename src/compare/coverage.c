/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Was enough seen to say "same"? Inputs and results (weights, gradients, outputs, or values that the job records itself)
 * at every step of every process that has steps; in a job without steps, in its records as a whole.
 */
#include "internal.h"

#include <stdio.h>
#include <string.h>

#define BIT(p) (1u << (p))
#define RESULTS (BIT(TWIN_PHASE_FORWARD) | BIT(TWIN_PHASE_BACKWARD) | BIT(TWIN_PHASE_OPTIMIZER) | BIT(TWIN_PHASE_KERNEL))
#define INPUTS (BIT(TWIN_PHASE_DATA) | BIT(TWIN_PHASE_KERNEL))

struct kinds { const struct tw_cmp *c; struct tw_proc *p; uint32_t inputs, results, values; size_t records, unread, ignored; };

/* What a process ever showed. Values of the job's own (twin_record) stand for inputs and results alike: it chose them. */
static int look(void *user, const struct twin_trace_record *r)
{
    struct kinds *k = user;
    const struct twin_series *s = twin_trace_series(k->p->trace, r->series);
    k->unread += (r->flags & TWIN_REC_UNOBSERVED) != 0;
    if (r->flags & TWIN_REC_UNOBSERVED || s->phase >= TWIN_PHASE_COUNT)
        return 0;
    if (BIT(s->phase) & INPUTS)
        k->inputs |= BIT(s->phase); /* also one that --ignore names: whoever names it answers for it */
    if (k->c->o->ignore_count && tw_cmp_ignored(k->c, s->phase, s->kind, twin_trace_string(k->p->trace, s->name))) {
        k->ignored++;
        return ++k->records, 0;
    }
    if (s->kind == TWIN_KIND_VALUE)
        k->values |= BIT(s->phase);
    else if (BIT(s->phase) & RESULTS && s->kind != TWIN_KIND_HYPER)
        k->results |= BIT(s->phase);
    return ++k->records > 200000 && k->c->o->ignore_count == 0; /* enough to know what kinds there are */
}

struct holes { size_t inputs, results, unknown; uint32_t first_input, first_result; };

static void count_hole(size_t *count, uint32_t *first, size_t step)
{
    if ((*count)++ == 0)
        *first = (uint32_t)step;
}

/* A step without a forward pass of its own (the second optimizer of an iteration) needs no batch of its own. */
static struct holes find_holes(const struct tw_steps *t, size_t n, const struct kinds *k)
{
    struct holes h = {0};
    bool inputs_before = false;
    for (size_t i = 0; i < n && i < t->n; i++) {
        const struct tw_step_entry *e = &t->step[i];
        if (!e->known) {
            h.unknown += !t->sampled;
            continue;
        }
        bool own = e->phases & k->values, inputs = e->phases & INPUTS;
        bool forward = e->phases & BIT(TWIN_PHASE_FORWARD);
        if (!own && !(inputs || (inputs_before && !forward)))
            count_hole(&h.inputs, &h.first_input, i);
        if (!own && !(e->phases & RESULTS & (k->results | k->values)))
            count_hole(&h.results, &h.first_result, i);
        inputs_before |= inputs;
    }
    return h;
}

static void say_holes(struct tw_cmp *c, const struct tw_proc *p, const struct holes *h, size_t n)
{
    const char *role = tw_proc_role(p);
    char where[64] = "";
    if (p->info->world > 1 || strcmp(role, "main") != 0)
        snprintf(where, sizeof where, " of rank %d (%.30s)", p->rank, role);
    if (h->inputs == n)
        tw_cmp_unseen(c, "batches or inputs: at no step%s", where);
    else if (h->inputs)
        tw_cmp_unseen(c, "batches or inputs: not at %zu of %zu steps%s, first at step %u", h->inputs, n, where, h->first_input);
    if (h->results == n)
        tw_cmp_unseen(c, "weights, gradients or outputs: at no step%s", where);
    else if (h->results)
        tw_cmp_unseen(c, "weights, gradients or outputs: not at %zu of %zu steps%s, first at step %u", h->results, n, where, h->first_result);
    if (h->unknown)
        tw_cmp_unseen(c, "%zu of %zu steps%s lie in damaged bytes", h->unknown, n, where);
}

/* A process that has steps. Adds up the records that were compared. */
static void stepping(struct tw_cmp *c, const struct tw_scan *s, const struct kinds *k)
{
    struct tw_steps t;
    size_t n = (size_t)s->steps_compared, skipped = s->shift < 0 ? (size_t)-s->shift : 0;
    if (tw_steps_load(c, s->pair->a, &t, NULL) != 0)
        return;
    for (size_t i = skipped; i < skipped + n && i < t.n; i++)
        c->v->records_compared += t.step[i].records;
    if (skipped + n == t.n && !c->o->steps_given) { /* and what came after the last step */
        uint64_t all = 0, stored = s->pair->a->info->records + s->pair->a->info->dropped;
        for (size_t i = 0; i < t.n; i++)
            all += t.step[i].records;
        c->v->records_compared += stored > all && !t.sampled ? stored - all : 0;
    }
    struct holes h = find_holes(&t, skipped + n, k);
    say_holes(c, s->pair->a, &h, n);
    if (t.sampled)
        tw_cmp_note(c, "rank %d: what was seen was checked at 1,024 of %zu steps", s->pair->a->rank, t.n);
    tw_steps_free(&t);
}

void tw_coverage(struct tw_cmp *c, const struct tw_side *side, const struct tw_scan *scans, size_t count)
{
    bool inputs = false, results = false, own = false, as_one = side->steps == 0;
    size_t ignored = 0;
    for (size_t i = 0; i < count; i++) {
        struct kinds k = {.c = c, .p = scans[i].pair->a};
        twin_trace_walk(k.p->trace, look, NULL, &k, NULL);
        inputs |= k.inputs || k.values;
        results |= k.results || k.values;
        ignored += k.ignored;
        own |= k.values != 0;
        as_one |= scans[i].recut;
        if (k.unread)
            tw_cmp_unseen(c, "%zu records of rank %d whose contents could not be read", k.unread, k.p->rank);
        if (scans[i].tail_unknown && !scans[i].pair->auxiliary)
            tw_cmp_unseen(c, "rank %d (%s): what came after its last finished step", k.p->rank, tw_proc_role(k.p));
        bool by_step = k.p->info->steps > 0 && scans[i].steps_compared > 0 && !scans[i].recut;
        if (by_step && !scans[i].pair->auxiliary)
            stepping(c, &scans[i], &k);
        else
            c->v->records_compared += k.p->info->records;
    }
    tw_whole(c, scans, count);
    if (count == 0) {
        tw_cmp_unseen(c, "everything: no process of the job left a record");
        return;
    }
    if (as_one && !inputs)
        tw_cmp_unseen(c, "batches or inputs: no record of any");
    if (as_one && !results)
        tw_cmp_unseen(c, "weights, gradients or outputs: no record of any");
    if (ignored) {
        tw_cmp_note(c, "left out by --ignore: %zu records of each run", ignored);
        c->v->records_compared -= ignored < c->v->records_compared ? ignored : c->v->records_compared;
    }
    if (own)
        tw_cmp_note(c, "values that the job records itself were compared, too");
}

/* Is this a process that trains, as far as can be told: python, or the program that the job was started as? */
static bool is_trainer(const struct twin_run *run, const struct twin_run_process *p)
{
    const char *argv = p->argv ? p->argv : "";
    size_t n = strcspn(argv, " "), start = n;
    while (start > 0 && argv[start - 1] != '/')
        start--;
    const char *job = run->argc ? strrchr(run->argv[0], '/') : NULL;
    job = job ? job + 1 : run->argc ? run->argv[0] : "";
    return strncmp(argv + start, "python", 6) == 0 || (strlen(job) == n - start && strncmp(argv + start, job, n - start) == 0);
}

static void from_notes(struct tw_cmp *c, const struct tw_side *side, struct twin_trace *t)
{
    const char *key, *value;
    for (size_t i = 0; twin_trace_note(t, i, &key, &value); i++) {
        bool armed = strcmp(key, "armed") == 0, unarmed = strcmp(key, "unarmed") == 0;
        if (strcmp(key, "unseen") == 0 || strcmp(key, "agent.error") == 0 || strcmp(key, "agent.off") == 0)
            tw_cmp_unseen(c, "run %zu: %s%s", side->index + 1, strcmp(key, "unseen") == 0 ? "" : "the agent reported: ", value);
        while ((armed || unarmed) && *value) { /* one per line */
            size_t n = strcspn(value, "\n");
            tw_texts_add(c, armed ? &c->armed : &c->unarmed, tw_cmp_text(c, "%.*s", (int)(n < 4000 ? n : 4000), value));
            value += n + (value[n] == '\n');
        }
    }
}

void tw_coverage_notes(struct tw_cmp *c, const struct tw_side *side)
{
    struct twin_verdict *v = c->v;
    const struct twin_run *run = side->run;
    uint64_t hooks_ns = 0;
    for (size_t i = 0; i < side->count; i++) {
        const struct tw_proc *p = &side->proc[i];
        uint32_t step, dropped;
        from_notes(c, side, p->trace);
        v->lost_records += p->info->dropped;
        hooks_ns = p->info->observer_ns > hooks_ns ? p->info->observer_ns : hooks_ns;
        for (size_t g = 0; twin_trace_gap(p->trace, g, &step, &dropped) && v->gap_count < 1000; g++) {
            struct twin_gap_range *last = v->gap_count ? &v->gaps[v->gap_count - 1] : NULL;
            if (g > 0 && last && last->rank == p->rank && last->last_step + 1 >= step) {
                last->last_step = step;
                last->records += dropped;
                continue;
            }
            struct twin_gap_range *grown = tw_reallocarray(v->gaps, v->gap_count + 1, sizeof *grown);
            if (!grown) {
                c->oom = true;
                break;
            }
            v->gaps = grown;
            v->gaps[v->gap_count++] = (struct twin_gap_range){p->rank, step, step, dropped};
        }
    }
    if (run->wall_s > 0 && !(hooks_ns / 1e9 / run->wall_s <= v->overhead_ratio))
        v->overhead_ratio = (double)hooks_ns / 1e9 / run->wall_s;
    if (!run->agents)
        tw_cmp_unseen(c, "run %zu was not observed", side->index + 1);
    for (size_t i = 0; i < run->process_count; i++) {
        const struct twin_run_process *p = &run->processes[i];
        if (p->armed)
            continue;
        char *text = tw_cmp_text(c, "%.200s%s%s", p->argv ? p->argv : "a process", p->why ? ": " : "", p->why ? p->why : "");
        if (run->agents && text && is_trainer(run, p))
            tw_cmp_unseen(c, "agent not armed: %s", text);
        tw_texts_add(c, &c->unarmed, text);
    }
    for (size_t i = 0; i < run->note_count; i++)
        tw_cmp_note(c, "run %zu: %s", side->index + 1, run->notes[i]);
}
