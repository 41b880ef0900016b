/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "predicted arrival time: 377 s", printed by a job that took a second, is no time that the job can
 * have measured. A number with a unit of time behind it is noise only when the run had that much
 * time, on all its threads together; longer ones can be results, unless the line speaks of the time
 * to come, or of the machine's, or the number is what the machine's clock showed during the run
 * (Python's time.perf_counter() and time.monotonic() count from the machine's start).
 */
#include "internal.h"
#include "printed.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define THREADS_AT_ONCE 64
#define SLACK_S 60

struct unit_of_time {
    const char *name;
    double seconds;
};

static const struct unit_of_time units[] = {
    {"s", 1},     {"sec", 1},    {"secs", 1},    {"second", 1},   {"seconds", 1},
    {"min", 60},  {"mins", 60},  {"minute", 60}, {"minutes", 60}, {"h", 3600},
    {"hr", 3600}, {"hrs", 3600}, {"hour", 3600}, {"hours", 3600},
};
static const char *const of_other_times[] = {"eta",      "remaining", "left",   "estimated",
                                             "expected", "uptime",    "timeout"};

static bool speaks_of_other_times(const char *line)
{
    for (size_t i = 0; i < sizeof of_other_times / sizeof of_other_times[0]; i++)
        if (strcasestr(line, of_other_times[i]))
            return true;
    return false;
}

/* 0: no unit from a second on. */
static double seconds_of(const char *behind)
{
    behind += strspn(behind, " (-");
    size_t n = 0;
    while (isalpha((unsigned char)behind[n]))
        n++;
    if (behind[n] == '/' || behind[n] == '_')
        return 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strlen(units[i].name) == n && strncasecmp(behind, units[i].name, n) == 0)
            return units[i].seconds;
    return 0;
}

bool tw_duration_fits(const char *line, size_t at, size_t n, const struct tw_facts *f)
{
    double unit = seconds_of(line + at + n);
    /* infinite where the run's own is not known */
    double longest = f->elapsed * THREADS_AT_ONCE + SLACK_S;
    if (unit == 0 || speaks_of_other_times(line))
        return true;
    double seconds = strtod(line + at, NULL) * unit;
    return !(seconds > longest) || tw_facts_has_reading(f, seconds);
}
