/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes out of the log: models, their versions, stages, evidence, holds. Each entry is applied
 * to what the ones before it came to; one that does not fit (a version that was never added, a move
 * from a stage where it is not) is a fault, and reading ends there: what follows rests on it.
 */
#include "registry_inside.h"

#include "base.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Says why the entry does not fit. */
static int misfit(const struct tw_entry *e, struct twin_error *err, const char *why)
{
    return twin_error_set(err, TWIN_EFORMAT, "entry %llu (%s %s@%llu) does not fit: %s",
                          (unsigned long long)e->number, tw_entry_kind_name(e->kind),
                          e->model ? e->model : "registry", (unsigned long long)e->version, why);
}

static int by_name(const void *a, const void *b)
{
    const struct tw_model *x = a, *y = b;
    return strcmp(x->name, y->name);
}

const struct tw_model *tw_registry_model(const struct tw_registry *r, const char *name)
{
    const struct tw_model key = {.name = (char *)(uintptr_t)name};
    return r->models ? bsearch(&key, r->model, r->models, sizeof key, by_name) : NULL;
}

/* The model, made where it is new: names are few, so the list is sorted again. NULL: no memory. */
static struct tw_model *model_for(struct tw_registry *r, const char *name, struct twin_error *err)
{
    const struct tw_model *found = tw_registry_model(r, name);
    if (found)
        return &r->model[found - r->model];
    struct tw_model *list = tw_reallocarray(r->model, r->models + 1, sizeof *list);
    char *copy = list ? tw_strdup(name) : NULL;
    if (list)
        r->model = list;
    if (!copy) {
        tw_no_memory(err, "reading a registry");
        return NULL;
    }
    size_t at = r->models;
    while (at > 0 && strcmp(list[at - 1].name, name) > 0) {
        list[at] = list[at - 1];
        at--;
    }
    list[at] = (struct tw_model){.name = copy};
    r->models++;
    return &list[at];
}

/* ---- evidence */

static int add_evidence(struct tw_version *v, const json_t *item, const struct tw_entry *e,
                        struct twin_error *err)
{
    const char *kind = json_string_value(json_object_get(item, "kind"));
    const char *sha256 = json_string_value(json_object_get(item, "sha256"));
    if (!kind || !*kind || strlen(kind) >= sizeof v->evidence->kind || !tw_is_hex(sha256, 64))
        return misfit(e, err, "its evidence has no kind or no digest");
    struct tw_evidence *list = tw_reallocarray(v->evidence, v->evidence_count + 1, sizeof *list);
    if (!list)
        return tw_no_memory(err, "reading a registry");
    v->evidence = list;
    struct tw_evidence *x = &list[v->evidence_count++];
    memset(x, 0, sizeof *x);
    snprintf(x->kind, sizeof x->kind, "%s", kind);
    memcpy(x->sha256, sha256, sizeof x->sha256);
    x->entry = e->number;
    return 0;
}

static int take_evidence(struct tw_version *v, const struct tw_entry *e, struct twin_error *err)
{
    const json_t *list = json_object_get(e->details, "evidence");
    if (list && !json_is_array(list))
        return misfit(e, err, "its evidence is no list");
    int rc = 0;
    for (size_t i = 0; i < json_array_size(list) && rc == 0; i++)
        rc = add_evidence(v, json_array_get(list, i), e, err);
    return rc;
}

/* ---- one kind of entry after the other */

/* The policy that the entry names; `must`: it has to. */
static int take_policy(struct tw_registry *r, const struct tw_entry *e, bool must,
                       struct twin_error *err)
{
    const char *policy = json_string_value(json_object_get(e->details, "policy"));
    if (policy ? !tw_is_hex(policy, 64) : must)
        return misfit(e, err, "its policy has no digest");
    snprintf(r->policy, sizeof r->policy, "%s", policy ? policy : "");
    return 0;
}

static int apply_open(struct tw_registry *r, const struct tw_entry *e, struct twin_error *err)
{
    if (e->number != 1)
        return misfit(e, err, "only the first entry opens a registry");
    memcpy(r->id, e->artifact, sizeof r->id);
    return take_policy(r, e, false, err);
}

static int apply_add(struct tw_registry *r, const struct tw_entry *e, struct twin_error *err)
{
    struct tw_model *m = model_for(r, e->model, err);
    if (!m)
        return TWIN_ENOMEM;
    if (e->version != m->count + 1)
        return misfit(e, err, "it is not the model's next version");
    struct tw_version *list = tw_reallocarray(m->version, m->count + 1, sizeof *list);
    if (!list)
        return tw_no_memory(err, "reading a registry");
    m->version = list;
    struct tw_version *v = &list[m->count++];
    *v = (struct tw_version){.number = e->version,
                             .stage = TW_STAGE_CANDIDATE,
                             .added_ns = e->time_ns,
                             .moved_ns = e->time_ns,
                             .added_by = e->number,
                             .moved_by = e->number};
    memcpy(v->artifact, e->artifact, sizeof v->artifact);
    return take_evidence(v, e, err);
}

/* The version leaves its stage for another one. */
static void move(struct tw_model *m, struct tw_version *v, enum tw_stage to,
                 const struct tw_entry *e)
{
    if (m->production == v->number)
        m->production = 0;
    if (m->canary == v->number)
        m->canary = 0;
    if (to == TW_STAGE_PRODUCTION) {
        m->production = v->number;
        v->was_production = true;
    }
    if (to == TW_STAGE_CANARY) {
        m->canary = v->number;
        v->canary = 0;
    }
    v->stage = to;
    v->moved_ns = e->time_ns;
    v->moved_by = e->number;
}

/* At most one version of a model is in production, and one a canary: who comes names who goes. */
static int apply_move(struct tw_model *m, struct tw_version *v, const struct tw_entry *e,
                      struct twin_error *err)
{
    uint64_t there = 0;
    if (e->to == TW_STAGE_PRODUCTION)
        there = m->production;
    else if (e->to == TW_STAGE_CANARY)
        there = m->canary;
    if (v->stage != e->from)
        return misfit(e, err, "the version is not in the stage that it is moved from");
    if (e->from == e->to || e->to == TW_STAGE_CANDIDATE)
        return misfit(e, err, "there is no such move");
    if (v->collected && e->to != TW_STAGE_RETIRED)
        return misfit(e, err, "the contents of the version were removed");
    if (e->displaced != there)
        return misfit(e, err, "it does not name the version whose place it takes");
    if (there)
        move(m, &m->version[there - 1], TW_STAGE_RETIRED, e);
    move(m, v, e->to, e);
    return 0;
}

static int apply_canary(struct tw_version *v, const struct tw_entry *e, struct twin_error *err)
{
    if (v->stage != TW_STAGE_CANARY)
        return misfit(e, err, "the version is no canary");
    v->canary = e->passed ? 1 : -1;
    v->canary_by = e->number;
    return take_evidence(v, e, err);
}

static int apply_hold(struct tw_version *v, const struct tw_entry *e, struct twin_error *err)
{
    const bool hold = e->kind == TW_ENTRY_HOLD;
    if (hold && v->collected)
        return misfit(e, err, "the contents of the version were removed");
    if (!hold && !v->hold)
        return misfit(e, err, "the version is not held");
    tw_free(v->hold);
    v->hold = hold ? tw_strdup(e->why) : NULL;
    return hold && !v->hold ? tw_no_memory(err, "reading a registry") : 0;
}

/* {"model": NAME, "version": N} of the versions whose contents are removed. */
static int collect_one(struct tw_registry *r, const json_t *item, const struct tw_entry *e,
                       struct twin_error *err)
{
    const char *name = json_string_value(json_object_get(item, "model"));
    const json_int_t number = json_integer_value(json_object_get(item, "version"));
    const struct tw_model *found = name ? tw_registry_model(r, name) : NULL;
    if (!found || number < 1 || (uint64_t)number > found->count)
        return misfit(e, err, "it removes a version that was never added");
    struct tw_version *v = &r->model[found - r->model].version[number - 1];
    if (v->stage != TW_STAGE_RETIRED || v->hold || v->collected)
        return misfit(e, err, "it removes a version that is held, or not retired, or gone already");
    v->collected = e->number;
    return 0;
}

static int apply_collect(struct tw_registry *r, const struct tw_entry *e, struct twin_error *err)
{
    const json_t *list = json_object_get(e->details, "versions");
    if (!json_is_array(list))
        return misfit(e, err, "it has no list of versions");
    int rc = 0;
    for (size_t i = 0; i < json_array_size(list) && rc == 0; i++)
        rc = collect_one(r, json_array_get(list, i), e, err);
    return rc;
}

/* An entry about a version that is there. */
static int apply_to_version(struct tw_registry *r, const struct tw_entry *e, struct twin_error *err)
{
    const struct tw_model *found = tw_registry_model(r, e->model);
    if (!found || e->version > found->count)
        return misfit(e, err, "the version was never added");
    struct tw_model *m = &r->model[found - r->model];
    struct tw_version *v = &m->version[e->version - 1];
    if (strcmp(v->artifact, e->artifact) != 0)
        return misfit(e, err, "it names another artifact than the version has");
    if (e->kind == TW_ENTRY_MOVE)
        return apply_move(m, v, e, err);
    if (e->kind == TW_ENTRY_CANARY)
        return apply_canary(v, e, err);
    if (e->kind == TW_ENTRY_ATTACH)
        return take_evidence(v, e, err);
    return apply_hold(v, e, err);
}

/* The list of what was sealed for this entry. */
static int take_sealed(struct tw_registry *r, const struct tw_entry *e, struct twin_error *err)
{
    const json_t *given = json_object_get(e->details, "sealed");
    const char *sha256 = json_string_value(given);
    if (!given)
        return 0;
    if (!tw_is_hex(sha256, 64))
        return misfit(e, err, "its list of sealed contents has no digest");
    struct tw_sealed_list *list = tw_reallocarray(r->sealed, r->sealed_count + 1,
                                                  sizeof *r->sealed);
    if (!list)
        return tw_no_memory(err, "reading a registry");
    r->sealed = list;
    memcpy(list[r->sealed_count].sha256, sha256, sizeof list->sha256);
    list[r->sealed_count++].entry = e->number;
    return 0;
}

static int apply(struct tw_registry *r, const struct tw_entry *e, struct twin_error *err)
{
    switch (e->kind) {
    case TW_ENTRY_OPEN: return apply_open(r, e, err);
    case TW_ENTRY_ADD: return apply_add(r, e, err);
    case TW_ENTRY_COLLECT: return apply_collect(r, e, err);
    case TW_ENTRY_VOUCH: return 0;
    case TW_ENTRY_POLICY: return take_policy(r, e, true, err);
    default: return apply_to_version(r, e, err);
    }
}

int tw_state_apply(struct tw_registry *r, const struct tw_entry *e, struct twin_error *err)
{
    int rc = apply(r, e, err);
    return rc ? rc : take_sealed(r, e, err);
}

void tw_state_free(struct tw_registry *r)
{
    for (size_t i = 0; i < r->models; i++) {
        struct tw_model *m = &r->model[i];
        for (size_t j = 0; j < m->count; j++) {
            tw_free(m->version[j].evidence);
            tw_free(m->version[j].hold);
        }
        tw_free(m->version);
        tw_free(m->name);
    }
    tw_free(r->model);
    tw_free(r->sealed);
    r->model = NULL;
    r->sealed = NULL;
    r->models = r->sealed_count = 0;
}

/* ---- asking */

/* The version that stands behind the "@". */
static int find_version(const struct tw_model *m, const char *text, const struct tw_version **v,
                        struct twin_error *err)
{
    uint64_t number = 0;
    enum tw_stage stage;
    if (tw_parse_u64(text, UINT64_MAX, &number) == 0) {
        if (number < 1 || number > m->count)
            return twin_error_set(err, TWIN_ENOENT, "%s has versions 1 to %zu, not %llu", m->name,
                                  m->count, (unsigned long long)number);
        *v = &m->version[number - 1];
        return 0;
    }
    if (!tw_stage_parse(text, &stage))
        return twin_error_set(
            err, TWIN_EINVAL,
            "%s@%s: expected a number or a stage behind \"@\": candidate, canary, "
            "production or retired",
            m->name, text);
    for (size_t i = m->count; i-- > 0;) /* of several the newest */
        if (m->version[i].stage == stage) {
            *v = &m->version[i];
            return 0;
        }
    return twin_error_set(err, TWIN_ENOENT, "no version of %s is in stage %s", m->name, text);
}

int tw_registry_find(const struct tw_registry *r, const char *spec, const struct tw_model **m,
                     const struct tw_version **v, struct twin_error *err)
{
    const char *at = strchr(spec, '@');
    char name[TW_REGISTRY_NAME_BYTES + 1];
    const size_t n = at ? (size_t)(at - spec) : strlen(spec);
    *v = NULL;
    snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, spec);
    if (!tw_model_name_ok(name))
        return twin_error_set(err, TWIN_EINVAL,
                              "\"%.140s\": expected NAME, NAME@3 or NAME@production; names have up "
                              "to %d letters, digits and . _ - /",
                              spec, TW_REGISTRY_NAME_BYTES);
    *m = tw_registry_model(r, name);
    if (!*m)
        return twin_error_set(err, TWIN_ENOENT, "%s: no model is called %s",
                              tw_store_name(r->store), name);
    return at ? find_version(*m, at + 1, v, err) : 0;
}
