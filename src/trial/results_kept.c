/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What came of a replay of results: the order in the files of the new run is held against the
 * recorded one. The agent is not believed; what it says is used for the reason.
 */
#include "results_inside.h"

#include "base.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct tw_results_process *process_in(const struct tw_results *o,
                                                   const struct tw_results_process *p)
{
    for (size_t i = 0; i < o->count; i++)
        if (!o->process[i].damage && strcmp(o->process[i].role, p->role) == 0)
            return &o->process[i];
    return NULL;
}

static int find(const void *x, const void *y)
{
    const struct tw_results_call *a = x, *b = y;
    const int order = tw_results_by_line(a, b);
    return order ? order : (a->before > b->before) - (a->before < b->before);
}

/* The call of another run's process that this one is: at the same line, after as many others. */
static const struct tw_results_call *call_in(const struct tw_results_process *p,
                                             const struct tw_results_call *c)
{
    return p && p->calls ? bsearch(c, p->call, p->calls, sizeof *p->call, find) : NULL;
}

/* The first reason that was found stays. Takes the text over. */
static void differs(struct tw_matches_kept *out, bool other, char *text)
{
    out->whole = false;
    out->other = out->other || other;
    if (out->text)
        tw_free(text);
    else
        out->text = text;
}

/* "result 3 at job.py:12: expected number 8 by submission, found number 2"; -1: no more. */
static char *say_result(const struct tw_results_call *c, uint32_t at, int64_t was, int64_t is)
{
    char *text[2];
    for (int i = 0; i < 2; i++) {
        const int64_t place = i ? is : was;
        text[i] = place < 0 ? tw_strdup("no more results")
                            : tw_printf("number %" PRId64 " by submission", place + 1);
    }
    char *all = text[0] && text[1] ? tw_printf("result %u at %s: expected %s, found %s", at + 1,
                                               c->site, text[0], text[1])
                                   : NULL;
    tw_free(text[0]);
    tw_free(text[1]);
    return all;
}

/* How far the two agree. False: not to the end. */
static bool compare_calls(const struct tw_results_call *c, const struct tw_results_call *is,
                          bool counts, struct tw_matches_kept *out)
{
    const uint32_t made = is ? is->places : 0;
    uint32_t at = 0;
    while (at < c->places && at < made && c->place[at] == is->place[at])
        at++;
    if (counts)
        out->kept += at;
    if (at == c->places && at == made && is && c->count == is->count)
        return true;
    differs(out, at < made,
            say_result(c, at, at < c->places ? (int64_t)c->place[at] : -1,
                       at < made ? (int64_t)is->place[at] : -1));
    return false;
}

static int by_number(const void *x, const void *y)
{
    const struct tw_results_call *a = *(const struct tw_results_call *const *)x,
                                 *b = *(const struct tw_results_call *const *)y;
    return (a->number > b->number) - (a->number < b->number);
}

/* In the order of the calls, so that what is said is the first difference. */
static int compare_processes(const struct tw_results_process *was,
                             const struct tw_results_process *is, struct tw_matches_kept *out,
                             struct twin_error *err)
{
    const struct tw_results_call **line = tw_calloc((size_t)was->calls + 1, sizeof *line);
    bool same = true;
    if (!line)
        return tw_no_memory(err, "to compare two orders of results");
    for (uint32_t i = 0; i < was->calls; i++)
        line[i] = &was->call[i];
    qsort(line, was->calls, sizeof *line, by_number);
    for (uint32_t i = 0; i < was->calls; i++) {
        const struct tw_results_call *c = line[i];
        out->expected += c->places;
        const struct tw_results_call *now = call_in(is, c);
        if (c->shared || (now && now->shared)) {
            differs(out, false,
                    tw_printf("several threads asked, or submitted, at %s: the %s order is not "
                              "known",
                              c->site, c->shared ? "recorded" : "new"));
            continue;
        }
        same = compare_calls(c, now, same, out) && same;
    }
    tw_free(line);
    for (uint32_t i = 0; is && i < is->calls; i++)
        if (!call_in(was, &is->call[i]))
            differs(out, true,
                    tw_printf("expected no such call at %s, found one", is->call[i].site));
    return 0;
}

static int compare_one(const struct tw_results *now, const struct tw_results_process *was,
                       struct tw_matches_kept *out, struct twin_error *err)
{
    const struct tw_results_process *is = process_in(now, was);
    if (was->doubled || (is && is->doubled)) {
        out->expected += was->results;
        if (was->results)
            differs(out, true,
                    tw_printf("several processes are \"%s\": which of them is which is not known",
                              was->role));
        return 0;
    }
    int rc = compare_processes(was, is, out, err);
    if (was->full)
        differs(out, false, tw_printf("\"%s\" told of more results than are recorded", was->role));
    return rc;
}

int tw_results_compare(const struct tw_results *o, const struct twin_run *replayed,
                       struct tw_matches_kept *out, struct twin_error *err)
{
    struct tw_results now = {.count = 0};
    const char *word = NULL;
    *out = (struct tw_matches_kept){.whole = true};
    int rc = tw_results_read_run(replayed, false, &now, err);
    for (size_t i = 0; rc == 0 && i < o->count; i++)
        rc = compare_one(&now, &o->process[i], out, err);
    for (size_t i = 0; rc == 0 && i < now.count; i++) {
        const struct tw_results_process *p = &now.process[i];
        if (p->damage)
            differs(out, true, tw_strdup(p->damage));
        else if (p->results && !process_in(o, p))
            differs(out, true,
                    tw_printf("\"%s\" told of results that the recording has none of", p->role));
        if (p->gave_up && p->results && !word)
            word = p->gave_up;
    }
    /* the agent saw what it waited for: its words say more */
    if (rc == 0 && word) {
        char *text = out->text;
        out->text = NULL;
        differs(out, true, tw_strdup(word));
        tw_free(text);
    }
    tw_results_free(&now);
    return rc;
}

/* ---- two natural runs */

static bool is_known(const struct tw_results *o)
{
    for (size_t i = 0; i < o->count; i++) {
        const struct tw_results_process *p = &o->process[i];
        if (!p->ended || p->full || p->other || p->doubled || p->gave_up)
            return false;
        for (uint32_t k = 0; k < p->calls; k++)
            if (p->call[k].shared)
                return false;
    }
    return true;
}

static bool same_calls(const struct tw_results_process *a, const struct tw_results_process *b)
{
    if (!b || a->calls != b->calls)
        return false;
    for (uint32_t i = 0; i < a->calls; i++) {
        const struct tw_results_call *x = &a->call[i], *y = &b->call[i];
        if (tw_results_by_line(x, y) != 0 || x->count != y->count || x->rest != y->rest ||
            x->places != y->places ||
            (x->places && memcmp(x->place, y->place, x->places * sizeof *x->place) != 0))
            return false;
    }
    return true;
}

bool tw_results_alike(const struct twin_run *a, const struct twin_run *b)
{
    struct tw_results x = {.count = 0}, y = {.count = 0};
    struct twin_error quiet = TWIN_ERROR_INIT;
    bool alike = tw_results_read_run(a, true, &x, &quiet) == 0 &&
                 tw_results_read_run(b, true, &y, &quiet) == 0 && x.count > 0 &&
                 x.count == y.count && is_known(&x) && is_known(&y);
    for (size_t i = 0; alike && i < x.count; i++)
        alike = same_calls(&x.process[i], process_in(&y, &x.process[i]));
    tw_results_free(&x);
    tw_results_free(&y);
    return alike;
}
