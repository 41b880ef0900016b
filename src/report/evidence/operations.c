/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checklists of operations. Each item asks one source: an area of the audit, the run's provenance,
 * what the ledger knows of the run, or a service level of its project. What only people can see (do
 * dashboards run? did somebody write the postmortem?) is not known here, and the answer says whom
 * to ask.
 */
#include "operations.h"

#include "areas.h"
#include "rollout_words.h"

#include "base.h"

#include "src/provenance/provenance.h"
#include "src/slo/slo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum answer { PASS, FAIL, NOT_KNOWN };

/* What was found for one checklist. facts: of the run; -1: not known. */
struct found {
    json_t *const *area;
    const struct tw_operations *where;
    json_t *provenance;
    struct tw_slo_history *history;
    struct tw_slo_rows rows;
    char *project;
    int64_t start_ns, deterministic, nondeterministic;
    bool is_known; /* the ledger has the run */
    json_t *list;
    bool failed;
};

static void add(struct found *f, const char *item, enum answer answer, char *because)
{
    static const char *const words[] = {
        [PASS] = "pass", [FAIL] = "fail", [NOT_KNOWN] = "not known"};
    char *safe = because ? tw_printable_again(because, strlen(because)) : NULL;
    if (!safe || json_array_append_new(f->list, json_pack("{s:s, s:s, s:s}", "item", item, "answer",
                                                          words[answer], "because", safe)) != 0)
        f->failed = true;
    tw_free(safe);
    tw_free(because);
}

/* ---- areas of the audit */

static void add_areas(struct found *f, const char *item, unsigned areas)
{
    struct tw_buf why = {0};
    enum answer answer = PASS;
    tw_buf_puts(&why, "");
    for (size_t i = 0; i < TWIN_AREAS; i++) {
        if (!(areas >> i & 1u))
            continue;
        const json_t *a = f->area[i];
        const bool pass = tw_area_passes(a);
        const char *said = pass ? json_string_value(json_object_get(a, "holds"))
                                : json_string_value(
                                      json_array_get(json_object_get(a, "missing"), 0));
        if (a && !pass)
            answer = FAIL;
        else if (!a && answer == PASS)
            answer = NOT_KNOWN;
        tw_buf_printf(&why, "%saudit, %s: %s%s", why.len ? "; " : "",
                      twin_area_name((enum twin_area)i),
                      pass ? "" : "missing: ", said ? said : "not looked at");
    }
    add(f, item, answer, tw_buf_steal(&why));
    tw_buf_free(&why);
}

/* Code is versioned where a commit is all of it. The audit is also content with files that were
 * kept beside one, or without: that is enough to repeat a run, and no version. Whether files that
 * git does not know are code or output is not known. */
static enum answer version_of(const json_t *code)
{
    const char *holds = json_string_value(json_object_get(code, "holds"));
    if (!code)
        return NOT_KNOWN;
    if (!tw_area_passes(code) || !holds || !strstr(holds, "commit ") ||
        strstr(holds, "changed file"))
        return FAIL;
    return strstr(holds, "besides") ? NOT_KNOWN : PASS;
}

static void add_versioned(struct found *f)
{
    const json_t *code = f->area[TWIN_AREA_CODE], *set = f->area[TWIN_AREA_CONFIGURATION];
    const char *holds = json_string_value(json_object_get(code, "holds"));
    enum answer answer = version_of(code);
    if (set && !tw_area_passes(set))
        answer = FAIL;
    else if (!set && answer == PASS)
        answer = NOT_KNOWN;
    add(f, "Code and configuration are versioned", answer,
        tw_printf("audit, code: %s; audit, configuration: %s", holds ? holds : "not looked at",
                  tw_area_passes(set) ? "whole" : "not whole"));
}

/* ---- the run */

/* Does a text name an image by its digest? */
static bool names_digest(const char *text)
{
    const char *at = text ? strstr(text, "sha256:") : NULL;
    return at && tw_hex_span(at + 7) >= 64;
}

static void add_image(struct found *f)
{
    static const char item[] = "The container image is named by its digest";
    const json_t *container = json_object_get(json_object_get(f->provenance, "environment"),
                                              "container");
    const char *kind = json_string_value(json_object_get(container, "kind"));
    const char *image = json_string_value(json_object_get(container, "image")), *name;
    json_t *hint;
    const json_t *packed = json_object_get(f->area[TWIN_AREA_ENVIRONMENT], "image");
    const char *id = json_string_value(json_object_get(packed, "id"));
    if (names_digest(id) && json_is_null(json_object_get(packed, "moved"))) {
        add(f, item, NOT_KNOWN,
            tw_printf("package: image %s; the run's record names another digest, of the same image "
                      "in another form or of another one",
                      id));
        return;
    }
    if (names_digest(id) && !json_is_true(json_object_get(packed, "moved"))) {
        add(f, item, PASS, tw_printf("package: image %s, as twinrun pack --image named it", id));
        return;
    }
    if (!f->provenance || !container) {
        add(f, item, NOT_KNOWN,
            tw_printf("there is no provenance of a run to look at; twinrun manifest lint looks at "
                      "the job's file"));
        return;
    }
    if (image && tw_is_hex(image, 64)) {
        add(f, item, PASS,
            tw_printf("provenance: container %s, image %s", kind ? kind : "", image));
        return;
    }
    json_object_foreach (json_object_get(container, "hints"), name, hint)
        if (names_digest(json_string_value(hint))) {
            add(f, item, PASS, tw_printf("provenance: %s=%s", name, json_string_value(hint)));
            return;
        }
    if (kind)
        add(f, item, NOT_KNOWN,
            tw_printf("provenance: container %s; its image's digest is not visible from inside, "
                      "and no variable says it (IMAGE_DIGEST)",
                      kind));
    else
        add(f, item, FAIL,
            tw_printf("provenance: the run was in no container: its software is the machine's"));
}

static void add_deterministic(struct found *f)
{
    static const char item[] = "Deterministic flags are in force";
    if (f->deterministic == 1)
        add(f, item, PASS, tw_printf("ledger: the run switched deterministic algorithms on"));
    else if (f->deterministic == 0)
        add(f, item, FAIL, tw_printf("ledger: the run did not switch deterministic algorithms on"));
    else
        add(f, item, NOT_KNOWN, tw_printf("ledger: nothing of it is known of this run"));
}

static void add_operators(struct found *f)
{
    static const char item[] = "Operator counters are read";
    if (f->nondeterministic >= 0)
        add(f, item, PASS,
            tw_printf("ledger: %lld calls of operations that PyTorch lists as nondeterministic",
                      (long long)f->nondeterministic));
    else
        add(f, item, NOT_KNOWN, tw_printf("ledger: no count is known of this run"));
}

static void add_captured(struct found *f)
{
    static const char item[] = "The run and its commit are captured";
    const json_t *code = f->area[TWIN_AREA_CODE];
    const char *holds = json_string_value(json_object_get(code, "holds"));
    const bool commit = tw_area_passes(code) && holds && strstr(holds, "commit ");
    if (!f->where->run_id)
        add(f, item, NOT_KNOWN, tw_printf("the target is no run"));
    else
        add(f, item, commit ? PASS : FAIL,
            tw_printf("run %s; audit, code: %s", f->where->run_id,
                      holds ? holds : "nothing is there"));
}

/* ---- comparisons and events of the run */

struct compared {
    int64_t compared, same;
    char outcome[32], verb[16];
    bool any;
};

/* The newest comparison of checkpoints that the run took part in. */
static int take_comparison(void *user, const struct twin_ledger_comparison *c)
{
    struct compared *x = user;
    if (x->any || c->checkpoints.compared <= 0)
        return 0;
    x->any = true;
    x->compared = c->checkpoints.compared;
    x->same = c->checkpoints.same;
    snprintf(x->outcome, sizeof x->outcome, "%s", c->outcome);
    snprintf(x->verb, sizeof x->verb, "%s", c->verb);
    return 0;
}

static int add_compared(struct found *f, struct twin_error *err)
{
    static const char item[] = "Digests are compared with those of another run";
    struct compared x = {.any = false};
    int rc = f->is_known ? twin_ledger_comparisons(f->where->ledger, f->where->run_id, NULL,
                                                   take_comparison, &x, err)
                         : 0;
    if (x.any)
        add(f, item, PASS,
            tw_printf("ledger: %s, %s: %lld of %lld checkpoints are the same; whether the other "
                      "one is the last good model is not recorded",
                      x.verb, x.outcome, (long long)x.same, (long long)x.compared));
    else
        add(f, item, NOT_KNOWN,
            tw_printf("ledger: no comparison of a checkpoint of this run; twinrun diff GOOD RUN"));
    return rc;
}

struct rolled_back {
    int64_t since_ns;
    bool restored, failed;
    char subject[256];
};

static int take_rollback(void *user, const struct twin_ledger_event *e)
{
    struct rolled_back *x = user;
    if (strcmp(e->kind, "rollback") != 0 || e->time_ns < x->since_ns)
        return 0;
    x->restored = strcmp(e->outcome, "restored") == 0;
    x->failed = !x->restored;
    snprintf(x->subject, sizeof x->subject, "%s", e->subject);
    return 0;
}

static int add_rollback(struct found *f, struct twin_error *err)
{
    static const char item[] = "Rolled back to the signed artifact";
    struct rolled_back x = {.since_ns = f->start_ns};
    int rc = f->is_known ? twin_ledger_events(f->where->ledger, f->start_ns, take_rollback, &x, err)
                         : 0;
    if (x.restored)
        add(f, item, PASS, tw_printf("ledger: rollback of %s after the run: restored", x.subject));
    else if (x.failed)
        add(f, item, FAIL, tw_printf("ledger: rollback of %s after the run: failed", x.subject));
    else
        add(f, item, NOT_KNOWN, tw_printf("ledger: no rollback after the run began"));
    return rc;
}

/* ---- service levels of the project */

/* Some good events, and none that is bad or open. */
static void add_level(struct found *f, const char *item, enum tw_slo_id id, const char *name)
{
    const struct tw_slo_row *row = NULL;
    const char *project = f->project ? f->project : "";
    for (size_t i = 0; i < f->rows.count; i++) {
        const struct tw_slo_row *r = &f->rows.row[i];
        const bool mine = *project ? r->scope == TW_SLO_PROJECT && strcmp(r->name, project) == 0
                                   : r->scope == TW_SLO_ALL;
        if (r->id == id && mine)
            row = r;
    }
    if (!row || row->good + row->bad + row->unknown == 0) {
        add(f, item, NOT_KNOWN,
            tw_printf("ledger, %s: no event in the last 30 days%s%s", name,
                      *project ? " of project " : "", project));
        return;
    }
    enum answer answer = row->bad ? FAIL : PASS;
    if (!row->bad && (row->unknown || !row->good))
        answer = NOT_KNOWN;
    add(f, item, answer,
        tw_printf("ledger, %s, last 30 days: %llu good, %llu bad, %llu not known", name,
                  (unsigned long long)row->good, (unsigned long long)row->bad,
                  (unsigned long long)row->unknown));
}

/* ---- rollouts */

/* Names those that run, or fell back: runs are not all alike then. */
static int add_rollouts(struct found *f, struct twin_error *err)
{
    static const char item[] = "No rollout of a fix is under way";
    struct tw_rollout_list list = {.count = 0};
    const int64_t now = tw_realtime_ns();
    struct tw_buf b = {0};
    if (!f->where->ledger) {
        add(f, item, NOT_KNOWN, tw_printf("there is no ledger to ask"));
        return 0;
    }
    int rc = tw_rollout_list_load(f->where->ledger, INT64_MIN, now, &list, err);
    for (size_t i = 0; i < list.count; i++)
        if (tw_rollout_is_running(&list.item[i]))
            tw_buf_printf(&b, "%srollout %s runs: %s", b.len ? "; " : "", list.item[i].id,
                          list.item[i].said);
    /* only the newest: what an older one fell back to, a later one has taken the place of */
    if (rc == 0 && list.count && strcmp(tw_rollout_told_state(&list.item[0]), "fell back") == 0)
        tw_buf_printf(&b, "%srollout %s fell back: %s", b.len ? "; " : "", list.item[0].id,
                      list.item[0].said);
    if (rc == 0 && b.len)
        add(f, item, FAIL,
            tw_printf("ledger: %s; twinrun rollout status with its flag file says what is in force",
                      b.data));
    else if (rc == 0 && !list.count)
        add(f, item, NOT_KNOWN, tw_printf("ledger: no rollout is in it"));
    else if (rc == 0)
        add(f, item, PASS,
            tw_printf("ledger: %zu rollout%s, none under way", list.count,
                      list.count == 1 ? "" : "s"));
    f->failed |= b.failed;
    tw_buf_free(&b);
    tw_rollout_list_free(&list);
    return rc;
}

/* ---- the three lists */

static const char *const names[] = {"pre-production", "production", "incident"};

bool tw_operations_is(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void before_production(struct found *f)
{
    add_versioned(f);
    add_image(f);
    add_areas(f, "The data's snapshot is verified", 1u << TWIN_AREA_DATA);
    add_areas(f, "Seeds are propagated", 1u << TWIN_AREA_SEEDS);
    add_deterministic(f);
}

static int in_production(struct found *f, struct twin_error *err)
{
    add_level(f, "Repeats in CI pass", TW_SLO_FLAKES, "M4 (CI results)");
    add_level(f, "Artifacts are signed and verified", TW_SLO_ARTIFACTS, "M9 (artifacts)");
    add(f, "Dashboards and alerts are live", NOT_KNOWN,
        tw_printf("no evidence of it is recorded: ask Prometheus for up{job=\"twinrun\"}, and "
                  "Alertmanager for its routes (docs/serve.md)"));
    add_level(f, "A rollback was rehearsed", TW_SLO_ROLLBACKS, "M8 (rollbacks and drills)");
    return add_rollouts(f, err);
}

static int in_incident(struct found *f, struct twin_error *err)
{
    add_captured(f);
    add_areas(f, "The data's snapshot is verified", 1u << TWIN_AREA_DATA);
    add_operators(f);
    int rc = add_compared(f, err);
    rc = rc ? rc : add_rollback(f, err);
    rc = rc ? rc : add_rollouts(f, err);
    add(f, "The postmortem is begun", NOT_KNOWN,
        tw_printf("it is not recorded who wrote one: twinrun report --postmortem GOOD RUN"));
    return rc;
}

static int take_run(void *user, const struct twin_ledger_run *r, const struct twin_ledger_facts *x)
{
    struct found *f = user;
    f->is_known = true;
    f->start_ns = r->start_ns;
    if (!x)
        return 0;
    f->deterministic = x->deterministic;
    f->nondeterministic = x->nondeterministic;
    f->project = tw_strdup(x->project ? x->project : "");
    return f->project ? 0 : TWIN_ENOMEM;
}

/* What the ledger and the provenance say, before any item. */
static int look(struct found *f, struct twin_error *err)
{
    struct tw_slo_targets targets = {.count = 0};
    const int64_t now = tw_realtime_ns();
    int rc = 0;
    if (f->where->run_dir)
        twin_provenance_load(f->where->run_dir, &f->provenance, NULL);
    if (!f->where->ledger)
        return 0;
    if (f->where->run_id)
        rc = twin_ledger_run_with_facts(f->where->ledger, f->where->run_id, take_run, f, err);
    rc = rc == TWIN_ENOENT ? 0 : rc;
    rc = rc ? rc : tw_slo_targets_default(&targets, err);
    rc = rc ? rc
            : tw_slo_history_load(f->where->ledger, f->where->home, tw_slo_since(&targets, now),
                                  &f->history, err);
    rc = rc ? rc : tw_slo_compute(f->history, &targets, now, &f->rows, err);
    tw_slo_targets_free(&targets);
    return rc;
}

json_t *tw_operations_checklist(const char *name, json_t *const area[TWIN_AREAS],
                                const struct tw_operations *where, struct twin_error *err)
{
    struct found f = {.area = area,
                      .where = where,
                      .deterministic = -1,
                      .nondeterministic = -1,
                      .list = json_array()};
    int rc = f.list ? look(&f, err) : TWIN_ENOMEM;
    if (rc == 0 && strcmp(name, names[0]) == 0)
        before_production(&f);
    else if (rc == 0 && strcmp(name, names[1]) == 0)
        rc = in_production(&f, err);
    else if (rc == 0)
        rc = in_incident(&f, err);
    tw_slo_rows_free(&f.rows);
    tw_slo_history_free(f.history);
    json_decref(f.provenance);
    tw_free(f.project);
    if (rc == 0 && !f.failed)
        return f.list;
    tw_no_memory(err, "for a checklist");
    json_decref(f.list);
    return NULL;
}
