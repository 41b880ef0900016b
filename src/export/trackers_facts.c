/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of each process of a run: the values of its losses, when each of its steps began and ended, and
 * its collectives. In the order of the trace.
 */
#include "trackers.h"

#include "base.h"
#include "json_text.h"

#include "src/launch/launch.h"
#include "src/trace/trace.h"

#include <math.h>
#include <string.h>

/* Collectives of one process that are listed; what is beyond is counted. */
enum { COLLECTIVES_MAX = 100000 };

/* A trace while it is walked. */
struct walk {
    struct twin_trace *trace;
    const struct tw_front *front;
    json_t *curves, *steps, *collectives;
    uint64_t seen, more;        /* more: collectives beyond the limit */
    uint64_t first_ns, last_ns; /* of the step that goes on */
    bool begun, failed;
};

/* A number as JSON can have it: what it has no number for is a word. */
static json_t *number(double v)
{
    if (isnan(v))
        return json_string("NaN");
    if (isinf(v))
        return json_string(v > 0 ? "Infinity" : "-Infinity");
    return json_real(v);
}

/* The mean of what was recorded: a loss is one number, or one for each sample. */
static double mean_of(const struct twin_stats *s)
{
    if (s->nan || (s->pos_inf && s->neg_inf))
        return NAN;
    if (s->pos_inf || s->neg_inf)
        return s->pos_inf ? INFINITY : -INFINITY;
    return s->sum / (double)s->count;
}

static int add_loss(struct walk *w, const struct twin_trace_record *r, const char *name)
{
    json_t *curve = json_object_get(w->curves, name);
    if (!curve) {
        curve = json_array();
        if (json_object_set_new(w->curves, name, curve) != 0)
            return -1;
    }
    return json_array_append_new(curve,
                                 json_pack("[I, o, I]", (json_int_t)r->step,
                                           number(mean_of(&r->stats)), (json_int_t)r->time_ns));
}

static int add_collective(struct walk *w, const struct twin_trace_record *r, const char *name)
{
    if (json_array_size(w->collectives) >= COLLECTIVES_MAX) {
        w->more++;
        return 0;
    }
    return json_array_append_new(
        w->collectives, json_pack("[I, s, I]", (json_int_t)r->step, name, (json_int_t)r->time_ns));
}

/* For twin_trace_walk; user is a struct walk. */
static int on_record(void *user, const struct twin_trace_record *r)
{
    struct walk *w = user;
    const struct twin_series *s = twin_trace_series(w->trace, r->series);
    const bool loss = s->kind == TWIN_KIND_LOSS && r->flags & TWIN_REC_STATS && r->stats.count;
    if (++w->seen % 4096 == 0 && tw_front_stops(w->front))
        return TWIN_EINTR;
    if (!w->begun || r->time_ns < w->first_ns)
        w->first_ns = r->time_ns;
    if (!w->begun || r->time_ns > w->last_ns)
        w->last_ns = r->time_ns;
    w->begun = true;
    if (!loss && s->phase != TWIN_PHASE_COLLECTIVE)
        return 0;
    const char *raw = twin_trace_string(w->trace, s->name);
    char *name = tw_printable(raw, strlen(raw));
    int rc = name ? 0 : -1;
    if (rc == 0 && loss)
        rc = add_loss(w, r, name);
    else if (rc == 0)
        rc = add_collective(w, r, name);
    tw_free(name);
    w->failed = w->failed || rc != 0;
    return rc == 0 ? 0 : TWIN_ENOMEM;
}

static int on_step(void *user, const struct twin_step_hash *h)
{
    struct walk *w = user;
    const int rc = json_array_append_new(
        w->steps,
        json_pack("[I, I, I]", (json_int_t)h->step,
                  (json_int_t)(w->begun ? w->first_ns : w->last_ns), (json_int_t)w->last_ns));
    w->begun = false;
    w->failed = w->failed || rc != 0;
    return rc == 0 ? 0 : TWIN_ENOMEM;
}

/* Says what the trace lacks. True: something. */
static bool say_damage(struct walk *w, const char *path, int rc, const struct twin_error *why)
{
    struct twin_trace_hole hole;
    if (rc != 0)
        tw_front_trouble(w->front, why, "%s cannot be read on", tw_base_name(path));
    else if (twin_trace_hole(w->trace, 0, &hole))
        tw_front_say(w->front, "%s is damaged at byte %llu: what was there is missing",
                     tw_base_name(path), (unsigned long long)hole.offset);
    else
        return false;
    return true;
}

/* Of one process. NULL: no memory, or stopped. */
static json_t *process_facts(struct walk *w, const char *path)
{
    struct twin_error why = TWIN_ERROR_INIT;
    int rc = twin_trace_definitions(w->trace, &why);
    if (rc == 0)
        rc = twin_trace_walk(w->trace, on_record, on_step, w, &why);
    if (w->failed || rc == TWIN_ENOMEM || tw_front_stops(w->front))
        return NULL;
    const bool broken = say_damage(w, path, rc, &why);
    const struct twin_trace_info *info = twin_trace_info(w->trace);
    return json_pack("{s:i, s:i, s:I, s:o, s:I, s:b, s:b, s:I, s:O, s:O, s:O, s:I}", "rank",
                     (int)info->rank, "world", (int)info->world, "pid", (json_int_t)info->pid,
                     "role", tw_json_text(info->role), "start_ns",
                     (json_int_t)info->start_realtime_ns, "closed", info->closed, "broken", broken,
                     "dropped", (json_int_t)info->dropped, "curves", w->curves, "steps", w->steps,
                     "collectives", w->collectives, "more_collectives", (json_int_t)w->more);
}

/* Adds what one trace holds. False: no memory, or stopped. */
static bool add_trace(json_t *list, json_t *unread, const char *path, const struct tw_front *front)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct walk w = {.front = front,
                     .curves = json_object(),
                     .steps = json_array(),
                     .collectives = json_array()};
    const int rc = twin_trace_open(path, &w.trace, &why);
    bool ok = rc != TWIN_ENOMEM;
    if (rc == 0) {
        json_t *facts = process_facts(&w, path);
        ok = facts && json_array_append_new(list, facts) == 0;
    } else if (ok) {
        tw_front_trouble(front, &why, "left out: %s", tw_base_name(path));
        ok = json_array_append_new(unread, tw_json_text(tw_base_name(path))) == 0;
    }
    twin_trace_close(w.trace);
    json_decref(w.curves);
    json_decref(w.steps);
    json_decref(w.collectives);
    return ok;
}

json_t *tw_trackers_facts(const struct twin_run *run, const struct tw_front *front)
{
    json_t *list = json_array(), *unread = json_array();
    bool ok = list && unread;
    for (size_t i = 0; ok && i < run->trace_count; i++)
        ok = add_trace(list, unread, run->traces[i], front);
    json_t *facts = ok ? json_pack("{s:o, s:O, s:O}", "dir", tw_json_bytes(run->dir), "processes",
                                   list, "unread", unread)
                       : NULL;
    json_decref(list);
    json_decref(unread);
    return facts;
}
