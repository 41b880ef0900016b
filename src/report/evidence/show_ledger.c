/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger knows of a run: the comparisons it took part in; and all that is left of one
 * whose folder was removed. twinrun show asks for it, below what the run's own folder says.
 *
 * The ledger calls back for each row that it finds. For each kind of row there are two callbacks,
 * one that prints text and one that fills JSON.
 */
#include "show_ledger.h"

#include "base.h"
#include "json_text.h"
#include "put.h"

#include <stdio.h>
#include <string.h>

/* ---- comparisons */

/* Where rows go: out as text, where only the first of them has the label, or list. verb: only those
 * that this command has written; NULL: all. any: a row was printed. */
struct listed {
    FILE *out;
    json_t *list;
    const char *label, *verb;
    bool any;
};

static bool is_wanted(const struct listed *list, const struct twin_ledger_comparison *c)
{
    return !list->verb || strcmp(list->verb, c->verb) == 0;
}

/* "compared  2026-11-21T08-00-00Z check: differ, step 17 ..., cause: ..." */
static int text_comparison(void *user, const struct twin_ledger_comparison *c)
{
    struct listed *list = user;
    char when[32];
    if (!is_wanted(list, c))
        return 0;
    tw_utc_stamp(c->time_ns, when);
    tw_put_to(list->out, "%-9s %s %s: %s%s%s%s%s\n", list->any ? "" : list->label, when, c->verb,
              c->outcome, c->first[0] ? ", " : "", c->first, c->cause[0] ? ", cause: " : "",
              c->cause);
    list->any = true;
    return 0;
}

/* first_step is null when it is not known. */
static int json_comparison(void *user, const struct twin_ledger_comparison *c)
{
    const struct listed *list = user;
    if (!is_wanted(list, c))
        return 0;
    json_t *runs = json_array();
    for (size_t i = 0; i < c->run_count; i++)
        json_array_append_new(runs, tw_json_text(c->run_id[i]));
    json_array_append_new(list->list,
                          json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "id",
                                    tw_json_text(c->id), "time_ns", (json_int_t)c->time_ns, "verb",
                                    tw_json_text(c->verb), "outcome", tw_json_text(c->outcome),
                                    "first", tw_json_text(c->first), "first_step",
                                    c->first_step < 0 ? json_null() : json_integer(c->first_step),
                                    "cause", tw_json_text(c->cause), "runs", runs));
    return 0;
}

/* Without a readable ledger there is a message, and an empty list in JSON: what else is shown of
 * the run is right without it. */
static void show(struct twin_ledger *l, const char *id, struct listed *list,
                 const struct tw_front *front)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_ledger_comparisons(l, id, NULL, list->list ? json_comparison : text_comparison, list,
                                &err) != 0)
        tw_front_say(front, "the ledger cannot be read: %s", err.message);
}

void tw_ledger_show_comparisons(struct twin_ledger *l, const char *id, FILE *out, json_t *j,
                                const struct tw_front *front)
{
    struct listed list = {.out = out, .list = j ? json_array() : NULL, .label = "compared"};
    show(l, id, &list, front);
    if (j)
        json_object_set_new(j, "comparisons", list.list);
}

void tw_ledger_show_searches(struct twin_ledger *l, const char *id, FILE *out, json_t *j,
                             const struct tw_front *front)
{
    struct listed list = {
        .out = out, .list = j ? json_array() : NULL, .label = "search", .verb = "isolate"};
    show(l, id, &list, front);
    if (j)
        json_object_set_new(j, "searches", list.list);
}

/* ---- a run whose folder is gone */

/* A search for one run by a part of its id or its name. id: of the last one found, malloc'ed. */
struct search {
    const char *spec;
    char *id;
    size_t found;
};

/* A spec of hex digits may begin the whole id, or the short id at the end of the run's name;
 * anything else must be the name. Only runs without a folder count. */
static int match_run(void *user, const struct twin_ledger_run *r)
{
    struct search *s = user;
    const char *short_id = strrchr(r->name, '-');
    size_t n = strlen(s->spec);
    bool id = n >= 1 && tw_hex_span(s->spec) == n &&
              (tw_starts(r->id, s->spec) || (short_id && tw_starts(short_id + 1, s->spec)));
    if (!r->gone || (!id && strcmp(r->name, s->spec) != 0))
        return 0;
    s->found++;
    tw_free(s->id);
    s->id = tw_strdup(r->id);
    return 0;
}

/* A file that the run wrote, with its size and hash. */
static int text_artifact(void *user, const struct twin_ledger_artifact *a)
{
    struct listed *list = user;
    char size[16];
    tw_put_to(list->out, "%-9s %s  %s  %s  %s\n", list->any ? "" : "wrote", a->path,
              tw_human_bytes(a->bytes, size), a->sha256, a->kind);
    list->any = true;
    return 0;
}

static int json_artifact(void *user, const struct twin_ledger_artifact *a)
{
    json_array_append_new(user, json_pack("{s:o, s:o, s:o, s:I}", "path", tw_json_text(a->path),
                                          "kind", tw_json_text(a->kind), "sha256",
                                          tw_json_text(a->sha256), "bytes", (json_int_t)a->bytes));
    return 0;
}

/* What the ledger has of the run itself; user is the file. */
static int text_gone(void *user, const struct twin_ledger_run *r)
{
    char when[32], seconds[24], steps[32], records[32];
    FILE *out = user;
    tw_utc_stamp(r->start_ns, when);
    tw_put_to(out, "run       %s\nid        %s\ncommand   %s\nhost      %s\nbegan     %s\n",
              r->name, r->id, r->command, r->host, when);
    tw_put_to(out, "ended     %s after %s\nsteps     %s, %s records\n", r->state,
              tw_human_seconds(r->wall_s, seconds), tw_human_count(r->steps, steps),
              tw_human_count(r->records, records));
    tw_put_to(out, "folder    removed; this is what the ledger knows\n");
    return 0;
}

/* The same in the schema of show; user is the object, which gets the fields. */
static int json_gone(void *user, const struct twin_ledger_run *r)
{
    json_t *argv = json_loads(r->argv, 0, NULL);
    json_object_update_new(
        user,
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:f, s:o, s:I, s:I, s:I, s:b}", "schema",
                  "twinrun.show/1", "id", tw_json_text(r->id), "name", tw_json_text(r->name),
                  "label", tw_json_text(r->label), "argv", argv ? argv : json_array(), "host",
                  tw_json_text(r->host), "start_realtime_ns", (json_int_t)r->start_ns, "wall_s",
                  r->wall_s, "state", tw_json_text(r->state), "exit_code", (json_int_t)r->exit_code,
                  "steps", (json_int_t)r->steps, "recorded", (json_int_t)r->records, "gone", 1));
    return 0;
}

/* Looks the run up first, so that nothing is printed when there is none or more than one. */
int tw_ledger_show_gone(struct twin_ledger *l, const char *owner, const char *spec, FILE *out,
                        json_t **json, const struct tw_front *front)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct search s = {.spec = spec};
    struct listed said = {.out = out};
    int rc = twin_ledger_runs(l, &(struct twin_ledger_filter){.home = owner}, match_run, &s, &err);
    bool found = rc == 0 && s.found == 1 && s.id;
    json_t *j = json ? json_object() : NULL, *wrote = json ? json_array() : NULL;
    if (found && json && twin_ledger_run(l, s.id, false, json_gone, j, &err) == 0) {
        twin_ledger_artifacts(l, s.id, json_artifact, wrote, &err);
        tw_ledger_show_comparisons(l, s.id, out, j, front);
        json_object_set(j, "artifacts", wrote);
        *json = json_incref(j);
    } else if (found && !json && twin_ledger_run(l, s.id, false, text_gone, out, &err) == 0) {
        twin_ledger_artifacts(l, s.id, text_artifact, &said, &err);
        tw_ledger_show_comparisons(l, s.id, out, NULL, front);
    }
    json_decref(wrote);
    json_decref(j);
    tw_free(s.id);
    return found ? 0 : TWIN_ENOENT;
}
