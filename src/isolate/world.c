/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of settings as a person types it: "all,-threads", "hash-seed,threads=4", "noise=vary:3".
 * `twinrun run --pin`, `isolate --pin` and others hand it over; out comes a world
 * (src/isolate/isolate.h). A later item overrides an earlier one of the same factor; "all" pins
 * what is free so far.
 */
#include "internal.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* A list on its way to a world. In `slot` a free factor whose seed is 1 was left out on purpose
 * ("-threads"). */
struct parse {
    const struct twin_factors *f;
    struct twin_setting *slot; /* a setting for each factor, in the table's order */
    /* "all" was in the list, so it is said what that left out */
    bool all;
    struct twin_error *err;
};

/* TWIN_EINVAL, with the id that is nearest to what was typed. */
static int unknown_factor(const struct parse *p, const char *id)
{
    const char **names = tw_calloc(p->f->count + 1, sizeof *names);
    for (size_t i = 0; names && i < p->f->count; i++)
        names[i] = p->f->factor[i].id;
    const char *near = names ? tw_nearest(id, names) : NULL;
    int rc = twin_error_set(p->err, TWIN_EINVAL,
                            "unknown factor \"%s\"%s%s%s; twinrun factors lists them", id,
                            near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    tw_free(names);
    return rc;
}

/* Reads the value of a pin into *value. The row says what it takes: nothing, a number up to a
 * limit, or a word. TWIN_EINVAL says what was expected. */
static int pin_value(const struct parse *p, const struct twin_factor *f, const char *text,
                     uint64_t *value)
{
    const struct tw_spec *spec = f->edits ? NULL : tw_spec_of(f);
    if (!spec || !spec->valued)
        return twin_error_set(p->err, TWIN_EINVAL,
                              "%s takes no value: expected %s%s%s%s, found \"%s\"", f->id,
                              f->pin ? f->id : "", f->pin && f->vary ? " or " : "",
                              f->vary ? f->id : "", f->vary ? "=vary:SEED" : "", text);
    if (spec->read_value && spec->read_value(text, value))
        return 0;
    if (spec->read_value)
        return twin_error_set(p->err, TWIN_EINVAL, "%s: expected %s, found \"%s\"", f->id,
                              spec->expected, text);
    if (tw_parse_u64(text, spec->max, value) != 0)
        return twin_error_set(p->err, TWIN_EINVAL,
                              "%s: expected a whole number from 0 to %llu%s, found \"%s\"", f->id,
                              (unsigned long long)spec->max, f->vary ? ", or vary:SEED" : "", text);
    /* 0 stands for the first processor that we may run on, so it is always allowed. */
    if (spec->channel == TW_BY_PROCESSOR) {
        cpu_set_t may;
        if (sched_getaffinity(0, sizeof may, &may) == 0 && *value &&
            !CPU_ISSET((size_t)*value, &may))
            return twin_error_set(p->err, TWIN_EINVAL,
                                  "%s: this process may not run on processor %llu", f->id,
                                  (unsigned long long)*value);
    }
    return 0;
}

/* Pins or shakes one factor. value is what stands behind the '=', NULL without one: "vary",
 * "vary:SEED", "pin", "pin:VALUE" or VALUE. */
static int set_mode(const struct parse *p, struct twin_setting *s, const char *value)
{
    const struct twin_factor *f = s->factor;
    if (f->unavailable)
        return twin_error_set(p->err, TWIN_EUNSUPPORTED, "%s cannot be set: %s", f->id,
                              f->unavailable);
    s->seed = 0;
    s->on_trial = false;
    if (value && strncmp(value, "vary", 4) == 0 && (value[4] == '\0' || value[4] == ':')) {
        if (!f->vary)
            return twin_error_set(
                p->err, TWIN_EINVAL,
                "%s can only be held still, not shaken; leave it out to set it free", f->id);
        if (value[4] && tw_parse_u64(value + 5, UINT64_MAX, &s->seed) != 0)
            return twin_error_set(p->err, TWIN_EINVAL,
                                  "%s: expected vary:SEED, a whole number, found \"%s\"", f->id,
                                  value);
        s->mode = TWIN_VARY;
        return 0;
    }
    if (!f->pin)
        return twin_error_set(p->err, TWIN_EINVAL,
                              "%s cannot be held still, only shaken: %s=vary:SEED", f->id, f->id);
    s->mode = TWIN_PIN;
    if (value && strcmp(value, "pin") == 0)
        value = NULL;
    else if (value && strncmp(value, "pin:", 4) == 0)
        value += 4;
    return value ? pin_value(p, f, value, &s->seed) : 0;
}

/* Does "all" set it? */
static bool in_all(const struct twin_factors *f, const struct twin_factor *x)
{
    return !x->unavailable && x->pin && (!x->may_fail || f->on_trial);
}

/* One item of the list: a factor, a factor that is left out, or "all". Cuts its text in place. */
static int take_item(struct parse *p, char *item)
{
    bool without = *item == '-';
    char *value = strchr(item, '=');
    if (value && !without)
        *value++ = '\0';
    if (strcmp(item, "all") == 0 && !value) {
        for (size_t i = 0; i < p->f->count; i++)
            if (in_all(p->f, &p->f->factor[i]) && p->slot[i].mode == TWIN_FREE) {
                p->slot[i].mode = TWIN_PIN;
                p->slot[i].on_trial = p->f->factor[i].may_fail != NULL;
            }
        p->all = true;
        return 0;
    }
    const struct twin_factor *f = twin_factor_find(p->f, item + without);
    if (!f)
        return unknown_factor(p, item + without);
    struct twin_setting *s = &p->slot[f - p->f->factor];
    if (!without)
        return set_mode(p, s, value);
    s->mode = TWIN_FREE;
    s->seed = 1; /* left out on purpose, which name_left_out does not mention */
    return 0;
}

/* The items between the commas, in order; stops at the first that is wrong. */
static int take_list(struct parse *p, const char *list)
{
    int rc = 0;
    if (!*list)
        return twin_error_set(p->err, TWIN_EINVAL,
                              "expected all, or factors separated by commas, found nothing");
    for (const char *at = list; rc == 0;) {
        size_t n = strcspn(at, ",");
        char *item = tw_strndup(at, n);
        if (!item)
            rc = tw_no_memory(p->err, "reading a list of factors");
        else if (n == 0)
            rc = twin_error_set(p->err, TWIN_EINVAL,
                                "expected a factor between the commas of \"%s\"", list);
        else
            rc = take_item(p, item);
        tw_free(item);
        if (!at[n])
            break;
        at += n + 1;
    }
    return rc;
}

/* Why "all" has not set this factor; NULL: it has, or the person left it out. */
static const char *why_left_out(const struct twin_setting *s)
{
    if (s->mode != TWIN_FREE || s->seed == 1)
        return NULL;
    if (s->factor->unavailable)
        return s->factor->unavailable;
    return s->factor->pin ? s->factor->may_fail : "it can only be shaken";
}

/* Sets *out to "tf32, seed.cuda (no GPU driver here); noise (it can only be shaken)": factors of
 * one reason stand together, in the place of the first of them. NULL when there is none. */
static int name_left_out(const struct parse *p, char **out)
{
    struct tw_buf b = {0};
    *out = NULL;
    for (size_t i = 0; i < p->f->count; i++) {
        const char *why = why_left_out(&p->slot[i]), *other;
        bool told = false;
        /* An earlier factor with this reason has named this one already. */
        for (size_t k = 0; why && k < i && !told; k++)
            told = (other = why_left_out(&p->slot[k])) && strcmp(other, why) == 0;
        if (!why || told)
            continue;
        tw_buf_puts(&b, b.len ? "; " : "");
        bool first = true;
        for (size_t k = i; k < p->f->count; k++)
            if ((other = why_left_out(&p->slot[k])) && strcmp(other, why) == 0) {
                tw_buf_printf(&b, "%s%s", first ? "" : ", ", p->f->factor[k].id);
                first = false;
            }
        tw_buf_printf(&b, " (%s)", why);
    }
    if (!b.len && !b.failed)
        return 0;
    *out = tw_buf_steal(&b);
    return *out ? 0 : tw_no_memory(p->err, "reading a list of factors");
}

int twin_world_parse(const struct twin_factors *f, const char *list, struct twin_world *out,
                     char **left_out, struct twin_error *err)
{
    struct parse p = {.f = f, .err = err, .slot = tw_calloc(f->count + 1, sizeof *p.slot)};
    *out = (struct twin_world){0};
    if (left_out)
        *left_out = NULL;
    if (!p.slot)
        return tw_no_memory(err, "reading a list of factors");
    for (size_t i = 0; i < f->count; i++)
        p.slot[i].factor = &f->factor[i];
    int rc = take_list(&p, list);
    if (rc == 0 && left_out && p.all)
        rc = name_left_out(&p, left_out);
    if (rc != 0) {
        tw_free(p.slot);
        return rc;
    }
    for (size_t i = 0; i < f->count; i++)
        if (p.slot[i].mode != TWIN_FREE)
            p.slot[out->count++] = p.slot[i];
    out->setting = p.slot;
    return 0;
}

void twin_world_free(struct twin_world *w)
{
    tw_free(w->setting);
    *w = (struct twin_world){0};
}

bool twin_world_sets(const struct twin_world *w, const char *id)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->setting[i].mode != TWIN_FREE && strcmp(w->setting[i].factor->id, id) == 0)
            return true;
    return false;
}
