/* SPDX-License-Identifier: Apache-2.0 */
/* What a scaling study was asked: numbers of workers ("2,4,8"), the work of a step or a run
 * ("256,samples", "32*{n}"), a price. Everything is understood before the first run is made, and
 * what cannot be understood is said with an example of what can. */
#include "scale_runs.h"

#include "base.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ascending. */
static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Numbers of workers with commas between, put in order. */
static int parse_counts(struct tw_scale *s, struct twin_error *err)
{
    char *copy = tw_strdup(s->args.counts), *rest = copy, *one;
    bool ok = copy != NULL;
    for (; ok && (one = strsep(&rest, ","));) {
        uint64_t n = 0;
        ok = s->counts < TW_SCALE_COUNTS && tw_parse_u64(one, INT32_MAX, &n) == 0 && n > 0;
        for (size_t i = 0; ok && i < s->counts; i++)
            ok = s->count[i] != n;
        if (ok)
            s->count[s->counts++] = n;
    }
    tw_free(copy);
    qsort(s->count, s->counts, sizeof *s->count, by_size);
    return ok ? 0
              : twin_error_set(err, TWIN_EINVAL,
                               "--counts: expected up to %d different numbers from 1 on, as 2,4,8, "
                               "found \"%s\"",
                               TW_SCALE_COUNTS, s->args.counts);
}

/* A product of numbers and {n}, the number of workers: "32*{n}" is 32 of each worker. False: it is
 * none, or is no finite positive number. */
static bool parse_product(char *text, struct tw_scale_work *w)
{
    for (char *factor, *end; (factor = strsep(&text, "*"));) {
        if (strcmp(factor, "{n}") == 0) {
            w->power++;
            continue;
        }
        const double x = strtod(factor, &end);
        if (end == factor || *end || !(x > 0) || !isfinite(x))
            return false;
        w->each *= x;
    }
    return isfinite(w->each) && w->each > 0 && w->power <= 9;
}

/* Reads "256,samples" or "32*{n}". option is named in messages; unit is taken where none is
 * given. */
static int parse_work(const char *option, const char *given, const char *unit,
                      struct tw_scale_work *w, struct twin_error *err)
{
    char *copy = tw_strdup(given), *comma = copy ? strchr(copy, ',') : NULL;
    snprintf(w->unit, sizeof w->unit, "%s", unit);
    w->each = 1;
    bool ok = copy != NULL;
    if (comma) {
        *comma++ = '\0';
        ok = *comma && strlen(comma) < sizeof w->unit;
        for (const char *c = comma; *c; c++)
            ok = ok && (isalnum((unsigned char)*c) || strchr("_-", *c));
        snprintf(w->unit, sizeof w->unit, "%s", comma);
    }
    ok = ok && parse_product(copy, w);
    tw_free(copy);
    return ok ? 0
              : twin_error_set(
                    err, TWIN_EINVAL,
                    "%s: expected a positive number, also times {n}, and a unit of letters, "
                    "as 256,samples or 32*{n},samples, found \"%s\"",
                    option, given);
}

int tw_scale_understand(struct tw_scale *s, struct twin_error *err)
{
    const struct tw_scale_args *a = &s->args;
    bool names = false;
    char *end;
    /* A command without {n} would be the same for every number of workers. */
    for (size_t i = 0; s->argv[i]; i++)
        names |= strstr(s->argv[i], "{n}") != NULL;
    int rc = parse_counts(s, err);
    if (rc == 0 && !names)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "expected {n} in the command, where the number of workers "
                            "belongs, as in torchrun --nproc-per-node={n} train.py");
    if (rc == 0 && a->work_per_step && a->work_per_run)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "expected --work-per-step or --work-per-run, found both");
    s->work = (struct tw_scale_work){
        .each = 1, .per_run = a->work_per_run != NULL, .unit = "steps"};
    if (rc == 0 && a->work_per_step)
        rc = parse_work("--work-per-step", a->work_per_step, "units", &s->work, err);
    if (rc == 0 && a->work_per_run)
        rc = parse_work("--work-per-run", a->work_per_run, "units", &s->work, err);
    if (rc == 0 && a->price) {
        s->price = strtod(a->price, &end);
        if (end == a->price || *end || !(s->price > 0) || !isfinite(s->price))
            rc = twin_error_set(err, TWIN_EINVAL,
                                "--price: expected a positive number, found \"%s\"", a->price);
    }
    return rc;
}
