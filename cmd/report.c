/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun report: why runs were slow or differ (src/report/evidence); documents for people who were
 * not there.
 */
#include "diagnosis_report.h"
#include "json.h"
#include "known.h"
#include "ledger.h"
#include "options.h"
#include "report.h"
#include "runs.h"
#include "say.h"
#include "significant_sets.h"
#include "slow.h"
#include "terminal.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twin/incident.h>
#include <twin/provenance.h>
#include <twin/trace.h>

struct report_args {
    const char *home, *ledger, *output, *tolerance, *html;
    struct tw_strings ignore;
    bool postmortem, json;
};

#define FIELD(f) offsetof(struct report_args, f)

static const struct tw_option options[] = {
    {"postmortem", 0, TW_OPT_FLAG, NULL, NULL, "Kind",
     "two runs that diverged, as an incident document: Markdown, facts filled in, questions left "
     "open",
     FIELD(postmortem)},
    {"html", 0, TW_OPT_FILE, "FILE", NULL, "Kind",
     "one run or several, compared with the first one, as one HTML file with pictures that opens "
     "offline",
     FIELD(html)},
    {"ignore", 'i', TW_OPT_LIST, "PATTERN", NULL, "Comparison",
     "leave out records whose phase/kind/name, or files whose name, match; file:GLOB: files alone; "
     "line:REGEX: printed lines and lines of files",
     FIELD(ignore)},
    {"tolerance", 't', TW_OPT_FILE, "FILE", NULL, "Comparison",
     "also judge by these tolerances; the bitwise verdict is shown too", FIELD(tolerance)},
    {"output", 0, TW_OPT_FILE, "FILE", NULL, "Output",
     "write the document into FILE, not to stdout", FIELD(output)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(report_args, ledger),
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "print one JSON object: the facts, and the document as \"markdown\"", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"[options] RUN", "[options] RUNS_A RUNS_B",
                                       "--postmortem RUN_A RUN_B [options]",
                                       "--html FILE RUN... [options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "the report was written, whatever the runs did"},
    {"2", "trouble: bad use, no such run, a run that cannot be read"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun report last", "where the newest run was slow, and why"},
    {"twinrun report label:night label:day", "what is different by day?"},
    {"twinrun report --postmortem last~1 last >incident.md", "the last two runs"},
    {"twinrun report --html runs.html last~2 last~1 last",
     "three runs: where they differ, by how much, what they recorded"},
    {NULL, NULL},
};

/* ---- what is known besides the verdict */

struct facts {
    struct twin_incident_check *check;
    char **id; /* of each check */
    size_t count;
    bool failed;
};

static int add_check(void *user, const struct twin_ledger_comparison *c)
{
    struct facts *f = user;
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->id[i], c->id) == 0)
            return 0;
    struct twin_incident_check *grown = tw_reallocarray(f->check, f->count + 1, sizeof *grown);
    if (grown)
        f->check = grown;
    char **ids = tw_reallocarray(f->id, f->count + 1, sizeof *ids);
    if (ids)
        f->id = ids;
    struct twin_incident_check k = {c->time_ns, tw_strdup(c->verb), tw_strdup(c->outcome),
                                    tw_strdup(c->first), tw_strdup(c->cause)};
    char *id = tw_strdup(c->id);
    if (!grown || !ids || !k.verb || !k.outcome || !k.first || !k.cause || !id) {
        tw_free((void *)(uintptr_t)k.verb);
        tw_free((void *)(uintptr_t)k.outcome);
        tw_free((void *)(uintptr_t)k.first);
        tw_free((void *)(uintptr_t)k.cause);
        tw_free(id);
        return TWIN_ENOMEM;
    }
    f->check[f->count] = k;
    f->id[f->count++] = id;
    return 0;
}

static int by_time(const void *x, const void *y)
{
    const struct twin_incident_check *a = x, *b = y;
    return a->time_ns < b->time_ns ? -1 : a->time_ns > b->time_ns;
}

static void free_facts(struct facts *f)
{
    for (size_t i = 0; i < f->count; i++) {
        tw_free((void *)(uintptr_t)f->check[i].verb);
        tw_free((void *)(uintptr_t)f->check[i].outcome);
        tw_free((void *)(uintptr_t)f->check[i].first);
        tw_free((void *)(uintptr_t)f->check[i].cause);
        tw_free(f->id[i]);
    }
    tw_free(f->check);
    tw_free(f->id);
}

static bool ask_ledger(const struct report_args *a, const char *home, const char *command,
                       struct twin_run *const runs[2], struct facts *f)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_ledger *l = tw_ledger_open(home, a->ledger, NULL, NULL);
    if (!l)
        return false;
    int rc = twin_ledger_comparisons(l, NULL, command, add_check, f, &err);
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = twin_ledger_comparisons(l, runs[i]->id, NULL, add_check, f, &err);
    twin_ledger_close(l);
    if (rc != 0)
        tw_trouble(&err, "report: the ledger cannot be read");
    if (f->count)
        qsort(f->check, f->count, sizeof *f->check, by_time);
    return rc == 0;
}

static char *code_of(const json_t *p)
{
    const json_t *code = json_object_get(p, "code");
    const char *commit = json_string_value(json_object_get(code, "commit"));
    if (!commit)
        return tw_strdup("");
    return tw_printf(
        "%.12s%s", commit,
        json_is_true(json_object_get(code, "dirty")) ? " and changes that were not committed" : "");
}

static char *versions_of(const json_t *p)
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

/* When B recorded what differs: by the time in its trace. */
static int64_t parted_at(const struct twin_verdict *v, const struct twin_run *b)
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

static json_t *facts_json(const struct twin_incident *x, const char *markdown)
{
    json_t *checks = json_array(), *world = json_array(), *runs = json_array();
    for (size_t i = 0; i < x->check_count; i++)
        json_array_append_new(checks, json_pack("{s:I, s:o, s:o, s:o, s:o}", "time_ns",
                                                (json_int_t)x->check[i].time_ns, "verb",
                                                tw_json_text(x->check[i].verb), "outcome",
                                                tw_json_text(x->check[i].outcome), "first",
                                                tw_json_text(x->check[i].first), "cause",
                                                tw_json_text(x->check[i].cause)));
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

static int hand_out(const struct report_args *a, const struct twin_incident *x)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *text = NULL;
    int rc = twin_incident_markdown(x, &text, &err);
    if (rc == 0 && a->output)
        rc = tw_write_file_atomic(a->output, text, strlen(text), &err);
    if (rc != 0)
        rc = tw_trouble(&err, "report: cannot write the document");
    else if (a->json)
        rc = tw_json_print(facts_json(x, text));
    else if (!a->output)
        tw_put_lines(stdout, text);
    tw_free(text);
    return rc;
}

/* ---- the order of events */

static int compare(const struct report_args *a, struct twin_run *const runs[2], bool same_command,
                   struct twin_verdict **v)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_compare_options o = {.arms = !same_command,
                                     .find_shift = !same_command,
                                     .ignore = a->ignore.items,
                                     .ignore_count = a->ignore.count,
                                     .tolerance_file = a->tolerance};
    return twin_compare((const struct twin_run *const *)runs, 2, &o, v, &err) == 0
               ? 0
               : tw_trouble(&err, "report: cannot compare the runs");
}

static int postmortem(const struct report_args *a, const char *home, struct twin_run *const runs[2])
{
    struct facts f = {0};
    struct tw_known known = {.count = 0};
    struct twin_world_differences d = {0};
    struct twin_verdict *v = NULL;
    json_t *p[2] = {NULL, NULL};
    char *command[2], *code[2], *versions[2], state[2][32];
    for (int i = 0; i < 2; i++) {
        command[i] = tw_shell_quote(runs[i]->argv, runs[i]->argc);
        twin_provenance_load(runs[i]->dir, &p[i], NULL);
        code[i] = code_of(p[i]);
        versions[i] = versions_of(p[i]);
    }
    bool same = command[0] && command[1] && strcmp(command[0], command[1]) == 0;
    int rc = compare(a, runs, same, &v);
    if (rc == 0) {
        struct twin_incident x = {.verdict = v,
                                  .command = command[0] ? command[0] : "",
                                  .same_command = same,
                                  .parted_ns = parted_at(v, runs[1])};
        x.ledger = ask_ledger(a, home, x.command, runs, &f);
        x.check = f.check;
        x.check_count = f.count;
        x.world_known = p[0] && p[1] && twin_provenance_diff(p[0], p[1], &d, NULL) == 0;
        struct twin_incident_world *w = tw_calloc(d.count + 1, sizeof *w);
        for (size_t i = 0; w && i < d.count; i++)
            if (d.item[i].power != TWIN_POWER_NOISE)
                w[x.world_count++] = (struct twin_incident_world){twin_power_name(d.item[i].power),
                                                                  d.item[i].group, d.item[i].what,
                                                                  d.item[i].a, d.item[i].b};
        x.world = w;
        for (int i = 0; i < 2; i++) {
            struct tw_run_totals t;
            tw_run_totals(runs[i], &t);
            x.side[i] = (struct twin_incident_side){
                runs[i], tw_run_state(runs[i], state[i]), t.steps, t.records, code[i], versions[i]};
        }
        if (v->outcome == TWIN_DIFFER && v->first) {
            struct twin_signature s = tw_known_signature(v->first, same ? "same" : "two");
            char **settings = NULL;
            s.setting_count = tw_known_settings(runs[0], &settings);
            s.settings = settings;
            tw_known_look_up(home, &s, &known, &tw_terminal);
            tw_known_settings_free(settings, s.setting_count);
            x.hint = known.hint;
            x.hint_count = known.count;
        }
        rc = hand_out(a, &x);
        tw_free(w);
    }
    for (int i = 0; i < 2; i++) {
        json_decref(p[i]);
        tw_free(command[i]);
        tw_free(code[i]);
        tw_free(versions[i]);
    }
    twin_world_differences_free(&d);
    tw_known_free(&known);
    twin_verdict_free(v);
    free_facts(&f);
    return rc;
}

static int diagnosis_report(const char *home, char *const operands[2], bool as_json)
{
    const struct tw_measure wall = {TW_METRIC_WALL, "wall"};
    struct tw_set set[2] = {{.n = 0}, {.n = 0}};
    struct twin_error err = TWIN_ERROR_INIT;
    json_t *json = NULL;
    int rc = tw_set_read(operands[0], home, &wall, &set[0], &err);
    if (rc == 0)
        rc = tw_set_read(operands[1], home, &wall, &set[1], &err);
    if (rc != 0)
        rc = tw_trouble(&err, "nothing was compared");
    if (rc == 0 && tw_diagnosis_report(set, stdout, as_json ? &json : NULL, &err) != 0)
        rc = tw_trouble(&err, "report: cannot compare the runs");
    else if (rc == 0 && as_json)
        rc = tw_json_print(json);
    tw_set_free(&set[0]);
    tw_set_free(&set[1]);
    return rc;
}

static int slow_report(const struct twin_run *r, bool as_json)
{
    json_t *json = NULL;
    if (tw_slow_report(r, stdout, as_json ? &json : NULL, &tw_terminal) != 0)
        return TW_EXIT_TROUBLE;
    return as_json ? tw_json_print(json) : 0;
}

static int run(int argc, char **argv)
{
    struct report_args a = {0};
    struct tw_operands rest;
    struct twin_run *runs[2] = {NULL, NULL};
    int rc = tw_options_parse(&tw_command_report, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    if (a.postmortem && (rest.count != 2 || a.html))
        return a.html ? tw_bad_use("report", "expected --postmortem or --html, found both")
                      : tw_bad_use("report", "expected two runs for --postmortem, found %zu",
                                   rest.count);
    if (!a.postmortem && !a.html && rest.count > 2)
        return tw_bad_use("report", "expected one run, or two sets of runs, found %zu", rest.count);
    if (!a.postmortem && (a.output || (!a.html && (a.ignore.count || a.tolerance))))
        return tw_bad_use(
            "report",
            "expected --postmortem with --output, and it or --html with --ignore and --tolerance");
    if (a.html && a.json)
        return tw_bad_use("report",
                          "a page has no form in JSON; twinrun diff --json has the verdict");
    char *given = tw_home(a.home), *home = given ? tw_path_absolute(given, NULL) : NULL;
    rc = home ? 0
              : tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM},
                           "report: cannot open the runs");
    if (rc == 0 && a.html) {
        rc = tw_report_page(home, &rest,
                            &(struct tw_report_page){
                                .html = a.html, .tolerance = a.tolerance, .ignore = &a.ignore});
        rest.count = 0;
    }
    if (rc == 0 && !a.postmortem && rest.count == 2) {
        rc = diagnosis_report(home, rest.items, a.json);
        rest.count = 0;
    }
    for (size_t i = 0; rc == 0 && i < rest.count; i++)
        rc = (runs[i] = tw_run_open(home, rest.items[i])) ? 0 : TW_EXIT_TROUBLE;
    if (rc == 0 && !a.postmortem && runs[0])
        rc = slow_report(runs[0], a.json);
    else if (rc == 0 && runs[0])
        rc = postmortem(&a, home, runs);
    twin_run_free(runs[0]);
    twin_run_free(runs[1]);
    tw_free(home);
    tw_free(given);
    tw_free(a.ignore.items);
    return rc;
}

const struct tw_command tw_command_report = {
    "report",
    "explain a slow run, a difference or an incident; write a page",
    synopsis,
    "One run: was it slow for a while, and what moved with it? Was one rank slower than the others "
    "all through? From the step times and counters that were recorded with it (docs/telemetry.md). "
    "Two sets of runs, each a run, several with commas between, or label:NAME: do they differ in "
    "their numbers, in their speed, or in both, from which source, and which practice addresses "
    "it.\n\n"
    "With --postmortem, compares two runs and writes what is known of them as Markdown: what ran, "
    "how their worlds differ, the first divergence, the cause if an isolate search of this command "
    "is on record, the checks on record, a timeline. What only people know stays an open question. "
    "Nothing in it is guessed.\n\n"
    "With --html, compares runs with the first one and writes one self-contained HTML file: the "
    "verdict, the first divergence, and pictures of where the runs differ, by how much, how that "
    "grows, what they recorded and how long their steps took. check, diff, isolate and others "
    "write theirs with --html, too.",
    options,
    TW_OPERANDS_RUNS,
    1,
    64,
    exits,
    examples,
    run,
};
