/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of the lab as a whole: which there are and which are wanted, the folder that they leave
 * their results in, and the command that shows a step again. */
#include "lab.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- which */

static const struct {
    const char *id, *title, *question;
    int (*make)(struct tw_lab *, struct tw_lab_step *, struct twin_error *);
} steps[TW_LAB_STEPS] = {
    [TW_LAB_STEP_NOISE] = {"noise", "NOISE FLOOR",
                           "The same seed, the same command: how far apart do two runs end?",
                           tw_lab_noise},
    [TW_LAB_STEP_PINS] =
        {"determinism", "DETERMINISM ON",
         "The same command, all held still that can be: are same-seed runs equal now?",
         tw_lab_pins},
    [TW_LAB_STEP_COST] =
        {"cost", "COST AND CATALOGUE",
         "What does it cost, which switch costs it, and which operations wander here?",
         tw_lab_cost},
    [TW_LAB_STEP_CONFIG] =
        {"config", "CONTENT-ADDRESSED RUN",
         "Is the configuration one number, and what is known of the run besides?", tw_lab_config},
};

/* The step of this name, of n bytes; TW_LAB_STEPS: none. */
static size_t step_named(const char *name, size_t n)
{
    size_t i = 0;
    while (i < TW_LAB_STEPS && (strlen(steps[i].id) != n || strncmp(steps[i].id, name, n) != 0))
        i++;
    return i;
}

int tw_lab_choose_steps(struct tw_lab *lab, struct twin_error *err)
{
    const bool all = strcmp(lab->args.steps, "all") == 0;
    for (size_t i = 0; i < TW_LAB_STEPS; i++) {
        lab->step[i].id = steps[i].id;
        lab->step[i].title = steps[i].title;
        lab->step[i].question = steps[i].question;
        lab->step[i].wanted = all;
    }
    for (const char *at = lab->args.steps; !all; at++) {
        const size_t n = strcspn(at, ",");
        const size_t i = step_named(at, n);
        if (i == TW_LAB_STEPS)
            return twin_error_set(
                err, TWIN_EINVAL,
                "--step: expected all, or some of noise, determinism, cost, config "
                "with commas between them, found \"%s\"",
                lab->args.steps);
        lab->step[i].wanted = true;
        at += n;
        if (!*at)
            break;
    }
    return 0;
}

/* ---- where */

/* <home>/labs/1, 2, 3, ...: the next one that is not there. As short as a name can be: it stands in
 * the command. */
char *tw_lab_new_folder(const char *home, struct twin_error *err)
{
    char *all = tw_path_join(home, "labs");
    int rc = all ? twin_home_make(home, err) : twin_error_set(err, TWIN_ENOMEM, "no memory");
    rc = rc ? rc : tw_mkdirs(all, err);
    char *folder = NULL;
    for (unsigned i = 1; rc == 0 && !folder; i++) {
        char *path = tw_printf("%s/%u", all, i);
        if (path && mkdir(path, 0777) == 0)
            folder = path;
        else if (!path || errno != EEXIST)
            rc = path ? twin_error_system(err, "%s", path)
                      : twin_error_set(err, TWIN_ENOMEM, "no memory");
        if (folder != path)
            tw_free(path);
    }
    tw_free(all);
    return folder;
}

/* ---- one step */

/* What a person types to see the same: the step left its own options in s->command. */
static void complete_command(const struct tw_lab *lab, struct tw_lab_step *s,
                             enum tw_lab_which which)
{
    char *job = tw_shell_quote(lab->argv, 0), *made = NULL;
    const char *file = lab->factor_file;
    if (which == TW_LAB_STEP_NOISE)
        made = tw_printf("twinrun check --runs %llu -- %s", (unsigned long long)lab->args.runs,
                         job ? job : "");
    else if (which == TW_LAB_STEP_CONFIG && s->command && *s->command)
        made = tw_printf("twinrun digest --config %s", s->command);
    else if (which == TW_LAB_STEP_CONFIG)
        made = tw_printf("twinrun digest --argv -- %s", job ? job : "");
    else
        made = tw_printf("twinrun run %s%s%s -- %s", s->command ? s->command : "--pin all",
                         file ? " --factor-file " : "", file ? file : "", job ? job : "");
    tw_free(s->command);
    s->command = made;
    tw_free(job);
}

int tw_lab_make_step(struct tw_lab *lab, enum tw_lab_which which, struct twin_error *err)
{
    assert((unsigned)which < TW_LAB_STEPS);
    struct tw_lab_step *s = &lab->step[which];
    int rc = steps[which].make(lab, s, err);
    if (rc != 0 && rc != TWIN_EINTR) /* that a run did not begin: lab->interrupted says so */
        return rc;
    complete_command(lab, s, which);
    lab->interrupted |= tw_front_stops(lab->front);
    if (lab->interrupted)
        tw_lab_decide(s, TW_LAB_NOT_DONE, "interrupted after %llu runs in all: too early to say",
                      (unsigned long long)lab->made);
    return 0;
}

void tw_lab_fini(struct tw_lab *lab)
{
    for (size_t i = 0; i < TW_LAB_STEPS; i++)
        tw_lab_step_free(&lab->step[i]);
    if (lab->spool)
        unlink(lab->spool);
    for (size_t i = 0; i < lab->argc && lab->argv; i++)
        tw_free(lab->argv[i]);
    tw_free(lab->argv);
    tw_lab_world_free(&lab->natural);
    twin_factors_free(&lab->factors);
    tw_given_end(&lab->given);
    tw_free(lab->timed_node);
    tw_free(lab->spool);
    tw_free(lab->weights);
    tw_free(lab->factor_file);
    tw_free(lab->pins);
    tw_free(lab->first);
    tw_free(lab->configuration);
    tw_free(lab->folder);
    tw_free(lab->home);
}
