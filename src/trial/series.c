/* SPDX-License-Identifier: Apache-2.0 */
/* A series of runs of one job, each of which is compared with the first. The series owns the runs
 * and the verdict on all of them; whoever makes one says with which options, and when it is enough.
 * What the first run cost (time, bytes) tells what the others will. */
#include "series.h"

#include "base.h"
#include "phrase.h"
#include "remote.h"
#include "run_state.h"

#include <assert.h>
#include <sys/statvfs.h>

#define LARGE_BYTES ((uint64_t)1 << 30) /* Nobody wants to hear of less disk space than this. */
enum { LONG_S = 1800 };                 /* Nor does anybody want to hear of less time than this. */

/* What the next run is given: what is known of its time, and the reference. */
static void prepare(struct tw_series *s, const char *title, const struct twin_compare_options *how)
{
    struct tw_run_totals t;
    s->trial = (struct tw_trial){
        .front = s->front, .title = title, .deadline_ns = s->deadline_ns, .holds_in_queue = true};
    s->trial.require_parity = s->require_parity;
    if (s->require_parity || (s->tells_parity && s->count == 0))
        s->trial.parity_front = s->front;
    if (s->count) {
        tw_run_totals(s->runs[0], &t);
        s->trial.expected_s = s->runs[0]->wall_s;
        s->trial.expected_steps = t.steps;
    }
    /* A run that may be cut as soon as it has diverged is watched beside the first. */
    if (s->count && how) {
        s->trial.reference = s->runs[0];
        s->trial.how = *how;
    }
}

int tw_series_run(struct tw_series *s, const struct twin_launch_options *o, const char *title,
                  const struct twin_compare_options *how, struct twin_run **out,
                  struct twin_error *err)
{
    prepare(s, title, how);
    int rc = tw_given_make(&s->ahead, o, &s->trial, err);
    *out = s->trial.run;
    if (!s->count)
        s->start_s = s->trial.start_s;
    bool late = s->trial.end == TW_TRIAL_OUT_OF_TIME;
    s->interrupted |= (rc == TWIN_EINTR && !late) || s->trial.end == TW_TRIAL_INTERRUPTED;
    s->out_of_time |= late;
    return rc;
}

int tw_series_ahead(struct tw_series *s, const struct twin_launch_options *o,
                    const struct twin_compare_options *how, size_t n, struct twin_error *err)
{
    tw_series_ahead_end(s);
    prepare(s, NULL, how);
    return tw_given_add(&s->ahead, o, &s->trial, n, err);
}

void tw_series_ahead_end(struct tw_series *s)
{
    tw_given_end(&s->ahead);
}

int tw_series_keep(struct tw_series *s, struct twin_run *r, struct twin_error *err)
{
    struct twin_run **grown = tw_reallocarray(s->runs, s->count + 1, sizeof *grown);
    assert(r);
    if (!grown) {
        twin_run_free(r);
        return tw_no_memory(err, "for %zu runs", s->count + 1);
    }
    grown[s->count++] = r;
    s->runs = grown;
    return 0;
}

/* All runs are compared anew with each new one: a rare class may turn out to be the usual one. */
int tw_series_compare(struct tw_series *s, const struct twin_compare_options *how,
                      struct twin_error *err)
{
    assert(s->count > 0);
    struct twin_verdict *v = NULL;
    int rc = twin_compare((const struct twin_run *const *)s->runs, s->count, how, &v, err);
    if (rc != 0)
        return rc;
    twin_verdict_free(s->v);
    s->v = v;
    s->interrupted |= tw_front_stops(s->front);
    return 0;
}

/* Is run i in another class than run 1? */
bool tw_series_diverged(const struct tw_series *s, size_t i)
{
    const struct twin_verdict *v = s->v;
    for (size_t k = 0; v && k < v->class_count; k++) {
        bool has_first = false, has_it = false;
        for (size_t m = 0; m < v->classes[k].members; m++) {
            has_first |= v->classes[k].runs[m] == 0;
            has_it |= v->classes[k].runs[m] == i;
        }
        if (has_first)
            return !has_it;
    }
    return false;
}

/* False only where the runs cannot be kept; much time or space is said, and is the person's to
 * judge. */
bool tw_series_has_room(const struct tw_series *s, uint64_t more, bool quiet)
{
    assert(s->count > 0); /* the first run says what the others will take */
    struct statvfs fs;
    struct tw_run_totals t;
    char each[16], all[16], left[16], time[24];
    const struct twin_run *r = s->runs[0];
    tw_run_totals(r, &t);
    uint64_t bytes = t.bytes + r->stdout_bytes + r->stderr_bytes;
    bool known = statvfs(s->home, &fs) == 0;
    uint64_t free_bytes = known ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
    if (bytes * more > free_bytes) {
        tw_front_say(s->front,
                     "%s: expected %s free in %s for %llu more runs, found %s; try --home on a "
                     "larger disk, fewer --runs, --steps, or --level steps",
                     s->command, tw_human_bytes(bytes * more, all), s->home,
                     (unsigned long long)more, tw_human_bytes(free_bytes, left));
        return false;
    }
    if (quiet)
        return true;
    if (bytes * more > LARGE_BYTES)
        tw_front_say(s->front, "each run keeps about %s; %llu more: up to %s of the %s free in %s",
                     tw_human_bytes(bytes, each), (unsigned long long)more,
                     tw_human_bytes(bytes * more, all), tw_human_bytes(free_bytes, left), s->home);
    if (r->wall_s * (double)more > LONG_S)
        tw_front_say(
            s->front,
            "%llu more run%s: up to %s, less when they diverge early; --steps N makes runs shorter",
            (unsigned long long)more, tw_plural_s(more),
            tw_human_seconds(r->wall_s * (double)more, time));
    return true;
}

void tw_series_clear(struct tw_series *s)
{
    for (size_t i = 0; i < s->count; i++)
        twin_run_free(s->runs[i]);
    s->count = 0;
    twin_verdict_free(s->v);
    s->v = NULL;
}

void tw_series_free(struct tw_series *s)
{
    tw_series_ahead_end(s);
    tw_series_clear(s);
    tw_free(s->runs);
    tw_free(s->home);
    s->runs = NULL;
    s->home = NULL;
}
