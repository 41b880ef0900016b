/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Was enough seen to say "same"? Inputs and results (weights, gradients, outputs, or values that
 * the job records itself) at every step of every process that has steps; in a job without steps, in
 * its records as a whole.
 */
#include "internal.h"
#include "printed.h"
#include "scan.h"

#include "phrase.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(p) (1u << (p))
/* The phases whose records are results of a step, and those whose records are its inputs. An
 * operation (level ops) has both. */
#define RESULTS                                                                       \
    (BIT(TWIN_PHASE_FORWARD) | BIT(TWIN_PHASE_BACKWARD) | BIT(TWIN_PHASE_OPTIMIZER) | \
     BIT(TWIN_PHASE_KERNEL))
#define INPUTS (BIT(TWIN_PHASE_DATA) | BIT(TWIN_PHASE_KERNEL))

/* What one process recorded where it was compared, as bits of phases: inputs, results, and values
 * that the job records itself; and whether contents of messages over MPI are among it. */
struct kinds {
    const struct tw_cmp *c;
    struct tw_proc *p;
    uint64_t first, end; /* steps that were compared: [first, end) */
    bool tail;           /* and what came after the last one */
    uint32_t inputs, results, values;
    bool messages;
    size_t unread, ignored;
    /* of the ignored ones: those of steps that are equal as a whole */
    size_t out_of_equal;
    const struct tw_scan *scan;
    size_t next; /* in scan->shared */
};

/* Does the step lie in what was compared? */
static bool was_compared(const struct kinds *k, uint32_t step)
{
    bool after_the_last = step >= k->p->info->steps;
    return after_the_last ? k->tail : k->first <= step && step < k->end;
}

/* What a record with contents, of this series, shows. */
static void add_kind(struct kinds *k, const struct twin_series *s)
{
    if (s->kind == TWIN_KIND_VALUE)
        k->values |= BIT(s->phase);
    else if (BIT(s->phase) & RESULTS && s->kind != TWIN_KIND_HYPER)
        k->results |= BIT(s->phase);
    if (!k->messages && s->kind != TWIN_KIND_MATCH)
        k->messages = tw_is_mpi(s->phase, twin_trace_string(k->p->trace, s->name));
}

/* What a process showed, where it was compared. Values of the job's own (twin_record) stand for
 * inputs and results alike: it chose them. Every record is looked at: one that could not be read
 * may be the last. */
static int look_at_record(void *user, const struct twin_trace_record *r)
{
    struct kinds *k = user;
    const struct twin_series *s = twin_trace_series(k->p->trace, r->series);
    if (!was_compared(k, r->step))
        return 0;
    k->unread += (r->flags & TWIN_REC_UNOBSERVED) != 0;
    if (r->flags & TWIN_REC_UNOBSERVED || s->phase >= TWIN_PHASE_COUNT)
        return 0;
    if (BIT(s->phase) & INPUTS)
        /* also one that --ignore names: whoever names it answers for it */
        k->inputs |= BIT(s->phase);
    if (k->c->o->ignore_count &&
        tw_cmp_ignored(k->c, s->phase, s->kind, twin_trace_string(k->p->trace, s->name))) {
        const struct tw_scan *scan = k->scan;
        while (k->next + 1 < scan->shares && scan->shared[k->next].step < r->step)
            k->next++;
        k->ignored++;
        k->out_of_equal += scan->shares == 0 || scan->shared[k->next].step != r->step;
        return 0;
    }
    add_kind(k, s);
    return 0;
}

/* For twin_trace_walk_some, that is called for its series alone: what verifying has seen of a trace
 * all of which was compared. */
static bool look_at_series(void *user, uint32_t id, const struct twin_series *s)
{
    struct kinds *k = user;
    if (s->phase < TWIN_PHASE_COUNT && twin_trace_observed(k->p->trace, id)) {
        k->inputs |= BIT(s->phase) & INPUTS;
        add_kind(k, s);
    }
    return false;
}

static bool all_steps(const struct kinds *k)
{
    return k->first == 0 && k->end >= k->p->info->steps;
}

/* Fills *k from the records of its process. What verifying has counted is enough where every record
 * counts: then the trace is not read again. */
static int look_at_all(struct kinds *k)
{
    const struct twin_trace_summary *seen = twin_trace_summary(k->p->trace);
    const bool whole = all_steps(k);
    if (!seen || !whole || (seen->unfinished > 0 && !k->tail) || k->c->o->ignore_count > 0) {
        return twin_trace_walk(k->p->trace, look_at_record, NULL, k, NULL);
    }
    k->unread = seen->unobserved;
    return twin_trace_walk_some(k->p->trace, look_at_series, NULL, NULL, k, NULL);
}

/* Steps of one process in which inputs or results are missing, or of which nothing is known. */
struct holes {
    size_t inputs, results, unknown;
    uint32_t first_input, first_result;
};

/* Counts a step, and keeps the first. */
static void count_hole(size_t *count, uint32_t *first, size_t step)
{
    if ((*count)++ == 0)
        *first = (uint32_t)step;
}

/* What a step shows in both runs: all of it where its hashes are equal, else what both have of it.
 * *next: in s->shared. */
static struct tw_shared shared_in(const struct tw_scan *s, const struct tw_steps *t,
                                  const struct kinds *k, size_t step, size_t *next)
{
    assert(step < t->n && *next <= s->shares);
    const struct tw_step_entry *e = &t->step[step];
    while (*next < s->shares && s->shared[*next].step < step)
        ++*next;
    if (*next < s->shares && s->shared[*next].step == step)
        return s->shared[*next];
    if (s->weights_only)
        return (struct tw_shared){0};
    return (struct tw_shared){.records = e->records,
                              .phases = e->phases &
                                        (INPUTS | k->results | k->values | BIT(TWIN_PHASE_FORWARD)),
                              .values = (uint16_t)(e->phases & k->values)};
}

/* A step without a forward pass of its own (the second optimizer of an iteration) needs no batch of
 * its own. */
static struct holes find_holes(struct tw_scan *s, const struct tw_steps *t, const struct kinds *k)
{
    struct holes h = {0};
    bool inputs_before = false;
    size_t next = 0;
    for (size_t i = 0; i < k->end && i < t->n; i++) {
        const struct tw_step_entry *e = &t->step[i];
        const bool counts = i >= k->first;
        if (!e->known) {
            h.unknown += counts;
            continue;
        }
        const struct tw_shared x = shared_in(s, t, k, i, &next);
        /* Where the numbers of ranks differ, so do the batches: only weights are compared. */
        bool own = x.values != 0;
        bool inputs = x.phases & INPUTS || s->weights_only;
        bool forward = x.phases & BIT(TWIN_PHASE_FORWARD);
        if (counts && !own && !(inputs || (inputs_before && !forward)))
            count_hole(&h.inputs, &h.first_input, i);
        if (counts && !own && !(x.phases & RESULTS & (k->results | k->values)))
            count_hole(&h.results, &h.first_result, i);
        inputs_before |= inputs;
        s->records += counts ? x.records : 0;
    }
    return h;
}

/* What is missing in n steps, as reasons why "same" cannot be said. */
static void say_holes(struct tw_cmp *c, const struct tw_proc *p, const struct holes *h, size_t n)
{
    const char *role = tw_proc_role(p);
    char where[64] = "";
    if (p->info->world > 1 || strcmp(role, "main") != 0)
        snprintf(where, sizeof where, " of rank %d (%.30s)", p->rank, role);
    if (h->inputs == n)
        tw_cmp_unseen(c, "batches or inputs: at no step%s", where);
    else if (h->inputs)
        tw_cmp_unseen(c, "batches or inputs: not at %zu of %zu steps%s, first at step %u",
                      h->inputs, n, where, h->first_input);
    if (h->results == n)
        tw_cmp_unseen(c, "weights, gradients or outputs: at no step%s", where);
    else if (h->results)
        tw_cmp_unseen(c,
                      "weights, gradients or outputs: not at %zu of %zu steps%s, first at step %u",
                      h->results, n, where, h->first_result);
    if (h->unknown)
        tw_cmp_unseen(c, "%zu of %zu steps%s lie in damaged bytes", h->unknown, n, where);
}

static uint64_t records_in(const struct tw_steps *t)
{
    uint64_t all = 0;
    for (size_t i = 0; i < t->n; i++)
        all += t->step[i].records;
    return all;
}

/* Records that were compared of those that belong to no finished step; `all` belong to one. */
static uint64_t records_of_tail(const struct tw_cmp *c, const struct tw_scan *s, uint64_t all)
{
    const uint64_t stored = s->pair->a->info->records;
    if (!s->tail_seen)
        return 0;
    if (s->shares && c->o->arms)
        return s->shared[s->shares - 1].records;
    return stored > all ? stored - all : 0;
}

/* Is it known from verifying alone that all of a process was compared, and that every step shows
 * inputs and results? Then find_holes() would find none. */
static bool has_no_hole(const struct tw_scan *s, const struct kinds *k)
{
    const struct twin_trace_summary *seen = twin_trace_summary(k->p->trace);
    const bool as_a_whole = s->shares == 0 || s->shared[0].step >= k->p->info->steps;
    return seen && all_steps(k) && k->p->info->steps <= tw_steps_most && as_a_whole &&
           !s->weights_only && seen->every_step & INPUTS &&
           seen->every_step & RESULTS & (k->results | k->values);
}

/*
 * Is this a program that shows nothing of its own, and is seen at its messages? Those are all that
 * there is to compare then: its steps are cut at collectives, and one between two barriers is
 * empty.
 */
static bool only_messages(const struct kinds *k)
{
    return k->messages && !k->inputs && !k->results && !k->values;
}

/* A process that has steps. Adds up the records that were compared. */
static void cover_steps(struct tw_cmp *c, struct tw_scan *s, const struct kinds *k)
{
    struct tw_steps t;
    if (has_no_hole(s, k)) {
        const uint64_t all = twin_trace_summary(k->p->trace)->finished;
        s->records += all + records_of_tail(c, s, all);
        return;
    }
    if (tw_steps_load(c, s->pair->a, 0, &t, NULL) != 0)
        return;
    struct holes h = find_holes(s, &t, k);
    s->records += records_of_tail(c, s, records_in(&t));
    if (only_messages(k))
        h.inputs = h.results = 0;
    say_holes(c, s->pair->a, &h, (size_t)(k->end - k->first));
    if (t.n < k->end)
        tw_cmp_unseen(c,
                      "rank %d: whether inputs and results were seen, for more than the first %zu "
                      "of %llu steps",
                      s->pair->a->rank, t.n, (unsigned long long)k->end);
    tw_steps_free(&t);
}

/*
 * Records of a job without steps count as one step. What only one of two arms has was not compared.
 */
static void cover_as_one(struct tw_cmp *c, struct tw_scan *s, struct kinds *k)
{
    const struct tw_shared *tail = s->tail_seen && s->shares ? &s->shared[s->shares - 1] : NULL;
    s->records = k->p->info->records;
    if (!c->o->arms || !tail)
        return;
    s->records = tail->records;
    k->inputs &= tail->phases;
    k->results &= tail->phases;
    k->values &= tail->values;
}

/* Are the steps of this pair looked at one by one? Not when threads cut the same records into other
 * steps. */
static bool is_stepping(const struct tw_scan *s)
{
    return tw_pair_steps(s->pair) && s->end > s->first && !s->recut;
}

/* While a CUDA graph is captured tensors have no values, and a replay shows nothing of what it
 * computes: this is why records could not be read, and unseen also where none was made. */
static bool say_graph(struct tw_cmp *c, const struct tw_proc *p)
{
    const char *key, *value;
    for (size_t i = 0; twin_trace_note(p->trace, i, &key, &value); i++) {
        char *line;
        if (strcmp(key, "cuda.graph") != 0)
            continue;
        unsigned long replays = strtoul(value, &line, 10);
        tw_cmp_unseen(c,
                      "rank %d captured a CUDA graph at%.200s: what its %lu replay%s computed was "
                      "not seen step by step",
                      p->rank, line, replays, tw_plural_s(replays));
        return true;
    }
    return false;
}

/* Names of variables that follow the clock, one on each line, in one line. */
static void say_clock(struct tw_cmp *c, const struct tw_proc *p)
{
    const char *names = twin_trace_note_of(p->trace, "functions.clock");
    char line[400];
    size_t n = 0;
    if (!names)
        return;
    for (const char *s = names; *s && n + 3 < sizeof line; s++) {
        line[n++] = *s == '\n' ? ',' : *s;
        if (*s == '\n')
            line[n++] = ' ';
    }
    line[n] = '\0';
    if (strlen(names) + 3 > sizeof line) /* some are not named: the claim is not complete */
        tw_cmp_unseen(
            c, "numbers and texts in too many variables that follow the clock: %.200s ...", line);
    tw_cmp_note(c, "numbers and texts that follow the clock were left out: %s", line);
}

/* Does a script show what its variables held when it ended, and what its functions held? Says so,
 * with how many arrays and calls that were. Such a script speaks for itself alone: of what runs
 * beside it nothing was asked for, unlike in a job that records values on purpose. */
static bool say_held(struct tw_cmp *c, const struct tw_side *side, const struct tw_proc *p)
{
    const char *held = twin_trace_note_of(p->trace, "held");
    const char *functions = twin_trace_note_of(p->trace, "functions");
    char *file;
    if (!held)
        return false;
    const unsigned long arrays = strtoul(held, &file, 10);
    /* what processes train that a fit has started is told of there */
    if (side->run->process_count > 1 && !twin_trace_note_of(p->trace, "fits"))
        tw_cmp_unseen(c, "what the job's %zu processes computed on the way",
                      side->run->process_count);
    const char *name = *file ? file + 1 : "the script";
    if (!functions) {
        tw_cmp_note(c,
                    "of %.200s was compared what its variables held when it ended, %lu array%s, "
                    "and the states of its generators; not what it computed on the way",
                    name, arrays, tw_plural_s(arrays));
    } else {
        char *rest;
        const unsigned long looked = strtoul(functions, &rest, 10);
        (void)strtoul(rest, &rest, 10); /* calls */
        const unsigned long count = strtoul(rest, NULL, 10);
        tw_cmp_note(c,
                    "of %.200s was compared what its variables held when it ended, %lu value%s, "
                    "the states of its generators, and what its %lu function%s were given, gave "
                    "back and held at their ends, %lu call%s; not each line on the way",
                    name, arrays, tw_plural_s(arrays), count, tw_plural_s(count), looked,
                    tw_plural_s(looked));
        say_clock(c, p);
    }
    return true;
}

/* The tail of an attempt that was given up is nobody's result: a later attempt has begun anew, or
 * from what is compared as its initial weights. */
static void say_tail(struct tw_cmp *c, const struct tw_side *side, const struct tw_proc *p)
{
    if (tw_proc_given_up(side, p))
        tw_cmp_note(c,
                    "attempt %u was given up: what rank %d (%s) did after its last finished step "
                    "was not compared",
                    p->attempt, p->rank, tw_proc_role(p));
    else
        tw_cmp_unseen(c, "rank %d (%s): what came after its last finished step", p->rank,
                      tw_proc_role(p));
}

/* No process of the job left a record. What it printed and wrote is compared nevertheless, and the
 * sentence says how much that is. other: the run it is compared with; NULL: a baseline, which keeps
 * records only. */
static void say_nothing_recorded(struct tw_cmp *c, const struct tw_side *side,
                                 const struct tw_side *other)
{
    static const char nothing[] = "what the job computes: no process of the job left a record";
    if (!other || c->quick) {
        tw_cmp_unseen(c, "%s", nothing);
        return;
    }
    const size_t lines = tw_output_lines(c, side, other), files = tw_files_known(c, side, other);
    c->v->nothing_compared = lines + files == 0;
    if (lines && files)
        tw_cmp_unseen(c, "%s; compared were the %zu line%s that it printed and %zu file%s", nothing,
                      lines, tw_plural_s(lines), files, tw_plural_s(files));
    else if (lines || files)
        tw_cmp_unseen(c, "%s; compared %s only the %zu %s%s that it %s", nothing,
                      lines + files == 1 ? "was" : "were", lines + files, lines ? "line" : "file",
                      tw_plural_s(lines + files), lines ? "printed" : "wrote");
    else
        tw_cmp_unseen(c, "%s, and nothing that it printed or wrote could be compared", nothing);
}

/* Looks at what each pair of processes recorded, and adds what is missing to c->unseen: every entry
 * there keeps the verdict from "same". */
void tw_coverage(struct tw_cmp *c, const struct tw_side *side, const struct tw_side *other,
                 struct tw_scan *scans, size_t count)
{
    bool inputs = false, results = false, own = false, one = side->steps == 0;
    bool messages = false, eager = false, tensorflow = false, fits = false;
    size_t ignored = 0, equal = 0, numbers = 0;
    for (size_t i = 0; i < count; i++) {
        struct tw_scan *s = &scans[i];
        const bool by_step = is_stepping(s);
        const bool all = s->recut || (!by_step && s->pair->a->info->steps == 0);
        struct kinds k = {.c = c,
                          .p = s->pair->a,
                          .scan = s,
                          .first = s->first,
                          .end = s->recut ? UINT64_MAX : s->end};
        k.tail = s->tail_seen || all;
        c->oom |= look_at_all(&k) == TWIN_ENOMEM;
        if (by_step)
            cover_steps(c, s, &k);
        else if (all)
            cover_as_one(c, s, &k);
        inputs |= k.inputs || k.values || only_messages(&k);
        results |= k.results || k.values || only_messages(&k);
        messages |= only_messages(&k);
        eager |= twin_trace_note_of(k.p->trace, "jax.eager") != NULL;
        tensorflow |= twin_trace_note_of(k.p->trace, "tensorflow.eager") != NULL;
        fits |= twin_trace_note_of(k.p->trace, "fits") && !twin_trace_note_of(k.p->trace, "held");
        ignored += k.ignored;
        numbers += s->numbers;
        equal += k.out_of_equal;
        own |= !say_held(c, side, k.p) && k.values != 0;
        one |= s->recut;
        if (!say_graph(c, k.p) && k.unread)
            tw_cmp_unseen(c, "%zu records of rank %d whose contents could not be read", k.unread,
                          k.p->rank);
        if (s->tail_unknown && (!s->pair->auxiliary || tw_pair_steps(s->pair)))
            say_tail(c, side, k.p);
        c->v->records_compared += s->records;
        twin_trace_rest(s->pair->a->trace);
        twin_trace_rest(s->pair->b->trace);
    }
    tw_whole(c, scans, count);
    if (count == 0) {
        say_nothing_recorded(c, side, other);
        return;
    }
    if (one && !inputs)
        tw_cmp_unseen(c, "batches or inputs: no record of any");
    if (one && !results)
        tw_cmp_unseen(c, "weights, gradients or outputs: no record of any");
    if (ignored) {
        tw_cmp_note(c, "left out by --ignore: %zu records of each run", ignored);
        c->v->records_compared -= equal < c->v->records_compared ? equal : c->v->records_compared;
    }
    /* Of several pairs of runs each has another count: one is enough to say what is left out. */
    if (numbers && !c->numbers_said && !c->quick) {
        c->numbers_said = true;
        tw_cmp_note(c,
                    "left out by --ignore 'number:...': single numbers that differ, %zu between %s "
                    "and %s",
                    numbers, c->label_a, c->label_b);
    }
    if (messages)
        tw_cmp_note(c,
                    "the program shows what it sends and receives over MPI, and that was compared; "
                    "what it computes in between was not seen");
    if (eager)
        tw_cmp_note(c, "JAX computed outside of jitted functions, too: of that only what such "
                       "functions are given was compared");
    if (tensorflow)
        tw_cmp_note(c, "TensorFlow computed operation by operation, too: of that only what is "
                       "given to a function, a tape, an optimizer or a variable was compared");
    if (fits)
        tw_cmp_note(c, "what the job computes outside of the calls that train was compared only "
                       "where it is printed, written or given to such a call");
    if (own)
        tw_cmp_note(c, "values that the job records itself were compared, too");
}

/* Is this a process that trains, as far as can be told: python, or the program that the job was
 * started as? */
static bool is_trainer(const struct twin_run *run, const struct twin_run_process *p)
{
    const char *argv = p->argv ? p->argv : "";
    size_t n = strcspn(argv, " "), start = n;
    while (start > 0 && argv[start - 1] != '/')
        start--;
    const char *job = run->argc ? run->argv[0] : "";
    const char *slash = strrchr(job, '/');
    if (slash)
        job = slash + 1;
    return strncmp(argv + start, "python", 6) == 0 ||
           (strlen(job) == n - start && strncmp(argv + start, job, n - start) == 0);
}

/* What an agent noted of itself: what it could not see, what it watches and what it does not. */
static void from_notes(struct tw_cmp *c, const struct tw_side *side, struct twin_trace *t)
{
    const char *key, *value;
    for (size_t i = 0; twin_trace_note(t, i, &key, &value); i++) {
        bool armed = strcmp(key, "armed") == 0, unarmed = strcmp(key, "unarmed") == 0;
        if (strcmp(key, "unseen") == 0 || strcmp(key, "agent.error") == 0 ||
            strcmp(key, "agent.off") == 0)
            tw_cmp_unseen(c, "run %zu: %s%s", side->index + 1,
                          strcmp(key, "unseen") == 0 ? "" : "the agent reported: ", value);
        if (strcmp(key, "gpu.copied") == 0) /* all was seen, and it took longer */
            tw_cmp_note(c, "run %zu: %s", side->index + 1, value);
        if (strcmp(key, "nccl.unseen") == 0) /* what the job shows of itself was compared */
            tw_cmp_note(c, "run %zu: collectives unseen: %s", side->index + 1, value);
        while ((armed || unarmed) && *value) { /* one per line */
            size_t n = strcspn(value, "\n");
            tw_texts_add(c, armed ? &c->armed : &c->unarmed,
                         tw_cmp_text(c, "%.*s", (int)(n < 4000 ? n : 4000), value));
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
        /* Dropped records of steps that follow each other are one gap. */
        for (size_t g = 0; twin_trace_gap(p->trace, g, &step, &dropped) && v->gap_count < 1000;
             g++) {
            struct twin_gap_range *last = v->gap_count ? &v->gaps[v->gap_count - 1] : NULL;
            if (g > 0 && last && last->rank == p->own_rank && last->last_step + 1 >= step) {
                last->last_step = step;
                last->records += dropped;
                continue;
            }
            struct twin_gap_range *grown = tw_reallocarray(v->gaps, v->gap_count + 1,
                                                           sizeof *grown);
            if (!grown) {
                c->oom = true;
                break;
            }
            v->gaps = grown;
            v->gaps[v->gap_count++] = (struct twin_gap_range){p->own_rank, step, step, dropped};
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
        char *text = tw_cmp_text(c, "%.200s%s%s", p->argv ? p->argv : "a process",
                                 p->why ? ": " : "", p->why ? p->why : "");
        if (run->agents && text && is_trainer(run, p))
            tw_cmp_unseen(c, "agent not armed: %s", text);
        tw_texts_add(c, &c->unarmed, text);
    }
    for (size_t i = 0; i < run->note_count; i++)
        tw_cmp_note(c, "run %zu: %s", side->index + 1, run->notes[i]);
}
