/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun show: one run, in the words of src/report/evidence: what is known of it (show_run.c),
 * with
 * --step or --record its records (show_records.c), with --provenance its world
 * (show_provenance.c). A run whose folder is gone is looked for in the ledger.
 */
#include "say.h"
#include "runs.h"
#include "options.h"
#include "show_ledger.h"
#include "show_provenance.h"
#include "show_records.h"
#include "paragraphs.h"
#include "show_run.h"
#include "terminal.h"
#include "verdict.h"

#include "base.h"

#include <stdio.h>

/* What the command line gave; NULL or false where it gave nothing. */
struct tw_show_args {
    const char *home, *record, *ledger;
    uint64_t step; /* TW_NOT_GIVEN: all */
    bool verify, processes, files, notes, provenance, json;
};

#define FIELD(f) offsetof(struct tw_show_args, f)

static const struct tw_option options[] = {
    {"step", 's', TW_OPT_COUNT, "N", NULL, "Records", "list the records of step N", FIELD(step), 0,
     UINT32_MAX - 1},
    {"record", 'r', TW_OPT_STRING, "PATTERN", NULL, "Records",
     "list the records whose phase/kind/name matches, such as 'backward/*/*embed*'", FIELD(record)},
    {"verify", 0, TW_OPT_FLAG, NULL, NULL, "Run",
     "check every checksum, the seal chain and every value hash", FIELD(verify)},
    {"processes", 'p', TW_OPT_FLAG, NULL, NULL, "Run", "list every process of the job",
     FIELD(processes)},
    {"files", 'f', TW_OPT_FLAG, NULL, NULL, "Run", "list every file the job wrote", FIELD(files)},
    {"notes", 'n', TW_OPT_FLAG, NULL, NULL, "Run", "list every note of the agents", FIELD(notes)},
    {"provenance", 0, TW_OPT_FLAG, NULL, NULL, "Run",
     "what surrounded the run: code, libraries, settings, machine; do its ranks agree?",
     FIELD(provenance)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Other", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(tw_show_args, ledger),
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Other", "print one JSON object", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"[options] RUN", NULL};
static const struct tw_pair exits[] = {
    {"0", "shown; with --verify: every trace is intact"},
    {"1", "--verify found a fault"},
    {"2", "trouble: bad use, no such run, or a trace that cannot be read"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun show last", "the newest run"},
    {"twinrun show last --step 17 --record 'backward/*'", "its gradients of step 17"},
    {"twinrun show last --verify", "is the evidence intact?"},
    {"twinrun show last --provenance", "code, libraries, settings and machine of the run"},
    {NULL, NULL},
};

/* The comparisons that the run took part in, if there is a ledger. j NULL: as text to out. */
static void show_comparisons(const char *home, const char *url, const char *id, FILE *out,
                             json_t *j)
{
    struct twin_ledger *l = tw_ledger_open(home, url, NULL, NULL);
    if (l)
        tw_ledger_show_comparisons(l, id, out, j, &tw_terminal);
    twin_ledger_close(l);
}

/*
 * A run whose folder was removed. -1: the ledger knows no such run, or several; nothing was
 * printed.
 */
static int show_gone(const char *home, const char *url, const char *spec, bool as_json)
{
    struct twin_ledger *l = tw_ledger_open(home, url, NULL, NULL);
    char *owner = tw_ledger_home(home, url);
    json_t *json = NULL;
    int rc = TWIN_ENOENT;
    if (l && owner)
        rc = tw_ledger_show_gone(l, owner, spec, stdout, as_json ? &json : NULL, &tw_terminal);
    if (json)
        tw_json_print(json);
    tw_free(owner);
    twin_ledger_close(l);
    return rc == 0 ? 0 : -1;
}

/* The exit code. */
static int show_provenance(const struct twin_run *r, bool as_json)
{
    json_t *json = NULL;
    if (tw_show_provenance(r, stdout, as_json ? &json : NULL, &tw_terminal) != 0)
        return TW_EXIT_TROUBLE;
    return as_json ? tw_json_print(json) : 0;
}

/* What the traces come to: 2 where one cannot be read, else 1 where --verify found a fault. */
static int exit_code(const struct twin_run *r, const struct tw_shown_trace *traces)
{
    int rc = 0;
    for (size_t i = 0; i < r->trace_count; i++) {
        if (!traces[i].trace)
            return TW_EXIT_TROUBLE;
        if (traces[i].fault.code)
            rc = TW_EXIT_DIFFER;
    }
    return rc;
}

/* The records of all traces: as text, or into rows. 0, or the exit code of trouble; said. */
static int show_records(const struct twin_run *r, const struct tw_shown_trace *traces,
                        const struct tw_show_args *a, json_t *rows)
{
    const struct tw_records_asked asked = {
        .pattern = a->record,
        .one_step = a->step != TW_NOT_GIVEN,
        .step = (uint32_t)a->step,
    };
    int rc = 0;
    for (size_t i = 0; i < r->trace_count; i++)
        if (traces[i].trace &&
            tw_show_records(traces[i].trace, r->traces[i], &asked, stdout, rows, &tw_terminal) != 0)
            rc = TW_EXIT_TROUBLE;
    for (size_t i = 0; i < r->trace_count && !a->json; i++)
        if (!traces[i].trace)
            tw_trouble(&traces[i].err, "%s", tw_base_name(r->traces[i]));
    return rc;
}

/* Where the run lies, its id and its command are to be copied, so their lines stay whole. */
static void show_text(const struct twin_run *r, const char *home, const struct tw_show_args *a,
                      const struct tw_shown_trace *traces)
{
    const struct tw_show_asked asked = {
        .verified = a->verify, .processes = a->processes, .files = a->files, .notes = a->notes};
    static const char *const whole[] = {"run", "id", "command", NULL};
    static const struct tw_style style = {.label = 10, .whole = whole};
    const struct tw_look look = tw_lines_look();
    struct tw_kept_text k;
    if (tw_keep_text(&k, NULL) == 0) {
        tw_show_run_text(k.file, r, traces, &asked);
        show_comparisons(home, a->ledger, r->id, k.file, NULL);
    }
    tw_put_kept(stdout, &k, &look, &style);
}

/* The run, or, with --step or --record, its records. The exit code. */
static int show_found_run(const struct twin_run *r, const char *home, const struct tw_show_args *a)
{
    struct tw_shown_trace *traces = tw_shown_open(r, a->verify);
    if (!traces)
        return tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "cannot open the traces");
    const bool records = a->step != TW_NOT_GIVEN || a->record;
    json_t *j = a->json ? tw_show_run_json(r, traces, a->verify) : NULL;
    int rc = exit_code(r, traces);
    if (records) {
        json_t *rows = a->json ? json_array() : NULL;
        int trouble = show_records(r, traces, a, rows);
        rc = trouble ? trouble : rc;
        if (rows)
            json_object_set_new(j, "records", rows);
    } else {
        if (a->json)
            show_comparisons(home, a->ledger, r->id, NULL, j);
        else
            show_text(r, home, a, traces);
    }
    if (a->json && tw_json_print(j) != 0)
        rc = TW_EXIT_TROUBLE;
    tw_shown_close(traces, r);
    return rc;
}

static int run(int argc, char **argv)
{
    struct tw_show_args a = {.step = TW_NOT_GIVEN};
    struct tw_operands rest;
    int rc = tw_options_parse(&tw_command_show, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    if (a.provenance && (a.verify || a.record || a.step != TW_NOT_GIVEN))
        return tw_bad_use("show", "--provenance is about the run, not about its records: leave out "
                                  "--step, --record and --verify");
    char *home = tw_home_to_read(a.home);
    struct twin_error err = TWIN_ERROR_INIT;
    char *dir = NULL;
    /* Only a run that no folder is left of is looked for in the ledger: folders are the truth. */
    bool gone = home && twin_run_resolve(home, rest.items[0], &dir, &err) == TWIN_ENOENT;
    if (gone && show_gone(home, a.ledger, rest.items[0], a.json) == 0) {
        tw_free(home);
        return 0;
    }
    struct twin_run *r = NULL;
    if (home && (!dir || twin_run_load(dir, &r, &err) != 0))
        rc = tw_trouble(&err, "run \"%s\"", rest.items[0]);
    tw_free(dir);
    if (!r)
        rc = TW_EXIT_TROUBLE;
    else if (a.provenance)
        rc = show_provenance(r, a.json);
    else
        rc = show_found_run(r, home, &a);
    twin_run_free(r);
    tw_free(home);
    return rc;
}

const struct tw_command tw_command_show = {
    "show",
    "show one run and its records",
    synopsis,
    "Prints what is known of a run: the command, how it ended, its traces, the processes that "
    "could not be watched, the files it wrote and the notes of the agents. With --step or --record "
    "it lists records instead: step, phase, kind, name, type and shape, digest and statistics.",
    options,
    TW_OPERANDS_RUNS,
    1,
    1,
    exits,
    examples,
    run,
};
