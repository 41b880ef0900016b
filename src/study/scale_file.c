/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A study as one JSON object, schema twinrun.scale/1, and back. The runs are what was measured;
 * points and notes are written for readers without this program, and are not read back but computed
 * again. The results (compared weights) are read back, since the runs' recordings may be gone.
 *
 * A file may come from a stranger: every number has a range, every list a limit, and texts are made
 * printable again.
 */
#include "scale.h"

#include "base.h"
#include "json_load.h"
#include "json_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Text of a study, measured here or read from a file in which it was escaped: written once more, it
 * says the same. */
static json_t *text_json(const char *s)
{
    char *safe = s ? tw_printable_again(s, strlen(s)) : NULL;
    json_t *j = safe ? json_string(safe) : NULL;
    tw_free(safe);
    return s ? j : json_null();
}

/* A list of such texts. */
static json_t *texts_json(char *const *items, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, text_json(items[i]));
    return list;
}

/* Bytes of a file that is read, and runs of a study: more is a mistake or an attack. */
#define FILE_CAP ((size_t)256 << 20)
enum { RUNS_MAX = 100000 };

void tw_scale_run_free(struct tw_scale_run *r)
{
    tw_free(r->run);
    tw_free(r->state);
    tw_free(r->node);
    tw_free(r->step);
    tw_free(r->weights);
    tw_free(r->loss);
    *r = (struct tw_scale_run){0};
}

int tw_scale_add(struct tw_scale *s, struct tw_scale_run *r)
{
    struct tw_scale_run *grown = s->runs < RUNS_MAX
                                     ? tw_reallocarray(s->run, s->runs + 1, sizeof *grown)
                                     : NULL;
    if (!grown)
        return TWIN_ENOMEM;
    s->run = grown;
    grown[s->runs++] = *r;
    *r = (struct tw_scale_run){0};
    return 0;
}

/* ---- writing */

json_t *tw_scale_run_json(const struct tw_scale_run *r)
{
    json_t *step = json_array();
    for (size_t i = 0; i < r->step_count; i++)
        json_array_append_new(step, json_real(r->step[i]));
    return json_pack("{s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:I, s:o, s:o, s:o, s:o*}",
                     "round", (json_int_t)r->round, "workers", (json_int_t)r->workers, "good",
                     (int)r->good, "run", text_json(r->run), "state", text_json(r->state), "wall_s",
                     tw_json_number(r->wall_s), "observer", tw_json_number(r->observer), "steps",
                     (json_int_t)r->steps, "timed_steps", (json_int_t)r->timed, "timed_s",
                     tw_json_number(r->timed_s), "ranks", (json_int_t)r->ranks, "weights",
                     text_json(r->weights), "loss", text_json(r->loss), "step_s", step, "node",
                     r->node ? text_json(r->node) : NULL);
}

/* An estimate with its interval; null where there is none. */
static json_t *estimate_json(const struct twin_estimate *e)
{
    if (isnan(e->value))
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "value", tw_json_number(e->value), "interval",
                     isnan(e->interval.low) ? json_null()
                                            : json_pack("[o, o]", tw_json_number(e->interval.low),
                                                        tw_json_number(e->interval.high)),
                     "confidence", tw_json_number(e->confidence));
}

/* One number of workers: what was measured, and what follows from it (speedup, efficiency,
 * price). */
static json_t *point_json(const struct tw_scale *s, size_t i)
{
    const struct twin_scaling_point *p = &s->point[i];
    struct twin_estimate price = p->cost;
    price.value *= s->price / 3600;
    price.interval.low *= s->price / 3600;
    price.interval.high *= s->price / 3600;
    return json_pack(
        "{s:I, s:I, s:f, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "workers",
        (json_int_t)p->workers, "runs", (json_int_t)p->runs, "work",
        tw_scale_work_of(s, p->workers), "oversubscribed",
        (int)(s->cores > 0 && p->workers > (uint64_t)s->cores), "throughput",
        estimate_json(&p->rate), "median_throughput", estimate_json(&p->median), "speedup",
        estimate_json(&p->speedup), "efficiency", estimate_json(&p->efficiency), "worker_seconds",
        estimate_json(&p->cost), "price", s->price > 0 ? estimate_json(&price) : json_null(),
        "step_p50", estimate_json(&p->latency[TWIN_SCALING_P50]), "step_p90",
        estimate_json(&p->latency[TWIN_SCALING_P90]), "step_p99",
        estimate_json(&p->latency[TWIN_SCALING_P99]), "mad", tw_json_number(p->mad.mad), "outliers",
        tw_scale_outliers_told(p) ? json_integer((json_int_t)p->mad.outliers) : json_null());
}

/* Whether the runs of one number of workers computed the same as those of the first. */
static json_t *result_json(const struct tw_scale_result *r)
{
    return json_pack("{s:I, s:I, s:I, s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "workers",
                     (json_int_t)r->workers, "runs", (json_int_t)r->runs, "classes",
                     (json_int_t)r->classes, "compared", (int)r->compared, "equal", (int)r->equal,
                     "relative_l2", tw_json_number(r->distance), "loss", tw_json_number(r->loss),
                     "loss_distance", tw_json_number(r->loss_distance), "nonfinite_step",
                     r->broken_step ? json_integer((json_int_t)r->broken_step - 1) : json_null(),
                     "why", text_json(r->why));
}

/* Runs have their rate and score beside what was measured, for readers; both are computed again
 * when the file is read. */
json_t *tw_scale_json(const struct tw_scale *s)
{
    json_t *counts = json_array();
    json_t *runs = json_array();
    json_t *points = json_array();
    json_t *results = json_array();
    for (size_t i = 0; i < s->counts; i++) {
        json_array_append_new(counts, json_integer((json_int_t)s->count[i]));
        json_array_append_new(points, point_json(s, i));
        json_array_append_new(results, result_json(&s->result[i]));
    }
    for (size_t i = 0; i < s->runs; i++) {
        json_t *j = tw_scale_run_json(&s->run[i]);
        json_object_set_new(j, "rate",
                            tw_scale_counts(s, &s->run[i])
                                ? tw_json_number(tw_scale_rate(s, &s->run[i]))
                                : json_null());
        json_object_set_new(j, "z", tw_json_number(s->z[i]));
        json_array_append_new(runs, j);
    }
    json_t *work = json_pack("{s:f, s:I, s:s, s:s}", "each", s->work.each, "power",
                             (json_int_t)s->work.power, "per", s->work.per_run ? "run" : "step",
                             "unit", s->work.unit);
    json_t *j = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:f, s:o, s:o, s:o, s:o}",
        "schema", "twinrun.scale/1", "command", text_json(s->command), "made", text_json(s->made),
        "configuration", text_json(s->configuration), "counts", counts, "repeats",
        (json_int_t)s->args.repeats, "seed", (json_int_t)s->args.seed, "warmup",
        (json_int_t)s->args.warmup, "cores", (json_int_t)s->cores, "work", work,
        "price_per_worker_hour", s->price > 0 ? json_real(s->price) : json_null(), "confidence",
        .95, "points", points, "results", results, "runs", runs, "notes",
        texts_json(s->note, s->notes));
    return j;
}

/* ---- reading */

/* An integer of this range; else TWIN_EFORMAT. */
static int read_whole(const json_t *j, const char *key, json_int_t low, json_int_t high,
                      uint64_t *out)
{
    const json_t *v = json_object_get(j, key);
    if (!json_is_integer(v) || json_integer_value(v) < low || json_integer_value(v) > high)
        return TWIN_EFORMAT;
    *out = (uint64_t)json_integer_value(v);
    return 0;
}

/* A number from 0 on; null is NaN. */
static int read_number(const json_t *j, const char *key, double *out)
{
    const json_t *v = json_object_get(j, key);
    *out = json_is_number(v) ? json_number_value(v) : NAN;
    return json_is_null(v) || (json_is_number(v) && *out >= 0 && isfinite(*out)) ? 0 : TWIN_EFORMAT;
}

/* A text; null is "". */
static int read_text(const json_t *j, const char *key, char **out)
{
    const json_t *v = json_object_get(j, key);
    if (!json_is_string(v) && !json_is_null(v))
        return TWIN_EFORMAT;
    /* What a study of ours holds was escaped when it was written. */
    *out = json_is_string(v) ? tw_printable_again(json_string_value(v), json_string_length(v))
                             : tw_strdup("");
    return *out ? 0 : TWIN_ENOMEM;
}

/* Seconds of steps, each positive. *out has the list also after an error, for tw_scale_run_free. */
static int read_steps(const json_t *list, struct tw_scale_run *out)
{
    if (!json_is_array(list) || json_array_size(list) > TW_SCALE_STEPS)
        return TWIN_EFORMAT;
    out->step_count = json_array_size(list);
    out->step = tw_reallocarray(NULL, out->step_count + 1, sizeof *out->step);
    for (size_t i = 0; out->step && i < out->step_count; i++) {
        const json_t *v = json_array_get(list, i);
        out->step[i] = json_number_value(v);
        if (!json_is_number(v) || !(out->step[i] > 0) || !isfinite(out->step[i]))
            return TWIN_EFORMAT;
    }
    return out->step ? 0 : TWIN_ENOMEM;
}

int tw_scale_run_read(const json_t *j, struct tw_scale_run *out)
{
    *out = (struct tw_scale_run){0};
    int rc = read_whole(j, "round", 0, RUNS_MAX, &out->round) ||
                     read_whole(j, "workers", 1, INT32_MAX, &out->workers) ||
                     read_whole(j, "steps", 0, INT64_MAX, &out->steps) ||
                     read_whole(j, "timed_steps", 0, INT64_MAX, &out->timed) ||
                     read_whole(j, "ranks", 0, INT32_MAX, &out->ranks) ||
                     read_number(j, "wall_s", &out->wall_s) ||
                     read_number(j, "observer", &out->observer) ||
                     read_number(j, "timed_s", &out->timed_s) ||
                     !json_is_boolean(json_object_get(j, "good"))
                 ? TWIN_EFORMAT
                 : 0;
    out->good = json_is_true(json_object_get(j, "good"));
    rc = rc ? rc : read_text(j, "run", &out->run);
    rc = rc ? rc : read_text(j, "state", &out->state);
    rc = rc ? rc : read_text(j, "weights", &out->weights);
    rc = rc ? rc : read_text(j, "loss", &out->loss);
    if (rc == 0 && json_object_get(j, "node"))
        rc = read_text(j, "node", &out->node);
    rc = rc ? rc : read_steps(json_object_get(j, "step_s"), out);
    if (rc == 0 && (isnan(out->wall_s) || isnan(out->timed_s) ||
                    (out->timed > 0 && !(out->timed_s > 0)) || (out->good && !(out->wall_s > 0))))
        rc = TWIN_EFORMAT;
    if (rc != 0)
        tw_scale_run_free(out);
    return rc;
}

/* The results, one for each number of workers, in the order of "counts". */
static int read_results(const json_t *list, struct tw_scale *s)
{
    if (json_array_size(list) != s->counts)
        return TWIN_EFORMAT;
    for (size_t i = 0; i < s->counts; i++) {
        const json_t *j = json_array_get(list, i), *loss = json_object_get(j, "loss");
        struct tw_scale_result *r = &s->result[i];
        if (read_whole(j, "workers", 1, INT32_MAX, &r->workers) || r->workers != s->count[i] ||
            read_whole(j, "runs", 0, RUNS_MAX, &r->runs) ||
            read_whole(j, "classes", 0, RUNS_MAX, &r->classes) ||
            read_number(j, "relative_l2", &r->distance) ||
            read_number(j, "loss_distance", &r->loss_distance))
            return TWIN_EFORMAT;
        r->loss = json_is_number(loss) ? json_number_value(loss) : NAN; /* may be negative */
        uint64_t step;
        r->broken_step = read_whole(j, "nonfinite_step", 0, UINT32_MAX, &step) == 0 ? step + 1 : 0;
        r->compared = json_is_true(json_object_get(j, "compared"));
        r->equal = json_is_true(json_object_get(j, "equal"));
        if (json_is_string(json_object_get(j, "why")) && read_text(j, "why", &r->why) != 0)
            return TWIN_ENOMEM;
    }
    return 0;
}

/* The work of a step or a run. */
static int read_work(const json_t *j, struct tw_scale_work *w)
{
    uint64_t power;
    const char *per = json_string_value(json_object_get(j, "per"));
    const char *unit = json_string_value(json_object_get(j, "unit"));
    if (read_whole(j, "power", 0, 9, &power) || read_number(j, "each", &w->each) ||
        !(w->each > 0) || !per || !unit || !*unit || strlen(unit) >= sizeof w->unit ||
        (strcmp(per, "run") != 0 && strcmp(per, "step") != 0))
        return TWIN_EFORMAT;
    w->power = (unsigned)power;
    w->per_run = strcmp(per, "run") == 0;
    char *safe = tw_printable_again(unit, strlen(unit));
    snprintf(w->unit, sizeof w->unit, "%s", safe ? safe : "?");
    tw_free(safe);
    return 0;
}

/* The numbers of workers, which ascend. */
static int read_counts(const json_t *list, struct tw_scale *s)
{
    s->counts = json_array_size(list);
    if (!json_is_array(list) || s->counts < 1 || s->counts > TW_SCALE_COUNTS)
        return TWIN_EFORMAT;
    for (size_t i = 0; i < s->counts; i++) {
        const json_int_t n = json_integer_value(json_array_get(list, i));
        if (n < 1 || n > INT32_MAX || (i > 0 && (uint64_t)n <= s->count[i - 1]))
            return TWIN_EFORMAT;
        s->count[i] = (uint64_t)n;
    }
    return 0;
}

/* Fills s from the object. Returns the first key that is not as it should be, with the error in
 * *rc; NULL: all is read. */
static const char *read_object(const json_t *j, struct tw_scale *s, int *rc)
{
    uint64_t cores;
    double confidence;
    const json_t *runs = json_object_get(j, "runs"), *one;
    size_t i;
#define TRY(key, call)       \
    if ((*rc = (call)) != 0) \
    return key
    TRY("counts", read_counts(json_object_get(j, "counts"), s));
    TRY("command", read_text(j, "command", &s->command));
    TRY("made", read_text(j, "made", &s->made));
    TRY("configuration", read_text(j, "configuration", &s->configuration));
    TRY("repeats", read_whole(j, "repeats", 1, RUNS_MAX, &s->args.repeats));
    TRY("seed", read_whole(j, "seed", 0, INT64_MAX, &s->args.seed));
    TRY("warmup", read_whole(j, "warmup", 1, INT32_MAX, &s->args.warmup));
    TRY("cores", read_whole(j, "cores", 0, INT32_MAX, &cores));
    TRY("work", read_work(json_object_get(j, "work"), &s->work));
    TRY("price_per_worker_hour", read_number(j, "price_per_worker_hour", &s->price));
    TRY("confidence", read_number(j, "confidence", &confidence));
    TRY("results", read_results(json_object_get(j, "results"), s));
    TRY("runs", json_is_array(runs) && json_array_size(runs) <= RUNS_MAX ? 0 : TWIN_EFORMAT);
#undef TRY
    s->cores = (long)cores;
    s->price = s->price > 0 ? s->price : 0;
    json_array_foreach (runs, i, one) {
        struct tw_scale_run r;
        if ((*rc = tw_scale_run_read(one, &r)) != 0)
            return "runs";
        if ((*rc = tw_scale_add(s, &r)) != 0) {
            tw_scale_run_free(&r);
            return "runs";
        }
    }
    return NULL;
}

int tw_scale_parse(struct tw_scale *s, const char *data, size_t bytes, const char *name,
                   struct twin_error *err)
{
    json_error_t where;
    json_t *j = tw_json_load(data, bytes, JSON_REJECT_DUPLICATES, &where);
    const char *schema = json_string_value(json_object_get(j, "schema"));
    int rc = 0;
    const char *bad = j && schema && strcmp(schema, "twinrun.scale/1") == 0 ? read_object(j, s, &rc)
                                                                            : "schema";
    if (!j)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: line %d: expected the JSON object that twinrun scale writes: %s",
                            name, where.line, where.text);
    else if (bad && rc == TWIN_ENOMEM)
        rc = tw_no_memory(err, "for the study");
    else if (bad)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: \"%s\" is not what schema twinrun.scale/1 has there", name, bad);
    json_decref(j);
    return rc;
}

/* A package is a stranger's folder: what lies there in place of the file must not hold us up. */
static int read_study(const char *path, char **inside, char **data, size_t *bytes,
                      struct twin_error *err)
{
    struct stat st;
    const bool package = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    *inside = package ? tw_path_join(path, "data/study/study.json") : tw_strdup(path);
    if (!*inside)
        return tw_no_memory(err, "for the study");
    if (package && stat(*inside, &st) != 0)
        return twin_error_set(err, TWIN_ENOENT,
                              "%s: expected a package with a study in it (twinrun pack --study), "
                              "found none: no data/study/study.json",
                              path);
    if (package && !S_ISREG(st.st_mode))
        return twin_error_set(err, TWIN_EFORMAT, "%s: expected a file, found something else",
                              *inside);
    return tw_read_file(*inside, FILE_CAP, data, bytes, err);
}

int tw_scale_load(struct tw_scale *s, const char *path, struct twin_error *err)
{
    char *data = NULL, *inside = NULL;
    size_t n;
    int rc = read_study(path, &inside, &data, &n, err);
    if (rc == 0)
        rc = tw_scale_parse(s, data, n, inside, err);
    tw_free(data);
    tw_free(inside);
    return rc;
}

void tw_scale_free(struct tw_scale *s)
{
    for (size_t i = 0; i < s->runs; i++)
        tw_scale_run_free(&s->run[i]);
    for (size_t i = 0; i < s->counts; i++)
        tw_free(s->result[i].why);
    for (size_t i = 0; i < s->notes; i++)
        tw_free(s->note[i]);
    tw_free(s->note);
    tw_free(s->run);
    tw_free(s->z);
    tw_free(s->home);
    tw_free(s->made);
    tw_free(s->command);
    tw_free(s->configuration);
}

int tw_scale_is_study(const char *path, struct twin_error *err)
{
    struct tw_scale s = {0};
    int rc = tw_scale_load(&s, path, err);
    tw_scale_free(&s);
    return rc;
}
