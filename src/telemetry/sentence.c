/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says in one sentence what twin_dip_find() or twin_dip_between() found: the slow stretch with its
 * cause and the best evidence for it, or what would have shown if there is none. src/report prints
 * the sentence.
 */
#include "telemetry_inside.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

/* The counters that testify for a cause, the better witness first; TWIN_COUNTERS ends the list. */
static const enum twin_counter *witnesses(enum twin_cause c)
{
    assert((unsigned)c < TWIN_CAUSES);
    static const enum twin_counter of[TWIN_CAUSES][5] = {
        [TWIN_CAUSE_UNKNOWN] = {TWIN_COUNTERS},
        [TWIN_CAUSE_INTERFERENCE] = {TWIN_COUNTER_WAIT, TWIN_COUNTER_OTHERS, TWIN_COUNTER_CPU_STALL,
                                     TWIN_COUNTERS},
        [TWIN_CAUSE_STEAL] = {TWIN_COUNTER_STEAL, TWIN_COUNTERS},
        [TWIN_CAUSE_QUOTA] = {TWIN_COUNTER_THROTTLED, TWIN_COUNTERS},
        [TWIN_CAUSE_NETWORK] = {TWIN_COUNTER_NET, TWIN_COUNTER_LOOPBACK, TWIN_COUNTER_RETRANSMITS,
                                TWIN_COUNTERS},
        [TWIN_CAUSE_DISK] = {TWIN_COUNTER_IO_STALL, TWIN_COUNTER_IOWAIT, TWIN_COUNTERS},
        [TWIN_CAUSE_MEMORY] = {TWIN_COUNTER_MEMORY_STALL, TWIN_COUNTER_MAJOR_FAULTS, TWIN_COUNTERS},
        [TWIN_CAUSE_WORKERS] = {TWIN_COUNTER_PROCESSES, TWIN_COUNTER_THREADS, TWIN_COUNTERS},
        [TWIN_CAUSE_CLOCK] = {TWIN_COUNTER_CLOCK, TWIN_COUNTER_GPU_CLOCK, TWIN_COUNTER_THERMAL,
                              TWIN_COUNTER_GPU_SLOWED, TWIN_COUNTERS},
    };
    return of[c];
}

/* The best witness that moved, by its adjusted p of at most 5%. NULL: none did. */
static const struct twin_moved *witness(const struct twin_dip *d)
{
    for (const enum twin_counter *w = witnesses(d->cause); *w != TWIN_COUNTERS; w++)
        for (size_t i = 0; i < d->tested; i++)
            if (d->moved[i].counter == *w && d->moved[i].adjusted <= .05)
                return &d->moved[i];
    return NULL;
}

/*
 * Appends how much a counter changed: as a factor from 2 on, as percent below, as two numbers where
 * there is no factor (it was 0).
 */
static void put_change(struct tw_buf *b, const struct twin_moved *m)
{
    const struct twin_counter_info *i = twin_counter_info(m->counter);
    double factor = m->slow / m->usual;
    tw_buf_puts(b, i->name);
    if (isfinite(factor) && factor >= 2)
        tw_buf_printf(b, " x%.*f", factor < 10 ? 1 : 0, factor);
    else if (isfinite(factor) && factor > 0)
        tw_buf_printf(b, " %+.0f%%", 100 * (factor - 1));
    else if (i->unit[0] == 's')
        tw_buf_printf(b, " from %.2g to %.2g s per second", m->usual, m->slow);
    else
        tw_buf_printf(b, " from %.3g to %.3g", m->usual, m->slow);
    if (isfinite(m->share) && m->share > 0)
        tw_buf_printf(b, ", %.0f%% of the extra time", 100 * fmin(1, m->share));
    tw_buf_printf(b, ", p = %.2g", m->adjusted);
}

/*
 * Appends what would have shown, and beside it what was there: the one must not be read without the
 * other.
 */
static void say_none(struct tw_buf *b, const struct twin_dip *d)
{
    if (d->unsteady)
        tw_buf_printf(b, "no one stretch stands out, but %zu of %zu stretches do not keep the pace",
                      d->odd, d->blocks);
    else if (isfinite(d->visible))
        tw_buf_printf(b, "no slow stretch: a fifth of the run %.0f%% slower would have shown",
                      100 * d->visible);
    else
        tw_buf_puts(b, "no slow stretch, and this run is too uneven for any to show");
    if (d->slowest_s > 0)
        tw_buf_printf(b, "; steps took %.3g to %.3g ms, mostly %.3g", 1e3 * d->fastest_s,
                      1e3 * d->slowest_s, 1e3 * d->median_s);
}

char *twin_dip_sentence(const struct twin_dip *d)
{
    struct tw_buf b = {0};
    if (d->outcome == TWIN_DIP_TOO_FEW) {
        tw_buf_printf(&b, "too short to tell: %zu stretches of 80 ms, 12 are needed", d->blocks);
        return tw_buf_steal(&b);
    }
    if (d->outcome == TWIN_DIP_NONE) {
        say_none(&b, d);
        return tw_buf_steal(&b);
    }
    tw_buf_printf(&b, "steps %u to %u were %.0f%% slower", d->first, d->last, 100 * d->slower);
    if (isfinite(d->low))
        tw_buf_printf(&b, " (%.0f%% to %.0f%%)", 100 * d->low, 100 * d->high);
    tw_buf_printf(&b, ": %s", twin_cause_words(d->cause));
    const struct twin_moved *m = witness(d);
    if (m) {
        tw_buf_puts(&b, " (");
        put_change(&b, m);
        tw_buf_puts(&b, ")");
    }
    return tw_buf_steal(&b);
}
