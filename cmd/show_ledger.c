/* SPDX-License-Identifier: Apache-2.0 */
/* What the ledger knows of a run: the comparisons it took part in; and all that is left of one whose folder was removed. */
#include "ledger.h"
#include "json.h"
#include "say.h"
#include "show.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

/* ---- comparisons */

static int text_comparison(void *user, const struct twin_ledger_comparison *c)
{
    char when[32];
    tw_utc_stamp(c->time_ns, when);
    tw_put("%-9s %s %s: %s%s%s%s%s\n", *(bool *)user ? "" : "compared", when, c->verb, c->outcome, c->first[0] ? ", " : "", c->first, c->cause[0] ? ", cause: " : "",
           c->cause);
    *(bool *)user = true;
    return 0;
}

static int json_comparison(void *user, const struct twin_ledger_comparison *c)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < c->run_count; i++)
        json_array_append_new(runs, tw_json_text(c->run_id[i]));
    json_array_append_new(user, json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "id", tw_json_text(c->id), "time_ns", (json_int_t)c->time_ns, "verb",
                                          tw_json_text(c->verb), "outcome", tw_json_text(c->outcome), "first", tw_json_text(c->first), "first_step",
                                          c->first_step < 0 ? json_null() : json_integer(c->first_step), "cause", tw_json_text(c->cause), "runs", runs));
    return 0;
}

static void comparisons(struct twin_ledger *l, const char *id, json_t *j)
{
    struct twin_error err = TWIN_ERROR_INIT;
    bool said = false;
    json_t *list = j ? json_array() : NULL;
    if (twin_ledger_comparisons(l, id, NULL, j ? json_comparison : text_comparison, j ? (void *)list : (void *)&said, &err) != 0)
        tw_say("the ledger cannot be read: %s", err.message);
    if (j)
        json_object_set_new(j, "comparisons", list);
}

void tw_show_comparisons(const char *home, const char *url, const char *id, json_t *j)
{
    struct twin_ledger *l = tw_ledger_open(home, url, NULL, NULL);
    if (l)
        comparisons(l, id, j);
    twin_ledger_close(l);
}

/* ---- a run whose folder is gone */

struct search { const char *spec; char *id; size_t found; };

static int match(void *user, const struct twin_ledger_run *r)
{
    struct search *s = user;
    const char *short_id = strrchr(r->name, '-');
    size_t n = strlen(s->spec);
    bool id = n >= 1 && strspn(s->spec, "0123456789abcdef") == n && (tw_starts(r->id, s->spec) || (short_id && tw_starts(short_id + 1, s->spec)));
    if (!r->gone || (!id && strcmp(r->name, s->spec) != 0))
        return 0;
    s->found++;
    tw_free(s->id);
    s->id = tw_strdup(r->id);
    return 0;
}

static int text_artifact(void *user, const struct twin_ledger_artifact *a)
{
    char size[16];
    tw_put("%-9s %s  %s  %s  %s\n", *(bool *)user ? "" : "wrote", a->path, tw_human_bytes(a->bytes, size), a->sha256, a->kind);
    *(bool *)user = true;
    return 0;
}

static int json_artifact(void *user, const struct twin_ledger_artifact *a)
{
    json_array_append_new(user, json_pack("{s:o, s:o, s:o, s:I}", "path", tw_json_text(a->path), "kind", tw_json_text(a->kind), "sha256", tw_json_text(a->sha256),
                                          "bytes", (json_int_t)a->bytes));
    return 0;
}

static int text_gone(void *user, const struct twin_ledger_run *r)
{
    char when[32], seconds[24], steps[32], records[32];
    (void)user;
    tw_utc_stamp(r->start_ns, when);
    tw_put("run       %s\nid        %s\ncommand   %s\nhost      %s\nbegan     %s\nended     %s after %s\nsteps     %s, %s records\nfolder    removed; this is what "
           "the ledger knows\n", r->name, r->id, r->command, r->host, when, r->state, tw_human_seconds(r->wall_s, seconds), tw_human_count(r->steps, steps),
           tw_human_count(r->records, records));
    return 0;
}

static int json_gone(void *user, const struct twin_ledger_run *r)
{
    json_t *argv = json_loads(r->argv, 0, NULL);
    json_object_update_new(user, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:f, s:o, s:I, s:I, s:I, s:b}", "schema", "twinrun.show/1", "id", tw_json_text(r->id),
                                           "name", tw_json_text(r->name), "label", tw_json_text(r->label), "argv", argv ? argv : json_array(), "host",
                                           tw_json_text(r->host), "start_realtime_ns", (json_int_t)r->start_ns, "wall_s", r->wall_s, "state", tw_json_text(r->state),
                                           "exit_code", (json_int_t)r->exit_code, "steps", (json_int_t)r->steps, "recorded", (json_int_t)r->records, "gone", 1));
    return 0;
}

int tw_show_gone(const char *home, const char *url, const char *spec, bool json)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct search s = {.spec = spec};
    struct twin_ledger *l = tw_ledger_open(home, url, NULL, NULL);
    char *owner = tw_ledger_home(home, url);
    int rc = l && owner ? twin_ledger_runs(l, &(struct twin_ledger_filter){.home = owner}, match, &s, &err) : TWIN_ENOENT;
    json_t *j = json ? json_object() : NULL, *wrote = json ? json_array() : NULL;
    bool found = rc == 0 && s.found == 1 && s.id, said = false;
    if (found && twin_ledger_run(l, s.id, false, json ? json_gone : text_gone, j, &err) == 0) {
        twin_ledger_artifacts(l, s.id, json ? json_artifact : text_artifact, json ? (void *)wrote : (void *)&said, &err);
        comparisons(l, s.id, j);
        if (json) {
            json_object_set(j, "artifacts", wrote);
            tw_json_print(json_incref(j));
        }
    }
    json_decref(wrote);
    json_decref(j);
    tw_free(s.id);
    tw_free(owner);
    twin_ledger_close(l);
    return found ? 0 : -1;
}
