/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses what is measured of the catalogue of operations, starts the Python half for each device,
 * and collects its rows. The half that measures is a program of its own: PyTorch crashes, hangs and
 * keeps threads, and none of that is to reach us.
 */
#include "ops.h"

#include "capture.h"

#include "base.h"

#include "src/launch/run.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROW_LIMIT_S = 60, SILENCE_S = 300, MOST_THREADS = 1024 };

/* ---- what to measure */

static int count_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* A race needs two threads to show, on one processor, too. */
static json_t *usual_threads(void)
{
    int all = count_processors();
    return json_pack("[i, i]", 1, all < 2 ? 2 : all);
}

static bool lists(const json_t *list, uint64_t n)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if ((uint64_t)json_integer_value(json_array_get(list, i)) == n)
            return true;
    return false;
}

/* NULL: not a list of distinct numbers, or out of memory. */
static json_t *parse_threads(const char *text)
{
    json_t *list = json_array();
    while (list) {
        char word[8];
        uint64_t n;
        size_t length = strcspn(text, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        if (length >= sizeof word || tw_parse_u64(word, MOST_THREADS, &n) != 0 || n == 0 ||
            json_array_size(list) >= TW_OPS_THREADS_MAX || lists(list, n)) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, json_integer((json_int_t)n));
        if (!text[length])
            return list;
        text += length + 1;
    }
    return NULL;
}

/* A device that was named; or, where none was: the CPU, and CUDA where its driver is. */
static bool wants(const struct tw_ops_asked *a, const char *device)
{
    if (a->device)
        return strcmp(a->device, device) == 0;
    return strcmp(device, "cpu") == 0 || access("/dev/nvidiactl", F_OK) == 0;
}

int tw_ops_choose(const struct tw_ops_asked *a, struct tw_ops_result *r, struct twin_error *err)
{
    static const char *const devices[TW_OPS_DEVICES] = {"cpu", "cuda"};
    if (a->device && strcmp(a->device, "cpu") != 0 && strcmp(a->device, "cuda") != 0)
        return twin_error_set(err, TWIN_EINVAL, "--device: expected cpu or cuda, found \"%s\"",
                              a->device);
    r->threads = a->threads ? parse_threads(a->threads) : usual_threads();
    if (!r->threads)
        return twin_error_set(err, TWIN_EINVAL,
                              "--threads: expected at most %d different numbers from 1 to %d with "
                              "commas between them, such as 1,2,8; found \"%s\"",
                              TW_OPS_THREADS_MAX, MOST_THREADS, a->threads ? a->threads : "");
    r->runs = a->runs;
    for (size_t i = 0; i < TW_OPS_DEVICES; i++)
        if (wants(a, devices[i]))
            r->device[r->count++].name = devices[i];
    return 0;
}

/* ---- the Python half */

/* Where the lines of one device's program go. */
struct listening {
    struct tw_ops_device *device;
    const struct tw_front *front;
};

static void show_progress(const struct listening *l, const json_t *p)
{
    char line[160];
    const char *name = json_string_value(json_object_get(p, "name"));
    snprintf(line, sizeof line, "%s  %lld of %lld  %s", l->device->name,
             (long long)json_integer_value(json_object_get(p, "done")) + 1,
             (long long)json_integer_value(json_object_get(p, "of")), name ? name : "");
    tw_front_progress(l->front, line);
}

/* One line of the program. A line that is no object comes from elsewhere: a sitecustomize that
 * prints. */
static int take_line(void *user, char *line, struct twin_error *err)
{
    struct listening *l = user;
    struct tw_ops_device *d = l->device;
    json_t *j = json_loads(line, 0, NULL), *value;
    int rc = 0;
    if ((value = json_object_get(j, "progress"))) {
        show_progress(l, value);
    } else if ((value = json_object_get(j, "about"))) {
        json_decref(d->about);
        d->about = json_incref(value);
    } else if ((value = json_object_get(j, "row"))) {
        rc = json_array_append(d->rows, value);
    } else if ((value = json_object_get(j, "failed"))) {
        tw_free(d->failed);
        d->failed = tw_strdup(json_is_string(value) ? json_string_value(value) : "");
        rc = d->failed ? 0 : -1;
    }
    json_decref(j);
    return rc == 0 ? 0 : twin_error_set(err, TWIN_ENOMEM, "out of memory");
}

/* The folder of our program, started by its path: neither the working folder nor an installed
 * twinrun of another version is looked into. malloc'ed; NULL: err says why. */
static char *program(struct twin_error *err)
{
    struct twin_parts parts;
    if (twin_parts_find(&parts, err) != 0)
        return NULL;
    char *path = parts.python_dir ? tw_path_join(parts.python_dir, "twinrun/_ops") : NULL;
    if (!parts.python_dir)
        twin_error_set(err, TWIN_ENOENT,
                       "the Python half (package twinrun) was not found; install twinrun again");
    else if (!path)
        twin_error_set(err, TWIN_ENOMEM, "out of memory");
    else if (access(path, R_OK) != 0) {
        twin_error_system(err, "%s", path);
        tw_free(path);
        path = NULL;
    }
    twin_parts_free(&parts);
    return path;
}

/* What the program is to do, as the JSON text that it gets. malloc'ed (free); NULL: no memory. */
static char *request_of(const struct tw_ops_asked *a, const struct tw_ops_result *r,
                        const struct tw_ops_device *d)
{
    json_t *patterns = json_array();
    json_t *counts = strcmp(d->name, "cpu") == 0 ? json_deep_copy(r->threads) : json_pack("[i]", 1);
    for (size_t i = 0; i < a->pattern_count; i++)
        json_array_append_new(patterns, json_string(a->pattern[i]));
    json_t *plan = json_pack("{s:s, s:o, s:I, s:o, s:i}", "device", d->name, "threads", counts,
                             "runs", (json_int_t)a->runs, "patterns", patterns, "limit",
                             ROW_LIMIT_S);
    char *request = plan ? json_dumps(plan, 0) : NULL;
    json_decref(plan);
    return request;
}

/* Of one device. What PyTorch or the driver could not do is no error: it is left in d->failed. */
static int measure_device(const struct tw_ops_asked *a, const struct tw_ops_result *r,
                          struct tw_ops_device *d, const struct tw_front *front)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct listening l = {.device = d, .front = front};
    char *request = request_of(a, r, d);
    char *python = tw_find_python(a->python);
    char *folder = program(&err);
    char *argv[] = {python, folder, request, NULL};
    bool interrupted = false;
    int status = 0, rc = 0;
    d->rows = json_array();
    if (!folder)
        rc = tw_front_trouble(front, &err, "ops");
    else if (!request || !python || !d->rows)
        rc = tw_front_trouble(front, &(struct twin_error){.code = TWIN_ENOMEM}, "ops");
    else if (tw_capture_lines(argv, SILENCE_S, front, take_line, &l, &interrupted, &status, &err) !=
             0)
        rc = tw_front_trouble(front, &err,
                              "ops: nothing was measured; name the interpreter with --python");
    else if (interrupted) {
        tw_front_say(front, "ops: interrupted; with --op and fewer --runs it takes less time");
        rc = TWIN_EINTR;
    } else if (!d->failed && (status != 0 || !d->about)) {
        tw_front_say(front, "ops: %s ended early (wait status %d): is it a Python 3.8 or later?",
                     python, status);
        rc = TWIN_EIO;
    }
    tw_front_progress(front, NULL);
    free(request);
    tw_free(python);
    tw_free(folder);
    return rc;
}

/* A driver for other programs than this PyTorch is no reason to give nothing. */
static void drop_unusable_cuda(const struct tw_ops_asked *a, struct tw_ops_result *r,
                               const struct tw_front *front)
{
    if (a->device || r->count != TW_OPS_DEVICES || r->device[0].failed || !r->device[1].failed)
        return;
    tw_front_say(front, "ops: no CUDA rows: %s", r->device[1].failed);
    r->count = 1;
}

int tw_ops_measure(const struct tw_ops_asked *a, struct tw_ops_result *r,
                   const struct tw_front *front)
{
    for (size_t i = 0; i < r->count; i++) {
        int rc = measure_device(a, r, &r->device[i], front);
        if (rc != 0)
            return rc;
    }
    drop_unusable_cuda(a, r, front);
    for (size_t i = 0; i < r->count; i++) {
        const char *failed = r->device[i].failed;
        if (!failed)
            continue;
        bool no_torch = strstr(failed, "No module named") != NULL;
        tw_front_say(front, "ops: nothing was measured: %s%s", failed,
                     no_torch ? "; name an interpreter that has PyTorch with --python" : "");
        return TWIN_EUNSUPPORTED;
    }
    return 0;
}

void tw_ops_free(struct tw_ops_result *r)
{
    for (size_t i = 0; i < TW_OPS_DEVICES; i++) {
        json_decref(r->device[i].rows);
        json_decref(r->device[i].about);
        tw_free(r->device[i].failed);
    }
    json_decref(r->threads);
    *r = (struct tw_ops_result){.count = 0};
}
