/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a trace as JSON lines for the tests of the agents: one `trace`, then each `record`, `step`
 * and `note`, then `verified`. */
#include "src/trace/trace.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static int print(json_t *o)
{
    int rc = json_dumpf(o, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(o);
    return rc;
}

static json_t *text(const char *s)
{
    json_t *j = json_string(s);
    return j ? j : json_string("(not UTF-8)");
}

static int on_record(void *user, const struct twin_trace_record *r)
{
    struct twin_trace *t = user;
    const struct twin_series *s = twin_trace_series(t, r->series);
    const struct twin_layout *l = twin_trace_layout(t, r->layout);
    char digest[40];
    json_t *shape = json_array();
    for (int i = 0; i < l->ndim; i++)
        json_array_append_new(shape, json_integer(l->shape[i]));
    snprintf(digest, sizeof digest, "%016" PRIx64 "%016" PRIx64, r->digest.a, r->digest.b);
    json_t *o = json_pack(
        "{s:s s:i s:i s:i s:i s:i s:s s:s s:o s:o s:o s:o s:s s:s s:o s:I}", "type", "record",
        "step", (int)r->step, "seq", (int)r->seq, "occurrence", (int)r->occurrence, "flags",
        (int)r->flags, "thread", (int)r->thread, "phase",
        twin_phase_name((enum twin_phase)s->phase), "kind", twin_kind_name((enum twin_kind)s->kind),
        "name", text(twin_trace_string(t, s->name)), "scope", text(twin_trace_string(t, s->scope)),
        "role", text(twin_trace_string(t, s->role)), "site", text(twin_trace_string(t, s->site)),
        "digest", digest, "dtype", twin_dtype_name((enum twin_dtype)l->dtype), "shape", shape,
        "offset", (json_int_t)r->global_offset);
    if (o && r->flags & TWIN_REC_PART)
        json_object_set_new(o, "whole", json_integer((json_int_t)r->whole));
    if (o && r->flags & TWIN_REC_STATS)
        json_object_set_new(o, "stats",
                            json_pack("{s:I s:f s:f}", "count", (json_int_t)r->stats.count, "sum",
                                      r->stats.sum, "sumsq", r->stats.sumsq));
    return o ? print(o) : -1;
}

static int on_step(void *user, const struct twin_step_hash *h)
{
    (void)user;
    return print(json_pack("{s:s s:i s:i s:i}", "type", "step", "step", (int)h->step, "records",
                           (int)h->records, "dropped", (int)h->dropped));
}

int main(int argc, char **argv)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trace *t;
    if (argc != 2)
        return 2;
    if (twin_trace_open(argv[1], &t, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    const struct twin_trace_info *i = twin_trace_info(t);
    char id[33];
    for (int k = 0; k < 16; k++)
        snprintf(id + 2 * k, 3, "%02x", i->run_id[k]);
    print(json_pack("{s:s s:s s:i s:i s:i s:o s:b s:i s:I s:I s:I}", "type", "trace", "run_id", id,
                    "rank", (int)i->rank, "world", (int)i->world, "pid", (int)i->pid, "role",
                    text(i->role), "closed", (int)i->closed, "steps", (int)i->steps, "records",
                    (json_int_t)i->records, "observer_ns", (json_int_t)i->observer_ns, "tail",
                    (json_int_t)i->tail_bytes));
    twin_trace_series(t, 1); /* the dictionary is read now, not in the middle of the walk */
    int rc = twin_trace_walk(t, on_record, on_step, t, &err);
    const char *key, *value;
    for (size_t n = 0; twin_trace_note(t, n, &key, &value); n++)
        print(json_pack("{s:s s:o s:o}", "type", "note", "key", text(key), "value", text(value)));
    if (rc == 0)
        print(json_pack("{s:s s:b s:s}", "type", "verified", "good",
                        twin_trace_verify(t, &err) == 0, "why", err.message));
    else
        fprintf(stderr, "%s\n", err.message);
    twin_trace_close(t);
    return rc != 0;
}
