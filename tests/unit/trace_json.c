/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a trace as JSON through the C reader, in the form of `python -m twinrun.trace`: the two
 * must agree. */
#include "src/trace/trace.h"

#include <stdio.h>
#include <string.h>

#include "reader.h"

static void text(const char *s, size_t n)
{
    putchar('"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 32 || c > 126 || c == '"' || c == '\\')
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void words(const void *p, size_t n)
{
    putchar('"');
    for (size_t i = 0; i < n; i++) {
        uint64_t w;
        memcpy(&w, (const char *)p + 8 * i, sizeof w);
        printf("%s%016llx", i ? " " : "", (unsigned long long)w);
    }
    putchar('"');
}

static void number(const char *name, unsigned long long v)
{
    printf("\"%s\": %llu, ", name, v);
}

static void prefix(const char *name, struct twin_value_hash h)
{
    uint64_t high_first[2] = {h.hi, h.lo};
    printf(", \"%s\": ", name);
    words(high_first, 2);
}

static const char *separator;

static int print_step(void *user, const struct twin_step_hash *h)
{
    (void)user;
    printf("%s\n{", separator);
    number("step", h->step);
    number("records", h->records);
    number("dropped", h->dropped);
    printf("\"order\": ");
    words(&h->order, 1);
    printf(", \"phases\": {");
    const char *comma = "";
    for (int p = 0; p < TWIN_PHASE_COUNT; p++)
        if (h->phase[p].lo || h->phase[p].hi) {
            printf("%s\"%s\": ", comma, twin_phase_name((enum twin_phase)p));
            words(&h->phase[p], 2);
            comma = ", ";
        }
    printf("}");
    prefix("prefix", h->prefix);
    prefix("order_prefix", h->order_prefix);
    printf("}");
    separator = ",";
    return 0;
}

static int print_record(void *user, const struct twin_trace_record *r)
{
    (void)user;
    printf("%s\n{", separator);
    number("step", r->step);
    number("seq", r->seq);
    number("occurrence", r->occurrence);
    number("series", r->series);
    number("layout", r->layout);
    number("thread", r->thread);
    number("flags", r->flags);
    number("time_ns", r->time_ns);
    printf("\"digest\": ");
    words(&r->digest, 2);
    if (r->flags & TWIN_REC_STATS) {
        const struct twin_stats *s = &r->stats;
        double d[4] = {s->min, s->max, s->sum, s->sumsq};
        printf(", \"stats\": [%llu, %llu, %llu, %llu, %llu, ", (unsigned long long)s->count,
               (unsigned long long)s->nan, (unsigned long long)s->pos_inf,
               (unsigned long long)s->neg_inf, (unsigned long long)s->zeros);
        words(d, 4);
        printf("]");
    }
    if (r->flags & TWIN_REC_OFFSET)
        printf(", \"global_offset\": %llu", (unsigned long long)r->global_offset);
    if (r->flags & TWIN_REC_PART)
        printf(", \"whole\": %llu", (unsigned long long)r->whole);
    if (r->flags & TWIN_REC_SKETCH) {
        printf(", \"sketch\": [%llu, ", (unsigned long long)r->sketch.skipped);
        words(r->sketch.bucket, r->sketch.k);
        printf("]");
    }
    if (r->flags & TWIN_REC_LINKS) {
        printf(", \"links\": ");
        words(r->links, r->link_count);
    }
    printf("}");
    separator = ",";
    return 0;
}

static void print_info(struct twin_trace *t)
{
    const struct twin_trace_info *i = twin_trace_info(t);
    char id[33];
    tw_hex(i->run_id, 16, id);
    printf("{\"info\": {\"version\": %u, \"run_id\": \"%s\", \"rank\": %d, \"world\": %d, \"pid\": "
           "%u, \"role\": ",
           i->version, id, i->rank, i->world, i->pid);
    text(i->role, strlen(i->role));
    printf(", \"start_realtime_ns\": %lld, ", (long long)i->start_realtime_ns);
    number("start_monotonic_ns", i->start_monotonic_ns);
    printf("\"closed\": %s, ", i->closed ? "true" : "false");
    number("blocks", i->blocks);
    number("file_bytes", i->file_bytes);
    number("tail_bytes", i->tail_bytes);
    number("records", i->records);
    number("dropped", i->dropped);
    number("steps", i->steps);
    number("observer_ns", i->observer_ns);
    number("last_time_ns", i->last_time_ns);
    printf("\"lost\": %llu},\n\"intact\": %s", (unsigned long long)i->lost,
           twin_trace_verify(t, NULL) == 0 ? "true" : "false");
}

static void print_definitions(struct twin_trace *t)
{
    const struct tw_dict *d = &t->dict;
    const char *comma = "";
    printf(",\n\"strings\": {");
    for (uint32_t i = 0; i < d->string_room; i++)
        if (d->strings[i].bytes) {
            printf("%s\"%u\": ", comma, i);
            text(d->strings[i].bytes, d->strings[i].n);
            comma = ", ";
        }
    comma = "";
    printf("},\n\"series\": {");
    for (uint32_t i = 0; i < d->series_room; i++)
        if (d->series[i]) {
            const struct twin_series *s = d->series[i];
            printf("%s\"%u\": [%u, %u, %u, %u, %u, %u, %u]", comma, i, s->phase, s->kind, s->name,
                   s->scope, s->role, s->op, s->site);
            comma = ", ";
        }
    comma = "";
    printf("},\n\"layouts\": {");
    for (uint32_t i = 0; i < d->layout_room; i++)
        if (d->layouts[i]) {
            printf("%s\"%u\": [%u", comma, i, d->layouts[i]->dtype);
            for (uint32_t k = 0; k < d->layouts[i]->ndim; k++)
                printf(", %lld", (long long)d->layouts[i]->shape[k]);
            printf("]");
            comma = ", ";
        }
    printf("},\n\"notes\": [");
    const char *key, *value;
    for (size_t i = 0; twin_trace_note(t, i, &key, &value); i++) {
        printf("%s[", i ? ", " : "");
        text(key, strlen(key));
        printf(", ");
        text(value, strlen(value));
        printf("]");
    }
    printf("],\n\"gaps\": [");
    uint32_t step, dropped;
    for (size_t i = 0; twin_trace_gap(t, i, &step, &dropped); i++)
        printf("%s[%u, %u]", i ? ", " : "", step, dropped);
    printf("]");
}

int main(int argc, char **argv)
{
    struct twin_trace *t;
    struct twin_error err = TWIN_ERROR_INIT;
    if (argc != 2 || twin_trace_open(argv[1], &t, &err) != 0) {
        fprintf(stderr, "%s\n", argc == 2 ? err.message : "usage: trace_json FILE");
        return 2;
    }
    twin_trace_definitions(t, NULL); /* for a rank that was told late */
    print_info(t);
    print_definitions(t);
    separator = "";
    printf(",\n\"steps\": [");
    int rc = twin_trace_walk(t, NULL, print_step, NULL, &err);
    separator = "";
    printf("],\n\"records\": [");
    if (rc == 0)
        rc = twin_trace_walk(t, print_record, NULL, NULL, &err);
    printf("]}\n");
    twin_trace_close(t);
    if (rc != 0)
        fprintf(stderr, "%s\n", err.message);
    return rc ? 2 : 0;
}
