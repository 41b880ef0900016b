/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the ledger's records of a run, and of a comparison the file that outlives any ledger. */
#include "noted_inside.h"

#include "base.h"
#include "json_text.h"
#include "run_state.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { ARTIFACTS = 1000, COMPARISON_BYTES = 1 << 20 };
static const char SCHEMA[] = "twinrun.comparison/1";

/* ---- runs */

bool tw_is_checkpoint(const char *path)
{
    static const char *const endings[] = {".pt",  ".pth", ".ckpt",   ".safetensors",
                                          ".npz", ".npy", ".distcp", ".bin"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (tw_ends(path, endings[i]))
            return true;
    return false;
}

/* What kind of artifact a file is, by its name. */
static const char *kind_of(const char *path)
{
    return tw_is_checkpoint(path) ? "checkpoint" : "file";
}

/* The files that the run wrote and whose digest is known: how many were put into a. */
static size_t artifacts_of(const struct twin_run *r, struct twin_ledger_artifact *a)
{
    size_t n = 0;
    for (size_t i = 0; i < r->file_count && n < ARTIFACTS; i++)
        if (r->files[i].sha256[0])
            a[n++] = (struct twin_ledger_artifact){r->files[i].path, kind_of(r->files[i].path),
                                                   r->files[i].sha256, r->files[i].bytes};
    return n;
}

/* The arm of a run of a rollout, as an event whose id follows from the run's: written once, however
 * often and by whomever the run is put. */
static int put_arm(struct twin_ledger *l, const struct twin_run *run, struct twin_error *err)
{
    const struct twin_run_rollout *x = &run->rollout;
    char id[33], key[33];
    if (!x->arm)
        return 0;
    /* which runs are of one job, without what the job's number is */
    const struct tw_hash128 by = tw_hash_bytes(x->key ? x->key : "", strlen(x->key ? x->key : ""),
                                               0x6a6f62);
    const bool has_key = x->key && *x->key;
    const struct tw_hash128 h = tw_hash_bytes(run->id, strlen(run->id), 0x726f6c6c6f7574);
    char *subject = tw_printf("%s %u%s%s%s%s", *x->id ? x->id : "-", x->share,
                              has_key ? " key=" : "", has_key ? tw_hex_128(by.a, by.b, key) : "",
                              *x->why ? " " : "", x->why);
    if (!subject)
        return tw_no_memory(err, "writing to the ledger");
    const struct twin_ledger_event e = {
        .id = tw_hex_128(h.a, h.b, id),
        .time_ns = run->start_realtime_ns,
        .kind = "rollout-run",
        .outcome = x->arm,
        .subject = subject,
        .project = run->belongs.project,
        .family = run->belongs.family,
        .contributor = run->belongs.contributor,
        .run_id = run->id,
    };
    const int rc = twin_ledger_put_event(l, &e, err);
    tw_free(subject);
    return rc;
}

int tw_ledger_put_folder(struct twin_ledger *l, const char *home, const struct twin_run *run,
                         const struct twin_redactor *safe, struct twin_error *err)
{
    char **kept = safe ? twin_redact_argv(safe, run->argv, run->argc) : NULL;
    if (safe && !kept)
        return twin_error_set(err, TWIN_ENOMEM, "out of memory");
    char *const *words = kept ? kept : run->argv;
    struct tw_run_totals t;
    char state[32];
    char *command = tw_shell_quote(words, run->argc);
    json_t *list = tw_json_texts(words, run->argc);
    char *argv = list ? json_dumps(list, JSON_COMPACT) : NULL;
    struct twin_ledger_artifact *a = tw_calloc(run->file_count + 1, sizeof *a);
    int rc;
    tw_run_totals(run, &t);
    if (a && command && argv) {
        const bool snapshot = run->data_count > 0;
        const struct twin_ledger_run row = {
            .id = run->id,
            .name = tw_base_name(run->dir),
            .home = home,
            .label = run->label,
            .command = command,
            .argv = argv,
            .host = run->host,
            .state = tw_run_state(run, state),
            .exit_code = run->exit_code,
            .start_ns = run->start_realtime_ns,
            .wall_s = run->wall_s,
            .steps = t.steps,
            .records = t.records,
            .dropped = t.dropped,
            .data_root = snapshot ? run->data[0].root : "",
        };
        rc = twin_ledger_put_run(l, &row, a, artifacts_of(run, a), err);
        if (rc == 0)
            rc = tw_ledger_put_facts_of(l, run, err);
        if (rc == 0)
            rc = put_arm(l, run, err);
    } else {
        rc = twin_error_set(err, TWIN_ENOMEM, "out of memory");
    }
    tw_free(a);
    free(argv);
    json_decref(list);
    tw_free(command);
    twin_redact_free(kept);
    return rc;
}

/* ---- comparisons */

static json_t *checkpoints_json(const struct twin_ledger_checkpoints *k)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "compared", (json_int_t)k->compared, "same",
                     (json_int_t)k->same, "unknown", (json_int_t)k->unknown, "missing",
                     (json_int_t)k->missing);
}

int tw_comparison_save(const char *home, const struct twin_ledger_comparison *c,
                       struct twin_error *err)
{
    json_t *runs = json_array(), *agreed = json_array();
    for (size_t i = 0; i < c->run_count; i++) {
        json_array_append_new(runs, json_string(c->run_id[i]));
        json_array_append_new(agreed, json_string(twin_agreed_name(c->agreed ? c->agreed[i] : 0)));
    }
    json_t *j = json_pack("{s:s, s:s, s:I, s:s, s:o, s:s, s:o, s:I, s:o, s:s, s:b, s:o, s:o, s:o}",
                          "schema", SCHEMA, "id", c->id, "time_ns", (json_int_t)c->time_ns, "verb",
                          c->verb, "command", tw_json_text(c->command ? c->command : ""), "outcome",
                          c->outcome, "first", tw_json_text(c->first), "first_step",
                          (json_int_t)c->first_step, "cause",
                          tw_json_text(c->cause ? c->cause : ""), "layer", c->layer ? c->layer : "",
                          "repeats", c->repeats, "checkpoints", checkpoints_json(&c->checkpoints),
                          "runs", runs, "agreed", agreed);
    const int rc = tw_noted_save(home, "comparisons", c->id, j, err);
    json_decref(j);
    return rc;
}

/* Is j a comparison of ours whose file is called by its id? */
static bool is_comparison(const json_t *j, const char *file_name)
{
    const char *schema = json_string_value(json_object_get(j, "schema"));
    const char *id = json_string_value(json_object_get(j, "id"));
    return schema && id && strcmp(schema, SCHEMA) == 0 && tw_starts(file_name, id);
}

/* A number of the object, or -1 where an older twinrun wrote none. */
static int64_t number_or_none(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

/* The object as a record; ids, agreed: room for the list of runs. */
static struct twin_ledger_comparison comparison_of(const json_t *j, const char **ids,
                                                   enum twin_ledger_agreed *agreed)
{
    const json_t *list = json_object_get(j, "runs"), *words = json_object_get(j, "agreed");
    const json_t *k = json_object_get(j, "checkpoints");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *id = json_string_value(json_array_get(list, i));
        ids[i] = id ? id : "";
        agreed[i] = twin_agreed_of(json_string_value(json_array_get(words, i)));
    }
    return (struct twin_ledger_comparison){
        .id = json_string_value(json_object_get(j, "id")),
        .time_ns = json_integer_value(json_object_get(j, "time_ns")),
        .verb = json_string_value(json_object_get(j, "verb")),
        .command = json_string_value(json_object_get(j, "command")),
        .outcome = json_string_value(json_object_get(j, "outcome")),
        .first = json_string_value(json_object_get(j, "first")),
        .first_step = json_integer_value(json_object_get(j, "first_step")),
        .cause = json_string_value(json_object_get(j, "cause")),
        .layer = json_string_value(json_object_get(j, "layer")),
        .repeats = json_is_true(json_object_get(j, "repeats")),
        .checkpoints = {number_or_none(k, "compared"), number_or_none(k, "same"),
                        number_or_none(k, "unknown"), number_or_none(k, "missing")},
        .run_id = ids,
        .agreed = agreed,
        .run_count = json_array_size(list),
    };
}

int tw_comparison_put_file(struct twin_ledger *l, const char *dir, const char *name,
                           struct twin_error *err)
{
    json_t *j = tw_noted_load(dir, name, COMPARISON_BYTES);
    const size_t room = json_array_size(json_object_get(j, "runs")) + 1;
    const char **ids = tw_calloc(room, sizeof *ids);
    enum twin_ledger_agreed *agreed = tw_calloc(room, sizeof *agreed);
    int rc = 0;
    if (ids && agreed && is_comparison(j, name)) {
        const struct twin_ledger_comparison row = comparison_of(j, ids, agreed);
        rc = twin_ledger_put_comparison(l, &row, err);
    }
    tw_free(agreed);
    tw_free(ids);
    json_decref(j);
    return rc;
}
