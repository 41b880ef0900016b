/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue of operations in the lab: which operations of the job's own PyTorch differ from run
 * to run here, and for which there is a deterministic way. `twinrun ops` is run as a program of its
 * own, since it needs the job's interpreter and may take it down. */
#include "lab.h"

#include "capture.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Seconds without a line after which the catalogue is given up. */
enum { SILENCE_S = 500 };

/* Keeps the last line that is a JSON object. */
static int take_object(void *user, char *line, struct twin_error *err)
{
    json_t **out = user, *j = json_loads(line, 0, NULL);
    (void)err;
    if (json_is_object(j)) {
        json_decref(*out);
        *out = json_incref(j);
    }
    json_decref(j);
    return 0;
}

/* "index_put, take backward": the operations of a device with this verdict, or whose flag does
 * this. */
static size_t name_operations(const json_t *ops, const char *verdict, const char *effect,
                              struct tw_buf *b)
{
    size_t i, n = 0;
    json_t *row;
    json_array_foreach (ops, i, row) {
        const char *v = json_string_value(json_object_get(row, "verdict"));
        const char *e = json_string_value(json_object_get(json_object_get(row, "flag"), "effect"));
        if ((verdict && (!v || strcmp(v, verdict) != 0)) ||
            (effect && (!e || strcmp(e, effect) != 0)))
            continue;
        n++;
        if (n <= 8)
            tw_buf_printf(b, "%s%s", n > 1 ? ", " : "",
                          json_string_value(json_object_get(row, "op")));
    }
    if (n > 8)
        tw_buf_printf(b, " and %zu more", n - 8);
    return n;
}

/* The lines on the operations of one device. */
static void say_device(struct tw_lab_step *s, const json_t *device)
{
    const json_t *ops = json_object_get(device, "ops");
    static const struct {
        const char *label, *verdict, *effect, *words;
    } kinds[] = {
        {"operations", "unsafe", NULL, "differ from run to run here"},
        {"slower", NULL, "slower", "have a deterministic way that is slower"},
        {"raise", NULL, "raises", "raise an error under use_deterministic_algorithms(True)"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct tw_buf b = {0};
        const size_t n = name_operations(ops, kinds[i].verdict, kinds[i].effect, &b);
        tw_lab_line(s, kinds[i].label, "%zu of %zu %s%s%s (%s)", n, json_array_size(ops),
                    kinds[i].words, n ? ": " : "", b.data ? b.data : "",
                    json_string_value(json_object_get(device, "device")));
        tw_buf_free(&b);
    }
}

/* The interpreter of a job that recorded tensors of PyTorch; NULL: it did not. */
static const char *python_of(const struct tw_lab *lab)
{
    const char *name = tw_base_name(lab->argv[0]);
    return tw_starts(name, "python") ? lab->argv[0] : NULL;
}

int tw_lab_ops(struct tw_lab *lab, struct tw_lab_step *s, struct twin_error *err)
{
    char self[PATH_MAX], runs[] = "--runs=6";
    const char *python = python_of(lab);
    json_t *found = NULL, *device;
    bool interrupted = false;
    int status = 0;
    size_t i;
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!python || n <= 0) {
        tw_lab_line(s, "operations",
                    "no catalogue: this job is no Python program, so that there is no PyTorch "
                    "whose operations could be tried (twinrun ops)");
        json_object_set_new(s->json, "operations", json_null());
        return 0;
    }
    if (tw_remote_is_on(lab->on)) {
        tw_lab_line(s, "operations",
                    "no catalogue: the runs were made elsewhere, and it tries the operations of "
                    "this machine (run twinrun ops on a node)");
        json_object_set_new(s->json, "operations", json_null());
        return 0;
    }
    self[n] = '\0';
    char *argv[] = {self, (char *)"ops",      (char *)"--json",          (char *)"--quiet",
                    runs, (char *)"--python", (char *)(uintptr_t)python, NULL};
    tw_front_progress(lab->front, "catalogue of operations: about a minute");
    int rc = tw_capture_lines(argv, SILENCE_S, lab->front, take_object, &found, &interrupted,
                              &status, err);
    tw_front_progress(lab->front, NULL);
    lab->interrupted |= interrupted;
    if (rc != 0 || interrupted) {
        json_decref(found);
        return rc;
    }
    const char *why = json_string_value(json_object_get(found, "message"));
    if (status != 0 || !json_is_array(json_object_get(found, "devices")) ||
        json_array_size(json_object_get(found, "devices")) == 0)
        tw_lab_line(s, "operations", "no catalogue: %s", why ? why : "twinrun ops did not say why");
    json_array_foreach (json_object_get(found, "devices"), i, device)
        say_device(s, device);
    json_object_set_new(s->json, "operations", found ? found : json_null());
    return 0;
}
