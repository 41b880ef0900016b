/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report RUN: where each rank was slow, and what moved with it; whether some ranks are slower than
 * others; and which counters could not be read.
 *
 * The statistics are those of src/telemetry (twin_dip_find, twin_uneven_find), which also makes the
 * sentences. Here is only how they are shown: in each section a function for JSON beside one for
 * text.
 */
#include "slow.h"

#include "base.h"
#include "json_text.h"
#include "put.h"

#include "src/provenance/provenance.h"
#include "src/telemetry/telemetry.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 6 }; /* counters of a slow stretch in the text */

/* One counter against the time per step. */
static json_t *moved_json(const struct twin_moved *m)
{
    const struct twin_counter_info *i = twin_counter_info(m->counter);
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "counter", i->key, "rho",
                     tw_json_number(m->rho), "p", tw_json_number(m->p), "p_holm",
                     tw_json_number(m->adjusted), "usual", tw_json_number(m->usual), "slow",
                     tw_json_number(m->slow), "share", tw_json_number(m->share));
}

static const char *outcome_name(enum twin_dip_outcome o)
{
    if (o == TWIN_DIP_FOUND)
        return "slow";
    return o == TWIN_DIP_NONE ? "even" : "too-few";
}

/* What is known of one process. Fields of a slow stretch are there only when one was found, and
 * times of the blocks only when none was. */
static json_t *rank_json(const struct twin_telemetry_process *p, const struct twin_dip *d)
{
    json_t *moved = json_array();
    for (size_t i = 0; d->outcome == TWIN_DIP_FOUND && i < d->tested; i++)
        json_array_append_new(moved, moved_json(&d->moved[i]));
    char *sentence = twin_dip_sentence(d);
    json_t *o = json_pack("{s:i, s:i, s:i, s:I, s:I, s:s, s:I, s:o, s:o}", "rank", p->rank, "world",
                          p->world, "pid", p->pid, "steps", (json_int_t)p->steps, "rows",
                          (json_int_t)p->rows, "outcome", outcome_name(d->outcome), "blocks",
                          (json_int_t)d->blocks, "visible",
                          d->outcome == TWIN_DIP_TOO_FEW ? json_null() : tw_json_number(d->visible),
                          "sentence", tw_json_text(sentence ? sentence : ""));
    tw_free(sentence);
    if (d->outcome == TWIN_DIP_NONE) {
        json_object_set_new(o, "unsteady", json_boolean(d->unsteady));
        json_object_set_new(o, "step_s",
                            json_pack("[o, o, o]", tw_json_number(d->fastest_s),
                                      tw_json_number(d->median_s), tw_json_number(d->slowest_s)));
    }
    if (d->outcome == TWIN_DIP_FOUND) {
        json_object_set_new(o, "first", json_integer(d->first));
        json_object_set_new(o, "last", json_integer(d->last));
        json_object_set_new(o, "usual_s", tw_json_number(d->usual_s));
        json_object_set_new(o, "slow_s", tw_json_number(d->slow_s));
        json_object_set_new(o, "slower", tw_json_number(d->slower));
        json_object_set_new(o, "interval",
                            json_pack("[o, o]", tw_json_number(d->low), tw_json_number(d->high)));
        json_object_set_new(o, "p", tw_json_number(d->p));
        json_object_set_new(o, "cause", json_string(twin_cause_name(d->cause)));
        json_object_set_new(o, "advice", json_string(twin_cause_advice(d->cause)));
        json_object_set_new(o, "moved", moved);
    } else {
        json_decref(moved);
    }
    return o;
}

static const char *outcome_word(const struct twin_dip *d)
{
    if (d->outcome == TWIN_DIP_FOUND)
        return "SLOW";
    if (d->outcome == TWIN_DIP_TOO_FEW)
        return "TOO FEW";
    return d->unsteady ? "UNSTEADY" : "EVEN";
}

/* The answer about one process in a line; for a slow stretch its times and up to SHOWN counters
 * that moved with it. many: the run has several ranks, so the rank is said. Only counters that are
 * significant at 5% after Holm's correction are shown. */
static void rank_text(FILE *out, const struct twin_telemetry_process *p, const struct twin_dip *d,
                      bool many)
{
    char *sentence = twin_dip_sentence(d);
    if (many)
        tw_put_to(out, "rank %d  ", p->rank);
    tw_put_to(out, "%s  %s\n", outcome_word(d), sentence ? sentence : "");
    tw_free(sentence);
    if (d->outcome != TWIN_DIP_FOUND)
        return;
    tw_put_to(out, "        %.3g ms per step, %.3g ms elsewhere; from %.1f s to %.1f s\n",
              1e3 * d->slow_s, 1e3 * d->usual_s, d->start_s, d->end_s);
    size_t shown = 0;
    for (size_t i = 0; i < d->tested && shown < SHOWN && d->moved[i].adjusted <= .05;
         i++, shown++) {
        const struct twin_moved *m = &d->moved[i];
        const struct twin_counter_info *c = twin_counter_info(m->counter);
        /* only seconds can be a share of the extra time */
        bool seconds = strcmp(c->unit, "s") == 0;
        if (shown == 0)
            tw_put_to(out, "\n        %-40s %12s %12s %10s %6s  %s\n", "moved with it", "elsewhere",
                      "there", "of extra", "rho", "p");
        tw_put_to(out, "        %-40s %12.4g %12.4g ", c->name, m->usual, m->slow);
        if (seconds && isfinite(m->share))
            tw_put_to(out, "%9.0f%%", 100 * m->share);
        else
            tw_put_to(out, "%10s", "");
        tw_put_to(out, " %6.2f  %.2g\n", m->rho, m->adjusted);
    }
    if (shown)
        tw_put_to(out, "        (per second; p after Holm)\n");
    tw_put_to(out, "        practice: %s\n", twin_cause_advice(d->cause));
}

/* ---- ranks against each other */

/* Where the answer goes, and who hears what went wrong. */
struct slow_sink {
    FILE *out;
    bool json;
    const struct tw_front *front;
};

/* A run of one rank has nothing to be compared with. */
static bool several_ranks(const struct twin_telemetry *t)
{
    for (size_t i = 1; i < t->processes; i++)
        if (t->process[i].rank != t->process[0].rank)
            return true;
    return false;
}

/* A word that provenance has of a rank, of its machine first. NULL: not known. */
static const char *word_of(const json_t *rank, const char *key)
{
    const char *s = json_string_value(json_object_get(json_object_get(rank, "machine"), key));
    return s ? s : json_string_value(json_object_get(rank, key));
}

/* "its processor is AMD EPYC 7763, the others' Xeon 8480", when no other rank has the one of this
 * rank; else the same about hosts; else NULL. malloc'ed. */
static char *other_machine(const struct twin_run *r, int slow)
{
    static const char *const keys[] = {"cpu", "host"};
    json_t *p = NULL, *rank;
    char *found = NULL;
    size_t i;
    twin_provenance_load(r->dir, &p, NULL);
    for (size_t k = 0; k < 2 && !found; k++) {
        /* first this rank's word, then whether any other rank has it as well */
        const char *mine = NULL, *theirs = NULL;
        bool shared = false;
        json_array_foreach (json_object_get(p, "ranks"), i, rank)
            if (json_integer_value(json_object_get(rank, "rank")) == slow)
                mine = word_of(rank, keys[k]);
        json_array_foreach (json_object_get(p, "ranks"), i, rank) {
            const char *w = word_of(rank, keys[k]);
            if (json_integer_value(json_object_get(rank, "rank")) == slow || !w)
                continue;
            theirs = w;
            shared |= mine && strcmp(mine, w) == 0;
        }
        /* cut at 80 bytes: a sentence has to hold both */
        char *a = mine && theirs && !shared ? tw_printable(mine, strnlen(mine, 80)) : NULL;
        char *b = a ? tw_printable(theirs, strnlen(theirs, 80)) : NULL;
        if (b)
            found = tw_printf(k == 0 ? "its processor is %s, the others' %s"
                                     : "it runs on %s, the others on %s",
                              a, b);
        tw_free(a);
        tw_free(b);
    }
    json_decref(p);
    return found;
}

static const char *uneven_name(enum twin_uneven_outcome o)
{
    if (o == TWIN_UNEVEN_FOUND)
        return "uneven";
    return o == TWIN_UNEVEN_NONE ? "alike" : "not-known";
}

/* The comparison of the ranks. machine: of other_machine(), or NULL. */
static json_t *uneven_json(const struct twin_uneven *u, const char *machine)
{
    char *sentence = twin_uneven_sentence(u);
    json_t *o = json_pack("{s:s, s:I, s:b, s:o}", "outcome", uneven_name(u->outcome), "ranks",
                          (json_int_t)u->ranks, "spin", (int)u->spin, "sentence",
                          tw_json_text(sentence ? sentence : ""));
    tw_free(sentence);
    /* figures of a slow rank only where there is one */
    if (u->outcome != TWIN_UNEVEN_FOUND)
        return o;
    json_object_update_new(
        o,
        json_pack("{s:i, s:I, s:o, s:[o,o], s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:s}",
                  "rank", u->rank, "slow_ranks", (json_int_t)u->slow_ranks, "slower",
                  tw_json_number(u->slower), "interval", tw_json_number(u->low),
                  tw_json_number(u->high), "p", tw_json_number(u->p), "above",
                  tw_json_number(u->above), "step_s", tw_json_number(u->step_s), "own_s",
                  tw_json_number(u->own_s), "others_s", tw_json_number(u->others_s), "wait_s",
                  tw_json_number(u->wait_s), "others_wait_s", tw_json_number(u->others_wait_s),
                  "of", u->waits ? "waiting" : "running", "machine",
                  machine ? tw_json_text(machine) : json_null(), "advice", twin_uneven_advice(u)));
    return o;
}

static const char *uneven_word(enum twin_uneven_outcome o)
{
    if (o == TWIN_UNEVEN_FOUND)
        return "UNEVEN";
    return o == TWIN_UNEVEN_NONE ? "ALIKE " : "RANKS ";
}

/* The same as text. The words are six columns wide, so that sentences begin below each other. */
static void uneven_text(FILE *out, const struct twin_uneven *u, const char *machine)
{
    char *sentence = twin_uneven_sentence(u);
    tw_put_to(out, "%s  %s%s%s\n", uneven_word(u->outcome), sentence ? sentence : "",
              machine ? "; " : "", machine ? machine : "");
    if (u->outcome == TWIN_UNEVEN_FOUND)
        tw_put_to(out, "        practice: %s\n", twin_uneven_advice(u));
    tw_free(sentence);
}

/* Compares the ranks: as JSON into *json, or as text to the sink. *json stays as it is for a run of
 * one rank. 0, or a TWIN_E*, said. */
static int compare_ranks(const struct slow_sink *sink, const struct twin_run *r,
                         const struct twin_telemetry *t, json_t **json)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_uneven u;
    if (!several_ranks(t))
        return 0;
    int rc = twin_uneven_find(t, &u, &err);
    if (rc != 0) {
        tw_front_trouble(sink->front, &err, "report: cannot compare the ranks");
        return rc;
    }
    char *machine = u.outcome == TWIN_UNEVEN_FOUND ? other_machine(r, u.rank) : NULL;
    if (sink->json)
        *json = uneven_json(&u, machine);
    else
        uneven_text(sink->out, &u, machine);
    tw_free(machine);
    return 0;
}

/* ---- what could not be seen */

/* Has this counter no value in any row? There is no sensor, or no permission to read it, or the
 * process was on another machine than the launcher: what then moved is not known, which is not the
 * same as nothing. GPUs that are not there are no news. */
static bool unseen(const struct twin_telemetry *t, enum twin_counter c)
{
    if (c >= TWIN_COUNTER_GPU_BUSY)
        return false;
    for (size_t i = 0; i < t->processes; i++)
        for (size_t k = 0; k < t->process[i].rows; k++)
            if (!isnan(t->process[i].row[k].value[c]))
                return false;
    return true;
}

static json_t *unseen_json(const struct twin_telemetry *t)
{
    json_t *list = json_array();
    for (int c = 0; c < TWIN_COUNTERS; c++)
        if (unseen(t, (enum twin_counter)c))
            json_array_append_new(list, json_string(twin_counter_info((enum twin_counter)c)->key));
    return list;
}

/* Without counters of the machine these are named as one, and only those of processes one by one:
 * the enum has the machine's from TWIN_COUNTER_BUSY on. */
static void unseen_text(FILE *out, const struct twin_telemetry *t)
{
    size_t n = 0;
    if (!t->host)
        tw_put_to(out, "not seen: the counters of the machine");
    n += !t->host;
    for (int c = 0; c < (t->host ? TWIN_COUNTERS : TWIN_COUNTER_BUSY); c++)
        if (unseen(t, (enum twin_counter)c))
            tw_put_to(out, "%s%s",
                      n++ ? ", " : "not seen: ", twin_counter_info((enum twin_counter)c)->name);
    if (n)
        tw_put_to(out, " (no such sensor, or no permission to read it)\n");
}

/* ---- the report */

const struct tw_style tw_slow_style = {
    .words = (const struct tw_painted[]){{"SLOW", TW_PAINT_BAD},
                                         {"UNEVEN", TW_PAINT_BAD},
                                         {"EVEN", TW_PAINT_GOOD},
                                         {"ALIKE", TW_PAINT_GOOD},
                                         {"UNSTEADY", TW_PAINT_OPEN},
                                         {"TOO FEW", TW_PAINT_OPEN},
                                         {"RANKS", TW_PAINT_OPEN},
                                         {NULL, TW_PAINT_OFF}}};

/* Looks for a slow stretch in each rank. ranks: the array of JSON, not touched for text. */
static int report_ranks(const struct slow_sink *sink, const struct twin_telemetry *t, json_t *ranks)
{
    struct twin_error err = TWIN_ERROR_INIT;
    for (size_t i = 0; i < t->processes; i++) {
        const struct twin_telemetry_process *p = &t->process[i];
        struct twin_dip d;
        if (twin_telemetry_rank(t, p->rank) != p)
            continue; /* a rank may have several processes (exec): that of most steps counts */
        int rc = twin_dip_find(p, &d, &err);
        if (rc != 0) {
            tw_front_trouble(sink->front, &err, "report: cannot look for slow stretches");
            return rc;
        }
        if (sink->json)
            json_array_append_new(ranks, rank_json(p, &d));
        else
            rank_text(sink->out, p, &d, p->world > 1);
    }
    return 0;
}

/* The ranks against each other, then each rank, then what was not seen. */
int tw_slow_report(const struct twin_run *r, FILE *out, json_t **json, const struct tw_front *front)
{
    const struct slow_sink sink = {.out = out, .json = json != NULL, .front = front};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_telemetry *t = NULL;
    int rc = twin_telemetry_load(r->dir, &t, &err);
    /* older runs, and runs recorded without telemetry */
    if (rc == TWIN_ENOENT)
        tw_front_say(front,
                     "report: nothing is known of this run's speed (%s); what else it holds: "
                     "twinrun show %.8s; a run that is recorded without --no-telemetry has its "
                     "speed, too, once it has made steps",
                     err.message, r->id);
    else if (rc != 0)
        tw_front_trouble(front, &err, "report: cannot read the telemetry");
    if (rc != 0)
        return rc;
    json_t *ranks = json_array(), *uneven = NULL;
    rc = compare_ranks(&sink, r, t, &uneven);
    if (rc == 0)
        rc = report_ranks(&sink, t, ranks);
    if (rc == 0 && json)
        *json = json_pack("{s:s, s:s, s:o, s:b, s:i, s:o, s:O, s:O?}", "schema", "twinrun.report/1",
                          "kind", "speed", "dir", tw_json_text(r->dir), "host_counters",
                          (int)t->host, "cpus", (int)t->cpus, "unseen", unseen_json(t), "ranks",
                          ranks, "uneven", uneven);
    else if (rc == 0)
        unseen_text(out, t);
    json_decref(ranks);
    json_decref(uneven);
    twin_telemetry_free(t);
    return rc;
}
