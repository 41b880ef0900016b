/* SPDX-License-Identifier: Apache-2.0 */
/* What an incident document says besides the verdict: earlier checks in the ledger (of the same
 * command, or of one of the two runs), code and versions of a run, and when it recorded what
 * differs. All of it was recorded before; nothing is measured here. */
#include "incident_facts.h"

#include "base.h"
#include "json_text.h"
#include "run_state.h"

#include "src/trace/trace.h"

#include <stdlib.h>
#include <string.h>

static void free_check(struct twin_incident_check *k)
{
    const char *texts[] = {k->verb, k->outcome, k->first, k->cause, k->id};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        tw_free((void *)(uintptr_t)texts[i]);
}

/* Copies the texts of `from`. */
static int add_check(struct tw_incident_facts *f, const struct twin_incident_check *from)
{
    if (f->count == f->room) {
        const size_t room = f->room ? 2 * f->room : 16;
        struct twin_incident_check *grown = tw_reallocarray(f->check, room, sizeof *grown);
        if (!grown)
            return TWIN_ENOMEM;
        f->check = grown;
        f->room = room;
    }
    struct twin_incident_check k = {
        from->time_ns,          tw_strdup(from->verb),  tw_strdup(from->outcome),
        tw_strdup(from->first), tw_strdup(from->cause), tw_strdup(from->id)};
    if (!k.verb || !k.outcome || !k.first || !k.cause || !k.id) {
        free_check(&k);
        return TWIN_ENOMEM;
    }
    f->check[f->count++] = k;
    return 0;
}

/* For twin_ledger_comparisons; user is a struct tw_incident_facts. */
static int take_check(void *user, const struct twin_ledger_comparison *c)
{
    struct tw_incident_facts *f = user;
    if (f->most && f->count >= f->most)
        return TWIN_ELIMIT;
    return add_check(f, &(struct twin_incident_check){c->time_ns, c->verb, c->outcome, c->first,
                                                      c->cause, c->id});
}

/* Of qsort: the oldest first, the same one side by side. */
static int by_time(const void *x, const void *y)
{
    const struct twin_incident_check *a = x, *b = y;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return strcmp(a->id, b->id);
}

/* The same check may be found by the command and by either run; it is kept once. */
static void keep_each_once(struct tw_incident_facts *f)
{
    size_t kept = 0;
    if (f->count)
        qsort(f->check, f->count, sizeof *f->check, by_time);
    for (size_t i = 0; i < f->count; i++) {
        if (kept && strcmp(f->check[kept - 1].id, f->check[i].id) == 0)
            free_check(&f->check[i]);
        else
            f->check[kept++] = f->check[i];
    }
    f->count = kept;
}

int tw_incident_ask(struct twin_ledger *l, const char *command, const char *const run_id[2],
                    struct tw_incident_facts *f, struct twin_error *err)
{
    int rc = twin_ledger_comparisons(l, NULL, command, take_check, f, err);
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = twin_ledger_comparisons(l, run_id[i], NULL, take_check, f, err);
    keep_each_once(f);
    return rc;
}

void tw_incident_facts_free(struct tw_incident_facts *f)
{
    for (size_t i = 0; i < f->count; i++)
        free_check(&f->check[i]);
    tw_free(f->check);
}

json_t *tw_incident_checks_json(const struct twin_incident_check *check, size_t count)
{
    json_t *list = json_array();
    bool whole = list != NULL;
    for (size_t i = 0; whole && i < count; i++)
        whole = json_array_append_new(list, json_pack("{s:I, s:o, s:o, s:o, s:o}", "time_ns",
                                                      (json_int_t)check[i].time_ns, "verb",
                                                      tw_json_text(check[i].verb), "outcome",
                                                      tw_json_text(check[i].outcome), "first",
                                                      tw_json_text(check[i].first), "cause",
                                                      tw_json_text(check[i].cause))) == 0;
    if (whole)
        return list;
    json_decref(list);
    return NULL;
}

int tw_incident_checks_read(const json_t *list, struct tw_incident_facts *f)
{
    int rc = json_is_array(list) ? 0 : TWIN_EINVAL;
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
        const json_t *j = json_array_get(list, i);
        const struct twin_incident_check k = {
            json_integer_value(json_object_get(j, "time_ns")),
            json_string_value(json_object_get(j, "verb")),
            json_string_value(json_object_get(j, "outcome")),
            json_string_value(json_object_get(j, "first")),
            json_string_value(json_object_get(j, "cause")),
            "",
        };
        rc = k.verb && k.outcome && k.first && k.cause ? add_check(f, &k) : TWIN_EINVAL;
    }
    return rc;
}

char *tw_incident_code(const json_t *p)
{
    const json_t *code = json_object_get(p, "code");
    const char *commit = json_string_value(json_object_get(code, "commit"));
    if (!commit)
        return tw_strdup("");
    return tw_printf(
        "%.12s%s", commit,
        json_is_true(json_object_get(code, "dirty")) ? " and changes that were not committed" : "");
}

/* Names with a dot ("torch.git_version") say more of a package that is listed already. */
char *tw_incident_versions(const json_t *p)
{
    struct tw_buf b = {0};
    const char *key;
    json_t *v;
    json_t *versions = json_object_get(json_array_get(json_object_get(p, "ranks"), 0), "versions");
    json_object_foreach (versions, key, v)
        if (json_is_string(v) && json_string_length(v) < 40 && !strchr(key, '.'))
            tw_buf_printf(&b, "%s%s %s", b.len ? ", " : "", key, json_string_value(v));
    char *s = tw_buf_steal(&b);
    return s ? s : tw_strdup("");
}

/* Outcomes, ranks and printed lines have no record with a time. */
int64_t tw_incident_diverged_at(const struct twin_verdict *v, const struct twin_run *b)
{
    int64_t found = 0;
    if (!v->first || v->first->type == TWIN_FINDING_OUTCOME ||
        v->first->type == TWIN_FINDING_RANKS || v->first->type == TWIN_FINDING_OUTPUT)
        return 0;
    for (size_t i = 0; i < b->trace_count && !found; i++) {
        struct twin_trace *t = NULL;
        struct twin_trace_record *r = NULL;
        size_t n = 0;
        if (twin_trace_open(b->traces[i], &t, NULL) != 0)
            continue;
        const struct twin_trace_info *info = twin_trace_info(t);
        if (info->rank == v->first->rank && twin_trace_definitions(t, NULL) == 0 &&
            twin_trace_read(t, v->first->step_b, v->first->step_b, 100000, &r, &n, NULL) == 0)
            for (size_t k = 0; k < n && !found; k++) {
                const struct twin_series *s = twin_trace_series(t, r[k].series);
                if (s->phase == v->first->phase && s->kind == v->first->kind &&
                    strcmp(twin_trace_string(t, s->name), v->first->name) == 0)
                    found = info->start_realtime_ns + (int64_t)r[k].time_ns;
            }
        twin_trace_records_free(r);
        twin_trace_close(t);
    }
    return found;
}

/* ---- a case */

void tw_incident_open(struct tw_incident_case *c, struct twin_run *const runs[2])
{
    *c = (struct tw_incident_case){.runs = runs};
    for (int i = 0; i < 2; i++) {
        c->command[i] = tw_shell_quote(runs[i]->argv, runs[i]->argc);
        /* A run of an older version has no provenance: its world is then not known. */
        twin_provenance_load(runs[i]->dir, &c->provenance[i], NULL);
        c->code[i] = tw_incident_code(c->provenance[i]);
        c->versions[i] = tw_incident_versions(c->provenance[i]);
    }
    c->x.command = c->command[0] ? c->command[0] : "";
    c->x.same_command = c->command[0] && c->command[1] && strcmp(c->command[0], c->command[1]) == 0;
}

/* Names and places alone are left out: they change no result. */
static void gather_world(struct tw_incident_case *c)
{
    struct twin_world_differences *d = &c->differences;
    c->x.world_known = c->provenance[0] && c->provenance[1] &&
                       twin_provenance_diff(c->provenance[0], c->provenance[1], d, NULL) == 0;
    c->world = tw_calloc(d->count + 1, sizeof *c->world);
    for (size_t i = 0; c->world && i < d->count; i++)
        if (d->item[i].power != TWIN_POWER_NOISE)
            c->world[c->x.world_count++] = (struct twin_incident_world){
                twin_power_name(d->item[i].power), d->item[i].group, d->item[i].what, d->item[i].a,
                d->item[i].b};
    c->x.world = c->world;
}

/* Cases of known cause that look like this divergence, as check would hint at. */
static void gather_hints(struct tw_incident_case *c, const char *home, const struct tw_front *front)
{
    const struct twin_verdict *v = c->x.verdict;
    if (v->outcome != TWIN_DIFFER || !v->first)
        return;
    struct twin_signature s = tw_known_signature(v->first, c->x.same_command ? "same" : "two");
    char **settings = NULL;
    s.setting_count = tw_known_settings(c->runs[0], &settings);
    s.settings = settings;
    tw_known_look_up(home, &s, &c->known, front);
    tw_known_settings_free(settings, s.setting_count);
    c->x.hint = c->known.hint;
    c->x.hint_count = c->known.count;
}

void tw_incident_gather(struct tw_incident_case *c, const struct twin_verdict *v, const char *home,
                        const struct tw_front *front)
{
    c->x.verdict = v;
    c->x.parted_ns = tw_incident_diverged_at(v, c->runs[1]);
    c->x.check = c->checks.check;
    c->x.check_count = c->checks.count;
    gather_world(c);
    for (int i = 0; i < 2; i++) {
        struct tw_run_totals t;
        tw_run_totals(c->runs[i], &t);
        c->x.side[i] = (struct twin_incident_side){
            c->runs[i],    tw_run_state(c->runs[i], c->state[i]), t.steps, t.records, c->code[i],
            c->versions[i]};
    }
    gather_hints(c, home, front);
}

void tw_incident_close(struct tw_incident_case *c)
{
    for (int i = 0; i < 2; i++) {
        json_decref(c->provenance[i]);
        tw_free(c->command[i]);
        tw_free(c->code[i]);
        tw_free(c->versions[i]);
    }
    tw_free(c->world);
    twin_world_differences_free(&c->differences);
    tw_known_free(&c->known);
    tw_incident_facts_free(&c->checks);
}

json_t *tw_incident_json(const struct twin_incident *x, const char *markdown)
{
    json_t *checks = tw_incident_checks_json(x->check, x->check_count);
    json_t *world = json_array(), *runs = json_array();
    for (size_t i = 0; i < x->world_count; i++)
        json_array_append_new(
            world, json_pack("{s:s, s:s, s:o, s:o, s:o}", "power", x->world[i].power, "group",
                             x->world[i].group, "what", tw_json_text(x->world[i].what), "a",
                             tw_json_text(x->world[i].a), "b", tw_json_text(x->world[i].b)));
    for (int i = 0; i < 2; i++)
        json_array_append_new(
            runs, json_pack("{s:o, s:o, s:s}", "id", tw_json_text(x->side[i].run->id), "dir",
                            tw_json_text(x->side[i].run->dir), "state", x->side[i].state));
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:b, s:o, s:o, s:o}", "schema", "twinrun.report/1", "kind",
        "postmortem", "outcome", twin_verdict_name(x->verdict->outcome), "runs", runs, "first_step",
        x->verdict->first ? json_integer(x->verdict->first->step_a) : json_null(), "world_known",
        (int)x->world_known, "world", world, "checks", checks, "markdown", json_string(markdown));
}
