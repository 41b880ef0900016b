/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report A B: two sets of runs that differ, in numbers, speed or both: from which source, and what
 * addresses it.
 *
 * The evidence is gathered first: the comparison of all runs (numbers), how each run's world
 * differs from the first one's (worlds), times of the sets and counters (speed). twin_diagnose()
 * then names the sources, and the result is printed. Evidence that cannot be had is left out, so
 * only the comparison itself and a lack of memory make the report fail.
 */
#include "diagnosis_report.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include "src/provenance/provenance.h"
#include "src/report/diagnosis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Level of the test of speed. */
#define ALPHA .05
#define FLOOR .02 /* a difference of two per cent of a time means nothing */

/* Both sets and all evidence about them. Arrays have n entries, one for each run, those of set A
 * first. */
struct sides {
    struct tw_set *set;          /* of two: A, B; the caller's */
    const struct twin_run **run; /* of both sets */
    size_t n;
    struct twin_telemetry **telemetry; /* one for each run; NULL: none */
    struct twin_world_differences *differences;
    struct twin_incident_world **item;
    struct twin_world_view *world;
    /* over all runs */
    struct twin_verdict *verdict;
    struct twin_significance speed;
    /* per_step: the values of the sets are seconds per step, not wall times */
    bool speed_known, per_step;
    size_t typical[2]; /* index of the run that stands for its set */
    /* the typical run of the slower set against that of the faster; b_slower: the slower set is
     * B */
    struct twin_dip between;
    bool between_known, b_slower;
};

/* ---- evidence */

/* Fills world[i] with how the world of run i differs from that of run 0, without names and times. A
 * world that was not recorded stays unknown. item[i] is the array, whose strings belong to
 * differences[i]. */
static void gather_worlds(struct sides *s)
{
    json_t *first = NULL;
    twin_provenance_load(s->run[0]->dir, &first, NULL);
    s->world[0].known = first != NULL;
    for (size_t i = 1; i < s->n; i++) {
        struct twin_world_differences *d = &s->differences[i];
        json_t *p = NULL;
        if (first && twin_provenance_load(s->run[i]->dir, &p, NULL) == 0 &&
            twin_provenance_diff(first, p, d, NULL) == 0 &&
            (s->item[i] = tw_calloc(d->count + 1, sizeof **s->item))) {
            s->world[i] = (struct twin_world_view){.known = true, .item = s->item[i]};
            for (size_t k = 0; k < d->count; k++)
                if (d->item[k].power != TWIN_POWER_NOISE)
                    s->item[i][s->world[i].count++] = (struct twin_incident_world){
                        twin_power_name(d->item[k].power), d->item[k].group, d->item[k].what,
                        d->item[k].a, d->item[k].b};
        }
        json_decref(p);
    }
    json_decref(first);
}

/* The process whose time stands for a run: all ranks of a synchronous job take the same time per
 * step. NULL: no telemetry, or only one row, which has the warm-up in it. */
static const struct twin_telemetry_process *pace_maker(const struct twin_telemetry *t)
{
    const struct twin_telemetry_process *p = t ? twin_telemetry_rank(t, t->process[0].rank) : NULL;
    return p && p->rows > 1 ? p : NULL;
}

/* The mean over the rows behind the first one. */
static double seconds_per_step(const struct twin_telemetry_process *p)
{
    double seconds = 0, steps = 0;
    for (size_t i = 1; i < p->rows; i++) {
        seconds += p->row[i].seconds;
        steps += p->row[i].steps;
    }
    return seconds / steps;
}

/* Replaces wall times by times per step where all runs have them. Runs of other numbers of ranks
 * keep wall times: a step is not the same work in them. */
static void times(struct sides *s)
{
    bool same_world = true;
    s->per_step = true;
    for (size_t i = 0; i < s->n; i++) {
        twin_telemetry_load(s->run[i]->dir, &s->telemetry[i], NULL);
        s->per_step &= pace_maker(s->telemetry[i]) != NULL;
        same_world &= i == 0 || !s->per_step ||
                      pace_maker(s->telemetry[i])->world == pace_maker(s->telemetry[0])->world;
    }
    s->per_step &= same_world;
    for (size_t i = 0; s->per_step && i < s->n; i++)
        s->set[i >= s->set[0].n].x[i >= s->set[0].n ? i - s->set[0].n : i] = seconds_per_step(
            pace_maker(s->telemetry[i]));
}

/* The index of the value nearest to a given one: the run that stands for its set. */
static size_t nearest_to(const struct tw_set *set, double value)
{
    size_t found = 0;
    for (size_t i = 1; i < set->n; i++)
        if (fabs(set->x[i] - value) < fabs(set->x[found] - value))
            found = i;
    return found;
}

/* Is one set slower, and in which counters do the typical runs of the sets differ? margin is of no
 * use for this question; FLOOR is the difference below which none counts. */
static void gather_speed(struct sides *s)
{
    const struct twin_asked asked = {
        .question = TWIN_ASK_SPEED, .alpha = ALPHA, .margin = 1.05, .floor = FLOOR};
    double median[2];
    struct twin_error err = TWIN_ERROR_INIT;
    times(s);
    s->speed_known = twin_significance(s->set[0].x, s->set[0].n, s->set[1].x, s->set[1].n, &asked,
                                       &s->speed) == 0;
    for (int k = 0; k < 2; k++) {
        if (twin_stats_median(s->set[k].x, s->set[k].n, &median[k]) != 0)
            return;
        s->typical[k] = nearest_to(&s->set[k], median[k]) + (k ? s->set[0].n : 0);
    }
    s->b_slower = median[1] > median[0];
    const struct twin_telemetry_process *fast = pace_maker(s->telemetry[s->typical[!s->b_slower]]);
    const struct twin_telemetry_process *slow = pace_maker(s->telemetry[s->typical[s->b_slower]]);
    s->between_known = fast && slow && twin_dip_between(fast, slow, &s->between, &err) == 0;
}

/* Compares all runs bit for bit. Runs of unlike commands are compared as arms, so that their
 * command lines are no finding. */
static int numbers(struct sides *s, struct twin_error *err)
{
    bool same = true;
    for (size_t i = 1; same && i < s->n; i++) {
        same = s->run[i]->argc == s->run[0]->argc;
        for (size_t k = 0; same && k < s->run[0]->argc; k++)
            same = strcmp(s->run[i]->argv[k], s->run[0]->argv[k]) == 0;
    }
    struct twin_compare_options o = {.arms = !same, .find_shift = false};
    return twin_compare(s->run, s->n, &o, &s->verdict, err);
}

/* ---- output */

/* What the answer of the test adds to the figures, as a clause. */
static const char *answer_words(enum twin_real answer)
{
    if (answer == TWIN_REAL)
        return "";
    return answer == TWIN_REAL_BELOW ? ": not shown to exceed 2%" : ": no difference shown";
}

/* The times of both sets and the answer to whether they differ, in one line. */
static void speed_words(const struct sides *s, struct tw_buf *b)
{
    const struct twin_significance *v = &s->speed;
    const char *what = s->per_step ? "step time" : "wall time";
    if (!s->speed_known) {
        tw_buf_puts(b, "speed not compared");
        return;
    }
    tw_buf_printf(b, "%s A %.4g s, B %.4g s", what, v->set[0].median.value, v->set[1].median.value);
    if (v->answer == TWIN_REAL || v->answer == TWIN_REAL_BELOW || v->answer == TWIN_REAL_NOT)
        tw_buf_printf(b, "; B/A %.3f, %.0f%% interval %.3f to %.3f, p = %.2g%s", v->effect.value,
                      100 * v->effect.confidence, v->effect.interval.low, v->effect.interval.high,
                      v->p, answer_words(v->answer));
    else if (v->answer == TWIN_REAL_TOO_FEW)
        tw_buf_printf(b, "; %zu and %zu runs are too few to say how runs vary (4 and 4 could)",
                      s->set[0].n, s->set[1].n);
}

/* What a finding explains, as JSON has it. */
static const char *kind_of(const struct twin_diagnosis_finding *d)
{
    if (d->numeric && d->speed)
        return "both";
    return d->numeric ? "numeric" : "speed";
}

/* The same word in capitals, which a line of the text begins with. */
static const char *kind_heading(const struct twin_diagnosis_finding *d)
{
    if (d->numeric && d->speed)
        return "BOTH";
    return d->numeric ? "NUMERIC" : "SPEED";
}

const struct tw_style tw_diagnosis_style = {
    .label = 10,
    .words = (const struct tw_painted[]){{"NUMERIC", TW_PAINT_BAD},
                                         {"SPEED", TW_PAINT_BAD},
                                         {"BOTH", TW_PAINT_BAD},
                                         {"NO DIFFERENCE SHOWN", TW_PAINT_OPEN},
                                         {"NO DIFFERENCE", TW_PAINT_GOOD},
                                         {NULL, TW_PAINT_OFF}}};

/* A paragraph for each source, or that there is no difference; then what the answer rests on. */
static void print_text(FILE *out, const struct sides *s, const struct twin_diagnosis *d)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < d->count; i++) {
        const struct twin_diagnosis_finding *f = &d->finding[i];
        char *safe = tw_printable(f->evidence, strlen(f->evidence));
        tw_put_to(out, "%-8s  %s: %s\n", kind_heading(f), f->name, safe ? safe : "");
        tw_put_to(out, "          practice: %s\n", f->practice);
        tw_free(safe);
    }
    if (d->count == 0)
        tw_put_to(out, "%s\n",
                  s->verdict->bitwise == TWIN_SAME
                      ? "NO DIFFERENCE  equal bits, and no difference of speed was shown"
                      : "NO DIFFERENCE SHOWN  see below for what was not seen");
    tw_put_to(out, "\nbits      %s, %zu class%s in %zu runs",
              twin_verdict_name(s->verdict->bitwise), s->verdict->class_count,
              s->verdict->class_count == 1 ? "" : "es", s->n);
    if (s->verdict->bitwise == TWIN_INCONCLUSIVE && s->verdict->unseen_count)
        tw_put_to(out, "; not seen: %s", s->verdict->unseen[0]);
    speed_words(s, &b);
    tw_put_to(out, "\nspeed     %s\n", b.data ? b.data : "");
    tw_buf_free(&b);
    for (int k = 0; k < 2; k++)
        tw_put_to(out, "%c         %zu run%s: %s\n", 'A' + k, s->set[k].n, tw_plural_s(s->set[k].n),
                  s->set[k].operand);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < s->set[k].left_out_count; i++)
            tw_put_to(out, "left out  %s\n", s->set[k].left_out[i]);
}

/* The same as one object. The caller's; NULL: no memory. */
static json_t *json(const struct sides *s, const struct twin_diagnosis *d)
{
    struct tw_buf b = {0};
    json_t *findings = json_array();
    for (size_t i = 0; i < d->count; i++)
        json_array_append_new(findings,
                              json_pack("{s:s, s:s, s:o, s:s}", "kind", kind_of(&d->finding[i]),
                                        "source", d->finding[i].name, "evidence",
                                        tw_json_text(d->finding[i].evidence), "practice",
                                        d->finding[i].practice));
    speed_words(s, &b);
    json_t *o = json_pack(
        "{s:s, s:s, s:o, s:s, s:I, s:o, s:o, s:b, s:[I,I]}", "schema", "twinrun.report/1", "kind",
        "diagnosis", "findings", findings, "bits", twin_verdict_name(s->verdict->bitwise),
        "classes", (json_int_t)s->verdict->class_count, "speed", tw_json_text(b.data ? b.data : ""),
        "ratio", s->speed_known ? tw_json_number(s->speed.effect.value) : json_null(), "telemetry",
        (int)s->between_known, "runs", (json_int_t)s->set[0].n, (json_int_t)s->set[1].n);
    tw_buf_free(&b);
    return o;
}

/* ---- the order of events */

/* Makes the arrays, and puts the runs of both sets into one. 0, or TWIN_ENOMEM; free_sides()
 * follows in any case. */
static int gather_sides(struct sides *s, struct twin_error *err)
{
    s->n = s->set[0].n + s->set[1].n;
    s->run = tw_calloc(s->n, sizeof *s->run);
    s->telemetry = tw_calloc(s->n, sizeof *s->telemetry);
    s->differences = tw_calloc(s->n, sizeof *s->differences);
    s->item = tw_calloc(s->n, sizeof *s->item);
    s->world = tw_calloc(s->n, sizeof *s->world);
    if (!s->run || !s->telemetry || !s->differences || !s->item || !s->world)
        return tw_no_memory(err, "for a diagnosis");
    for (size_t i = 0; i < s->n; i++)
        s->run[i] = i < s->set[0].n ? s->set[0].run[i] : s->set[1].run[i - s->set[0].n];
    return 0;
}

static void free_sides(struct sides *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->telemetry)
            twin_telemetry_free(s->telemetry[i]);
        if (s->differences)
            twin_world_differences_free(&s->differences[i]);
        if (s->item)
            tw_free(s->item[i]);
    }
    tw_free(s->run);
    tw_free(s->telemetry);
    tw_free(s->differences);
    tw_free(s->item);
    tw_free(s->world);
    twin_verdict_free(s->verdict);
}

/* Gather, diagnose, print. Every pointer of `sides` is NULL or owned, so free_sides() is right at
 * any point. */
int tw_diagnosis_report(struct tw_set set[2], FILE *out, json_t **as_json, struct twin_error *err)
{
    struct sides s = {.set = set};
    struct twin_diagnosis d = {.count = 0};
    int rc = gather_sides(&s, err);
    if (rc == 0)
        rc = numbers(&s, err);
    if (rc == 0) {
        gather_worlds(&s);
        gather_speed(&s);
        const struct twin_diagnosis_facts f = {
            .verdict = s.verdict,
            .a = set[0].n,
            .b = set[1].n,
            .world = s.world,
            .speed = s.speed_known ? &s.speed : NULL,
            .between = s.between_known ? &s.between : NULL,
        };
        rc = twin_diagnose(&f, &d, err);
    }
    if (rc == 0 && as_json)
        *as_json = json(&s, &d);
    else if (rc == 0)
        print_text(out, &s, &d);
    twin_diagnosis_free(&d);
    free_sides(&s);
    return rc;
}
