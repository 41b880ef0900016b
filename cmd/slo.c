/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun slo: how reproducible are the runs of a home, or of all homes of a ledger, and are the
 * targets kept?
 *
 * All of it comes from the ledger: without one there is no answer, and that is trouble here, other
 * than for commands that only write to it.
 */
#include "say.h"
#include "runs.h"
#include "options.h"
#include "rollout_words.h"
#include "slo_words.h"

#include "base.h"

#include "src/sign/sign.h"
#include "src/slo/slo.h"

#include <stdio.h>
#include <string.h>

struct slo_args {
    const char *home, *ledger, *targets, *until, *rules, *dashboards, *routes;
    bool json, csv, all_homes;
};

#define FIELD(f) offsetof(struct slo_args, f)

static const struct tw_option options[] = {
    {"targets", 't', TW_OPT_FILE, "FILE", NULL, "Levels",
     "a TOML file of [[slo]] tables; only what it names has a target then", FIELD(targets)},
    {"until", 0, TW_OPT_STRING, "WHEN", NULL, "Levels",
     "end of the windows: a day or time in UTC (2026-11-21); now unless given", FIELD(until)},
    {"all-homes", 0, TW_OPT_FLAG, NULL, NULL, "Levels",
     "count the runs of every home that writes to the ledger, not of this one alone",
     FIELD(all_homes)},
    {"rules", 0, TW_OPT_DIR, "DIR", NULL, "Levels",
     "write alert rules for Prometheus that go with the targets to DIR/twinrun.rules.yml, and "
     "compute nothing",
     FIELD(rules)},
    {"alertmanager-config", 0, TW_OPT_DIR, "DIR", NULL, "Levels",
     "write a configuration of Alertmanager that routes these alerts, and the incidents of twinrun "
     "serve, to DIR/twinrun.alertmanager.yml, and compute nothing",
     FIELD(routes)},
    {"dashboards", 0, TW_OPT_DIR, "DIR", NULL, "Levels",
     "write three dashboards for Grafana to DIR, and compute nothing", FIELD(dashboards)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(slo_args, ledger),
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {"csv", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print a table", FIELD(csv)},
    {NULL},
};

static const char *const synopsis[] = {"[options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "every target is shown to be kept"},
    {"1", "a target is broken"},
    {"2", "trouble: bad use, a targets file or a ledger that cannot be read"},
    {"3", "no target is broken, but not all are shown to be kept: too few runs, or some of which "
          "it is not known"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun slo", "M1 to M10 of the last 30 days, against the usual targets"},
    {"twinrun slo --targets slo.toml --json", "against the team's own, for a program"},
    {"twinrun slo --all-homes --ledger postgresql://ana@db/runs --csv",
     "a whole fleet, as a table"},
    {"twinrun slo --targets slo.toml --rules /etc/prometheus/rules", "alerts for the same targets"},
    {"twinrun slo --dashboards /var/lib/grafana/dashboards", "three dashboards for Grafana"},
    {NULL, NULL},
};

/* Prints the rows in the form that was asked for; the exit code. */
static int print_rows(const struct slo_args *a, const struct tw_slo_rows *rows,
                      const struct tw_rollout_list *rollouts, int64_t until_ns)
{
    static const int code[] = {[TW_SLO_KEPT] = TW_EXIT_SAME,
                               [TW_SLO_BROKEN] = TW_EXIT_DIFFER,
                               [TW_SLO_NOT_KNOWN] = TW_EXIT_INCONCLUSIVE};
    const int exit_code = code[tw_slo_verdict(rows)];
    if (a->json) {
        json_t *o = tw_slo_json(rows, until_ns), *list = tw_rollout_told_json(rollouts);
        if (!list || json_object_set_new(o, "rollouts", list) != 0) {
            json_decref(o);
            o = NULL;
        }
        return tw_json_print_exact(o) != 0 ? TW_EXIT_TROUBLE : exit_code;
    }
    if (!a->csv) {
        tw_slo_print(stdout, rows, until_ns);
        tw_rollout_told_print(stdout, rollouts);
        return exit_code;
    }
    char *table = tw_slo_csv(rows);
    if (!table)
        return tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "slo: cannot make the table");
    tw_put_lines(stdout, table);
    tw_free(table);
    return exit_code;
}

/* From an open ledger to the exit code. */
static int answer(const struct slo_args *a, struct twin_ledger *l, const char *owner,
                  const struct tw_slo_targets *targets, int64_t until_ns)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_slo_history *h = NULL;
    struct tw_slo_rows rows = {.count = 0};
    struct tw_rollout_list rollouts = {.count = 0};
    const int64_t since_ns = tw_slo_since(targets, until_ns);
    int rc = tw_slo_history_load(l, a->all_homes ? NULL : owner, since_ns, &h, &err);
    if (rc == 0)
        rc = tw_slo_compute(h, targets, until_ns, &rows, &err);
    rc = rc ? rc : tw_rollout_list_load(l, since_ns, until_ns, &rollouts, &err);
    rc = rc ? tw_trouble(&err, "slo: cannot read the ledger")
            : print_rows(a, &rows, &rollouts, until_ns);
    tw_rollout_list_free(&rollouts);
    tw_slo_rows_free(&rows);
    tw_slo_history_free(h);
    return rc;
}

/* Opens the ledger, which catches up with the run folders first. Where the home is not there yet,
 * or no ledger is asked for, nothing can be counted. */
static int run_slo(const struct slo_args *a, const struct tw_slo_targets *targets, int64_t until_ns)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_ledger *l = NULL;
    char *given = tw_home(a->home), *home = given ? tw_path_absolute(given, &err) : NULL;
    char *owner = home ? tw_ledger_home(home, a->ledger) : NULL;
    int rc;
    if (!owner)
        rc = tw_trouble(&err, "slo: cannot name the home");
    else if (tw_ledger_catch_up(home, a->ledger, NULL, NULL, &l, &err) != 0)
        rc = tw_trouble(&err, "slo: cannot read the ledger");
    else if (!l)
        rc = tw_trouble(NULL,
                        "slo: there is no ledger of %s: service levels are counted from what check "
                        "and diff wrote there; name another home with --home",
                        given);
    else
        rc = answer(a, l, owner, targets, until_ns);
    twin_ledger_close(l);
    tw_free(owner);
    tw_free(home);
    tw_free(given);
    return rc;
}

/* From the targets alone: no ledger is read. */
static int write_rules(const char *folder, const struct tw_slo_targets *targets)
{
    struct twin_error err = TWIN_ERROR_INIT;
    size_t left_out = 0;
    char *text = NULL, *path = tw_path_join(folder, "twinrun.rules.yml");
    int rc = path ? tw_slo_rules(targets, &text, &left_out, &err) : TWIN_ENOMEM;
    rc = rc ? rc : tw_write_file_atomic(path, text, strlen(text), &err);
    if (rc == 0 && left_out)
        tw_say("slo: %zu of the targets have no rule; comments in %s say why", left_out, path);
    rc = rc ? tw_trouble(&err, "slo: cannot write the rules") : TW_EXIT_SAME;
    tw_free(text);
    tw_free(path);
    return rc;
}

static int write_dashboards(const char *folder)
{
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < TW_SLO_DASHBOARDS; i++) {
        const char *file;
        size_t bytes;
        const char *text = tw_slo_dashboard(i, &file, &bytes);
        char *path = tw_path_join(folder, file);
        rc = path ? tw_write_file_atomic(path, text, bytes, &err) : TWIN_ENOMEM;
        tw_free(path);
    }
    return rc ? tw_trouble(&err, "slo: cannot write the dashboards") : TW_EXIT_SAME;
}

static int write_routes(const char *folder)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const char *text = tw_slo_routes();
    char *path = tw_path_join(folder, "twinrun.alertmanager.yml");
    const int rc = path ? tw_write_file_atomic(path, text, strlen(text), &err) : TWIN_ENOMEM;
    tw_free(path);
    return rc ? tw_trouble(&err, "slo: cannot write the configuration of Alertmanager")
              : TW_EXIT_SAME;
}

/* What goes to files and needs no ledger. */
static int write_files(const struct slo_args *a, const struct tw_slo_targets *targets)
{
    int rc = a->rules ? write_rules(a->rules, targets) : TW_EXIT_SAME;
    if (rc == TW_EXIT_SAME && a->routes)
        rc = write_routes(a->routes);
    return rc == TW_EXIT_SAME && a->dashboards ? write_dashboards(a->dashboards) : rc;
}

static int run(int argc, char **argv)
{
    struct slo_args a = {0};
    struct tw_operands rest;
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_slo_targets targets = {.count = 0};
    int64_t until_ns = tw_realtime_ns();
    int rc = tw_options_parse(&tw_command_slo, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    const bool files = a.rules || a.dashboards || a.routes;
    if (files && (a.json || a.csv || a.until || a.all_homes))
        return tw_bad_use("slo", "--rules, --alertmanager-config and --dashboards read no ledger: "
                                 "expected none of --json, --csv, --until, --all-homes beside "
                                 "them");
    if (a.json && a.csv)
        return tw_bad_use("slo", "--json and --csv: expected one of them");
    if (a.until && twin_trust_time(a.until, &until_ns) != 0)
        return tw_bad_use("slo",
                          "--until: expected a day or time in UTC (2026-11-21, "
                          "2026-11-21T08:00:00Z), found \"%s\"",
                          a.until);
    rc = a.targets ? tw_slo_targets_read(a.targets, &targets, &err)
                   : tw_slo_targets_default(&targets, &err);
    if (rc != 0)
        rc = tw_trouble(&err, "slo: cannot use the targets");
    else if (files)
        rc = write_files(&a, &targets);
    else
        rc = run_slo(&a, &targets, until_ns);
    tw_slo_targets_free(&targets);
    return rc;
}

const struct tw_command tw_command_slo = {
    "slo",
    "how reproducible the recorded runs are, against targets",
    synopsis,
    "Computes service levels from what the ledger says was compared: repeated runs that agree "
    "(M1), "
    "checkpoints that match (M2), the spread of losses (M3) and run times (M7), CI results that "
    "changed by themselves (M4), data that matched their snapshots (M5), nondeterministic calls "
    "(M6), rollbacks (M8), signed artifacts (M9), and how much of a budget the last hour burned "
    "(M10); also the time to reproduce, areas of audits that pass, and the stability of rankings "
    "of sweeps. Each for all runs, for each project and for each family of models, with a 95% "
    "interval and the number of events.\n\n"
    "A target is broken when more was bad in the window than its budget allows. It is kept when "
    "chance and what is not known are excluded at 95%: a few good runs keep nothing.\n\n"
    "TWINRUN_PROJECT, TWINRUN_FAMILY and TWINRUN_CONTRIBUTOR, set where runs are made, say to whom "
    "they belong; without the first it is the folder of the repository.",
    options,
    TW_OPERANDS_NONE,
    0,
    0,
    exits,
    examples,
    run,
};
