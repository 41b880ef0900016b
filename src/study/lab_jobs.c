/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two jobs that come with twinrun and are known to wander: a trainer in C, and a small example
 * in PyTorch. The lab runs one of them when it is given no command; each is written out as a person
 * would type it, so that every step can be repeated by hand.
 */
#include "capture.h"
#include "lab.h"

#include "src/snapshot/snapshot.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

/* What is said of a job, and why it wanders: the lab is to teach what to look for. */
struct own_job {
    const char *program, *weights, *name, *wanders, *what;
};

static const struct own_job in_c = {
    .program = "trainer",
    .weights = "model.safetensors",
    .name = "the trainer in C (workloads/trainer.c)",
    .wanders = "four threads add their gradients in the order in which they finish, and float "
               "addition is not associative",
    .what = "the trainer in C",
};
static const struct own_job in_torch = {
    .program = "cnn.py",
    .weights = "model.pt",
    .name = "a small PyTorch CNN (workloads/cnn.py)",
    .wanders = "a table's gradient is a sum over many duplicate indices, which two threads add in "
               "the order in which they come",
    .what = "the PyTorch example (cnn.py)",
};

int tw_lab_copy_words(struct tw_lab *lab, const char *const *words, struct twin_error *err)
{
    assert(!lab->argv);
    size_t count = 0;
    while (words[count])
        count++;
    lab->argv = tw_calloc(count + 1, sizeof *lab->argv);
    lab->argc = lab->argv ? count : 0;
    for (size_t i = 0; i < lab->argc; i++)
        if (!(lab->argv[i] = tw_strdup(words[i])))
            return tw_no_memory(err, "for the command of the lab");
    return lab->argv ? 0 : tw_no_memory(err, "for the command of the lab");
}

/* The jobs' data: beside them in the build folder and the wheel, else where they were installed.
 * malloc'ed; NULL: not there. */
static char *data_of(const char *workloads)
{
    static const char *const places[] = {"data", "../../share/twinrun/data"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *path = tw_path_join(workloads, places[i]);
        if (path && access(path, R_OK) == 0)
            return path;
        tw_free(path);
    }
    return NULL;
}

/* As short as a run can be that still wanders: 200 steps in C take seconds. */
static int trainer_words(struct tw_lab *lab, const char *program, struct twin_error *err)
{
    const char *const words[] = {program,        "--seed",     "1",   "--steps",
                                 "200",          "--lr",       "0.3", "--quiet",
                                 "--checkpoint", lab->weights, NULL};
    return tw_lab_copy_words(lab, words, err);
}

static int torch_words(struct tw_lab *lab, const char *python, const char *program,
                       const char *data, struct twin_error *err)
{
    const char *const words[] = {python,
                                 program,
                                 "--steps",
                                 "80",
                                 "--lr",
                                 "0.005",
                                 "--data",
                                 data,
                                 "--checkpoint",
                                 lab->weights,
                                 lab->args.device ? "--device" : NULL,
                                 lab->args.device,
                                 NULL};
    return tw_lab_copy_words(lab, words, err);
}

/* Everything that the job needs is there, or the message says what is not. */
static int look_for_parts(const struct own_job *job, const char *python, const char *program,
                          const char *data, struct twin_error *err)
{
    if (python && !tw_python_packages(python).torch)
        return twin_error_set(
            err, TWIN_ENOENT,
            "expected a Python with PyTorch, found none in %s; name one (--python PROGRAM), or run "
            "the lab on the trainer in C: twinrun lab",
            python);
    if (!program || !data || access(program, R_OK) != 0)
        return twin_error_set(err, TWIN_ENOENT,
                              "%s was not found; install twinrun again, or give a command of "
                              "yours: twinrun lab -- python train.py",
                              job->what);
    return 0;
}

int tw_lab_own_job(struct tw_lab *lab, const char *workloads, char **data, struct twin_error *err)
{
    const bool torch = lab->args.torch;
    const struct own_job *job = torch ? &in_torch : &in_c;
    char *program = workloads ? tw_path_join(workloads, job->program) : NULL;
    char *python = torch ? tw_find_python(lab->args.python) : NULL;
    *data = workloads ? data_of(workloads) : NULL;
    lab->name = job->name;
    lab->wanders = job->wanders;
    int rc = look_for_parts(job, python, program, *data, err);
    if (rc == 0 && !(lab->weights = tw_path_join(lab->folder, job->weights)))
        rc = tw_no_memory(err, "for the job of the lab");
    if (rc == 0)
        rc = torch ? torch_words(lab, python, program, *data, err)
                   : trainer_words(lab, program, err);
    /* The trainer in C has switches of its own, which a factor file describes. */
    if (rc == 0 && !torch && !lab->args.factor_file &&
        !(lab->factor_file = tw_path_join(workloads, "lab.toml")))
        rc = tw_no_memory(err, "for the job of the lab");
    tw_free(program);
    tw_free(python);
    return rc;
}

int tw_lab_weigh_data(const struct tw_lab *lab, const char *data, char **given,
                      struct twin_error *err)
{
    struct twin_snapshot s;
    const struct twin_snapshot_options o = {.exclude = NULL};
    char *manifest = tw_path_join(lab->folder, "data.snapshot");
    *given = manifest ? tw_printf("%s=%s", data, manifest) : NULL;
    int rc = *given ? twin_snapshot_take(data, &o, &s, err)
                    : tw_no_memory(err, "for the data of the lab");
    if (rc == 0) {
        rc = twin_snapshot_write(&s, manifest, err);
        twin_snapshot_free(&s);
    }
    tw_free(manifest);
    return rc;
}
