/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What replays of a suspect showed: in the reruns of a zoom its call was run again on its recorded
 * inputs, also in turns on two cores. They acquit the operation, or say that it disagrees with
 * itself, or on which core.
 */
#include "zoom.h"

#include "evidence.h"

#include <stdio.h>
#include <string.h>

/*
 * Do this process's replays count for the finding? Only those of the suspect rank do: a rank whose
 * inputs are small may agree with itself where the suspect one does not. A process that chose by
 * itself what to run again says which call that was (zoom.call), and that must be the call that was
 * named, `call`.
 */
static bool replays_count(const struct twin_finding *f, const struct tw_proc *p, const char *call)
{
    const char *chosen = twin_trace_note_of(p->trace, "zoom.call");
    if (p->rank != f->rank)
        return false;
    return !chosen || (call && strcmp(chosen, call) == 0);
}

/*
 * Adds up how often the suspect was replayed, and how often a replay gave another result. Notes
 * read "OP REPLAYS DISAGREEING".
 */
static void count_replays(const struct twin_finding *f, const struct tw_side *side,
                          const char *call, unsigned *replays, unsigned *disagree)
{
    const char *key, *value;
    for (size_t i = 0; i < side->count; i++) {
        bool of_suspect = replays_count(f, &side->proc[i], call);
        for (size_t k = 0; of_suspect && twin_trace_note(side->proc[i].trace, k, &key, &value);
             k++) {
            char op[256];
            unsigned n, other;
            if (strcmp(key, "zoom.replay") != 0 ||
                sscanf(value, "%255s %u %u", op, &n, &other) != 3 || strcmp(op, f->op) != 0)
                continue;
            *replays += n;
            *disagree += other;
        }
    }
}

/* What the second word of a vote says. */
static enum twin_replay vote_named(const char *word)
{
    if (strcmp(word, "operation") == 0)
        return TWIN_REPLAY_DISAGREES;
    return strcmp(word, "core") == 0 ? TWIN_REPLAY_BY_CORE : TWIN_REPLAY_AGREES;
}

/*
 * Reads the votes of one rerun: replays in turns on two cores. Notes read "OP WHAT CORE CORE ROUNDS
 * HERE THERE", the last two being how many different results each core gave. An operation that
 * disagrees with itself anywhere says nothing about a core, so that answer is never overwritten.
 * *most becomes the larger of itself and the results of one core.
 */
static void count_votes(struct tw_cmp *c, const struct twin_finding *f, const struct tw_side *side,
                        const char *call, unsigned *most)
{
    const char *key, *value;
    for (size_t i = 0; i < side->count; i++) {
        bool of_suspect = replays_count(f, &side->proc[i], call);
        for (size_t k = 0; of_suspect && twin_trace_note(side->proc[i].trace, k, &key, &value);
             k++) {
            char op[256], what[16];
            int one, two;
            unsigned rounds, here, there;
            if (strcmp(key, "zoom.vote") != 0 ||
                sscanf(value, "%255s %15s %d %d %u %u %u", op, what, &one, &two, &rounds, &here,
                       &there) != 7 ||
                strcmp(op, f->op) != 0)
                continue;
            const enum twin_replay r = vote_named(what);
            if (c->v->replay == TWIN_REPLAY_DISAGREES ||
                (r != TWIN_REPLAY_DISAGREES && c->v->replay == TWIN_REPLAY_BY_CORE))
                continue;
            c->v->replay = r;
            c->v->replay_core[0] = one;
            c->v->replay_core[1] = two;
            const unsigned results = here > there ? here : there;
            *most = results > *most ? results : *most;
            if (r == TWIN_REPLAY_BY_CORE)
                tw_cmp_note(
                    c,
                    "%s gives one result on core %d and another on core %d, each time, on the same "
                    "inputs: suspect the hardware, or code that depends on the core it runs on",
                    op, one, two);
            else if (r == TWIN_REPLAY_DISAGREES && (here > 1) != (there > 1))
                tw_cmp_note(c,
                            "held on one core, %s disagreed with itself on core %d only (%u "
                            "replays on each of two): that core is suspect, too",
                            op, here > 1 ? one : two, rounds);
        }
    }
}

/*
 * The operation itself is cleared: every replay gave the same result. What it was given, or what
 * happened around it, is left, so the finding becomes one between its recorded inputs and its
 * output.
 */
static void acquit(struct tw_cmp *c, struct twin_finding *f, unsigned replays)
{
    tw_cmp_note(c,
                "that acquits %s itself as far as %u replays can: what remains is an input that no "
                "record shows (a global setting, an address, a number of threads), memory that "
                "something else wrote to meanwhile, or a race that is rarer than that",
                f->op, replays);
    tw_finding_between(c, f,
                       tw_cmp_text(c, "the recorded inputs of %.200s in step %u", f->op, f->step_a),
                       tw_cmp_text(c, "its output"));
    if (c->v->origin_count) {
        struct twin_finding *copy = tw_finding_copy(c, f);
        if (copy)
            tw_finding_replace(&c->v->origins[0], copy);
    }
}

/* Did a process of the suspect rank choose this call by itself? */
static bool chosen(const struct twin_finding *f, const struct tw_side *side, const char *call)
{
    bool found = false;
    for (size_t i = 0; i < side->count && !found; i++)
        found = twin_trace_note_of(side->proc[i].trace, "zoom.call") &&
                replays_count(f, &side->proc[i], call);
    return found;
}

void tw_zoom_note_replays(struct tw_cmp *c, struct twin_finding *f, const struct tw_side *a,
                          const struct tw_side *b, const char *call)
{
    unsigned replays = 0, disagree = 0;
    unsigned most = 0; /* different results on one core */
    count_replays(f, a, call, &replays, &disagree);
    count_replays(f, b, call, &replays, &disagree);
    count_votes(c, f, a, call, &most);
    count_votes(c, f, b, call, &most);
    if (replays)
        tw_claim_replays(c, f, a->run, b->run, chosen(f, b, call) ? call : NULL, replays, disagree);
    if (replays && c->v->replay != TWIN_REPLAY_BY_CORE) {
        if (disagree)
            c->v->replay = TWIN_REPLAY_DISAGREES;
        else if (c->v->replay == TWIN_REPLAY_UNKNOWN)
            c->v->replay = TWIN_REPLAY_AGREES;
    }
    if (disagree && c->v->replay == TWIN_REPLAY_DISAGREES)
        tw_cmp_note(c,
                    "%s, run again %u times on its recorded inputs, gave another result %u times: "
                    "it is not deterministic",
                    f->op, replays, disagree);
    else if (replays && c->v->replay == TWIN_REPLAY_DISAGREES)
        tw_cmp_note(
            c,
            "%s, run again %u times on its recorded inputs, gave the same result each time, "
            "and %u different ones when it was held on one core: it is not deterministic",
            f->op, replays, most);
    else if (replays && !disagree)
        tw_cmp_note(c,
                    "%s, run again %u times on its recorded inputs, gave the same result each time",
                    f->op, replays);
    if (c->v->replay == TWIN_REPLAY_AGREES && replays && f->role == TWIN_ORIGIN)
        acquit(c, f, replays);
}

int twin_compare_replays(struct twin_verdict *v, const struct twin_run *za,
                         const struct twin_run *zb, struct twin_error *err)
{
    struct tw_cmp c = tw_zoom_comparison(v);
    struct tw_side a = {0}, b = {0};
    if (!v->first)
        return twin_error_set(err, TWIN_EINVAL,
                              "no operation is suspected: the runs did not diverge");
    int rc = tw_side_open(&c, za, 0, &a, err);
    if (rc == 0)
        rc = tw_side_open(&c, zb, 1, &b, err);
    if (rc == 0) {
        tw_zoom_note_replays(&c, v->first, &a, &b, NULL);
        tw_cmp_append_notes(&c);
        tw_claims_append(&c);
        if (c.oom)
            rc = tw_no_memory(err, "reading a zoom pair");
    }
    tw_side_close(&a);
    tw_side_close(&b);
    tw_texts_free(&c.notes);
    tw_texts_free(&c.unseen);
    tw_texts_free(&c.armed);
    tw_texts_free(&c.unarmed);
    return rc;
}

bool twin_compare_replayed(const struct twin_run *zb, const struct twin_suspect *s)
{
    bool found = false;
    for (size_t i = 0; i < zb->trace_count && !found; i++) {
        struct twin_trace *t = NULL;
        if (twin_trace_open(zb->traces[i], &t, NULL) != 0)
            continue;
        struct tw_proc p = {.trace = t};
        const char *call = twin_trace_note_of(p.trace, "zoom.call");
        found = twin_trace_info(t)->rank == s->rank && call && strcmp(call, s->b) == 0 &&
                twin_trace_note_of(p.trace, "zoom.replay");
        twin_trace_close(t);
    }
    return found;
}
