/* SPDX-License-Identifier: Apache-2.0 */
/* How two runs were started: variables, settings, the states of generators, what is installed. */
#include "differences.h"

#include "base.h"

static enum twin_power high(const char *name)
{
    (void)name;
    return TWIN_POWER_HIGH;
}

static enum twin_power low(const char *name)
{
    (void)name;
    return TWIN_POWER_LOW;
}

static enum twin_power of_package(const char *name)
{
    enum twin_power p = tw_power_of_version(name);
    return p == TWIN_POWER_HIGH ? p : TWIN_POWER_MEDIUM;
}

/* Did the process tell how it ended? One that was stopped or killed did not. */
static bool told_its_end(const json_t *rank)
{
    return json_object_get(json_object_get(rank, "generators"), "random.last") != NULL;
}

/* Generators whose first state differs. One that nobody drew from (its last state is its first) is
 * noise: it is as the entropy left it. Of a run that was stopped the other one tells that. */
static void generators(struct tw_differences *d, const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "generators"), *y = json_object_get(b, "generators");
    const bool a_ended = told_its_end(a), b_ended = told_its_end(b);
    static const char *const all[][3] = {{"random.first", "random.last", "Python's random"},
                                         {"numpy.first", "numpy.last", "NumPy"},
                                         {"torch.first", "torch.last", "PyTorch"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const json_t *p = json_object_get(x, all[i][0]), *q = json_object_get(y, all[i][0]);
        bool unused = (a_ended || b_ended) &&
                      (!a_ended || json_equal(p, json_object_get(x, all[i][1]))) &&
                      (!b_ended || json_equal(q, json_object_get(y, all[i][1])));
        if (!tw_values_differ(p, q))
            continue;
        char *s = tw_pv_shown(p);
        char *t = tw_pv_shown(q);
        char *what = tw_printf("state of %s%s", all[i][2], unused ? " (not used)" : "");
        tw_difference(d, unused ? TWIN_POWER_NOISE : TWIN_POWER_HIGH, "seeds",
                      what ? what : all[i][2], s, t, 1);
        tw_free(s);
        tw_free(t);
        tw_free(what);
    }
}

/* The settings that a process began with, of those which the other one tells, too. */
static json_t *first_settings(const json_t *rank, const json_t *other)
{
    json_t *o = json_deep_copy(json_object_get(rank, "settings")), *v;
    const char *name;
    void *next;
    json_object_update_existing(o, json_object_get(rank, "settings_at_start"));
    json_object_foreach_safe (o, next, name, v)
        if (!json_object_get(json_object_get(other, "settings"), name))
            json_object_del(o, name);
    return o;
}

/* Switches are told at the start and at the end, some only there: where one of the two was stopped
 * before its end, the starts are compared. */
static void settings(struct tw_differences *d, const json_t *a, const json_t *b)
{
    const bool whole = told_its_end(a) && told_its_end(b);
    json_t *x = whole ? json_incref(json_object_get(a, "settings")) : first_settings(a, b);
    json_t *y = whole ? json_incref(json_object_get(b, "settings")) : first_settings(b, a);
    tw_diff_names(d, x, y, "settings", "settings", high);
    json_decref(x);
    json_decref(y);
}

/* Variables that the job's processes had and the launcher had not: set by the job, or by what
 * starts its ranks. */
static json_t *own_variables(const json_t *p)
{
    json_t *o = json_deep_copy(
        tw_pv_at(json_array_get(json_object_get(p, "ranks"), 0), "variables"));
    json_t *v;
    const char *name;
    void *next;
    json_object_foreach_safe (o, next, name, v)
        if (json_object_get(tw_pv_at(p, "launch/variables"), name))
            json_object_del(o, name);
    return o;
}

/* Variables but for those whose values are digests under different keys: these would differ in any
 * case. */
static json_t *comparable_variables(const json_t *p, bool same_key)
{
    json_t *o = json_deep_copy(tw_pv_at(p, "launch/variables")), *v;
    const char *name;
    void *next;
    json_object_foreach_safe (o, next, name, v)
        if (!same_key && json_is_string(v) && twin_redacted(json_string_value(v)))
            json_object_del(o, name);
    return o;
}

/* How it was started, seeds and settings of the first rank, and what is installed. Packages that
 * were loaded are among the libraries; here are all. */
void tw_diff_launch(struct tw_differences *d, const json_t *a, const json_t *b)
{
    const json_t *x = json_array_get(json_object_get(a, "ranks"), 0);
    const json_t *y = json_array_get(json_object_get(b, "ranks"), 0);
    bool same_key = json_equal(json_object_get(a, "redaction_key"),
                               json_object_get(b, "redaction_key"));
    /* 0: the job ended before anybody looked at its processes. */
    if (json_integer_value(tw_pv_at(a, "launch/world")) > 0 &&
        json_integer_value(tw_pv_at(b, "launch/world")) > 0)
        tw_diff_value(d, a, b, "launch/world", TWIN_POWER_HIGH, "launch", "ranks");
    tw_diff_value(d, a, b, "launch/files", TWIN_POWER_HIGH, "launch",
                  "files that steer collectives");
    tw_diff_value(d, a, b, "launch/scheduler", TWIN_POWER_NOISE, "launch", "scheduler");
    json_t *p = comparable_variables(a, same_key), *q = comparable_variables(b, same_key);
    tw_diff_names(d, p, q, "variables", "variables", tw_power_of_variable);
    json_decref(p);
    json_decref(q);
    p = own_variables(a);
    q = own_variables(b);
    tw_diff_names(d, p, q, "variables", "variables", tw_power_of_variable);
    json_decref(p);
    json_decref(q);
    settings(d, x, y);
    generators(d, x, y);
    tw_diff_names(d, tw_pv_at(a, "packages/python"), tw_pv_at(b, "packages/python"), "packages",
                  "Python packages", of_package);
    tw_diff_names(d, tw_pv_at(a, "packages/conda"), tw_pv_at(b, "packages/conda"), "packages",
                  "conda packages", tw_power_medium);
    tw_diff_names(d, tw_pv_at(a, "packages/dpkg"), tw_pv_at(b, "packages/dpkg"), "packages",
                  "system packages", low);
}
