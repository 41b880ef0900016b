/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run holds still from outside, as it arrived in this process: the variables that
 * TWINRUN_HELD names, the processors, the address layout. A shell between the launcher and us may
 * have set them otherwise; the launcher compares (src/isolate/effects.c).
 */
#include "state.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include "src/base/base.h"

static void report_variable(const char *name, size_t n)
{
    char key[96], variable[80];
    if (n == 0 || n >= sizeof variable)
        return;
    memcpy(variable, name, n);
    variable[n] = '\0';
    const char *value = getenv(variable);
    snprintf(key, sizeof key, "%s.%s", value ? "env" : "unset", variable);
    tw_folder_factor(key, value ? value : "");
}

static void report_processors(void)
{
    cpu_set_t set;
    char value[32];
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    int first = 0;
    while (first < CPU_SETSIZE - 1 && !CPU_ISSET((size_t)first, &set))
        first++;
    snprintf(value, sizeof value, "%d from %d", CPU_COUNT(&set), first);
    tw_folder_factor("held.processors", value);
}

void tw_held_report(void)
{
    const char *names = getenv("TWINRUN_HELD");
    if (!names)
        return;
    while (*names) {
        size_t n = strcspn(names, ",");
        report_variable(names, n);
        names += n + (names[n] == ',');
    }
    report_processors();
    int layout = personality(0xffffffff);
    if (layout >= 0)
        tw_folder_factor("held.layout", layout & ADDR_NO_RANDOMIZE ? "fixed" : "random");
}
