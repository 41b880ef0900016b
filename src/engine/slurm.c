/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slurm by its own programs: sinfo says what nodes there are, sbatch takes an array for all runs
 * that may be made in one place, squeue says what has become of them, scancel takes them back.
 *
 * Slurm repeats nothing (--no-requeue): a run that it lost is ours to repeat and to count. squeue's
 * lines are read with care: what is not understood says nothing, and only a job that is missing
 * from a whole answer, twice, counts as gone. What its end was is not asked (sacct needs a
 * database): result.json says it, or is missing.
 */
#include "engine_inside.h"

#include "base.h"

#include "src/launch/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A controller that is busy may take its time. */
enum { ANSWER_S = 60, ARRAY_MAX = 500 };

/* Runs a line of shell and takes what it prints, stderr with it. 0: it ended with 0. *out is
 * malloc'ed. */
static int ask(const char *line, char **out, struct twin_error *err)
{
    char *argv[4];
    int status = 0;
    tw_shell_argv(line, argv);
    *out = NULL;
    int rc = tw_capture(argv, ANSWER_S, out, &status, err);
    if (rc == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
        size_t n = strcspn(*out, "\n");
        rc = twin_error_set(err, TWIN_EIO, "%.*s said: %.*s", (int)strcspn(line, " "), line,
                            n > 300 ? 300 : (int)n, *out);
    }
    return rc;
}

/* The next field of a line, up to a bar; *p moves behind it. False: there is none. */
static bool field(char **p, char **out)
{
    if (!*p)
        return false;
    *out = *p;
    char *bar = strchr(*p, '|');
    if (bar)
        *bar = '\0';
    *p = bar ? bar + 1 : NULL;
    return true;
}

/* ---- probe */

static bool is_up(const char *state)
{
    static const char *const bad[] = {"down", "drain", "fail", "unk", "maint", "power", "boot"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (tw_starts(state, bad[i]))
            return false;
    return strchr(state, '*') == NULL; /* it does not answer */
}

static int read_node(struct tw_engine *e, char *line, struct twin_error *err)
{
    char *name, *state, *features, *cpus, *gres, *p = line;
    if (!field(&p, &name) || !field(&p, &state) || !field(&p, &features) || !field(&p, &cpus) ||
        !field(&p, &gres) || !*name || tw_engine_node(e, name))
        return 0; /* a line for each partition that a node is in; one is enough */
    char *type = tw_printf("%s|%s|%s", features, cpus, gres);
    if (!type)
        return tw_no_memory(err, "for the nodes of Slurm");
    int rc = tw_engine_add_node(e, name, type, is_up(state), err);
    tw_free(type);
    return rc;
}

static int slurm_probe(struct tw_engine *e, struct twin_error *err)
{
    char *out = NULL, *save = NULL;
    if (!tw_in_path("sbatch") || !tw_in_path("squeue") || !tw_in_path("sinfo"))
        return twin_error_set(
            err, TWIN_EUNSUPPORTED,
            "--on slurm: no sbatch, squeue and sinfo in PATH: is this a machine of "
            "a Slurm cluster?");
    if (e->node_count && strchr(e->node[0].type, '|') == NULL)
        return twin_error_set(err, TWIN_EINVAL, "--hosts is for --on cmd: Slurm knows its nodes");
    tw_engine_forget_nodes(e);
    int rc = ask("sinfo -h -N -o '%N|%t|%f|%c|%G' 2>&1", &out, err);
    if (rc != 0) {
        tw_free(out);
        return rc;
    }
    for (char *line = strtok_r(out, "\n", &save); rc == 0 && line;
         line = strtok_r(NULL, "\n", &save))
        rc = read_node(e, line, err);
    tw_free(out);
    if (rc == 0 && !e->node_count)
        rc = twin_error_set(err, TWIN_EIO, "--on slurm: sinfo names no node");
    return rc;
}

/* ---- submit */

static size_t slurm_room(const struct tw_engine *e, const struct tw_place *place)
{
    (void)e;
    (void)place;
    return ARRAY_MAX;
}

static void add_place(struct tw_buf *b, const struct tw_place *place)
{
    const char *option = NULL;
    if (place->kind == TW_PLACE_PIN)
        option = "--nodelist";
    else if (place->kind == TW_PLACE_AVOID)
        option = "--exclude";
    else if (place->kind == TW_PLACE_TYPE)
        option = "--constraint";
    char *hosts = option ? tw_shell_word(place->hosts) : NULL;
    if (hosts)
        tw_buf_printf(b, " %s=%s", option, hosts);
    tw_free(hosts);
}

/* The job's number in what sbatch --parsable prints ("17", "17;cluster"), perhaps behind a line of
 * a site's own. "": there is none. */
static void job_number(char *out, char job[32])
{
    char *save = NULL;
    job[0] = '\0';
    for (char *line = strtok_r(out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        size_t n = strspn(line, "0123456789");
        if (n && n < 32 && (line[n] == '\0' || line[n] == ';')) {
            memcpy(job, line, n);
            job[n] = '\0';
        }
    }
}

/* Is the word this option, with or without its value ("-n", "-n4", "--nodes=2")? */
static bool is_option(const char *word, size_t n, const char *option)
{
    size_t length = strlen(option);
    if (n < length || memcmp(word, option, length) != 0)
        return false;
    return option[1] != '-' || n == length || word[length] == '=';
}

/* A node list of one node, for a job that spans several, would name the one that the others are
 * added to; and what the user chose is not ours to choose otherwise. */
static int slurm_can_pin(const struct tw_engine *e, struct twin_error *err)
{
    static const char *const several[] = {
        "-n",         "--ntasks", "-N",         "--nodes",          "-w", "-x", "--exclude",
        "--nodelist", "-F",       "--nodefile", "--ntasks-per-node"};
    for (const char *p = e->words; *p;) {
        size_t n = strcspn(p, " ");
        for (size_t i = 0; i < sizeof several / sizeof several[0]; i++)
            if (is_option(p, n, several[i]))
                return twin_error_set(err, TWIN_EUNSUPPORTED,
                                      "the options of sbatch have %.*s: they choose nodes, or may "
                                      "take several for one run",
                                      (int)n, p);
        p += n + (p[n] == ' ');
    }
    return 0;
}

/* sbatch says it without submitting anything: of another partition, too small, without the device
 * that is asked for. */
static bool slurm_takes_node(const struct tw_engine *e, const char *node)
{
    const struct tw_place place = {.kind = TW_PLACE_PIN, .hosts = (char *)(uintptr_t)node};
    struct tw_buf b = {0};
    char *out = NULL;
    tw_buf_puts(&b, "sbatch --test-only");
    tw_engine_add_words(&b, e->words);
    add_place(&b, &place);
    tw_buf_puts(&b, " --wrap=true 2>&1");
    char *line = tw_buf_steal(&b);
    bool takes = line && ask(line, &out, NULL) == 0;
    tw_free(line);
    tw_free(out);
    return takes;
}

/* One script for the array: each task finds its ticket by its number. */
static int write_script(const char *batch, char **path, struct twin_error *err)
{
    char *program = tw_engine_program(err), *folder = tw_shell_word(batch);
    char *text = program && folder
                     ? tw_printf("#!/bin/sh\nexec %s --node-run %s/\"$SLURM_ARRAY_TASK_ID\"\n",
                                 program, folder)
                     : NULL;
    *path = tw_path_join(batch, "run.sh");
    int rc = text && *path ? tw_engine_write_script(*path, text, err)
                           : tw_no_memory(err, "for a script");
    tw_free(program);
    tw_free(folder);
    tw_free(text);
    return rc;
}

/* The user's words come first, so that ours about repeating win. */
static char *submit_line(const struct tw_engine *e, const char *batch, const char *script,
                         const struct tw_place *place, size_t n)
{
    struct tw_buf b = {0};
    char *folder = tw_shell_word(batch), *file = tw_shell_word(script);
    tw_buf_puts(&b, "sbatch --job-name=twinrun");
    tw_engine_add_words(&b, e->words);
    add_place(&b, place);
    if (folder && file)
        tw_buf_printf(&b,
                      " --parsable --no-requeue --export=ALL --array=0-%zu --chdir=%s "
                      "--output=%s/%%a/log --open-mode=append %s 2>&1",
                      n - 1, folder, folder, file);
    bool failed = !folder || !file;
    tw_free(folder);
    tw_free(file);
    if (failed) {
        tw_buf_free(&b);
        return NULL;
    }
    return tw_buf_steal(&b);
}

static int slurm_submit(struct tw_engine *e, const char *batch, struct tw_ticket *const *ticket,
                        size_t n, struct twin_error *err)
{
    char *script = NULL, *out = NULL, *line = NULL, job[32] = "";
    int rc = write_script(batch, &script, err);
    if (rc == 0 && !(line = submit_line(e, batch, script, &ticket[0]->place, n)))
        rc = tw_no_memory(err, "for a command");
    if (rc == 0)
        rc = ask(line, &out, err);
    if (rc == 0)
        job_number(out, job);
    if (rc == 0 && !*job)
        rc = twin_error_set(err, TWIN_EIO, "sbatch printed no number of a job");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        snprintf(ticket[i]->job, sizeof ticket[i]->job, "%s_%zu", job, i);
        ticket[i]->state = TW_JOB_QUEUED;
        ticket[i]->missed = 0;
    }
    tw_free(script);
    tw_free(out);
    tw_free(line);
    return rc;
}

/* ---- poll */

static struct tw_ticket *ticket_of(struct tw_ticket *const *ticket, size_t n, const char *job)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(ticket[i]->job, job) == 0)
            return ticket[i];
    return NULL;
}

/* "COMPLETED" and its like may be shown for a while after the end; then the job is gone. */
static bool is_an_end(const char *state)
{
    static const char *const ends[] = {"COMPLETED",     "CANCELLED", "FAILED",      "TIMEOUT",
                                       "NODE_FAIL",     "PREEMPTED", "BOOT_FAIL",   "DEADLINE",
                                       "OUT_OF_MEMORY", "REVOKED",   "SPECIAL_EXIT"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (strcmp(state, ends[i]) == 0)
            return true;
    return false;
}

static void read_job(struct tw_ticket *const *ticket, size_t n, char *line)
{
    char *array, *task, *state, *node, *why, *p = line, job[80];
    if (!field(&p, &array) || !field(&p, &task) || !field(&p, &state) || !field(&p, &node) ||
        !field(&p, &why))
        return;
    snprintf(job, sizeof job, "%.30s_%.30s", array, task);
    struct tw_ticket *t = ticket_of(ticket, n, job);
    if (!t)
        return;
    snprintf(t->why, sizeof t->why, "%s%s%s", state, *why && strcmp(why, "None") != 0 ? ", " : "",
             strcmp(why, "None") != 0 ? why : "");
    if (*node)
        snprintf(t->node, sizeof t->node, "%s", node);
    if (is_an_end(state))
        return; /* as if it were missing */
    t->missed = 0;
    t->state = strcmp(state, "PENDING") == 0 ? TW_JOB_QUEUED : TW_JOB_RUNNING;
}

static void slurm_poll(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n)
{
    enum { MISSED_TWICE = 2 };
    char *out = NULL, *save = NULL;
    char *line = tw_printf("squeue -h -r -u %u -o '%%F|%%K|%%T|%%N|%%r' 2>&1", (unsigned)getuid());
    (void)e;
    int rc = line ? ask(line, &out, NULL) : TWIN_ENOMEM;
    tw_free(line);
    if (rc != 0) { /* the controller may be away for a while: nothing is known */
        for (size_t i = 0; i < n; i++)
            if (ticket[i]->state != TW_JOB_GONE)
                snprintf(ticket[i]->why, sizeof ticket[i]->why, "squeue does not answer");
        tw_free(out);
        return;
    }
    for (size_t i = 0; i < n; i++)
        ticket[i]->missed++;
    for (char *l = strtok_r(out, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
        read_job(ticket, n, l);
    for (size_t i = 0; i < n; i++)
        if (ticket[i]->missed >= MISSED_TWICE)
            ticket[i]->state = TW_JOB_GONE;
    tw_free(out);
}

/* ---- cancel */

static void slurm_cancel(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n)
{
    enum { AT_ONCE = 200 };
    (void)e;
    for (size_t from = 0; from < n; from += AT_ONCE) {
        struct tw_buf b = {0};
        char *out = NULL, *line;
        tw_buf_puts(&b, "scancel");
        for (size_t i = from; i < n && i < from + AT_ONCE; i++)
            if (ticket[i]->job[0])
                tw_buf_printf(&b, " %s", ticket[i]->job);
        tw_buf_puts(&b, " 2>&1");
        line = tw_buf_steal(&b);
        if (line)
            ask(line, &out, NULL);
        tw_free(line);
        tw_free(out);
    }
}

static void slurm_release(struct tw_engine *e, struct tw_ticket *t)
{
    (void)e;
    (void)t;
}

const struct tw_engine_kind tw_engine_slurm = {.name = "slurm",
                                               .poll_s = 2,
                                               .grace_s = 30,
                                               .probe = slurm_probe,
                                               .can_pin = slurm_can_pin,
                                               .takes_node = slurm_takes_node,
                                               .room = slurm_room,
                                               .submit = slurm_submit,
                                               .poll = slurm_poll,
                                               .cancel = slurm_cancel,
                                               .release = slurm_release};
