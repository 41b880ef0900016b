/* SPDX-License-Identifier: Apache-2.0 */
/* One run that goes on: what is to be seen of it at this moment. */
#include "watch_inside.h"

#include "base.h"
#include "reference.h"
#include "run_state.h"

#include "src/compare/compare.h"

#include <math.h>
#include <string.h>

struct tw_watched *tw_watched_new(struct twin_run *run)
{
    struct tw_watched *x = tw_calloc(1, sizeof *x);
    char *dir = x ? tw_strdup(run->dir) : NULL;
    if (!dir) {
        tw_free(x);
        return NULL;
    }
    x->f.dir = dir;
    x->f.run = run;
    x->f.rate = x->f.now.cpu = x->f.now.rss = x->f.now.rate = x->f.now.age_s = NAN;
    return x;
}

void tw_watched_free(struct tw_watched *x)
{
    if (!x)
        return;
    twin_parity_free(x->parity);
    twin_run_free(x->f.run);
    tw_free(x->f.reference_name);
    tw_free(x->f.parity);
    tw_free(x->f.told);
    tw_free(x->f.dir);
    tw_free(x);
}

/* The pace since the oldest look that is remembered. A first look takes what the processes say of
 * themselves. */
static void look_at_rate(struct tw_watched *x)
{
    const uint64_t now = tw_monotonic_ns(), step = x->f.ranks.step;
    if (x->samples && step < x->sample[x->samples - 1].step)
        x->samples = 0; /* another rank has come, which is behind the others */
    if (x->samples == TW_WATCH_SAMPLES) {
        memmove(x->sample, x->sample + 1, sizeof x->sample - sizeof x->sample[0]);
        x->samples--;
    }
    x->sample[x->samples].ns = now;
    x->sample[x->samples++].step = step;
    const double over_s = (double)(now - x->sample[0].ns) * 1e-9;
    if (over_s >= 0.5)
        x->f.rate = (double)(step - x->sample[0].step) / over_s;
    else
        x->f.rate = x->f.now.rate;
}

/* Once a result is there nothing is read any more. */
static void look_at_parity(struct tw_watched *x, bool ended)
{
    if (x->f.parity_known)
        return;
    if (!x->parity && !(x->parity = twin_parity_begin_to_read()))
        return;
    if (!twin_parity_look(x->parity, x->f.dir, ended))
        return;
    const char *words = twin_parity_words(x->parity);
    x->f.parity_known = true;
    x->f.parity_differs = twin_parity_differs(x->parity);
    x->f.parity = words ? tw_strdup(words) : NULL;
}

/* A run whose maker compares it tells of it in its folder. */
static bool own_reference(struct tw_flight *f)
{
    struct tw_run_reference r;
    if (!tw_reference_read(f->dir, &r))
        return false;
    tw_free(f->reference_name);
    f->reference_name = r.name;
    r.name = NULL;
    f->reference = r.diverged ? TW_FLIGHT_DIVERGED : TW_FLIGHT_NOT_YET;
    f->diverged_step = r.step;
    tw_reference_free(&r);
    return true;
}

/* The comparison costs more than all else, so it is made only where there is something new. */
static void compare(struct tw_watched *x, const struct twin_run *against)
{
    struct tw_flight *f = &x->f;
    bool parted = false;
    if (!f->reference_name && !(f->reference_name = tw_strdup(tw_base_name(against->dir))))
        return;
    if (f->reference == TW_FLIGHT_ALONE)
        f->reference = TW_FLIGHT_NOT_YET;
    if (f->ranks.step == 0 || f->ranks.records == x->compared_records)
        return;
    x->compared_records = f->ranks.records;
    int rc = twin_compare_live(against, f->dir, NULL, &parted, &f->diverged_step, NULL);
    if (rc != 0)
        f->reference = TW_FLIGHT_NOT_READ;
    else
        f->reference = parted ? TW_FLIGHT_DIVERGED : TW_FLIGHT_NOT_YET;
}

/* What has diverged stays so. */
static void look_at_reference(struct tw_watched *x, const struct twin_run *against)
{
    if (x->f.reference == TW_FLIGHT_DIVERGED || own_reference(&x->f))
        return;
    if (against && strcmp(against->id, x->f.run->id) != 0)
        compare(x, against);
}

void tw_watched_look(struct tw_watched *x, struct twin_run *run, const struct twin_run *against,
                     bool only)
{
    struct tw_flight *f = &x->f;
    if (run != f->run)
        twin_run_free(f->run);
    f->run = run;
    f->running = run->in_progress;
    f->state = tw_run_state(run, f->state_text);
    const double since_s = (double)(tw_realtime_ns() - run->start_realtime_ns) * 1e-9;
    f->elapsed_s = f->running ? fmax(0, since_s) : run->wall_s;
    twin_progress_ranks_of(f->dir, &f->ranks);
    if (f->running) {
        twin_telemetry_latest(f->dir, &f->now);
        look_at_rate(x);
    }
    look_at_parity(x, only || !f->running);
    look_at_reference(x, against);
}
