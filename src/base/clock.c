/* SPDX-License-Identifier: Apache-2.0 */
/* The two clocks: one that only runs forward, for durations, and the time of day, for names and
 * records. Both in nanoseconds. */
#include "base.h"

#include <stdio.h>
#include <time.h>

uint64_t tw_monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int64_t tw_realtime_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* No colons: the text is a part of file names. It sorts in the order of time. */
void tw_utc_stamp(int64_t realtime_ns, char out[32])
{
    time_t s = (time_t)(realtime_ns / 1000000000);
    struct tm tm;
    if (!gmtime_r(&s, &tm) || !strftime(out, 32, "%Y-%m-%dT%H-%M-%SZ", &tm))
        snprintf(out, 32, "unknown-time");
}

void tw_utc_time(int64_t realtime_ns, bool whole, char out[32])
{
    const int64_t second_ns = 1000000000, part = realtime_ns % second_ns;
    const int64_t rest_ns = part < 0 ? part + second_ns : part;
    const time_t s = (time_t)(realtime_ns / second_ns - (part < 0));
    struct tm tm;
    char day[32];
    /* nanoseconds of 64 bits end in 2262, so neither fails */
    if (!gmtime_r(&s, &tm) || !strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm))
        snprintf(day, sizeof day, "1970-01-01T00:00:00");
    if (whole)
        snprintf(out, 32, "%.19s.%09dZ", day, (int)rest_ns);
    else
        snprintf(out, 32, "%.19sZ", day);
}
