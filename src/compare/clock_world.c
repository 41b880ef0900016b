/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock experiment. Of a number that differs between runs it may not be known whether it is a
 * time or a result. Two more runs, in which every clock that the job reads ran faster, can tell: a
 * time grows, and a rate shrinks, as the clock does. A column (the number at one place of lines
 * that say the same) is a time when it follows both clocks in every line in which it stands, within
 * a factor of three, and has no name of a result. The experiment counts only where the two runs
 * computed and showed all the rest as run 1 did: a job whose results hang on the time it had (a
 * loop until a deadline) changes in more than such numbers.
 */
#include "clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "claims.h"
#include "evidence.h"
#include "phrase.h"
#include "printed.h"

/* ---- the experiment as a whole */

/* Frees what a comparison added up, and gives c its state of before. That memory ran out stays
 * known. */
static void put_back(struct tw_cmp *c, const struct tw_cmp *saved)
{
    struct tw_texts *mine[] = {&c->notes, &c->unseen, &c->armed, &c->unarmed, &c->open_texts};
    bool oom = c->oom;
    for (size_t i = 0; i < sizeof mine / sizeof mine[0]; i++)
        tw_texts_free(mine[i]);
    tw_claims_free(c->claims.claim, c->claims.n);
    twin_verdict_free(c->v);
    *c = *saved;
    c->oom = oom;
}

/* Compares run 1 with one of the runs under a faster clock, for its numbers alone. A run that
 * computed or printed anything else, or whose clock was less than four times as fast, makes the
 * experiment fail. */
static int learn_from(struct tw_cmp *c, struct tw_side *first, const struct twin_run *run,
                      size_t which, struct twin_error *err)
{
    struct tw_clock *k = c->clock;
    assert(which < sizeof k->factor / sizeof *k->factor);
    struct tw_side side;
    struct tw_pair_result r;
    int rc = tw_side_open(c, run, 1, &side, err);
    if (rc != 0)
        return rc;
    /* What this comparison adds up belongs to no verdict. */
    struct tw_cmp saved = *c;
    c->notes = c->unseen = c->armed = c->unarmed = c->open_texts = (struct tw_texts){0};
    c->claims = (struct tw_claims){0};
    c->v = tw_verdict_new(c, 2);
    /*
     * A run under a faster clock is one more run of A: their steps and lines correspond one to one.
     */
    struct twin_compare_options alike = *c->o;
    alike.arms = alike.find_shift = false;
    alike.shift = 0;
    c->o = &alike;
    k->which = which;
    k->factor[which] = run->clock_factor;
    k->learning = c->quick = true;
    if (c->v)
        rc = tw_pair_compare(c, first, &side, &r, err);
    else
        rc = tw_no_memory(err, "for the clock experiment");
    k->learning = c->quick = false;
    if (rc == 0) {
        k->failed |= r.differs || r.unknown.n > 0 || c->doubts != saved.doubts ||
                     run->clock_factor < 4 || !tw_side_complete(&side) || tw_side_failed(&side);
        tw_pair_result_free(&r);
    }
    put_back(c, &saved);
    tw_side_close(&side);
    return rc;
}

/* Which of the equal numbers of its line: those of columns before it. */
static size_t place_among_equal(const struct tw_clock *k, size_t which)
{
    assert(which < k->count);
    const struct tw_column *col = &k->column[which];
    size_t n = 0;
    for (size_t i = 0; i < which; i++)
        n += k->column[i].said == col->said &&
             strtod(k->column[i].text, NULL) == strtod(col->text, NULL);
    return n;
}

/* Claims each column that followed, by its first number and line. */
static void claim_experiment(struct tw_cmp *c, const struct twin_run *const faster[2])
{
    const struct tw_clock *k = c->clock;
    json_t *list = json_array();
    for (size_t i = 0; i < k->count; i++) {
        const struct tw_column *col = &k->column[i];
        if (tw_column_follows(col))
            tw_claim_append(
                &list, json_pack("{s:o,s:o,s:o,s:o,s:o}", "stream", tw_json_text(col->stream),
                                 "line", tw_json_count(col->line + 1), "number",
                                 tw_json_text(col->text), "lines", tw_json_count(col->lines[0]),
                                 "place", tw_json_count(place_among_equal(k, i))));
    }
    const char *name[2];
    for (size_t i = 0; i < 2; i++) {
        const char *slash = strrchr(faster[i]->dir, '/');
        name[i] = slash ? slash + 1 : faster[i]->dir;
    }
    tw_claim_add(c, "clock",
                 json_pack("{s:[o,o],s:[o,o],s:o}", "faster", tw_json_text(name[0]),
                           tw_json_text(name[1]), "factors", tw_json_count(faster[0]->clock_factor),
                           tw_json_count(faster[1]->clock_factor), "columns", list));
}

/* What the experiment showed, as a note. */
static void say_experiment(struct tw_cmp *c)
{
    const struct tw_clock *k = c->clock;
    size_t followed = 0;
    const struct tw_column *first = NULL;
    for (size_t i = k->count; i-- > 0;)
        if (tw_column_follows(&k->column[i])) {
            followed++;
            first = &k->column[i];
        }
    int f = (int)k->factor[0], g = (int)k->factor[1];
    if (k->failed)
        tw_cmp_note(c,
                    "clock experiment: under clocks %d and %d times as fast the job did not "
                    "compute and show the same, so it says nothing about its numbers",
                    f, g);
    else if (!first)
        tw_cmp_note(c,
                    "clock experiment: in two more runs, under clocks %d and %d times as fast, no "
                    "number in question followed the clock",
                    f, g);
    else
        tw_cmp_note(c,
                    "clock experiment: in two more runs, under clocks %d and %d times as fast, %zu "
                    "number%s followed the clock in every line, within a factor of 3: times of the "
                    "run, no results, first \"%s\" in \"%s\"",
                    f, g, followed, tw_plural_s(followed), first->text, first->quoted);
}

int tw_clock_experiment(struct tw_cmp *c, struct tw_side *first, struct twin_error *err)
{
    if (!c->o->faster[0] || !c->o->faster[1])
        return 0;
    c->clock = tw_calloc(1, sizeof *c->clock);
    if (!c->clock)
        return tw_no_memory(err, "for the clock experiment");
    for (size_t i = 0; i < 2; i++) {
        int rc = learn_from(c, first, c->o->faster[i], i, err);
        if (rc != 0)
            return rc;
    }
    say_experiment(c);
    if (!c->clock->failed)
        claim_experiment(c, c->o->faster);
    return 0;
}
