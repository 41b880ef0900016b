/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of one floating-point number. A program of MPI reduces elapsed times over its ranks, one
 * number at a time; that these differ is true of any two runs, and no use to anybody.
 * --ignore 'number:STEPS:GLOB' leaves out such numbers, and nothing else: where one run has a
 * record more, another type or shape, or more than one element, it differs all the same.
 * numbers_alone.c finds out whether such numbers are all that differs.
 */
#include "internal.h"
#include "scan.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "number:";

bool tw_number_pattern_is(const char *pattern)
{
    return tw_starts(pattern, prefix);
}

/* The digits at *s as a step; *s then stands behind them. */
static bool read_step(const char **s, uint32_t *out)
{
    const char *digits = "0123456789";
    char text[16];
    uint64_t n = 0;
    size_t length = strspn(*s, digits);
    if (length == 0 || length >= sizeof text)
        return false;
    memcpy(text, *s, length);
    text[length] = '\0';
    if (tw_parse_u64(text, UINT32_MAX, &n) != 0)
        return false;
    *out = (uint32_t)n;
    *s += length;
    return true;
}

bool tw_number_pattern_read(const char *pattern, struct tw_number_pattern *out)
{
    const char *s = pattern;
    if (!tw_number_pattern_is(pattern))
        return false;
    s += sizeof prefix - 1;
    if (!read_step(&s, &out->first))
        return false;
    out->last = out->first;
    if (*s == '-') {
        s++;
        if (!read_step(&s, &out->last))
            return false;
    }
    if (*s != ':' || s[1] == '\0' || out->last < out->first)
        return false;
    out->glob = s + 1;
    return true;
}

static bool is_float(uint8_t dtype)
{
    return dtype == TWIN_F64 || dtype == TWIN_F32 || dtype == TWIN_F16 || dtype == TWIN_BF16;
}

/* Is it one floating-point number, of a tensor that has no more? */
static bool is_number(const struct tw_view *v, const struct tw_rec *r)
{
    const struct twin_layout *y = twin_trace_layout(v->proc->trace, r->layout);
    if (!y || !is_float(y->dtype) || r->flags & (TWIN_REC_PART | TWIN_REC_UNOBSERVED))
        return false;
    for (uint8_t i = 0; i < y->ndim; i++)
        if (y->shape[i] != 1)
            return false;
    return true;
}

/* While the runs are compared without numbers: one of a collective is counted. */
static bool takes(struct tw_numbers *n, const struct tw_rec *x, const char *name)
{
    if (x->phase != TWIN_PHASE_COLLECTIVE)
        return false;
    if (n->count == 0) {
        n->first = n->last = x->step;
        snprintf(n->name, sizeof n->name, "%s", name);
    }
    n->first = x->step < n->first ? x->step : n->first;
    n->last = x->step > n->last ? x->step : n->last;
    n->several |= strcmp(n->name, name) != 0;
    n->count++;
    return true;
}

bool tw_number_left_out(struct tw_cmp *c, const struct tw_view *a, const struct tw_rec *x,
                        const struct tw_view *b, const struct tw_rec *y)
{
    if (!c->numbers && c->o->ignore_count == 0)
        return false;
    if (x->layout_hash != y->layout_hash || !is_number(a, x) || !is_number(b, y))
        return false;
    const char *name = tw_rec_name(a, x);
    for (size_t i = 0; i < c->o->ignore_count; i++) {
        struct tw_number_pattern p;
        if (tw_number_pattern_read(c->o->ignore[i], &p) && p.first <= x->step &&
            x->step <= p.last &&
            tw_pattern_fits(p.glob, twin_phase_name((enum twin_phase)x->phase),
                            twin_kind_name((enum twin_kind)x->kind), name))
            return true;
    }
    return c->numbers && takes(c->numbers, x, name);
}
