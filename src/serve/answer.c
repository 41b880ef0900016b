/* SPDX-License-Identifier: Apache-2.0 */
/* What the API answers, as JSON of the schemas beside this file. */
#include "answer.h"

#include "base.h"
#include "json_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of one text, and members of the lists of one run. */
enum { TEXT_BYTES = 4096, ARTIFACTS = 1000, VERDICTS_OF_RUN = 100 };

/* ---- parts */

/* As tw_json_text, cut: a page of a thousand commands of a megabyte each helps nobody. */
json_t *serve_text(const char *s)
{
    if (!s || strnlen(s, TEXT_BYTES + 1) <= TEXT_BYTES)
        return tw_json_text(s ? s : "");
    char *cut = tw_strndup(s, TEXT_BYTES), *shown = cut ? tw_printf("%s...", cut) : NULL;
    json_t *j = shown ? tw_json_text(shown) : NULL;
    tw_free(cut);
    tw_free(shown);
    return j;
}

/* What is not known is null. */
static json_t *known(int64_t n)
{
    return n < 0 ? json_null() : json_integer(n);
}

static json_t *facts_json(const struct twin_ledger_facts *f)
{
    if (!f)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "project",
                     serve_text(f->project), "family", serve_text(f->family), "contributor",
                     serve_text(f->contributor), "sweep", serve_text(f->sweep), "ci", (int)f->ci,
                     "snapshots", known(f->snapshots), "deterministic", known(f->deterministic),
                     "nondeterministic_calls", known(f->nondeterministic), "loss",
                     tw_json_number(f->loss));
}

static json_t *run_json(const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:b, s:o}", "id",
                     serve_text(r->id), "name", serve_text(r->name), "label", serve_text(r->label),
                     "command", serve_text(r->command), "host", serve_text(r->host), "state",
                     serve_text(r->state), "exit_code", (json_int_t)r->exit_code, "start_ns",
                     (json_int_t)r->start_ns, "wall_s", tw_json_number(r->wall_s), "steps",
                     tw_json_count(r->steps), "records", tw_json_count(r->records), "dropped",
                     tw_json_count(r->dropped), "folder_removed", (int)r->gone, "facts",
                     facts_json(f));
}

static json_t *checkpoints_json(const struct twin_ledger_checkpoints *k)
{
    if (k->compared < 0)
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:I}", "compared", (json_int_t)k->compared, "same",
                     (json_int_t)k->same, "unknown", (json_int_t)k->unknown, "missing",
                     (json_int_t)k->missing);
}

json_t *serve_verdict_json(const struct twin_ledger_comparison *c)
{
    json_t *runs = json_array();
    bool whole = runs != NULL;
    for (size_t i = 0; whole && i < c->run_count; i++)
        whole = json_array_append_new(runs, json_pack("{s:o, s:s}", "id", serve_text(c->run_id[i]),
                                                      "agreed", twin_agreed_name(c->agreed[i]))) ==
                0;
    if (!whole) { /* a verdict without one of its runs would be another verdict */
        json_decref(runs);
        return NULL;
    }
    return json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "id",
                     serve_text(c->id), "time_ns", (json_int_t)c->time_ns, "verb",
                     serve_text(c->verb), "command", serve_text(c->command), "outcome",
                     serve_text(c->outcome), "first", serve_text(c->first), "first_step",
                     known(c->first_step), "cause", serve_text(c->cause), "layer",
                     serve_text(c->layer), "repeats", (int)c->repeats, "checkpoints",
                     checkpoints_json(&c->checkpoints), "runs", runs);
}

/* Appends j, which is given up, on one line, ASCII alone. */
void serve_put_json(json_t *j, struct tw_buf *b)
{
    char *line = j ? json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    if (line)
        tw_buf_puts(b, line);
    else
        b->failed = TWIN_ENOMEM;
    free(line);
    json_decref(j);
}

/* ---- lists */

struct listing {
    json_t *list;
    size_t most; /* 0: all */
};

static int list_run(void *user, const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    const struct listing *w = user;
    return json_array_append_new(w->list, run_json(r, f)) == 0 ? 0 : TWIN_ENOMEM;
}

static int list_verdict(void *user, const struct twin_ledger_comparison *c)
{
    const struct listing *w = user;
    if (w->most && json_array_size(w->list) >= w->most)
        return 0;
    return json_array_append_new(w->list, serve_verdict_json(c)) == 0 ? 0 : TWIN_ENOMEM;
}

static int list_artifact(void *user, const struct twin_ledger_artifact *a)
{
    const struct listing *w = user;
    if (json_array_size(w->list) >= w->most)
        return 0;
    return json_array_append_new(
               w->list, json_pack("{s:o, s:o, s:o, s:o}", "path", serve_text(a->path), "kind",
                                  serve_text(a->kind), "sha256", serve_text(a->sha256), "bytes",
                                  tw_json_count(a->bytes))) == 0
               ? 0
               : TWIN_ENOMEM;
}

static const char *or_null(const char *s)
{
    return *s ? s : NULL;
}

static json_t *place_json(const struct twin_ledger_place *next)
{
    return next->more ? json_sprintf("%lld-%s", (long long)next->time_ns, next->id) : json_null();
}

static int answer_list(struct twin_ledger *l, const struct serve_query *q, struct tw_buf *b,
                       struct twin_error *err)
{
    const bool runs = q->route == SERVE_RUNS, searches = q->route == SERVE_SEARCHES;
    const struct twin_ledger_page page = {
        .project = or_null(q->project),
        .command = or_null(q->command),
        .outcome = or_null(q->outcome),
        .verb = searches ? "isolate" : or_null(q->verb),
        .since_ns = q->since_ns,
        .before_ns = q->before_ns,
        .before_id = or_null(q->before_id),
        .limit = q->limit,
    };
    struct listing w = {.list = json_array()};
    struct twin_ledger_place next = {.more = false};
    int rc = w.list ? 0 : TWIN_ENOMEM;
    if (rc == 0 && runs)
        rc = twin_ledger_page_of_runs(l, &page, list_run, &w, &next, err);
    else if (rc == 0)
        rc = twin_ledger_page_of_comparisons(l, &page, list_verdict, &w, &next, err);
    if (rc != 0) {
        json_decref(w.list);
        return rc == TWIN_ENOMEM ? tw_no_memory(err, "for an answer") : rc;
    }
    const char *name = searches ? "searches" : "verdicts";
    if (runs)
        name = "runs";
    json_t *schema = json_sprintf("twinrun.%s/1", name);
    serve_put_json(
        json_pack("{s:o, s:o, s:o}", "schema", schema, name, w.list, "next", place_json(&next)), b);
    return 0;
}

static int answer_run(struct twin_ledger *l, const struct serve_query *q, struct tw_buf *b,
                      struct twin_error *err)
{
    struct listing runs = {.list = json_array()};
    struct listing files = {.list = json_array(), .most = ARTIFACTS};
    struct listing verdicts = {.list = json_array(), .most = VERDICTS_OF_RUN};
    int rc = runs.list && files.list && verdicts.list ? 0 : TWIN_ENOMEM;
    rc = rc ? rc : twin_ledger_run_with_facts(l, q->name, list_run, &runs, err);
    if (rc == 0 && json_array_size(runs.list) == 0)
        rc = twin_error_set(err, TWIN_ENOENT, "no run has this id");
    rc = rc ? rc : twin_ledger_artifacts(l, q->name, list_artifact, &files, err);
    rc = rc ? rc : twin_ledger_comparisons(l, q->name, NULL, list_verdict, &verdicts, err);
    if (rc == 0)
        serve_put_json(json_pack("{s:s, s:O, s:O, s:O}", "schema", "twinrun.run/1", "run",
                                 json_array_get(runs.list, 0), "artifacts", files.list, "verdicts",
                                 verdicts.list),
                       b);
    json_decref(runs.list);
    json_decref(files.list);
    json_decref(verdicts.list);
    return rc == TWIN_ENOMEM ? tw_no_memory(err, "for an answer") : rc;
}

int serve_answer(struct twin_ledger *l, const struct serve_query *q, struct tw_buf *b,
                 struct twin_error *err)
{
    int rc = q->route == SERVE_RUN ? answer_run(l, q, b, err) : answer_list(l, q, b, err);
    return rc == 0 && b->failed ? tw_no_memory(err, "for an answer") : rc;
}

/* ---- answers without the ledger */

static bool is_wanted(const struct tw_slo_row *r, const struct serve_query *q)
{
    if (*q->indicator && strcmp(q->indicator, tw_slo_name(r->id)) != 0)
        return false;
    if (*q->scope && strcmp(q->scope, tw_slo_scope_name(r->scope)) != 0)
        return false;
    return !*q->project || (r->scope == TW_SLO_PROJECT && strcmp(q->project, r->name) == 0);
}

void serve_indicators(const struct serve_state *s, const struct serve_query *q, struct tw_buf *b)
{
    const char *before = "";
    tw_buf_printf(b,
                  "{\"schema\":\"twinrun.slo/1\",\"outcome\":\"%s\",\"until_ns\":%lld,"
                  "\"indicators\":[",
                  tw_slo_state_name(s->verdict), (long long)s->made_ns);
    for (size_t i = 0; i < s->rows; i++)
        if (is_wanted(&s->row[i].row, q)) {
            tw_buf_puts(b, before);
            tw_buf_puts(b, s->row[i].json);
            before = ",";
        }
    tw_buf_puts(b, "]}");
}

void serve_error(const char *why, struct tw_buf *b)
{
    char *safe = tw_printable_again(why, strnlen(why, TEXT_BYTES));
    serve_put_json(
        safe ? json_pack("{s:s, s:s}", "schema", "twinrun.error/1", "error", safe) : NULL, b);
    tw_free(safe);
}

static char *event_of(const char *kind, json_t *j)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b, "event: %s\ndata: ", kind);
    serve_put_json(json_pack("{s:s, s:s, s:o}", "schema", "twinrun.event/1", "kind", kind, kind, j),
                   &b);
    tw_buf_puts(&b, "\n");
    return tw_buf_steal(&b);
}

char *serve_run_event(const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    return event_of("run", run_json(r, f));
}

char *serve_verdict_event(const struct twin_ledger_comparison *c)
{
    return event_of("verdict", serve_verdict_json(c));
}

/* ---- schemas */

#define SCHEMA(name)                            \
    extern const unsigned char schema_##name[]; \
    extern const size_t schema_##name##_bytes;
#include "schemas.h"
#undef SCHEMA

static const struct {
    const char *name;
    const unsigned char *text;
    const size_t *bytes;
} schemas[] = {
#define SCHEMA(name) {#name, schema_##name, &schema_##name##_bytes},
#include "schemas.h"
#undef SCHEMA
};

const char *serve_schema(const char *name, size_t *bytes)
{
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
        if (strcmp(schemas[i].name, name) == 0) {
            *bytes = *schemas[i].bytes;
            return (const char *)schemas[i].text;
        }
    return NULL;
}

void serve_schema_list(struct tw_buf *b)
{
    tw_buf_puts(b, "{\"schema\":\"twinrun.schemas/1\",\"schemas\":[");
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
        tw_buf_printf(b, "%s\"/api/v1/schemas/%s\"", i ? "," : "", schemas[i].name);
    tw_buf_puts(b, "]}");
}
