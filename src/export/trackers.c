/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands what the traces hold to the Python half, in a file, since it may be large, and passes on
 * what that says: a line of JSON each, {"wrote": ...}, {"said": ...}, {"progress": ...}.
 */
#include "trackers.h"

#include "base.h"
#include "json_text.h"

#include "src/launch/capture.h"
#include "src/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A server that is silent for so long is gone; the Python half gives up before. */
static const double SILENCE_S = 300;

/* What the Python half has said. */
struct heard {
    const struct tw_front *front;
    const char *verb; /* which command asks */
    bool done;        /* its last word: nothing is open */
    json_t **result;  /* gets what it answers with; NULL: nothing is expected */
};

static int take_line(void *user, char *line, struct twin_error *err)
{
    struct heard *h = user;
    json_t *j = json_loads(line, 0, NULL);
    const char *wrote = json_string_value(json_object_get(j, "wrote"));
    const char *said = json_string_value(json_object_get(j, "said"));
    const char *progress = json_string_value(json_object_get(j, "progress"));
    (void)err;
    if (wrote)
        tw_front_line(h->front, "%s", wrote);
    if (said)
        tw_front_say(h->front, "%s: %s", h->verb, said);
    if (progress)
        tw_front_progress(h->front, progress);
    h->done = h->done || json_is_true(json_object_get(j, "done"));
    if (h->result && !*h->result)
        *h->result = json_incref(json_object_get(j, "result"));
    json_decref(j);
    return 0;
}

/* The folder of our program, started by its path: neither the working folder nor an installed
 * twinrun of another version is looked into. malloc'ed; NULL: err says why. */
static char *program(struct twin_error *err)
{
    struct twin_parts parts;
    if (twin_parts_find(&parts, err) != 0)
        return NULL;
    char *path = parts.python_dir ? tw_path_join(parts.python_dir, "twinrun/_trackers") : NULL;
    if (!path || access(path, R_OK) != 0) {
        twin_error_set(err, TWIN_ENOENT,
                       "the Python half (package twinrun) was not found; install twinrun again");
        tw_free(path);
        path = NULL;
    }
    twin_parts_free(&parts);
    return path;
}

static json_t *request_of(const struct tw_trackers *to)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "mlflow",
                     tw_json_bytes(to->mlflow), "wandb", tw_json_bytes(to->wandb), "experiment",
                     tw_json_bytes(to->experiment), "tensorboard", tw_json_bytes(to->tensorboard),
                     "perfetto", tw_json_bytes(to->perfetto), "otlp", tw_json_bytes(to->otlp),
                     "openlineage", tw_json_bytes(to->openlineage), "replace", to->replace);
}

/* Writes what is to be exported into a file of ours that only we can read. path: its template. */
static int write_request(char *path, const json_t *request, struct twin_error *err)
{
    const int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return twin_error_system(err, "%s", path);
    int rc = json_dumpfd(request, fd, JSON_COMPACT) == 0 ? 0 : TWIN_EIO;
    if (close(fd) != 0 || rc != 0) {
        rc = twin_error_system(err, "writing %s", path);
        unlink(path);
    }
    return rc;
}

static int run_program(char *python, char *folder, char *file, struct heard *h,
                       struct twin_error *err)
{
    char *argv[] = {python, folder, file, NULL};
    bool interrupted = false;
    int status = 0;
    int rc = tw_capture_lines(argv, SILENCE_S, h->front, take_line, h, &interrupted, &status, err);
    tw_front_progress(h->front, NULL);
    if (rc == 0 && interrupted)
        rc = twin_error_set(err, TWIN_EINTR, "interrupted");
    else if (rc == 0 && !h->done && status == 0)
        rc = twin_error_set(err, TWIN_EIO, "%s ended early and said nothing", python);
    else if (rc == 0 && status != 0)
        rc = h->done ? TWIN_EIO
                     : twin_error_set(err, TWIN_EIO,
                                      "%s ended early (wait status %d): is it a Python 3.8 or "
                                      "later? Another one can be named with --python",
                                      python, status);
    return rc;
}

/* Hands a request to the Python half. Errors: as tw_export_trackers. */
static int ask(const char *verb, const char *interpreter, const json_t *request,
               const struct tw_front *front, json_t **result, struct twin_error *err)
{
    const char *tmp = getenv("TMPDIR");
    struct heard heard = {front, verb, false, result};
    char *file = tw_printf("%s/twinrun-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    char *python = tw_find_python(interpreter), *folder = program(err);
    int rc = folder ? 0 : TWIN_ENOENT;
    if (rc == 0 && (!request || !file || !python))
        rc = tw_no_memory(err, "for what is to be told");
    if (rc == 0)
        rc = write_request(file, request, err);
    if (rc == 0) {
        rc = run_program(python, folder, file, &heard, err);
        unlink(file);
    }
    tw_free(file);
    tw_free(python);
    tw_free(folder);
    return rc;
}

/* Could a trace not be read whole? */
static bool any_broken(const json_t *list)
{
    bool broken = false;
    size_t i, k;
    json_t *run, *process;
    json_array_foreach (list, i, run) {
        broken = broken || json_array_size(json_object_get(run, "unread")) > 0;
        json_array_foreach (json_object_get(run, "processes"), k, process)
            broken = broken || json_is_true(json_object_get(process, "broken"));
    }
    return broken;
}

int tw_export_trackers(struct twin_run *const *runs, size_t count, const struct tw_trackers *to,
                       const struct tw_front *front, bool *broken, struct twin_error *err)
{
    json_t *request = request_of(to), *list = json_array();
    int rc = request && list ? 0 : tw_no_memory(err, "for an export");
    for (size_t i = 0; rc == 0 && i < count; i++) {
        json_t *facts = tw_trackers_facts(runs[i], front);
        if (!facts && tw_front_stops(front))
            rc = twin_error_set(err, TWIN_EINTR, "interrupted");
        else if (!facts || json_array_append_new(list, facts) != 0)
            rc = tw_no_memory(err, "for what %s holds", runs[i]->dir);
    }
    if (rc == 0 && json_object_set(request, "runs", list) != 0)
        rc = tw_no_memory(err, "for an export");
    *broken = any_broken(list);
    if (rc == 0)
        rc = ask("export", to->python, request, front, NULL, err);
    json_decref(list);
    json_decref(request);
    return rc;
}

int tw_import_curves(const struct tw_curves_asked *a, const struct tw_front *front,
                     struct twin_error *err)
{
    json_t *request = json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:b}", "from",
                                a->from, "source", tw_json_bytes(a->source), "metric",
                                tw_json_bytes(a->metric), "take", a->take, "step",
                                tw_json_bytes(a->step), "run", tw_json_bytes(a->run), "experiment",
                                tw_json_bytes(a->experiment), "filter", tw_json_bytes(a->filter),
                                "out", tw_json_bytes(a->out), "replace", a->replace);
    const int rc = ask("import", a->python, request, front, NULL, err);
    json_decref(request);
    return rc;
}

int tw_mirror_models(const json_t *request, const char *python, const struct tw_front *front,
                     json_t **result, struct twin_error *err)
{
    *result = NULL;
    int rc = ask("registry mirror", python, request, front, result, err);
    if (rc == 0 && !json_is_object(*result))
        rc = twin_error_set(err, TWIN_EIO,
                            "the Python half (package twinrun) gave no answer; "
                            "install twinrun again");
    if (rc != 0) {
        json_decref(*result);
        *result = NULL;
    }
    return rc;
}
