/* SPDX-License-Identifier: Apache-2.0 */
/* Looks a verdict up among the known cases, and writes a new case. A case is looked for by the
 * signature of the first finding (layer, phase, kind, operation, name, place) and by what the job
 * has set: advice that it follows already is no help. Cases are read from two folders, the user's
 * own and ours. */
#include "known.h"

#include "base.h"

#include "src/launch/run.h"
#include "src/provenance/provenance.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>

/* The signature borrows the finding's texts. */
struct twin_signature tw_known_signature(const struct twin_finding *f, const char *arms)
{
    /* a call that one run alone made gave no other result */
    bool values = f->type == TWIN_FINDING_VALUE;
    return (struct twin_signature){
        .layer = f->layer,
        .phase = twin_phase_name(f->phase),
        .kind = twin_kind_name(f->kind),
        .op = values ? f->op : "",
        .name = f->name,
        .site = f->site,
        .arms = arms,
    };
}

size_t tw_known_settings(const struct twin_run *run, char ***out)
{
    json_t *p = NULL;
    json_t *value;
    const char *key;
    size_t n = 0;
    *out = NULL;
    if (twin_provenance_load(run->dir, &p, NULL) != 0)
        return 0;
    const json_t *rank = json_array_get(json_object_get(p, "ranks"), 0);
    json_t *settings = json_object_get(rank, "settings");
    const json_t *changed = json_object_get(rank, "settings_at_start");
    char **list = tw_calloc(json_object_size(settings) + 1, sizeof *list);
    json_object_foreach (settings, key, value) {
        /* A setting that the job changed after its start was not in force throughout. */
        bool held = list && json_is_string(value) && !json_object_get(changed, key);
        char *text = held ? tw_printf("%s=%s", key, json_string_value(value)) : NULL;
        if (text)
            list[n++] = text;
    }
    json_decref(p);
    *out = list;
    return n;
}

void tw_known_settings_free(char **settings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tw_free(settings[i]);
    tw_free(settings);
}

void tw_known_look_up(const char *home, const struct twin_signature *s, struct tw_known *k,
                      const struct tw_front *front)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_parts parts = {0};
    *k = (struct tw_known){.count = 0};
    twin_parts_find(&parts, NULL);
    char *own = tw_path_join(home, "cases");
    const char *const folders[] = {own, parts.cases_dir};
    if (twin_cases_load(folders, 2, &k->cases, &err) != 0)
        tw_front_say(front, "known cases were not looked up: %s", err.message);
    for (size_t i = 0; i < k->cases.problem_count; i++)
        tw_front_say(front, "known cases: left out: %s", k->cases.problem[i]);
    k->count = twin_cases_match(&k->cases, s, k->match, TW_KNOWN_HINTS);
    for (size_t i = 0; i < k->count; i++) {
        const struct twin_case_match *m = &k->match[i];
        k->hint[i] = (struct twin_hint){m->one->id, m->one->title, m->one->cause, m->one->fix,
                                        m->why,     m->points,     m->of};
    }
    tw_free(own);
    twin_parts_free(&parts);
}

void tw_known_free(struct tw_known *k)
{
    twin_cases_free(&k->cases);
    k->count = 0;
}

/* The path that a case of this id gets; NULL, with the error said, when the id will not do or is
 * taken: a case that a person wrote is never overwritten. */
static char *case_path(const char *home, const char *id, struct twin_error *err)
{
    if (!twin_case_id_ok(id)) {
        twin_error_set(err, TWIN_EINVAL,
                       "expected letters, digits, - _ . (64 at most, no dot first), found \"%s\"",
                       id);
        return NULL;
    }
    char *path = tw_printf("%s/cases/%s.toml", home, id);
    if (!path)
        tw_no_memory(err, "writing a case");
    if (path && access(path, F_OK) != 0)
        return path;
    if (path)
        twin_error_set(err, TWIN_EINVAL, "%s is there already; choose another id, or remove it",
                       path);
    tw_free(path);
    return NULL;
}

int tw_known_may_save(const char *home, const char *id, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char *path = case_path(home, id, &why);
    tw_free(path);
    return path ? 0 : twin_error_set(err, why.code, "%s", why.message);
}

int tw_known_save(const char *home, const char *id, const struct twin_signature *s,
                  const char *title, const char *cause, const char *fix,
                  const struct tw_front *front, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char *text = NULL, *folder = tw_path_join(home, "cases"), *path = case_path(home, id, &why);
    int rc;
    if (!path)
        rc = twin_error_set(err, why.code, "%s", why.message);
    else if (!folder)
        rc = tw_no_memory(err, "writing a case");
    else
        rc = twin_case_text(s, id, title, cause, fix, &text, err);
    if (rc == 0)
        rc = twin_home_make(home, err);
    if (rc == 0)
        rc = tw_mkdirs(folder, err);
    if (rc == 0)
        rc = tw_write_file_atomic(path, text, strlen(text), err);
    if (rc == 0)
        tw_front_say(front, "case written: %s (put what you know into title, cause and fix)", path);
    tw_free(path);
    tw_free(folder);
    tw_free(text);
    return rc;
}
