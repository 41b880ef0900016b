/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run in words and as JSON. The words are for somebody who asks "what happened?": how it ended
 * first, and of lists only what needs attention (processes that could not be watched, the first
 * files), unless all of a list is asked for. The object has everything.
 */
#include "show_run.h"

#include "src/compare/compare.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"
#include "run_state.h"

#include <stdio.h>
#include <string.h>

/* How many of the files that the job wrote the short form lists. */
enum { SHORT_FILES = 5 };

struct tw_shown_trace *tw_shown_open(const struct twin_run *r, bool verify)
{
    struct tw_shown_trace *traces = tw_calloc(r->trace_count + 1, sizeof *traces);
    for (size_t i = 0; traces && i < r->trace_count; i++) {
        if (twin_trace_open(r->traces[i], &traces[i].trace, &traces[i].err) != 0)
            continue;
        twin_trace_definitions(traces[i].trace, NULL); /* for a rank that was told late */
        if (verify)
            twin_trace_verify(traces[i].trace, &traces[i].fault);
    }
    return traces;
}

void tw_shown_close(struct tw_shown_trace *traces, const struct twin_run *r)
{
    for (size_t i = 0; traces && i < r->trace_count; i++)
        twin_trace_close(traces[i].trace);
    tw_free(traces);
}

/* ---- for people */

static void text_trace(FILE *out, const char *path, const struct tw_shown_trace *o, bool verify)
{
    char records[32], steps[32], size[16];
    if (!o->trace) {
        tw_put_to(out, "  %-20s  unreadable: %s\n", tw_base_name(path), o->err.message);
        return;
    }
    const struct twin_trace_info *i = twin_trace_info(o->trace);
    char *role = tw_printable(i->role, strlen(i->role));
    tw_put_to(out, "  %-20s  rank %d of %d  pid %u  %s  %s step%s  %s record%s  %s%s",
              tw_base_name(path), i->rank, i->world, i->pid, role ? role : "",
              tw_human_count(i->steps, steps), tw_plural_s(i->steps),
              tw_human_count(i->records, records), tw_plural_s(i->records),
              tw_human_bytes(i->file_bytes, size), i->closed ? "" : "  not closed");
    if (i->dropped)
        tw_put_to(out, "  %s dropped", tw_human_count(i->dropped, records));
    if (i->tail_bytes)
        tw_put_to(out, "  %s behind the last good block", tw_human_bytes(i->tail_bytes, size));
    if (verify)
        tw_put_to(out, "  %s", o->fault.code ? o->fault.message : "intact");
    tw_put_to(out, "\n");
    tw_free(role);
}

/* How many carried the agent; of the others, and of those that outlived the job, one line each. */
static void text_processes(FILE *out, const struct twin_run *r, bool all)
{
    size_t armed = 0;
    for (size_t i = 0; i < r->process_count; i++)
        armed += r->processes[i].armed;
    tw_put_to(out, "processes %zu, %zu armed\n", r->process_count, armed);
    for (size_t i = 0; i < r->process_count; i++) {
        const struct twin_run_process *p = &r->processes[i];
        if (!all && p->armed && !p->outlived)
            continue;
        char *argv = tw_printable(p->argv ? p->argv : "", p->argv ? strlen(p->argv) : 0);
        tw_put_to(out, "  %d  parent %d  %s%s%s%s  %.200s\n", p->pid, p->ppid,
                  p->armed ? "armed" : "not armed", p->why ? ": " : "", p->why ? p->why : "",
                  p->outlived ? "  outlived the job" : "", argv ? argv : "");
        tw_free(argv);
    }
}

static void text_files(FILE *out, const struct twin_run *r, bool all)
{
    char size[16];
    tw_put_to(out, "files     %zu written%s\n", r->file_count,
              r->files_truncated ? " (more than are kept)" : "");
    for (size_t i = 0; i < r->file_count && (all || i < SHORT_FILES); i++) {
        const struct twin_run_file *f = &r->files[i];
        char *path = tw_printable(f->path, strlen(f->path));
        tw_put_to(out, "  %s  %s  %.16s%s%s\n", path ? path : "", tw_human_bytes(f->bytes, size),
                  f->sha256, f->why ? f->why : "", f->existed_before ? "  was there before" : "");
        tw_free(path);
    }
    if (!all && r->file_count > SHORT_FILES)
        tw_put_to(out, "  ... --files lists all\n");
}

/* Notes of the run; with all also what each trace's agent noted. */
static void text_notes(FILE *out, const struct twin_run *r, const struct tw_shown_trace *traces,
                       bool all)
{
    const char *key, *value;
    for (size_t i = 0; i < r->note_count; i++)
        tw_put_to(out, "note      %s\n", r->notes[i]);
    for (size_t t = 0; all && t < r->trace_count; t++) {
        tw_put_to(out, "notes of %s\n", tw_base_name(r->traces[t]));
        for (size_t i = 0; traces[t].trace && twin_trace_note(traces[t].trace, i, &key, &value);
             i++) {
            char *k = tw_printable(key, strlen(key)), *v = tw_printable(value, strlen(value));
            tw_put_to(out, "  %-24s  %s\n", k ? k : "", v ? v : "");
            tw_free(k);
            tw_free(v);
        }
    }
}

/* Do the ranks hold equal weights where they should? Nothing where no rank says that they should.
 */
static void text_replicas(FILE *out, const struct twin_run *r)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char **text = NULL;
    size_t count = 0;
    if (twin_compare_replicas(r, true, &text, &count, &err) != 0)
        tw_put_to(out, "replicas  not compared: %s\n", err.message);
    for (size_t i = 0; i < count; i++) {
        char *shown = tw_printable(text[i], strlen(text[i]));
        tw_put_to(out, "replicas  %s\n", shown ? shown : "");
        tw_free(shown);
        tw_free(text[i]);
    }
    tw_free(text);
}

void tw_show_run_text(FILE *out, const struct twin_run *r, const struct tw_shown_trace *traces,
                      const struct tw_show_asked *asked)
{
    char state[32], seconds[24], stamp[32], printed[16], errors[16];
    char *command = tw_shell_quote(r->argv, r->argc);
    tw_utc_stamp(r->start_realtime_ns, stamp);
    tw_put_to(
        out,
        "run       %s\nid        %s\ncommand   %s\nin        %s on %s\nstarted   %s, %s\nended  "
        "   %s%s%s\nlevel     %s%s\n",
        r->dir, r->id, command ? command : "", r->cwd, r->host, stamp,
        tw_human_seconds(r->wall_s, seconds), tw_run_state(r, state),
        r->message && *r->message ? ": " : "", r->message ? r->message : "",
        twin_level_name(r->level), r->agents ? "" : ", unobserved (control run)");
    const char *in_part = r->stdout_truncated || r->stderr_truncated ? " (stored in part)" : "";
    if (r->one_stream)
        tw_put_to(out, "printed   %s, stdout and stderr in one%s\n",
                  tw_human_bytes(r->stdout_bytes, printed), in_part);
    else
        tw_put_to(out, "printed   %s to stdout, %s to stderr%s\n",
                  tw_human_bytes(r->stdout_bytes, printed), tw_human_bytes(r->stderr_bytes, errors),
                  in_part);
    tw_put_to(out, "traces    %zu\n", r->trace_count);
    for (size_t i = 0; i < r->trace_count; i++)
        text_trace(out, r->traces[i], &traces[i], asked->verified);
    text_replicas(out, r);
    text_processes(out, r, asked->processes);
    text_files(out, r, asked->files);
    text_notes(out, r, traces, asked->notes);
    tw_free(command);
}

/* ---- for programs */

/* The object of one trace: its error alone where it cannot be read. */
static json_t *json_trace(const char *path, const struct tw_shown_trace *o, bool verify)
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

static json_t *json_processes(const struct twin_run *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->process_count; i++) {
        const struct twin_run_process *p = &r->processes[i];
        json_array_append_new(list,
                              json_pack("{s:i, s:i, s:o, s:b, s:o, s:b}", "pid", p->pid, "ppid",
                                        p->ppid, "argv", tw_json_text(p->argv), "armed", p->armed,
                                        "why", tw_json_text(p->why), "outlived", p->outlived));
    }
    return list;
}

static json_t *json_files(const struct twin_run *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->file_count; i++) {
        const struct twin_run_file *f = &r->files[i];
        json_array_append_new(list,
                              json_pack("{s:o, s:I, s:o, s:o, s:b}", "path", tw_json_text(f->path),
                                        "bytes", (json_int_t)f->bytes, "sha256",
                                        f->sha256[0] ? json_string(f->sha256) : json_null(), "why",
                                        tw_json_text(f->why), "existed_before", f->existed_before));
    }
    return list;
}

/* The same sentences; null where they could not be made. */
static json_t *json_replicas(const struct twin_run *r)
{
    char **text = NULL;
    size_t count = 0;
    if (twin_compare_replicas(r, true, &text, &count, NULL) != 0)
        return json_null();
    json_t *list = tw_json_texts(text, count);
    for (size_t i = 0; i < count; i++)
        tw_free(text[i]);
    tw_free(text);
    return list;
}

json_t *tw_show_run_json(const struct twin_run *r, const struct tw_shown_trace *traces,
                         bool verified)
{
    char state[32];
    json_t *traces_of_run = json_array();
    for (size_t i = 0; i < r->trace_count; i++)
        json_array_append_new(traces_of_run, json_trace(r->traces[i], &traces[i], verified));
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
    json_object_set_new(j, "traces", traces_of_run);
    json_object_set_new(j, "replicas", json_replicas(r));
    json_object_set_new(j, "processes", json_processes(r));
    json_object_set_new(j, "files", json_files(r));
    json_object_set_new(j, "notes", tw_json_texts(r->notes, r->note_count));
    return j;
}
