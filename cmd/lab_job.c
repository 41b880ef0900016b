/* SPDX-License-Identifier: Apache-2.0 */
/* What the lab runs: the user's command, or one of the two jobs that come with twinrun. */
#include "lab_job.h"

#include "capture.h"
#include "say.h"

#include "src/snapshot/snapshot.h"

#include <string.h>
#include <unistd.h>

static char **copy_words(const char *const *words, size_t *count)
{
    *count = 0;
    while (words[*count])
        ++*count;
    char **out = tw_calloc(*count + 1, sizeof *out);
    for (size_t i = 0; out && i < *count; i++)
        out[i] = tw_strdup(words[i]);
    return out;
}

static int missing(const char *what)
{
    tw_say("lab: %s was not found; install twinrun again, or give a command of yours: twinrun lab "
           "-- python train.py",
           what);
    return TW_EXIT_TROUBLE;
}

/* Their data: beside them in the build folder and the wheel, else where they were installed.
 * malloc'ed; NULL: not there. */
static char *data_of(const char *folder)
{
    static const char *const places[] = {"data", "../../share/twinrun/data"};
    for (size_t i = 0; i < 2; i++) {
        char *path = tw_path_join(folder, places[i]);
        if (path && access(path, R_OK) == 0)
            return path;
        tw_free(path);
    }
    return NULL;
}

/*
 * The example's data are weighed now, so that each run says which they were. -1, or the exit code.
 */
static int weigh_data(struct tw_lab *lab, const char *data)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_snapshot s;
    const struct twin_snapshot_options o = {.exclude = NULL};
    char *manifest = tw_path_join(lab->folder, "data.snapshot");
    char *given = manifest ? tw_printf("%s=%s", data, manifest) : NULL;
    int rc = given ? twin_snapshot_take(data, &o, &s, &err)
                   : twin_error_set(&err, TWIN_ENOMEM, "no memory");
    if (rc == 0) {
        rc = twin_snapshot_write(&s, manifest, &err);
        twin_snapshot_free(&s);
    }
    const char *const list[] = {given, NULL};
    const struct tw_strings strings = {(const char **)(uintptr_t)list, 1};
    rc = rc ? tw_trouble(&err, "lab: the data of the example")
            : tw_data_verify("lab", &strings, true, &lab->data);
    tw_free(manifest);
    tw_free(given);
    return rc;
}

/* One of the two jobs that come with twinrun, as a person would type it. -1, or the exit code. */
static int embedded(struct tw_lab *lab)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_parts parts;
    if (twin_parts_find(&parts, &err) != 0)
        return tw_trouble(&err, "lab");
    const char *folder = parts.workloads_dir;
    const char *name = lab->args.torch ? "cnn.py" : "trainer";
    char *program = folder ? tw_path_join(folder, name) : NULL;
    char *python = lab->args.torch ? tw_find_python(lab->args.python) : NULL;
    char *data = folder ? data_of(folder) : NULL;
    char *weights = tw_path_join(lab->folder, lab->args.torch ? "model.pt" : "model.safetensors");
    const char *const c[] = {program,   "--seed",       "1",     "--steps", "200", "--lr", "0.3",
                             "--quiet", "--checkpoint", weights, NULL};
    const char *const torch[] = {python,
                                 program,
                                 "--steps",
                                 "80",
                                 "--lr",
                                 "0.005",
                                 "--data",
                                 data,
                                 "--checkpoint",
                                 weights,
                                 lab->args.device ? "--device" : NULL,
                                 lab->args.device,
                                 NULL};
    int rc = -1;
    if (python && !tw_python_packages(python).torch) {
        tw_say("lab: expected a Python with PyTorch, found none in %s; name one (--python "
               "PROGRAM), or run the lab on the trainer in C: twinrun lab",
               python);
        rc = TW_EXIT_TROUBLE;
    } else if (!program || !data || access(program, R_OK) != 0) {
        rc = missing(lab->args.torch ? "the PyTorch example (cnn.py)" : "the trainer in C");
    } else {
        lab->argv = copy_words(lab->args.torch ? torch : c, &lab->argc);
        lab->weights = tw_strdup(weights);
        if (!lab->args.torch && !lab->args.factor_file)
            lab->factor_file = tw_path_join(folder, "lab.toml");
        rc = lab->argv && lab->weights ? weigh_data(lab, data) : tw_trouble(NULL, "lab: no memory");
    }
    lab->name = lab->args.torch ? "a small PyTorch CNN (workloads/cnn.py)"
                                : "the trainer in C (workloads/trainer.c)";
    lab->wanders = lab->args.torch ? "a table's gradient is a sum over many duplicate indices, "
                                     "which two threads add in the order in which they come"
                                   : "four threads add their gradients in the order in which they "
                                     "finish, and float addition is not associative";
    tw_free(weights);
    tw_free(data);
    tw_free(program);
    tw_free(python);
    twin_parts_free(&parts);
    return rc;
}

int tw_lab_choose_job(struct tw_lab *lab, const struct tw_operands *job)
{
    if (lab->args.device && !lab->args.torch)
        return tw_bad_use("lab", "--device goes with --torch: a command of yours chooses its own");
    if (!job->count)
        return embedded(lab);
    if (lab->args.torch)
        return tw_bad_use("lab", "expected either --torch or -- COMMAND, found both");
    lab->argv = copy_words((const char *const *)job->items, &lab->argc);
    lab->name = "a job of yours";
    lab->weights = lab->args.weights ? tw_strdup(lab->args.weights) : NULL;
    return lab->argv ? tw_data_verify("lab", &lab->args.data, lab->args.quiet, &lab->data)
                     : tw_trouble(NULL, "lab: no memory");
}
