/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun audit: can somebody else recover this number? Five lines: code, data, environment,
 * configuration, seeds.
 *
 * What a run, a package or a folder has of each area is src/package's to find; the words and
 * venues' checklists are src/report/evidence's. Nothing of a target is executed. The result may be
 * signed, as a statement about the target's digest.
 */
#include "areas.h"
#include "audit_words.h"
#include "checklist.h"
#include "operations.h"
#include "say.h"
#include "options.h"
#include "verify.h"
#include "terminal.h"
#include "runs.h"
#include "signing.h"

#include "base.h"

#include "src/package/package.h"
#include "src/sign/sign.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* What the command line gave; NULL, false or 0 where it gave nothing. */
struct audit_args {
    const char *home, *ledger, *checklist, *statement;
    struct tw_strings keys;
    bool json, quiet;
};

#define FIELD(f) offsetof(struct audit_args, f)
/* More than anybody audits at once, and few enough to keep all findings in memory. */
enum { MAX_TARGETS = 1000 };
static const char TEST_RESULT[] = "https://in-toto.io/attestation/test-result/v0.1";

static const struct tw_option options[] = {
    {"checklist", 'c', TW_OPT_STRING, "LIST", NULL, "What",
     "also answer a checklist as far as the evidence goes: a venue's (neurips, icml, mlsys), or "
     "one "
     "of operations (pre-production, production, incident)",
     FIELD(checklist)},
    {"statement", 's', TW_OPT_FILE, "FILE", NULL, "Statement",
     "also write the result as an in-toto statement (test-result) in an envelope",
     FIELD(statement)},
    {"key", 'k', TW_OPT_LIST, "KEY", NULL, "Statement", "sign the statement with it", FIELD(keys)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    TW_LEDGER_OPTION(audit_args, ledger),
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {
    "PACKAGE|RUN|FOLDER... [--checklist LIST] [--statement FILE --key KEY]", NULL};
static const struct tw_pair exits[] = {
    {"0", "all five pass, for each target"},
    {"1", "something is missing: each thing is named"},
    {"2", "trouble: bad use, a target that cannot be read"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun audit last", "what would somebody else lack?"},
    {"twinrun audit paper-table-2 --checklist neurips", "a package, and the venue's questions"},
    {"twinrun audit last --checklist pre-production",
     "is it fit for production? pass, fail or not known, from what was recorded"},
    {"twinrun audit ~/their-repository", "a folder that twinrun did not make"},
    {"twinrun audit paper-table-2 --statement audit.dsse.json --key me.key", "the result, signed"},
    {NULL, NULL},
};

/* ---- which kind of target */

/* A run: what a package of it would lack. It is named by the digest of its run.json. -1, or the
 * exit code. */
static int audit_run(const struct audit_args *a, struct tw_audited *t)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *home = tw_home(a->home);
    struct twin_run *r = home ? tw_run_open(home, t->given) : NULL;
    tw_free(home);
    if (!r)
        return TW_EXIT_TROUBLE;
    t->kind = "run";
    int rc = twin_audit_run(r, &t->found, &err) != 0 ? tw_trouble(&err, "cannot audit %s", t->given)
                                                     : -1;
    struct twin_subjects s = {0};
    char *path = tw_path_join(r->dir, "run.json");
    if (rc < 0 && path && twin_subject_file(path, "run.json", &s, NULL) == 0 && s.count == 1 &&
        s.item[0].digest_count == 1) {
        snprintf(t->name, sizeof t->name, "%s", s.item[0].digest[0].value);
        t->named = "run.json";
    }
    twin_subjects_free(&s);
    tw_free(path);
    twin_run_free(r);
    return rc;
}

/* A folder with a run.json is a run, and so is what is no folder: an id, last. -1, or the exit
 * code. */
static int audit_one(const struct audit_args *a, struct tw_audited *t)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct stat st;
    char *run = tw_path_join(t->given, "run.json");
    bool folder = stat(t->given, &st) == 0 && S_ISDIR(st.st_mode);
    bool is_run = run && stat(run, &st) == 0;
    tw_free(run);
    if (!folder || is_run)
        return audit_run(a, t);
    if (twin_package_is(t->given)) {
        t->kind = "package";
        int rc = tw_package_open(t->given, NULL, 0, NULL, &t->verdict);
        if (rc >= 0)
            return rc;
        snprintf(t->name, sizeof t->name, "%s", t->verdict.tagmanifest);
        t->named = "tagmanifest-sha256.txt";
        return twin_audit_package(t->given, &t->verdict, &t->found, &err) != 0
                   ? tw_trouble(&err, "cannot audit %s", t->given)
                   : -1;
    }
    t->kind = "folder";
    return twin_audit_folder(t->given, &t->found, &err) != 0
               ? tw_trouble(&err, "cannot audit %s", t->given)
               : -1;
}

/* ---- as a statement: in-toto's predicate for test results */

/* The subject is the target's digest, so that the statement cannot be taken for one about something
 * else. -1, or the exit code. */
static int write_statement(const struct audit_args *a, const struct tw_audited *t)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_subjects subjects = {0};
    struct twin_envelope e = {0};
    char *text = NULL;
    size_t n = 0;
    if (!*t->name)
        return tw_bad_use("audit",
                          "--statement: a package or a run has a digest to speak of, %s has none; "
                          "twinrun pack makes a package of a run",
                          t->given);
    json_t *p = tw_audited_predicate(t, TWINRUN_VERSION);
    int rc = p ? twin_subjects_add(&subjects, t->named, "sha256", t->name, &err)
               : twin_error_set(&err, TWIN_ENOMEM, "out of memory");
    rc = rc ? rc : twin_statement_envelope(&subjects, TEST_RESULT, p, &e, &err);
    rc = rc ? rc : tw_envelope_sign_all(&e, a->keys.items, a->keys.count, false, &err);
    rc = rc ? rc : twin_envelope_text(&e, &text, &n, &err);
    rc = rc ? rc : tw_write_file_atomic(a->statement, text, n, &err);
    json_decref(p);
    twin_subjects_free(&subjects);
    twin_envelope_free(&e);
    tw_free(text);
    return rc ? tw_trouble(&err, "the statement was not written") : -1;
}

/* ---- all */

/* One target that fails makes the whole fail. The exit code. */
static int report(const struct audit_args *a, const struct tw_audited *t, size_t count)
{
    bool all = true;
    for (size_t i = 0; i < count; i++)
        all &= tw_audited_passes(&t[i]);
    if (a->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(list, tw_audited_json(&t[i], a->checklist));
        int rc = tw_json_print(json_pack("{s:s, s:s, s:o}", "schema", "twinrun.audit/1", "outcome",
                                         all ? "pass" : "fail", "targets", list));
        if (rc != 0)
            return rc;
        return all ? TW_EXIT_SAME : TW_EXIT_DIFFER;
    }
    for (size_t i = 0; i < count; i++)
        tw_audited_text(stdout, &t[i], a->checklist, i + 1 < count);
    return all ? TW_EXIT_SAME : TW_EXIT_DIFFER;
}

/* Answers a checklist of operations from the ledger and the run. -1, or the exit code. */
static int fill_operations(const struct audit_args *a, struct tw_audited *t)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_operations where = {.ledger = NULL};
    char *given = tw_home(a->home), *home = given ? tw_path_absolute(given, &err) : NULL;
    char *owner = home ? tw_ledger_home(home, a->ledger) : NULL;
    struct twin_run *r = owner && strcmp(t->kind, "run") == 0 ? tw_run_open(home, t->given) : NULL;
    where.ledger = owner ? tw_ledger_open(home, a->ledger, NULL, NULL) : NULL;
    where.home = owner;
    where.run_id = r ? r->id : NULL;
    where.run_dir = r ? r->dir : NULL;
    t->operations = tw_operations_checklist(a->checklist, t->found.area, &where, &err);
    twin_ledger_close(where.ledger);
    twin_run_free(r);
    tw_free(owner);
    tw_free(home);
    tw_free(given);
    return t->operations ? -1 : tw_trouble(&err, "audit: cannot answer the checklist");
}

/* Each area as an event of the ledger, for `twinrun slo`. */
static void note_areas(const struct audit_args *a, const struct tw_audited *t)
{
    for (size_t i = 0; i < TWIN_AREAS; i++)
        tw_ledger_note_event(a->home, "audit", tw_area_passes(t->found.area[i]) ? "pass" : "fail",
                             twin_area_name((enum twin_area)i));
}

static int run(int argc, char **argv)
{
    struct audit_args a = {0};
    struct tw_operands given;
    int rc = tw_options_parse(&tw_command_audit, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    /* A checklist that is not known is found out by asking for it without any findings. */
    json_t *none[TWIN_AREAS] = {NULL};
    json_t *known = a.checklist ? tw_checklist(a.checklist, none) : NULL;
    const bool operations = a.checklist && tw_operations_is(a.checklist);
    if (a.checklist && !known && !operations)
        return tw_bad_use("audit", "--checklist: expected %s, found \"%s\"", tw_checklist_names,
                          a.checklist);
    json_decref(known);
    /* Nothing is looked at before the options are known to go together. */
    if (a.keys.count && !a.statement)
        return tw_bad_use("audit", "--key signs a statement: add --statement FILE");
    if (a.statement && given.count != 1)
        return tw_bad_use("audit", "--statement is about one target, found %zu", given.count);
    tw_progress_setup(a.quiet);
    struct tw_audited *t = tw_calloc(given.count, sizeof *t);
    rc = t ? -1 : tw_bad_use("audit", "out of memory");
    for (size_t i = 0; i < given.count && rc < 0; i++) {
        t[i].given = given.items[i];
        rc = audit_one(&a, &t[i]);
    }
    for (size_t i = 0; i < given.count && rc < 0 && operations; i++)
        rc = fill_operations(&a, &t[i]);
    if (rc < 0 && a.statement)
        rc = write_statement(&a, &t[0]);
    for (size_t i = 0; i < given.count && rc < 0; i++)
        note_areas(&a, &t[i]);
    if (rc < 0)
        rc = report(&a, t, given.count);
    for (size_t i = 0; t && i < given.count; i++) {
        json_decref(t[i].operations);
        twin_packed_free(&t[i].found);
        twin_bag_verdict_free(&t[i].verdict);
    }
    tw_free(t);
    return rc;
}

const struct tw_command tw_command_audit = {
    "audit",
    "say what keeps somebody else from recovering a number: code, data, environment, seeds",
    synopsis,
    "Five lines, pass or fail: each thing that is missing is named, how the number could be wrong "
    "for lack of it, and what to ask for. Of a run: what a package of it would lack. Of a package: "
    "what it lacks, every file held against its manifest. Of any other folder: what people leave "
    "for others (git, lock files, checksums, configurations, seeds in the source). Nothing of a "
    "folder or package is executed.",
    options,
    TW_OPERANDS_RUNS,
    1,
    MAX_TARGETS,
    exits,
    examples,
    run,
};
