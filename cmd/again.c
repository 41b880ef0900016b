/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a situation again: the options that shape the runs, the variables that were set in
 * front of the command, and the input, as words for a shell. Suggestions at the end of a verdict
 * are typed by people as they stand, so a word that is missing in them gives another answer than
 * the one that was just read.
 */
#include "again.h"

#include "say.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <twin/error.h>
#include <unistd.h>

/* ---- options */

/* What shapes the runs or says where they are. How a verdict is printed, how long is searched, and
 * what is made of the result, is for the user to say anew. */
static bool shapes_runs(const char *name)
{
    static const char *const names[] = {
        "steps",       "level",       "sketch-every", "lossless",    "no-telemetry",
        "fresh-dir",   "data",        "ignore",       "tolerance",   "home",
        "b-starts-at", "resume-with", "half",         "factor-file", "on",
        "place",       "hosts",       "slots",        "ranks",       NULL,
    };
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* What a search goes on with: other candidates, or another number of runs at a time, are another
 * search. */
static bool shapes_search(const char *name)
{
    static const char *const names[] = {"pin",      "jobs",     "text", "through",
                                        "thorough", "no-clock", NULL};
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* The same option in another command's table: of the same name and type. NULL: it has none. */
static const struct tw_option *same_option(const struct tw_command *c,
                                           const struct tw_option *wanted)
{
    for (const struct tw_option *o = c->options; o->name; o++)
        if (o->type == wanted->type && strcmp(o->name, wanted->name) == 0)
            return o;
    return NULL;
}

/* " --name 'value'", quoted for a shell. */
static void add_text(struct tw_buf *b, const char *name, const char *value)
{
    char *word = (char *)value;
    char *quoted = tw_shell_quote(&word, 1);
    if (!quoted)
        b->failed = TWIN_ENOMEM;
    else
        tw_buf_printf(b, " --%s %s", name, quoted);
    tw_free(quoted);
}

/* A value that nobody gave stands as the command's run function has preset it: 0, NULL,
 * TW_NOT_GIVEN, or a level that is none. */
static void add_option(struct tw_buf *b, const struct tw_option *o, const void *args)
{
    const void *field = (const char *)args + o->offset;
    switch (o->type) {
    case TW_OPT_FLAG:
        if (*(const bool *)field)
            tw_buf_printf(b, " --%s", o->name);
        return;
    case TW_OPT_STRING:
    case TW_OPT_FILE:
    case TW_OPT_DIR: {
        const char *value = *(const char *const *)field;
        if (value)
            add_text(b, o->name, value);
        return;
    }
    case TW_OPT_COUNT: {
        uint64_t value = *(const uint64_t *)field;
        bool zero_is_a_value = strcmp(o->name, "b-starts-at") == 0;
        if (value != TW_NOT_GIVEN && (value || zero_is_a_value))
            tw_buf_printf(b, " --%s %llu", o->name, (unsigned long long)value);
        return;
    }
    case TW_OPT_LIST: {
        const struct tw_strings *list = field;
        for (size_t i = 0; i < list->count; i++)
            add_text(b, o->name, list->items[i]);
        return;
    }
    case TW_OPT_LEVEL: {
        enum twin_level level = *(const enum twin_level *)field;
        if ((int)level >= 0 && level <= TWIN_LEVEL_OPS)
            tw_buf_printf(b, " --%s %s", o->name, twin_level_name(level));
        return;
    }
    default: return; /* none of those that shape runs has such a value */
    }
}

char *tw_options_again(const struct tw_command *from, const void *args, const struct tw_command *to)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    for (const struct tw_option *o = from->options; o->name; o++)
        if ((shapes_runs(o->name) || (from == to && shapes_search(o->name))) && same_option(to, o))
            add_option(&b, o, args);
    return tw_buf_steal(&b);
}

/* ---- variables */

/* Those that decide about numbers or about us; a shell's own (PWD, SHLVL, PS1) are its business. */
static bool decides(const char *assignment, bool runs_the_job)
{
    static const char *const prefixes[] = {
        "TWINRUN_HOME=",
        "PYTHONHASHSEED=",
        "CUDA_VISIBLE_DEVICES=",
        "OMP_",
        "GOMP_",
        "KMP_",
        "MKL_",
        "OPENBLAS_",
        "BLIS_",
        "NUMEXPR",
        "ATEN_",
        "DNNL_",
        "ONEDNN_",
        "TORCH_CUDNN",
        "PYTORCH_",
        "CUBLAS_",
        "CUDNN_",
        "NCCL_",
        "TF_",
        "XLA_",
        "JAX_",
        "MALLOC_",
        "GLIBC_TUNABLES=",
        NULL,
    };
    if (!runs_the_job)
        return tw_starts(assignment, prefixes[0]);
    for (size_t i = 0; prefixes[i]; i++)
        if (tw_starts(assignment, prefixes[i]))
            return true;
    return false;
}

/*
 * Is the assignment in this block of strings, each ended by a NUL, as /proc/PID/environ has them?
 */
static bool holds(const char *block, size_t n, const char *assignment)
{
    for (const char *at = block; at < block + n; at += strlen(at) + 1)
        if (strcmp(at, assignment) == 0)
            return true;
    return false;
}

/* "NAME='value' ", to be put in front of a command. */
static void add_assignment(struct tw_buf *b, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    char *value = (char *)equals + 1;
    char *quoted = tw_shell_quote(&value, 1);
    if (!quoted)
        b->failed = TWIN_ENOMEM;
    else
        tw_buf_printf(b, "%.*s=%s ", (int)(equals - assignment), assignment, quoted);
    tw_free(quoted);
}

/* Was it a shell that started us? Another program (a test, a scheduler) sets variables for reasons
 * of its own, and nobody typed them. */
static bool started_by_a_shell(void)
{
    static const char *const shells[] = {"sh",   "bash", "dash",    "zsh", "ksh",
                                         "mksh", "fish", "busybox", NULL};
    char path[64];
    char *name = NULL;
    size_t n = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)getppid());
    if (tw_read_file(path, 64, &name, &n, NULL) != 0)
        return false;
    name[strcspn(name, "\n")] = '\0';
    for (size_t i = 0; shells[i] && !found; i++)
        found = strcmp(name, shells[i]) == 0;
    tw_free(name);
    return found;
}

/*
 * What was set in front of the command is lost with it. The shell that started us shows the
 * variables that it began with; what we have and it had not was set there, or exported since, and
 * to say that again does no harm. Where there is no shell, or it cannot be asked, nothing is said.
 */
static char *environment_again(bool runs_the_job)
{
    extern char **environ;
    struct tw_buf b = {0};
    char path[64];
    char *block = NULL;
    size_t n = 0;
    tw_buf_puts(&b, "");
    snprintf(path, sizeof path, "/proc/%d/environ", (int)getppid());
    if (started_by_a_shell() && tw_read_file(path, (size_t)4 << 20, &block, &n, NULL) == 0 && n > 0)
        for (char **e = environ; *e; e++)
            if (decides(*e, runs_the_job) && strchr(*e, '=') && !holds(block, n, *e))
                add_assignment(&b, *e);
    tw_free(block);
    return tw_buf_steal(&b);
}

/* ---- the job */

/* The file that standard input comes from; NULL when it is none that can be named again. */
static char *input_file(void)
{
    struct stat here, there;
    char path[4096];
    if (fstat(STDIN_FILENO, &here) != 0 || !S_ISREG(here.st_mode))
        return NULL;
    ssize_t n = readlink("/proc/self/fd/0", path, sizeof path - 1);
    if (n <= 0)
        return NULL;
    path[n] = '\0';
    if (stat(path, &there) != 0 || there.st_dev != here.st_dev || there.st_ino != here.st_ino)
        return NULL; /* deleted: a here-document */
    return tw_strdup(path);
}

/* "-- COMMAND", or "--a ... --b ...", with "< FILE" where the job read one. */
static char *job_again(char *const *argv, const char *const *arms)
{
    char *const a = arms ? (char *)arms[0] : NULL;
    char *const b = arms ? (char *)arms[1] : NULL;
    char *first = arms ? tw_shell_quote(&a, 1) : tw_shell_quote(argv, 0);
    char *second = arms ? tw_shell_quote(&b, 1) : NULL;
    char *input = input_file();
    char *file = input ? tw_shell_quote(&input, 1) : NULL;
    char *job = NULL;
    if (first && (second || !arms))
        job = tw_printf("%s%s%s%s%s%s", arms ? "--a " : "-- ", first, arms ? " --b " : "",
                        arms ? second : "", file ? " < " : "", file ? file : "");
    tw_free(first);
    tw_free(second);
    tw_free(input);
    tw_free(file);
    return job;
}

int tw_again_make(const struct tw_command *from, const void *args, char *const *argv,
                  const char *const *arms, struct tw_again *out)
{
    *out = (struct tw_again){
        .env = environment_again(true),
        .look = environment_again(false),
        .job = argv || arms ? job_again(argv, arms) : tw_strdup(""),
        .check = tw_options_again(from, args, &tw_command_check),
        .isolate = tw_options_again(from, args, &tw_command_isolate),
        .zoom = tw_options_again(from, args, &tw_command_zoom),
        .show = tw_options_again(from, args, &tw_command_show),
        .run = tw_options_again(from, args, &tw_command_run),
    };
    if (out->env && out->look && out->job && out->check && out->isolate && out->zoom && out->show &&
        out->run)
        return 0;
    tw_again_free(out);
    return TWIN_ENOMEM;
}

void tw_again_free(struct tw_again *again)
{
    tw_free(again->env);
    tw_free(again->look);
    tw_free(again->job);
    tw_free(again->check);
    tw_free(again->isolate);
    tw_free(again->zoom);
    tw_free(again->show);
    tw_free(again->run);
    *again = (struct tw_again){.env = NULL};
}

struct twin_report_again tw_again_words(const struct tw_again *again)
{
    return (struct twin_report_again){
        .env = again->env,
        .home = again->look,
        .job = again->job,
        .check = again->check,
        .isolate = again->isolate,
        .zoom = again->zoom,
        .show = again->show,
        .run = again->run,
    };
}
