/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run as a statement: what it wrote are the subjects, how it came about is the predicate (SLSA
 * provenance v1). And runs that agreed.
 *
 * The predicate is made from provenance.json and says nothing that is not there. A JSON part that
 * is missing is left out, so that an older run can be signed.
 */
#include "internal.h"
#include "jcs.h"

#include "base.h"

#include "src/compare/compare.h"
#include "src/launch/run.h"
#include "src/provenance/provenance.h"
#include "src/snapshot/content.h"
#include "src/trace/trace.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define BUILD_TYPE "urn:twinrun:run:1"
#define BUILDER "urn:twinrun:launcher"

/* ---- subjects */

/* What was observed, whatever the clock said: the trace's prefix hash over all its steps. */
static int add_values(const char *path, struct twin_subjects *s, struct twin_error *err)
{
    struct twin_trace *t;
    struct twin_step_hash h;
    char hex[33];
    int rc = twin_trace_open(path, &t, err);
    if (rc != 0)
        return rc;
    const uint64_t steps = twin_trace_info(t)->steps;
    if (steps > 0 && (rc = twin_trace_step_hash(t, (uint32_t)(steps - 1), &h, err)) == 0) {
        rc = twin_subjects_digest(s, "twinrunValues1", tw_hex_128(h.prefix.hi, h.prefix.lo, hex),
                                  err);
    }
    twin_trace_close(t);
    return rc;
}

/* The digest of its tensors, if it holds any and is still what the run left. No error: it may be
 * gone, or no checkpoint. */
static int add_content(const struct twin_run *r, const struct twin_run_file *f,
                       struct twin_subjects *s, struct twin_error *err)
{
    struct twin_content c;
    char *path = tw_path_join(r->cwd, f->path);
    int rc = path ? 0 : tw_no_memory(err, "for a run's statement");
    if (path && twin_content_read(path, &c, NULL) == 0) {
        if (strcmp(c.file, f->sha256) == 0 && c.count > 0)
            rc = twin_subjects_digest(s, "twinrunContent1", c.content, err);
        twin_content_free(&c);
    }
    tw_free(path);
    return rc;
}

/* Puts the run's id before the names from `from` on: in a statement about several runs, files of
 * two of them have the same path. */
static int rename_last(struct twin_subjects *s, size_t from, const char *id, struct twin_error *err)
{
    for (size_t i = from; i < s->count; i++) {
        char *name = tw_printf("%s/%s", id, s->item[i].name);
        if (!name)
            return tw_no_memory(err, "for a run's statement");
        tw_free(s->item[i].name);
        s->item[i].name = name;
    }
    return 0;
}

/* Adds the digest of what was observed behind that of the trace's file. twin_subjects_digest adds
 * to the last subject, so this one is swapped to the end while that is done. must: a trace that
 * cannot be read is an error. */
static int add_trace(const struct twin_run *r, const char *trace, bool must,
                     struct twin_subjects *s, size_t from, struct twin_error *err)
{
    assert(from <= s->count);
    struct twin_error why = TWIN_ERROR_INIT;
    const size_t n = strlen(r->dir);
    for (size_t i = from; i < s->count && strncmp(trace, r->dir, n) == 0; i++)
        if (strcmp(s->item[i].name, trace + n + 1) == 0) {
            const struct twin_subject last = s->item[s->count - 1];
            s->item[s->count - 1] = s->item[i];
            int rc = add_values(trace, s, &why);
            s->item[i] = s->item[s->count - 1];
            if (i != s->count - 1)
                s->item[s->count - 1] = last;
            return rc == 0 || !must ? 0 : twin_error_set(err, rc, "%s", why.message);
        }
    return 0;
}

/* "work" is scratch, .reserve is space held back, and the envelope cannot state its own digest. */
int twin_run_subjects(const struct twin_run *r, bool contents, struct twin_subjects *s,
                      struct twin_error *err)
{
    static const char *const skip[] = {"work", ".reserve", TWIN_RUN_ENVELOPE};
    const size_t from = s->count;
    int rc = twin_subject_folder(r->dir, skip, sizeof skip / sizeof skip[0], false, s, err);
    for (size_t i = 0; i < r->trace_count && rc == 0; i++)
        rc = add_trace(r, r->traces[i], contents, s, from, err);
    for (size_t i = 0; i < r->file_count && rc == 0; i++) {
        const struct twin_run_file *f = &r->files[i];
        char *name = f->sha256[0] ? tw_printf("files/%s", f->path) : NULL;
        if (!f->sha256[0])
            continue;
        rc = name ? twin_subjects_add(s, name, "sha256", f->sha256, err)
                  : tw_no_memory(err, "for a run's statement");
        if (rc == 0 && contents)
            rc = add_content(r, f, s, err);
        tw_free(name);
    }
    return rc ? rc : rename_last(s, from, r->id, err);
}

/* ---- the predicate */

/* A text of provenance.json, or "hex:..." of one that is no UTF-8. A new reference. */
static json_t *text_of(const json_t *v)
{
    const char *hex = json_string_value(json_object_get(v, "hex"));
    if (json_is_string(v))
        return json_copy((json_t *)(uintptr_t)v);
    return hex ? json_sprintf("hex:%s", hex) : json_string("");
}

/* Copies a field when there is one: null and missing are the same here. */
static void put_copy(json_t *o, const char *key, const json_t *value)
{
    if (value && !json_is_null(value))
        json_object_set(o, key, (json_t *)(uintptr_t)value);
}

/* A resource descriptor; nothing without a digest. Takes name over. */
static void depend(json_t *list, json_t *name, const char *prefix, const char *algorithm,
                   const json_t *digest)
{
    const char *hex = json_string_value(digest);
    if (hex && *hex && name)
        json_array_append_new(list, json_pack("{s:o, s:{s:s}}", "name",
                                              json_sprintf("%s%s", prefix, json_string_value(name)),
                                              "digest", algorithm, hex));
    json_decref(name);
}

/* The files of a list in provenance.json, each under prefix and path, by the digest in `key`. */
static void depend_files(json_t *list, const json_t *files, const char *prefix, const char *key)
{
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *f = json_array_get(files, i);
        depend(list, text_of(json_object_get(f, "path")), prefix, "sha256",
               json_object_get(f, key));
    }
}

/* The commit with its tree, the uncommitted diff and the untracked files, and then the same of each
 * submodule, whose names begin with where it lies. */
static void depend_code(json_t *list, const json_t *code, const char *where)
{
    const json_t *commit = json_object_get(code, "commit");
    const json_t *tree = json_object_get(code, "tree");
    const json_t *remotes = json_object_get(code, "remotes");
    const json_t *diff = json_object_get(code, "diff");
    char *prefix = tw_printf("%suntracked/", where);
    if (json_is_string(commit)) {
        json_t *digest = json_object();
        json_t *o = json_pack("{s:s, s:o}", "name", *where ? where : "code", "digest", digest);
        json_t *notes = json_object();
        put_copy(digest, "gitCommit", commit);
        put_copy(digest, "gitTree", tree);
        put_copy(notes, "branch", json_object_get(code, "branch"));
        put_copy(notes, "remotes", remotes);
        put_copy(notes, "dirty", json_object_get(code, "dirty"));
        json_object_set_new(o, "annotations", notes);
        json_array_append_new(list, o);
    }
    depend(list, json_string("diff"), where, "sha256", json_object_get(diff, "sha256"));
    depend_files(list, json_object_get(code, "untracked"), prefix ? prefix : "untracked/",
                 "sha256");
    tw_free(prefix);
    const json_t *submodules = json_object_get(code, "submodules");
    for (size_t i = 0; i < json_array_size(submodules); i++) {
        json_t *path = text_of(json_object_get(json_array_get(submodules, i), "path"));
        char *below = tw_printf("%ssubmodule %s/", where, json_string_value(path));
        if (below)
            depend_code(list, json_array_get(submodules, i), below);
        tw_free(below);
        json_decref(path);
    }
}

/* 64 hex digits, alone or behind sha256:, as runtimes and people write an image's digest. */
static void depend_image(json_t *list, const json_t *said)
{
    const char *text = json_string_value(said);
    const char *mark = text ? strstr(text, "sha256:") : NULL;
    const char *hex = mark ? mark + strlen("sha256:") : text;
    if (!tw_is_hex(hex, 64))
        return;
    json_t *digest = json_string(hex);
    depend(list, json_string("container image"), "", "sha256", digest);
    json_decref(digest);
}

/* All that went into the run, as resource descriptors: code, programs, configuration, data,
 * libraries, and the container's image. What has no digest is left out. */
static json_t *dependencies(const json_t *p)
{
    json_t *list = json_array(), *hint;
    const char *key;
    const json_t *data = json_object_get(p, "data");
    const json_t *container = json_object_get(json_object_get(p, "environment"), "container");
    depend_code(list, json_object_get(p, "code"), "");
    depend_files(list, json_object_get(json_object_get(p, "programs"), "files"), "program ",
                 "sha256");
    depend_files(list, json_object_get(json_object_get(p, "config"), "files"), "config ", "raw");
    depend_files(list, json_object_get(data, "named"), "data ", "sha256");
    for (size_t i = 0; i < json_array_size(json_object_get(data, "verified")); i++) {
        const json_t *d = json_array_get(json_object_get(data, "verified"), i);
        depend(list, text_of(json_object_get(d, "folder")), "snapshot ", "twinrunSnapshot1",
               json_object_get(d, "root"));
    }
    depend_files(list, json_object_get(json_object_get(p, "libraries"), "files"), "library ",
                 "sha256");
    depend_image(list, json_object_get(container, "image"));
    json_object_foreach (json_object_get(container, "hints"), key, hint)
        depend_image(list, hint);
    return list;
}

/* What the user chose: the command, the configuration, and how much was observed. */
static json_t *external(const struct twin_run *r, const json_t *p)
{
    const json_t *config = json_object_get(p, "config");
    json_t *o = json_pack("{s:s, s:i, s:b}", "level", twin_level_name(r->level), "max_steps",
                          (int)r->max_steps, "observed", r->agents);
    put_copy(o, "argv", json_object_get(config, "argv"));
    put_copy(o, "argv_digest", json_object_get(config, "argv_digest"));
    put_copy(o, "config", json_object_get(config, "files"));
    put_copy(o, "entry", json_object_get(json_object_get(p, "programs"), "entry"));
    return o;
}

/* Environment, seeds, topology. Lists of packages and libraries are in provenance.json, whose
 * digest is among the subjects. */
static json_t *internal(const json_t *p)
{
    static const char *const of_rank[] = {"rank",     "world",      "host",
                                          "device",   "processors", "variables",
                                          "versions", "settings",   "generators"};
    const json_t *launch = json_object_get(p, "launch"), *ranks = json_object_get(p, "ranks");
    json_t *o = json_object(), *list = json_array();
    put_copy(o, "complete", json_object_get(p, "complete"));
    put_copy(o, "environment", json_object_get(p, "environment"));
    put_copy(o, "accelerators", json_object_get(p, "accelerators"));
    put_copy(o, "variables", json_object_get(launch, "variables"));
    put_copy(o, "world", json_object_get(launch, "world"));
    put_copy(o, "places", json_object_get(launch, "places"));
    put_copy(o, "scheduler", json_object_get(launch, "scheduler"));
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        json_t *one = json_object();
        for (size_t k = 0; k < sizeof of_rank / sizeof of_rank[0]; k++)
            put_copy(one, of_rank[k], json_object_get(json_array_get(ranks, i), of_rank[k]));
        json_array_append_new(list, one);
    }
    json_object_set_new(o, "ranks", list);
    return o;
}

/* The whole SLSA predicate. NULL: no memory, or a text is no UTF-8. finishedOn is the start plus
 * the measured duration, as the clock may have been set in between. */
static json_t *predicate_of(const struct twin_run *r, const json_t *p)
{
    char began[32], ended[32];
    tw_utc_time(r->start_realtime_ns, false, began);
    tw_utc_time(r->start_realtime_ns + (int64_t)(r->wall_s * 1e9), false, ended);
    return json_pack("{s:{s:s, s:o, s:o, s:o}, s:{s:{s:s, s:{s:s}}, s:{s:s, s:s, s:s}}}",
                     "buildDefinition", "buildType", BUILD_TYPE, "externalParameters",
                     external(r, p), "internalParameters", internal(p), "resolvedDependencies",
                     dependencies(p), "runDetails", "builder", "id", BUILDER, "version", "twinrun",
                     TWINRUN_VERSION, "metadata", "invocationId", r->id, "startedOn", began,
                     "finishedOn", ended);
}

/* A run that goes on is refused: its files still grow. */
int twin_run_envelope(const struct twin_run *r, struct twin_envelope *out, struct twin_error *err)
{
    struct twin_subjects s = {0};
    struct twin_error why = TWIN_ERROR_INIT;
    json_t *p = NULL, *predicate = NULL;
    if (r->in_progress)
        return twin_error_set(err, TWIN_EBUSY, "%s is still going on: sign it when it has ended",
                              r->dir);
    int rc = twin_provenance_load(r->dir, &p, &why);
    if (rc == TWIN_ENOENT)
        return twin_error_set(err, rc,
                              "%s has no provenance.json, so there is nothing to state of how it "
                              "came about: record it again",
                              r->dir);
    if (rc != 0)
        return twin_error_set(err, rc, "%s", why.message);
    rc = twin_run_subjects(r, true, &s, err);
    if (rc == 0 && !(predicate = predicate_of(r, p)))
        rc = tw_no_memory(err, "for a run's statement");
    rc = rc ? rc : twin_statement_envelope(&s, TWIN_PREDICATE_SLSA, predicate, out, err);
    json_decref(predicate);
    json_decref(p);
    twin_subjects_free(&s);
    return rc;
}

/* ---- runs that agreed */

/* Puts the digest of the tolerance file into the predicate: "within tolerance" says nothing without
 * it. */
static int tolerance_digest(const char *path, json_t *o, struct twin_error *err)
{
    struct twin_subjects s = {0};
    int rc = twin_subject_file(path, "tolerance", &s, err);
    if (rc == 0)
        json_object_set_new(o, "tolerance",
                            json_pack("{s:{s:s}}", "digest", "sha256", s.item[0].digest[0].value));
    twin_subjects_free(&s);
    return rc;
}

/* One statement over the subjects of all runs. It is made only from a verdict of this very call,
 * never from one that somebody kept. */
int twin_reproduced_envelope(const struct twin_run *const *runs, size_t n,
                             const struct twin_compare_options *o, struct twin_verdict **verdict,
                             struct twin_envelope *out, struct twin_error *err)
{
    struct twin_subjects s = {0};
    json_t *predicate = NULL, *ids = json_array();
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(runs[i]->id, runs[j]->id) == 0) {
                json_decref(ids);
                return twin_error_set(
                    err, TWIN_EINVAL,
                    "%s and %s are one and the same run: that it equals itself says nothing",
                    runs[j]->dir, runs[i]->dir);
            }
    int rc = twin_compare(runs, n, o, verdict, err);
    const struct twin_verdict *v = rc == 0 ? *verdict : NULL;
    if (rc != 0 || (v->outcome != TWIN_SAME && v->outcome != TWIN_WITHIN_TOLERANCE)) {
        json_decref(ids);
        return rc;
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = twin_run_subjects(runs[i], true, &s, err);
        if (json_array_append_new(ids, json_string(runs[i]->id)) != 0)
            rc = rc ? rc : tw_no_memory(err, "for a run's statement");
    }
    predicate = json_pack("{s:s, s:s, s:o, s:I, s:I, s:s}", "outcome",
                          twin_verdict_name(v->outcome), "bitwise", twin_verdict_name(v->bitwise),
                          "runs", ids, "steps", (json_int_t)v->steps_compared, "records",
                          (json_int_t)v->records_compared, "twinrun", TWINRUN_VERSION);
    if (rc == 0 && !predicate)
        rc = tw_no_memory(err, "for a run's statement");
    if (rc == 0 && o->tolerance_file)
        rc = tolerance_digest(o->tolerance_file, predicate, err);
    rc = rc ? rc : twin_statement_envelope(&s, TWIN_PREDICATE_REPRODUCED, predicate, out, err);
    json_decref(predicate);
    twin_subjects_free(&s);
    return rc;
}
