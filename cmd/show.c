/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun show: one run; with --step or --record its records (show_records.c). */
#include "json.h"
#include "ledger.h"
#include "options.h"
#include "runs.h"
#include "say.h"
#include "show_ledger.h"
#include "show_provenance.h"
#include "show_records.h"
#include "terminal.h"

#include "base.h"

#include "src/trace/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* One trace, opened or with the reason why not. */
struct opened {
    struct twin_trace *trace;
    struct twin_error err, fault;
};

static void text_trace(const char *path, const struct opened *o, bool verify)
{
    char records[32], steps[32], size[16];
    if (!o->trace) {
        tw_put("  %-20s  unreadable: %s\n", tw_base_name(path), o->err.message);
        return;
    }
    const struct twin_trace_info *i = twin_trace_info(o->trace);
    char *role = tw_printable(i->role, strlen(i->role));
    tw_put("  %-20s  rank %d of %d  pid %u  %s  %s steps  %s records  %s%s", tw_base_name(path),
           i->rank, i->world, i->pid, role ? role : "", tw_human_count(i->steps, steps),
           tw_human_count(i->records, records), tw_human_bytes(i->file_bytes, size),
           i->closed ? "" : "  not closed");
    if (i->dropped)
        tw_put("  %s dropped", tw_human_count(i->dropped, records));
    if (i->tail_bytes)
        tw_put("  %s behind the last good block", tw_human_bytes(i->tail_bytes, size));
    if (verify)
        tw_put("  %s", o->fault.code ? o->fault.message : "intact");
    tw_put("\n");
    tw_free(role);
}

static json_t *json_trace(const char *path, const struct opened *o, bool verify)
{
    if (!o->trace)
        return json_pack("{s:o, s:o}", "path", tw_json_text(path), "error",
                         tw_json_text(o->err.message));
    const struct twin_trace_info *i = twin_trace_info(o->trace);
    json_t *j = json_pack("{s:o, s:i, s:i, s:I, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:I}", "path",
                          tw_json_text(path), "rank", (int)i->rank, "world", (int)i->world, "pid",
                          (json_int_t)i->pid, "role", tw_json_text(i->role), "closed", i->closed,
                          "steps", (json_int_t)i->steps, "records", (json_int_t)i->records,
                          "dropped", (json_int_t)i->dropped, "bytes", (json_int_t)i->file_bytes,
                          "tail_bytes", (json_int_t)i->tail_bytes, "observer_ns",
                          (json_int_t)i->observer_ns);
    if (verify)
        json_object_set_new(j, "fault",
                            o->fault.code ? tw_json_text(o->fault.message) : json_null());
    json_t *notes = json_array();
    const char *key, *value;
    for (size_t n = 0; twin_trace_note(o->trace, n, &key, &value); n++)
        json_array_append_new(notes, json_pack("[o, o]", tw_json_text(key), tw_json_text(value)));
    json_object_set_new(j, "notes", notes);
    return j;
}

static void text_processes(const struct twin_run *r, bool all)
{
    size_t armed = 0;
    for (size_t i = 0; i < r->process_count; i++)
        armed += r->processes[i].armed;
    tw_put("processes %zu, %zu armed\n", r->process_count, armed);
    for (size_t i = 0; i < r->process_count; i++) {
        const struct twin_run_process *p = &r->processes[i];
        /* the short form lists what a reader must know about */
        if (!all && p->armed && !p->outlived)
            continue;
        char *argv = tw_printable(p->argv ? p->argv : "", p->argv ? strlen(p->argv) : 0);
        tw_put("  %d  parent %d  %s%s%s%s  %.200s\n", p->pid, p->ppid,
               p->armed ? "armed" : "not armed", p->why ? ": " : "", p->why ? p->why : "",
               p->outlived ? "  outlived the job" : "", argv ? argv : "");
        tw_free(argv);
    }
}

static void text_files(const struct twin_run *r, bool all)
{
    char size[16];
    tw_put("files     %zu written%s\n", r->file_count,
           r->files_truncated ? " (more than are kept)" : "");
    for (size_t i = 0; i < r->file_count && (all || i < 5); i++) {
        const struct twin_run_file *f = &r->files[i];
        char *path = tw_printable(f->path, strlen(f->path));
        tw_put("  %s  %s  %.16s%s%s\n", path ? path : "", tw_human_bytes(f->bytes, size), f->sha256,
               f->why ? f->why : "", f->existed_before ? "  was there before" : "");
        tw_free(path);
    }
    if (!all && r->file_count > 5)
        tw_put("  ... --files lists all\n");
}

static void text_notes(const struct twin_run *r, struct opened *traces, bool all)
{
    const char *key, *value;
    for (size_t i = 0; i < r->note_count; i++)
        tw_put("note      %s\n", r->notes[i]);
    for (size_t t = 0; all && t < r->trace_count; t++) {
        tw_put("notes of %s\n", tw_base_name(r->traces[t]));
        for (size_t i = 0; traces[t].trace && twin_trace_note(traces[t].trace, i, &key, &value);
             i++) {
            char *k = tw_printable(key, strlen(key)), *v = tw_printable(value, strlen(value));
            tw_put("  %-24s  %s\n", k ? k : "", v ? v : "");
            tw_free(k);
            tw_free(v);
        }
    }
}

static void text_run(const struct twin_run *r, struct opened *traces, const struct tw_show_args *a)
{
    char state[32], seconds[24], stamp[32], out[16], errors[16];
    char *command = tw_shell_quote(r->argv, r->argc);
    tw_utc_stamp(r->start_realtime_ns, stamp);
    tw_put("run       %s\nid        %s\ncommand   %s\nin        %s on %s\nstarted   %s, %s\nended  "
           "   %s%s%s\nlevel     %s%s\n",
           r->dir, r->id, command ? command : "", r->cwd, r->host, stamp,
           tw_human_seconds(r->wall_s, seconds), tw_run_state(r, state),
           r->message && *r->message ? ": " : "", r->message ? r->message : "",
           twin_level_name(r->level), r->agents ? "" : ", unobserved (control run)");
    const char *in_part = r->stdout_truncated || r->stderr_truncated ? " (stored in part)" : "";
    if (r->one_stream)
        tw_put("printed   %s, stdout and stderr in one%s\n", tw_human_bytes(r->stdout_bytes, out),
               in_part);
    else
        tw_put("printed   %s to stdout, %s to stderr%s\n", tw_human_bytes(r->stdout_bytes, out),
               tw_human_bytes(r->stderr_bytes, errors), in_part);
    tw_put("traces    %zu\n", r->trace_count);
    for (size_t i = 0; i < r->trace_count; i++)
        text_trace(r->traces[i], &traces[i], a->verify);
    text_processes(r, a->processes);
    text_files(r, a->files);
    text_notes(r, traces, a->notes);
    tw_free(command);
}

static json_t *json_run(const struct twin_run *r, struct opened *traces,
                        const struct tw_show_args *a)
{
    char state[32];
    json_t *list = json_array(), *processes = json_array(), *files = json_array();
    for (size_t i = 0; i < r->trace_count; i++)
        json_array_append_new(list, json_trace(r->traces[i], &traces[i], a->verify));
    for (size_t i = 0; i < r->process_count; i++) {
        const struct twin_run_process *p = &r->processes[i];
        json_array_append_new(processes,
                              json_pack("{s:i, s:i, s:o, s:b, s:o, s:b}", "pid", p->pid, "ppid",
                                        p->ppid, "argv", tw_json_text(p->argv), "armed", p->armed,
                                        "why", tw_json_text(p->why), "outlived", p->outlived));
    }
    for (size_t i = 0; i < r->file_count; i++) {
        const struct twin_run_file *f = &r->files[i];
        json_array_append_new(files,
                              json_pack("{s:o, s:I, s:o, s:o, s:b}", "path", tw_json_text(f->path),
                                        "bytes", (json_int_t)f->bytes, "sha256",
                                        f->sha256[0] ? json_string(f->sha256) : json_null(), "why",
                                        tw_json_text(f->why), "existed_before", f->existed_before));
    }
    json_t *j = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:f}", "schema", "twinrun.show/1", "id",
        tw_json_text(r->id), "dir", tw_json_text(r->dir), "label", tw_json_text(r->label), "argv",
        tw_json_texts(r->argv, r->argc), "cwd", tw_json_text(r->cwd), "host", tw_json_text(r->host),
        "start_realtime_ns", (json_int_t)r->start_realtime_ns, "wall_s", r->wall_s);
    json_object_set_new(j, "state", json_string(tw_run_state(r, state)));
    json_object_set_new(j, "exit_code", json_integer(r->exit_code));
    json_object_set_new(j, "signal", json_integer(r->signal));
    json_object_set_new(j, "message", tw_json_text(r->message));
    json_object_set_new(j, "level", json_string(twin_level_name(r->level)));
    json_object_set_new(j, "observed", json_boolean(r->agents));
    json_object_set_new(j, "one_stream", json_boolean(r->one_stream));
    json_object_set_new(j, "stdout_bytes", json_integer((json_int_t)r->stdout_bytes));
    json_object_set_new(j, "stderr_bytes", json_integer((json_int_t)r->stderr_bytes));
    json_object_set_new(j, "stdout_sha256", json_string(r->stdout_sha256));
    json_object_set_new(j, "stderr_sha256", json_string(r->stderr_sha256));
    json_object_set_new(j, "traces", list);
    json_object_set_new(j, "processes", processes);
    json_object_set_new(j, "files", files);
    json_object_set_new(j, "notes", tw_json_texts(r->notes, r->note_count));
    return j;
}

/* j NULL: as text to stdout. */
static void show_comparisons(const char *home, const char *url, const char *id, json_t *j)
{
    struct twin_ledger *l = tw_ledger_open(home, url, NULL, NULL);
    if (l)
        tw_ledger_show_comparisons(l, id, stdout, j, &tw_terminal);
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

static int show_provenance(const struct twin_run *r, bool as_json)
{
    json_t *json = NULL;
    if (tw_show_provenance(r, stdout, as_json ? &json : NULL, &tw_terminal) != 0)
        return TW_EXIT_TROUBLE;
    return as_json ? tw_json_print(json) : 0;
}

static int show(const struct twin_run *r, const char *home, const struct tw_show_args *a)
{
    struct opened *traces = tw_calloc(r->trace_count + 1, sizeof *traces);
    int rc = 0;
    if (!traces)
        return tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "cannot open the traces");
    for (size_t i = 0; i < r->trace_count; i++) {
        if (twin_trace_open(r->traces[i], &traces[i].trace, &traces[i].err) != 0)
            rc = TW_EXIT_TROUBLE;
        else if (a->verify && twin_trace_verify(traces[i].trace, &traces[i].fault) != 0 && rc == 0)
            rc = 1;
    }
    const struct tw_records_asked asked = {
        .pattern = a->record,
        .one_step = a->step != TW_NOT_GIVEN,
        .step = (uint32_t)a->step,
    };
    bool records = a->step != TW_NOT_GIVEN || a->record;
    json_t *j = a->json ? json_run(r, traces, a) : NULL;
    json_t *rows = a->json && records ? json_array() : NULL;
    if (!a->json && !records)
        text_run(r, traces, a);
    if (!records)
        show_comparisons(home, a->ledger, r->id, j);
    for (size_t i = 0; records && i < r->trace_count; i++)
        if (traces[i].trace &&
            tw_show_records(traces[i].trace, r->traces[i], &asked, stdout, rows, &tw_terminal) != 0)
            rc = TW_EXIT_TROUBLE;
    if (rows)
        json_object_set_new(j, "records", rows);
    if (a->json && tw_json_print(j) != 0)
        rc = TW_EXIT_TROUBLE;
    for (size_t i = 0; i < r->trace_count; i++) {
        if (!traces[i].trace && !a->json && records)
            tw_trouble(&traces[i].err, "%s", tw_base_name(r->traces[i]));
        twin_trace_close(traces[i].trace);
    }
    tw_free(traces);
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
    char *home = tw_home(a.home);
    struct twin_error err = TWIN_ERROR_INIT;
    char *dir = NULL;
    bool gone = home && twin_run_resolve(home, rest.items[0], &dir, &err) == TWIN_ENOENT;
    if (gone && show_gone(home, a.ledger, rest.items[0], a.json) == 0) {
        tw_free(home);
        return 0;
    }
    tw_free(dir);
    struct twin_run *r = home ? tw_run_open(home, rest.items[0]) : NULL;
    if (!r)
        rc = TW_EXIT_TROUBLE;
    else if (a.provenance)
        rc = show_provenance(r, a.json);
    else
        rc = show(r, home, &a);
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
