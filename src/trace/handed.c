/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one process found out by verifying a trace, for another one that has the same file. Who
 * takes it over need not read all of the trace. That it is the same file says its size and the seal
 * of its last block, which covers every byte before it: a file that was cut, went on, or was
 * replaced has another one.
 */
#include "reader.h"

#include <string.h>

int twin_trace_hand_over(const struct twin_trace *t, struct twin_trace_verified *out,
                         struct twin_error *err)
{
    *out = (struct twin_trace_verified){0};
    if (!t->summarized || !t->any)
        return twin_error_set(err, TWIN_EINVAL, "%s: was not verified, or is not intact", t->path);
    uint32_t series = t->observed_room;
    while (series > 0 && !t->observed[series - 1])
        series--;
    out->observed = tw_calloc(series / 8 + 1, 1);
    if (!out->observed)
        return tw_no_memory(err, "handing over what is known of %s", t->path);
    for (uint32_t i = 0; i < series; i++)
        if (t->observed[i])
            out->observed[i / 8] |= (uint8_t)(1u << i % 8);
    out->series = series;
    out->bytes = t->size;
    out->seal[0] = t->last.seal_a;
    out->seal[1] = t->last.seal_b;
    out->summary = t->summary;
    return 0;
}

/* Can it be said of this trace? The numbers come from elsewhere. */
static bool is_of(const struct twin_trace *t, const struct twin_trace_verified *v)
{
    const struct twin_trace_summary *s = &v->summary;
    return t->any && t->info.tail_bytes == 0 && v->bytes == t->size &&
           v->seal[0] == t->last.seal_a && v->seal[1] == t->last.seal_b &&
           s->records == t->last.records_total && s->unfinished <= s->records &&
           s->finished <= s->records + t->last.dropped_total && s->unobserved <= s->records &&
           v->series <= TW_TABLE_MAX + 1;
}

int twin_trace_take_over(struct twin_trace *t, const struct twin_trace_verified *v,
                         struct twin_error *err)
{
    if (!is_of(t, v))
        return twin_error_set(err, TWIN_EINVAL,
                              "%s: what was verified is another file: expected %llu bytes with the "
                              "seal %016llx, found %llu with %016llx",
                              t->path, (unsigned long long)v->bytes, (unsigned long long)v->seal[0],
                              (unsigned long long)t->size, (unsigned long long)t->last.seal_a);
    bool *observed = tw_calloc((size_t)v->series + 1, sizeof *observed);
    if (!observed)
        return tw_no_memory(err, "taking over what is known of %s", t->path);
    for (uint32_t i = 0; i < v->series; i++)
        observed[i] = v->observed[i / 8] >> i % 8 & 1;
    tw_free(t->observed);
    t->observed = observed;
    t->observed_room = v->series;
    t->summary = v->summary;
    t->summarized = true;
    return 0;
}
