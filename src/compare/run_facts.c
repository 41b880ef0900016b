/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a run itself: when it ran, which processes and threads it had, where it worked.
 * A part of a printed line or of a file's name that equals one of these facts says nothing about
 * what the job computed. Nothing here looks at words.
 */
#include "internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DAY_S = 86400, ZONE_S = 900 }; /* time zones differ by multiples of a quarter of an hour */
/* a clock that is printed was read a little before or after */
#define CLOCK_SLACK_S 2.0

/* How long a time of this machine was on the job's clocks. */
static double on_its_clocks(const struct twin_run *run, double seconds)
{
    return run->clock_factor > 1 ? seconds * run->clock_factor : seconds;
}

struct tw_noise_span tw_noise_span(const struct twin_run *run)
{
    double wall = isfinite(run->wall_s) ? on_its_clocks(run, run->wall_s) : 0;
    double start = (double)run->start_realtime_ns / 1e9;
    double shown = run->shown_clock_s ? (double)run->shown_clock_s : start;
    if (run->shown_clock_s < 0) /* a shaken clock: any of the years 2001 to 2033 */
        return (struct tw_noise_span){{start - DAY_S, 1e9}, {start + wall + DAY_S, 2e9}};
    return (struct tw_noise_span){{start - DAY_S, shown - DAY_S},
                                  {start + wall + DAY_S, shown + wall + DAY_S}};
}

static int by_value(const void *x, const void *y)
{
    const long *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

static bool load_ids(const struct twin_run *run, struct tw_facts *out)
{
    out->id = tw_calloc(2 * run->process_count + 1, sizeof *out->id);
    if (!out->id)
        return false;
    if (run->launcher_pid > 1)
        out->id[out->id_count++] = run->launcher_pid;
    for (size_t i = 0; i < run->process_count; i++) {
        const int ids[] = {run->processes[i].pid, run->processes[i].ppid};
        for (size_t k = 0; k < 2; k++)
            if (ids[k] > 1)
                out->id[out->id_count++] = ids[k];
    }
    if (out->id_count > 1)
        qsort(out->id, out->id_count, sizeof *out->id, by_value);
    if (run->first_id > 0 && run->last_id >= run->first_id) {
        out->id_low = run->first_id;
        out->id_high = run->last_id;
    }
    return true;
}

/* ---- options of an arm: "--workers 2", "--workers=2" and "workers=2" are "workers=2". */

static bool is_option_value(const char *s, size_t n)
{
    return n > 0 && (isdigit((unsigned char)s[0]) ||
                     ((s[0] == '-' || s[0] == '.') && n > 1 && isdigit((unsigned char)s[1])));
}

static bool add_option(struct tw_facts *f, const char *name, size_t n, const char *value, size_t m)
{
    char *text = tw_printf("%.*s=%.*s", (int)n, name, (int)m, value);
    char **grown = text ? tw_reallocarray(f->option, f->option_count + 1, sizeof *grown) : NULL;
    if (!grown) {
        tw_free(text);
        return false;
    }
    for (char *p = text; *p && *p != '='; p++)
        if (*p == '-')
            *p = '_';
    f->option = grown;
    f->option[f->option_count++] = text;
    return true;
}

/*
 * A word of the command, also of one that a shell is to split: "sh -c 'python t.py --workers 2'".
 */
static bool take_words(struct tw_facts *f, const char *text, const char **last, size_t *last_n)
{
    while (*text) {
        text += strspn(text, " \t\n;&|'\"");
        size_t n = strcspn(text, " \t\n;&|'\"");
        if (n == 0)
            break;
        size_t dashes = strspn(text, "-");
        const char *equal = memchr(text, '=', n);
        if (*last && is_option_value(text, n) && !add_option(f, *last, *last_n, text, n))
            return false;
        *last = NULL;
        if (dashes > 0 && dashes < n && !isdigit((unsigned char)text[dashes])) {
            size_t length = equal ? (size_t)(equal - text) - dashes : n - dashes;
            if (!equal) {
                *last = text + dashes;
                *last_n = length;
            } else if (is_option_value(equal + 1, n - dashes - length - 1) &&
                       !add_option(f, text + dashes, length, equal + 1, n - dashes - length - 1)) {
                return false;
            }
        }
        text += n;
    }
    return true;
}

static bool same_command(const struct twin_run *a, const struct twin_run *b)
{
    bool same = a->argc == b->argc;
    for (size_t i = 0; same && i < a->argc; i++)
        same = strcmp(a->argv[i], b->argv[i]) == 0;
    return same;
}

bool tw_facts_options(const struct twin_run *run, const struct twin_run *other,
                      struct tw_facts *out)
{
    const char *last = NULL;
    size_t last_n = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < run->argc && !same_command(run, other); i++)
        ok = take_words(out, run->argv[i], &last, &last_n);
    return ok;
}

bool tw_facts_load(const struct twin_run *run, struct tw_facts *out)
{
    bool shaken = run->shown_clock_s < 0;
    double wall = isfinite(run->wall_s) && run->wall_s > 0 ? on_its_clocks(run, run->wall_s)
                                                           : INFINITY;
    *out = (struct tw_facts){.span = tw_noise_span(run),
                             .elapsed = wall,
                             .dir = run->dir,
                             .host = run->host,
                             .clock = (double)run->start_monotonic_ns / 1e9,
                             .fresh = run->fresh_names,
                             .fresh_count = run->fresh_count};
    out->start = run->shown_clock_s > 0 ? (double)run->shown_clock_s
                                        : (double)run->start_realtime_ns / 1e9;
    out->end = shaken ? -1 : out->start + wall;
    bool ok = load_ids(run, out);
    if (!ok)
        tw_facts_free(out);
    return ok;
}

void tw_facts_free(struct tw_facts *f)
{
    for (size_t i = 0; i < f->option_count; i++)
        tw_free(f->option[i]);
    tw_free(f->option);
    tw_free(f->id);
    *f = (struct tw_facts){0};
}

bool tw_facts_has_id(const struct tw_facts *f, long id)
{
    return f->id_count > 0 && bsearch(&id, f->id, f->id_count, sizeof id, by_value) != NULL;
}

bool tw_facts_near_id(const struct tw_facts *f, long id)
{
    return tw_facts_has_id(f, id) || (f->id_high > 0 && id >= f->id_low && id <= f->id_high);
}

bool tw_facts_has_reading(const struct tw_facts *f, double seconds)
{
    return f->clock > 0 && seconds >= f->clock - CLOCK_SLACK_S &&
           seconds <= f->clock + f->elapsed + CLOCK_SLACK_S;
}

bool tw_facts_has_second(const struct tw_facts *f, double seconds)
{
    return (seconds >= f->span.from[0] && seconds <= f->span.to[0]) ||
           (seconds >= f->span.from[1] && seconds <= f->span.to[1]);
}

/* Days since 1970 of a date of the Gregorian calendar (Hinnant, "chrono-compatible low-level date
 * algorithms"). */
static double days_of(int year, int month, int day)
{
    int y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400;
    int of_era = y - era * 400, of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return (double)era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool day_in_span(const struct tw_facts *f, int year, int month, int day)
{
    double noon = days_of(year, month, day) * DAY_S + DAY_S / 2;
    for (size_t i = 0; i < 2; i++)
        if (noon >= f->span.from[i] - DAY_S / 2 && noon <= f->span.to[i] + DAY_S / 2)
            return true;
    return false;
}

bool tw_facts_has_date(const struct tw_facts *f, int year, int month, int day)
{
    if (month < 1 || month > 12 || day < 1 || day > 31)
        return false;
    if (year > 0)
        return day_in_span(f, year, month, day);
    for (size_t i = 0; i < 2; i++) { /* a date without a year: that of the run */
        double years = (f->span.from[i] + f->span.to[i]) / 2 / (365.2425 * DAY_S);
        for (int near = -1; near <= 1; near++)
            if (day_in_span(f, 1970 + (int)years + near, month, day))
                return true;
    }
    return f->span.to[1] - f->span.from[1] > 366.0 * DAY_S;
}

bool tw_facts_has_clock(const struct tw_facts *f, int hour, int minute, double second)
{
    double clock = (hour * 60.0 + minute) * 60 + second;
    if (clock <= f->elapsed + CLOCK_SLACK_S || f->end < f->start)
        return true;
    double from = f->start - CLOCK_SLACK_S, to = f->end + CLOCK_SLACK_S;
    /* the first such time at or after the start, in some time zone */
    double next = clock + ceil((from - clock) / ZONE_S) * ZONE_S;
    return next <= to;
}
