/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of differences of two worlds, sorted by what each may do to a result's bits, so that who
 * reads the first lines has read what matters; and values held against each other by name.
 */
#include "differences.h"

#include "base.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 200, SINGLE = 6 }; /* more than SINGLE of a kind become one line */

/* ---- the list */

/* A text of the record, printable and not longer than a line or two. malloc'ed; NULL stays NULL. */
static char *cut_text(const char *s)
{
    char *safe = s ? tw_printable(s, strnlen(s, SHOWN)) : NULL;
    if (safe && strlen(s) > SHOWN) {
        char *more = tw_printf("%s...", safe);
        tw_free(safe);
        safe = more;
    }
    return safe;
}

void tw_difference(struct tw_differences *d, enum twin_power power, const char *group,
                   const char *what, const char *a, const char *b, size_t count)
{
    assert((unsigned)power <= TWIN_POWER_NOISE);
    struct twin_world_differences *out = d->out;
    if (out->count == d->room) {
        size_t room = d->room ? 2 * d->room : 32;
        struct twin_world_difference *grown = tw_reallocarray(out->item, room, sizeof *grown);
        if (!grown) {
            d->failed = true;
            return;
        }
        out->item = grown;
        d->room = room;
    }
    struct twin_world_difference *x = &out->item[out->count++];
    *x = (struct twin_world_difference){.power = power,
                                        .group = group,
                                        .what = cut_text(what),
                                        .a = cut_text(a),
                                        .b = cut_text(b),
                                        .count = count};
    d->failed |= !x->what || (a && !x->a) || (b && !x->b);
}

/* By power, then by group in the order in which a person would ask, then by name. */
static int by_power(const void *x, const void *y)
{
    const struct twin_world_difference *a = x, *b = y;
    static const char *const order[] = {"code",         "configuration", "data",     "libraries",
                                        "accelerators", "processor",     "seeds",    "settings",
                                        "launch",       "variables",     "packages", "system"};
    int at[2] = {0, 0};
    if (a->power != b->power)
        return a->power < b->power ? -1 : 1;
    for (int i = 0; i < (int)(sizeof order / sizeof order[0]); i++) {
        at[0] = strcmp(a->group, order[i]) == 0 ? i : at[0];
        at[1] = strcmp(b->group, order[i]) == 0 ? i : at[1];
    }
    return at[0] != at[1] ? at[0] - at[1] : strcmp(a->what, b->what);
}

int tw_differences_finish(struct tw_differences *d, struct twin_error *err)
{
    if (d->failed) {
        twin_world_differences_free(d->out);
        return tw_no_memory(err, "comparing provenance");
    }
    if (d->out->count > 1)
        qsort(d->out->item, d->out->count, sizeof *d->out->item, by_power);
    return 0;
}

void twin_world_differences_free(struct twin_world_differences *d)
{
    for (size_t i = 0; i < d->count; i++) {
        tw_free(d->item[i].what);
        tw_free(d->item[i].a);
        tw_free(d->item[i].b);
        tw_free(d->item[i].groups);
    }
    tw_free(d->item);
    *d = (struct twin_world_differences){0};
}

/* ---- values */

json_t *tw_pv_at(const json_t *o, const char *path)
{
    while (o && *path) {
        char key[64];
        size_t n = strcspn(path, "/");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        o = json_object_get(o, key);
        path += n + (path[n] == '/');
    }
    return (json_t *)o;
}

char *tw_pv_shown(const json_t *v)
{
    if (!v || json_is_null(v))
        return NULL;
    if (json_is_string(v))
        return tw_strdup(json_string_value(v));
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    char *copy = text ? tw_strdup(text) : NULL;
    free(text);
    return copy;
}

bool tw_values_differ(const json_t *a, const json_t *b)
{
    return a && b && !json_equal(a, b);
}

void tw_diff_value(struct tw_differences *d, const json_t *a, const json_t *b, const char *path,
                   enum twin_power power, const char *group, const char *what)
{
    const json_t *x = tw_pv_at(a, path), *y = tw_pv_at(b, path);
    if (!tw_values_differ(x, y))
        return;
    char *p = tw_pv_shown(x), *q = tw_pv_shown(y);
    tw_difference(d, power, group, what, p, q, 1);
    tw_free(p);
    tw_free(q);
}

/* Do two objects differ under a name? One that is not there is a value of its own, null is not. */
static bool differ_by_name(const json_t *a, const json_t *b, const char *key)
{
    const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    /* null: not known, unlike a name that is not there */
    return !json_is_null(x) && !json_is_null(y) && !json_equal(x, y);
}

void tw_diff_names(struct tw_differences *d, const json_t *a, const json_t *b, const char *group,
                   const char *many, enum twin_power (*power)(const char *))
{
    json_t *all = json_object(), *v;
    const char *key;
    size_t count[TWIN_POWER_NOISE + 1] = {0};
    if (!a || !b || !all || json_object_update(all, (json_t *)a) != 0 ||
        json_object_update_missing(all, (json_t *)b) != 0) {
        json_decref(all);
        return;
    }
    json_object_foreach (all, key, v)
        if (differ_by_name(a, b, key))
            count[power(key)]++;
    bool told[TWIN_POWER_NOISE + 1] = {false};
    json_object_foreach (all, key, v) {
        json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
        enum twin_power p = power(key);
        if (!differ_by_name(a, b, key) || told[p])
            continue;
        bool gathered = count[p] > SINGLE && p != TWIN_POWER_HIGH;
        char *s = tw_pv_shown(x);
        char *t = tw_pv_shown(y);
        char *what = gathered ? tw_printf("%zu %s, among them %s", count[p], many, key)
                              : tw_strdup(key);
        const size_t times = gathered ? count[p] : 1;
        tw_difference(d, p, group, what ? what : key, s, t, times);
        told[p] = gathered;
        tw_free(what);
        tw_free(s);
        tw_free(t);
    }
    json_decref(all);
}
