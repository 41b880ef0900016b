/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a baseline as JSON. Each name, step and process has a line of its own, and records stand
 * in the order of their names, so that a change of it can be read in a diff and two runs that agree
 * give the same text. No library writes it: one would choose its own lines. */
#include "baseline_inside.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A text as JSON; bytes that are no UTF-8 as {"hex": "..."}, since a path may hold any. */
static void put_text(struct tw_buf *b, const char *s)
{
    json_t *j = json_string(s);
    char *text = j ? json_dumps(j, JSON_ENCODE_ANY) : NULL, *hex = NULL;
    json_decref(j);
    if (text) {
        tw_buf_puts(b, text);
    } else if ((hex = tw_malloc(2 * strlen(s) + 1))) {
        tw_hex(s, strlen(s), hex);
        tw_buf_printf(b, "{\"hex\": \"%s\"}", hex);
    } else {
        b->failed = TWIN_ENOMEM;
    }
    free(text);
    tw_free(hex);
}

/* A list of texts on one line. */
static void put_texts(struct tw_buf *b, char *const *s, size_t n)
{
    tw_buf_puts(b, "[");
    for (size_t i = 0; i < n; i++) {
        tw_buf_puts(b, i ? ", " : "");
        put_text(b, s[i]);
    }
    tw_buf_puts(b, "]");
}

/* One line for each name: [phase, kind, name, scope, role, occurrence]. */
static void put_names(struct tw_buf *b, const struct twin_baseline *x)
{
    for (size_t i = 0; i < x->names; i++) {
        const struct tw_bl_name *n = &x->name[i];
        tw_buf_printf(b, "%s  [\"%s\", \"%s\", ", i ? ",\n" : "",
                      twin_phase_name((enum twin_phase)n->phase),
                      twin_kind_name((enum twin_kind)n->kind));
        put_text(b, n->name);
        tw_buf_puts(b, ", ");
        put_text(b, n->scope);
        tw_buf_puts(b, ", ");
        put_text(b, n->role);
        tw_buf_printf(b, ", %u]", n->occurrence);
    }
}

/* The phases that have a record in some step, as bits: only these get a column of marks. */
static unsigned phases_of(const struct tw_bl_proc *p)
{
    unsigned seen = 0;
    for (size_t i = 0; i < p->spans; i++)
        for (unsigned k = 0; k < TWIN_PHASE_COUNT; k++)
            seen |= (unsigned)(p->span[i].phase[k] != 0) << k;
    return seen;
}

/* The hashes of the steps: [first, last, hash of all, marks of each phase]. The marks say in which
 * phase a step differs where no record of it is kept. */
static void put_spans(struct tw_buf *b, const struct tw_bl_proc *p)
{
    unsigned seen = phases_of(p), said = 0;
    tw_buf_puts(b, "   \"phases\": [");
    for (unsigned k = 0; k < TWIN_PHASE_COUNT; k++)
        if (seen >> k & 1)
            tw_buf_printf(b, "%s\"%s\"", said++ ? ", " : "", twin_phase_name((enum twin_phase)k));
    tw_buf_puts(b, "],\n   \"hashes\": [");
    for (size_t i = 0; i < p->spans; i++) {
        const struct tw_bl_span *s = &p->span[i];
        char hash[33];
        tw_buf_printf(b, "%s\n    [%u, %u, \"%s\", \"", i ? "," : "", s->first, s->last,
                      tw_hex_128(s->hash.a, s->hash.b, hash));
        for (unsigned k = 0; k < TWIN_PHASE_COUNT; k++)
            if (seen >> k & 1)
                tw_buf_printf(b, "%08x", s->phase[k]);
        tw_buf_puts(b, "\"]");
    }
    tw_buf_puts(b, "],\n");
}

static int by_name(const void *x, const void *y)
{
    const struct tw_bl_record *a = x, *b = y;
    return a->name < b->name ? -1 : a->name > b->name;
}

/* The records of the steps that are kept in detail: [step, "0-41,43", "hash of each, in that
 * order"]. They are put in order first. */
static void put_details(struct tw_buf *b, const struct tw_bl_proc *p)
{
    tw_buf_puts(b, "   \"tensors\": [");
    for (size_t i = 0; i < p->details; i++) {
        struct tw_bl_detail *d = &p->detail[i];
        if (d->n)
            qsort(d->rec, d->n, sizeof *d->rec, by_name);
        tw_buf_printf(b, "%s\n    [%u, \"", i ? "," : "", d->step);
        for (size_t k = 0; k < d->n;) {
            size_t last = k;
            /* Names that follow each other are written as one range. */
            while (last + 1 < d->n && d->rec[last + 1].name == d->rec[last].name + 1)
                last++;
            tw_buf_printf(b, "%s%u", k ? "," : "", d->rec[k].name);
            if (last > k)
                tw_buf_printf(b, "-%u", d->rec[last].name);
            k = last + 1;
        }
        tw_buf_puts(b, "\", \"");
        for (size_t k = 0; k < d->n; k++)
            tw_buf_printf(b, "%08x", d->rec[k].hash);
        tw_buf_puts(b, "\"]");
    }
    tw_buf_puts(b, "],\n");
}

/* The numbers that a tolerance is measured by: [step, name, elements, value or norm, "buckets of
 * the sketch"]. All digits are written: a number that was rounded would be another one. */
static void put_numbers(struct tw_buf *b, const struct tw_bl_proc *p)
{
    tw_buf_puts(b, "   \"numbers\": [");
    for (size_t i = 0; i < p->numbers; i++) {
        const struct tw_bl_number *n = &p->number[i];
        tw_buf_printf(b, "%s\n    [%u, %u, %llu, %.17g", i ? "," : "", n->step, n->name,
                      (unsigned long long)n->count, n->value);
        if (n->sketch) {
            tw_buf_puts(b, ", \"");
            for (uint32_t k = 0; k < n->sketch->k; k++) {
                uint64_t bits;
                memcpy(&bits, &n->sketch->bucket[k], sizeof bits);
                tw_buf_printf(b, "%016llx", (unsigned long long)bits);
            }
            tw_buf_puts(b, "\"");
        }
        tw_buf_puts(b, "]");
    }
    tw_buf_puts(b, "]}");
}

/* One process: who it is, what is left out of it, then its steps, records and numbers. */
static void put_process(struct tw_buf *b, const struct tw_bl_proc *p)
{
    tw_buf_printf(b, "  {\"rank\": %d, \"role\": ", p->rank);
    put_text(b, p->role);
    tw_buf_printf(b, ", \"steps\": %llu, \"records\": %llu, \"tail\": %s, \"left_out\": [",
                  (unsigned long long)p->steps, (unsigned long long)p->records,
                  p->tail ? "true" : "false");
    for (size_t i = 0; i < p->left_out_count; i++)
        tw_buf_printf(b, "%s%u", i ? ", " : "", p->left_out[i]);
    tw_buf_puts(b, "],\n");
    put_spans(b, p);
    put_details(b, p);
    put_numbers(b, p);
}

int twin_baseline_write(const struct twin_baseline *x, char **text, struct twin_error *err)
{
    struct tw_buf b = {.cap = TW_BL_FILE_MAX};
    *text = NULL;
    tw_buf_puts(&b, "{\n \"schema\": \"twinrun.baseline/1\",\n \"twinrun\": ");
    put_text(&b, x->twinrun);
    tw_buf_printf(&b, ",\n \"made\": \"%s\",\n \"command\": ", x->made);
    put_texts(&b, x->command, x->command_count);
    tw_buf_printf(&b,
                  ",\n \"runs\": %llu,\n \"level\": \"%s\",\n \"max_steps\": %u,\n \"ignore\": ",
                  (unsigned long long)x->runs, twin_level_name(x->level), x->max_steps);
    put_texts(&b, x->ignore, x->ignore_count);
    tw_buf_puts(&b, ",\n \"world\": {");
    for (size_t i = 0; i < x->world_count; i++) {
        tw_buf_puts(&b, i ? ",\n  " : "\n  ");
        put_text(&b, x->world[i].name);
        tw_buf_puts(&b, ": ");
        put_text(&b, x->world[i].value);
    }
    tw_buf_puts(&b, "},\n \"names\": [\n");
    put_names(&b, x);
    tw_buf_puts(&b, "],\n \"processes\": [\n");
    for (size_t i = 0; i < x->procs; i++) {
        tw_buf_puts(&b, i ? ",\n" : "");
        put_process(&b, &x->proc[i]);
    }
    tw_buf_puts(&b, "]\n}\n");
    int failed = b.failed;
    *text = tw_buf_steal(&b);
    if (*text)
        return 0;
    return failed == TWIN_ELIMIT
               ? twin_error_set(err, failed,
                                "the baseline is larger than %zu MiB: too many processes",
                                TW_BL_FILE_MAX >> 20)
               : tw_no_memory(err, "writing a baseline");
}
