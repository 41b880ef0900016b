/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check --a --b, whose runs differ and whose processes computed with other numbers of PyTorch's
 * threads: B again, with A's numbers (held_threads.h). Says in notes whether the difference goes
 * away; the verdict stands.
 */
#include "check.h"

#include "held_threads.h"
#include "run_state.h"

#include "base.h"
#include "phrase.h"

#include <string.h>

enum { HELD_RUNS = 2 };

/* What the runs of B with A's numbers show, up to the first that decides. */
struct outcome {
    size_t agree;
    bool differs;    /* one still differs from A */
    bool not_held;   /* one computed with other numbers all the same */
    bool incomplete; /* one failed, was cut short, or could not be judged */
};

/* The first run of B; NULL: there is none. */
static const struct twin_run *first_of_b(const struct tw_check *c)
{
    return c->series.count > 1 ? c->series.runs[1] : NULL;
}

/* One more run of B, with the variable. */
static int run_held(struct tw_check *c, const struct tw_held_threads *h, size_t n,
                    struct twin_run **out)
{
    struct twin_launch_options o = tw_check_launch_options(c, 1, "b-held");
    enum { ENV = 4 };
    char *env[ENV] = {NULL};
    size_t count = 0;
    for (; o.env && o.env[count] && count < ENV - 2; count++)
        env[count] = o.env[count];
    env[count] = h->variable;
    o.env = env;
    return tw_check_launch(c, &o, n ? "b held 2" : "b held", false, out);
}

/* Takes over what one run shows. False: no further one is needed, or can be made. */
static bool take_run(struct tw_check *c, const struct tw_held_threads *h, struct twin_run *held,
                     struct outcome *x)
{
    const struct twin_compare_options how = tw_check_how(c);
    const struct twin_run *pair[2] = {c->series.runs[0], held};
    struct twin_verdict *v = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    char text[32];
    x->incomplete = tw_run_failed(held) || c->series.interrupted || c->series.out_of_time;
    x->not_held = !x->incomplete && !tw_held_threads_kept(h, held);
    if (!x->incomplete && !x->not_held && twin_compare(pair, 2, &how, &v, &err) != 0) {
        tw_front_trouble(c->series.front, &err, "check: cannot compare A with B");
        x->incomplete = true;
    }
    const bool same = v && (v->outcome == TWIN_SAME || v->outcome == TWIN_WITHIN_TOLERANCE);
    x->differs = v && v->outcome == TWIN_DIFFER;
    x->incomplete |= v && !same && !x->differs;
    x->agree += same;
    if (!c->args.quiet)
        tw_trial_line(c->series.front, x->agree > 1 ? "b held 2" : "b held", held,
                      x->differs ? "diverged" : tw_run_state(held, text));
    twin_verdict_free(v);
    return same;
}

/* With one command in several numbers of ranks, or a resumed one, there is no B of its own. */
void tw_check_threads(struct tw_check *c)
{
    struct tw_held_threads h;
    struct outcome x = {0};
    const struct twin_run *b = first_of_b(c);
    if (!c->arms || c->numbers.count || c->args.resume_with || !c->arm_repeats || !b ||
        c->series.v->outcome != TWIN_DIFFER || !tw_held_threads_of(c->series.runs[0], b, &h))
        return;
    bool more = true;
    for (size_t n = 0; more && n < HELD_RUNS; n++) {
        struct twin_run *held = NULL;
        more = run_held(c, &h, n, &held) == 0 && held && take_run(c, &h, held, &x);
        twin_run_free(held);
    }
    if (x.differs)
        twin_verdict_note(c->series.v,
                          "B with A's number of threads of PyTorch (%s) still differs from A: the "
                          "difference does not go away with that number alone",
                          h.words);
    else if (x.not_held)
        twin_verdict_note(c->series.v,
                          "B could not be held at A's number of threads of PyTorch (%s): whether "
                          "the difference comes from it is not known",
                          h.words);
    else if (x.agree == HELD_RUNS)
        twin_verdict_note(c->series.v,
                          "B with A's number of threads of PyTorch (%s) agrees with A in %zu of "
                          "%zu runs; B as it is was not run again beside them, so that number is "
                          "not shown to be the cause",
                          h.words, x.agree, x.agree);
    else
        twin_verdict_note(c->series.v,
                          "whether the difference comes from the number of threads of PyTorch was "
                          "not found out: a run of B with A's number (%s) failed, or could not be "
                          "judged",
                          h.words);
    tw_held_threads_free(&h);
}
