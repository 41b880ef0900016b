/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of one kind that are given to an engine before the first of them is waited for, so that they
 * are made side by side. Where no engine makes them, each is made when it is asked for. */
#include "base.h"
#include "remote.h"

bool tw_remote_is_on(const struct tw_remote *r)
{
    return r && r->engine;
}

const char *tw_remote_name(const struct tw_remote *r)
{
    return tw_engine_name(r->engine);
}

int tw_remote_can_pin(const struct tw_remote *r, struct twin_error *err)
{
    return tw_engine_can_pin(r->engine, err);
}

int tw_remote_nodes(const struct tw_remote *r, size_t most, char ***name, size_t *count,
                    struct twin_error *err)
{
    size_t n;
    const struct tw_node *node = tw_engine_nodes(r->engine, &n);
    *name = NULL;
    *count = 0;
    int rc = tw_engine_can_pin(r->engine, err);
    if (rc == 0 && r->place.kind != TW_PLACE_ANY && r->place.kind != TW_PLACE_AVOID)
        rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                            "--place says where runs are: only with any or avoid:HOST are nodes "
                            "ours to choose");
    if (rc == 0 && !(*name = tw_calloc(n + 1, sizeof **name)))
        rc = tw_no_memory(err, "for the names of nodes");
    for (size_t i = 0; rc == 0 && i < n && *count < most; i++) {
        if (!node[i].up || !tw_place_holds(&r->place, node[i].name) ||
            !tw_engine_takes_node(r->engine, node[i].name))
            continue;
        if (!((*name)[*count] = tw_strdup(node[i].name)))
            rc = tw_no_memory(err, "for the names of nodes");
        else
            ++*count;
    }
    return rc;
}

int tw_given_add(struct tw_given *a, const struct twin_launch_options *o,
                 const struct tw_trial *asked, size_t n, struct twin_error *err)
{
    int rc = 0;
    if (!o->on || !o->on->engine)
        return 0;
    struct tw_remote_run **grown = tw_reallocarray(a->run, a->count + n + 1, sizeof *grown);
    if (!grown)
        return tw_no_memory(err, "for %zu runs", n);
    a->run = grown;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = tw_remote_add(o, asked, &a->run[a->count], err);
        a->count += rc == 0;
    }
    return rc;
}

int tw_given_make(struct tw_given *a, const struct twin_launch_options *o, struct tw_trial *t,
                  struct twin_error *err)
{
    if (a->taken < a->count)
        return tw_remote_wait(a->run[a->taken++], t->title, t, err);
    return tw_trial_make(t, o, err);
}

void tw_given_end(struct tw_given *a)
{
    if (a->taken < a->count)
        tw_remote_cancel(a->run + a->taken, a->count - a->taken);
    while (a->taken < a->count)
        tw_remote_drop(a->run[a->taken++]);
    tw_free(a->run);
    *a = (struct tw_given){.run = NULL};
}
