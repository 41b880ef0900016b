/* SPDX-License-Identifier: Apache-2.0 */
/* report RUN: where each rank was slow, and what moved with it. */
#include "slow.h"

#include "json.h"
#include "options.h"
#include "say.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <twin/telemetry.h>

enum { SHOWN = 6 }; /* counters of a slow stretch in the text */

static json_t *moved_json(const struct twin_moved *m)
{
    const struct twin_counter_info *i = twin_counter_info(m->counter);
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "counter", i->key, "rho", tw_json_number(m->rho), "p", tw_json_number(m->p), "p_holm", tw_json_number(m->adjusted),
                     "usual", tw_json_number(m->usual), "slow", tw_json_number(m->slow), "share", tw_json_number(m->share));
}

static const char *outcome_name(enum twin_dip_outcome o)
{
    return o == TWIN_DIP_FOUND ? "slow" : o == TWIN_DIP_NONE ? "even" : "too-few";
}

static json_t *rank_json(const struct twin_telemetry_process *p, const struct twin_dip *d)
{
    json_t *moved = json_array();
    for (size_t i = 0; d->outcome == TWIN_DIP_FOUND && i < d->tested; i++)
        json_array_append_new(moved, moved_json(&d->moved[i]));
    char *sentence = twin_dip_sentence(d);
    json_t *o = json_pack("{s:i, s:i, s:i, s:I, s:I, s:s, s:I, s:o, s:o}", "rank", p->rank, "world", p->world, "pid", p->pid, "steps", (json_int_t)p->steps, "rows",
                          (json_int_t)p->rows, "outcome", outcome_name(d->outcome), "blocks", (json_int_t)d->blocks, "visible",
                          d->outcome == TWIN_DIP_TOO_FEW ? json_null() : tw_json_number(d->visible), "sentence", tw_json_text(sentence ? sentence : ""));
    tw_free(sentence);
    if (d->outcome == TWIN_DIP_FOUND) {
        json_object_set_new(o, "first", json_integer(d->first));
        json_object_set_new(o, "last", json_integer(d->last));
        json_object_set_new(o, "usual_s", tw_json_number(d->usual_s));
        json_object_set_new(o, "slow_s", tw_json_number(d->slow_s));
        json_object_set_new(o, "slower", tw_json_number(d->slower));
        json_object_set_new(o, "interval", json_pack("[o, o]", tw_json_number(d->low), tw_json_number(d->high)));
        json_object_set_new(o, "p", tw_json_number(d->p));
        json_object_set_new(o, "cause", json_string(twin_cause_name(d->cause)));
        json_object_set_new(o, "advice", json_string(twin_cause_advice(d->cause)));
        json_object_set_new(o, "moved", moved);
    } else {
        json_decref(moved);
    }
    return o;
}

static void rank_text(const struct twin_telemetry_process *p, const struct twin_dip *d, bool many)
{
    char *sentence = twin_dip_sentence(d);
    if (many)
        printf("rank %d  ", p->rank);
    printf("%s  %s\n", d->outcome == TWIN_DIP_FOUND ? "SLOW" : d->outcome == TWIN_DIP_NONE ? "EVEN" : "TOO FEW", sentence ? sentence : "");
    tw_free(sentence);
    if (d->outcome != TWIN_DIP_FOUND)
        return;
    printf("        %.3g ms per step, %.3g ms elsewhere; from %.1f s to %.1f s\n", 1e3 * d->slow_s, 1e3 * d->usual_s, d->start_s, d->end_s);
    size_t shown = 0;
    for (size_t i = 0; i < d->tested && shown < SHOWN && d->moved[i].adjusted <= .05; i++, shown++) {
        const struct twin_moved *m = &d->moved[i];
        const struct twin_counter_info *c = twin_counter_info(m->counter);
        bool seconds = strcmp(c->unit, "s") == 0;
        if (shown == 0)
            printf("\n        %-40s %12s %12s %10s %6s  %s\n", "moved with it", "elsewhere", "there", "of extra", "rho", "p");
        printf("        %-40s %12.4g %12.4g ", c->name, m->usual, m->slow);
        if (seconds && isfinite(m->share))
            printf("%9.0f%%", 100 * m->share);
        else
            printf("%10s", "");
        printf(" %6.2f  %.2g\n", m->rho, m->adjusted);
    }
    if (shown)
        puts("        (per second; p after Holm)");
    printf("        practice: %s\n", twin_cause_advice(d->cause));
}

int tw_slow_report(const struct twin_run *r, bool json)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_telemetry *t = NULL;
    int rc = twin_telemetry_load(r->dir, &t, &err);
    if (rc == TWIN_ENOENT)
        return tw_trouble(&err, "report: nothing is known of this run's speed; record it with this twinrun and without --no-telemetry");
    if (rc != 0)
        return tw_trouble(&err, "report: cannot read the telemetry");
    json_t *ranks = json_array();
    for (size_t i = 0; rc == 0 && i < t->processes; i++) {
        const struct twin_telemetry_process *p = &t->process[i];
        struct twin_dip d;
        if (twin_telemetry_rank(t, p->rank) != p)
            continue; /* what a rank was before an exec */
        if ((rc = twin_dip_find(p, &d, &err)) != 0)
            rc = tw_trouble(&err, "report: cannot look for slow stretches");
        else if (json)
            json_array_append_new(ranks, rank_json(p, &d));
        else
            rank_text(p, &d, p->world > 1);
    }
    if (rc == 0 && json)
        rc = tw_json_print(json_pack("{s:s, s:s, s:o, s:b, s:i, s:O}", "schema", "twinrun.report/1", "kind", "speed", "dir", tw_json_text(r->dir), "host_counters", (int)t->host,
                                     "cpus", (int)t->cpus, "ranks", ranks));
    json_decref(ranks);
    twin_telemetry_free(t);
    return rc;
}
