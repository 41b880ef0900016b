/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects what is known of a run itself: when it ran, which processes and threads it had, where it
 * worked, which options its arm was given. A part of a printed line or of a file's name that equals
 * one of these facts says nothing about what the job computed. process.c loads the facts of each
 * side; shape.c and the files beside it ask them. Nothing here looks at the words of a text.
 *
 * Times are seconds. Where the job was shown another clock than the machine's (a fixed, shaken or
 * faster one), both clocks give facts: files keep the machine's, lines the shown one.
 */
#include "internal.h"
#include "printed.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds of a day, and of a quarter of an hour: time zones differ by multiples of it. */
enum { DAY_S = 86400, ZONE_S = 900 };
/* Seconds. A clock that is printed was read a little before or after the event that bounds it. */
#define CLOCK_SLACK_S 2.0

/* How long a stretch of `seconds` on this machine was on the clocks that the job was shown. */
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

/* Order of ids, for qsort and bsearch. */
static int by_value(const void *x, const void *y)
{
    const long *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

/*
 * Lists the ids of the run's processes, their parents and the launcher, sorted. Ids 0 and 1 are
 * left out: every text has such numbers. False: no memory.
 */
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

/* Is s[0 .. n) a number? Only numbers can be mistaken for results. */
static bool is_option_value(const char *s, size_t n)
{
    return n > 0 && (isdigit((unsigned char)s[0]) ||
                     ((s[0] == '-' || s[0] == '.') && n > 1 && isdigit((unsigned char)s[1])));
}

/* Adds "name=value", with '_' for '-' in the name as argparse writes it. False: no memory. */
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
 * Takes the options of one word of the command, or of one that a shell is to split: "sh -c 'python
 * t.py --workers 2'". *last is the option that a value may follow in the next word; it is kept
 * between calls. False: no memory.
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

/* Adds to out. Where both commands are the same, nothing is added. */
bool tw_facts_options(const struct twin_run *run, const struct twin_run *other,
                      struct tw_facts *out)
{
    const char *last = NULL;
    size_t last_n = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < run->argc && !twin_run_same_command(run, other); i++)
        ok = take_words(out, run->argv[i], &last, &last_n);
    return ok;
}

/*
 * A run whose length is not known has an infinite one: any time since its start fits. On failure
 * out is empty.
 */
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
    if (run->outcome == TWIN_RUN_EXITED && run->exit_code > 0)
        out->exit_code = run->exit_code;
    out->start = run->shown_clock_s > 0 ? (double)run->shown_clock_s
                                        : (double)run->start_realtime_ns / 1e9;
    out->end = shaken ? -1 : out->start + wall;
    bool ok = load_ids(run, out);
    if (!ok)
        tw_facts_free(out);
    return ok;
}

bool tw_facts_add_id(struct tw_facts *f, long id)
{
    if (id <= 1 || tw_facts_has_id(f, id))
        return true;
    long *grown = tw_reallocarray(f->id, f->id_count + 1, sizeof *grown);
    if (!grown)
        return false;
    f->id = grown;
    f->id[f->id_count++] = id;
    qsort(f->id, f->id_count, sizeof *f->id, by_value);
    return true;
}

void tw_facts_free(struct tw_facts *f)
{
    for (size_t i = 0; i < f->option_count; i++)
        tw_free(f->option[i]);
    tw_free(f->option);
    tw_free(f->id);
    *f = (struct tw_facts){0};
}

/*
 * Exactly one of the processes that are known, while tw_facts_near_id() takes every id that was
 * given out while the run went on.
 */
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
    /*
     * Years are counted from March, so that the leap day is the last of its year; an era has 400
     * years, which are 146,097 days; 719,468 days lie between the algorithm's day 0 and 1970.
     */
    int y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400;
    int of_era = y - era * 400, of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return (double)era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Does the day touch one of the spans, in any time zone? Half a day is given at both ends. */
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

/*
 * A time of day counts in any time zone, since the facts do not say in which one a line was
 * printed. end < start: a shaken clock, where every time of day may be the run's.
 */
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
