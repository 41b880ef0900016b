/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to try next after a verdict, as commands that can be pasted. text.c and verdict_page.c show
 * them.
 *
 * The caller says in struct twin_report what is possible (can_zoom, can_isolate) and which options
 * make the situation again (again); this file chooses among commands and writes them. Commands are
 * never cut short, because a cut command would do something else.
 */
#include "wording.h"

#include <stdio.h>
#include <string.h>

/* A run as the commands accept it: the first 8 digits of its id, "last" when the id is not known.
 */
static const char *run_name(const struct twin_report *r, size_t index, char out[16])
{
    snprintf(out, 16, "%.8s",
             index < r->run_count && r->runs[index]->id ? r->runs[index]->id : "last");
    return out;
}

/* A run that shares no class with run 0. Against a baseline there is one run: index 0. */
size_t twin_report_other(const struct twin_verdict *v)
{
    if (v->against)
        return 0;
    for (size_t r = 1; r < v->runs; r++) {
        bool with_reference = false;
        for (size_t i = 0; i < v->class_count; i++) {
            bool has_0 = false, has_r = false;
            for (size_t k = 0; k < v->classes[i].members; k++) {
                has_0 |= v->classes[i].runs[k] == 0;
                has_r |= v->classes[i].runs[k] == r;
            }
            with_reference |= has_0 && has_r;
        }
        if (!with_reference)
            return r;
    }
    return 1;
}

static const char *or_nothing(const char *s)
{
    return s ? s : "";
}

/* Begins a suggestion: the variables that must be set in front of the command, and the verb. Counts
 * it in *count and returns the buffer that takes the rest. n has room for TW_NEXT_MAX, which no
 * path through tw_report_next exceeds. */
static struct tw_buf *add_behind(const char *variables, struct tw_next *n, size_t *count,
                                 const char *verb, const char *why)
{
    struct tw_buf *b = &n[*count].command;
    n[(*count)++] = (struct tw_next){.why = why};
    tw_say_safe(b, or_nothing(variables), 0);
    tw_buf_printf(b, "twinrun %s", verb);
    return b;
}

/* The same for a command that runs the job, in the job's environment. */
static struct tw_buf *add_command(struct tw_next *n, size_t *count, const struct twin_report *r,
                                  const char *verb, const char *why)
{
    return add_behind(r->again.env, n, count, verb, why);
}

static void add_options(struct tw_buf *b, const char *options)
{
    tw_say_safe(b, or_nothing(options), 0);
}

/* Appends the job itself, as the caller wrote it or behind "--". It is said whole, however long: a
 * command that was cut short could not be pasted. */
static void add_job(struct tw_buf *b, const struct twin_report *r)
{
    tw_buf_puts(b, r->again.job ? " " : " -- ");
    tw_say_safe(b, r->again.job ? r->again.job : r->command, 0);
}

static bool has_job(const struct twin_report *r)
{
    return r->command || (r->again.job && r->again.job[0]);
}

/* Suggests to look at a run; at the step of the first difference when that is a record. */
static void suggest_show(const struct twin_report *r, struct tw_next *n, size_t *count, size_t run,
                         const char *why)
{
    char name[16];
    struct tw_buf *b = add_behind(r->again.home, n, count, "show", why);
    tw_buf_printf(b, " %s", run_name(r, run, name));
    add_options(b, r->again.show);
    if (r->verdict->first && tw_is_record(r->verdict->first))
        tw_buf_printf(b, " --step %u", r->verdict->first->step_b);
}

/* Suggests to run the steps around the difference again, operation by operation. Runs that are
 * still in their place are named and run again as they were; those in scratch copies are used up,
 * so the job and the window of steps are said instead. */
static void suggest_zoom(const struct twin_report *r, struct tw_next *n, size_t *count)
{
    uint32_t step = r->verdict->first->step_a;
    char a[16], b[16];
    struct tw_buf *command = add_command(n, count, r, "zoom", "name the operation");
    if (r->again.scratch)
        tw_buf_printf(command, " --window %u:%u", step ? step - 1 : 0, step);
    else
        tw_buf_printf(command, " %s %s", run_name(r, 0, a),
                      run_name(r, twin_report_other(r->verdict), b));
    add_options(command, r->again.zoom);
    if (r->again.scratch)
        add_job(command, r);
}

/* A difference in a record: look at the step, then find the operation, or else how often it
 * happens. */
static void about_a_record(const struct twin_report *r, struct tw_next *n, size_t *count)
{
    const struct twin_verdict *v = r->verdict;
    suggest_show(r, n, count, twin_report_other(v), "every record of that step");
    /* two arms are two commands, and zooming into a window of steps runs one */
    bool zooms = r->can_zoom && r->run_count > 1 && !(r->again.scratch && !r->command);
    if (zooms) {
        suggest_zoom(r, n, count);
    } else if (v->shift && has_job(r) && !r->can_isolate && r->repeats) {
        /* a resumed job: the verdict names what it lost, so mending comes before searching */
        struct tw_buf *b = add_command(n, count, r, "check",
                                       "again, once that is saved and restored");
        add_options(b, r->again.check);
        add_job(b, r);
    } else if (has_job(r) && v->runs < 10 && !r->can_isolate && !r->repeats && !r->shares_files &&
               !v->against) {
        struct tw_buf *b = add_command(n, count, r, "check --all --runs 10", "how often?");
        add_options(b, r->again.check);
        add_job(b, r);
    }
}

/* ---- a job of which too little was seen */

/* What the programs of a job are, as far as it decides how it can be made to record more. */
enum programs { NOTHING_KNOWN, PYTHON, NATIVE };

/* The last part of the program's path: "/usr/bin/python3 train.py" gives "python3". */
static const char *program_of(const struct twin_run_process *p, char out[64])
{
    const char *argv = p->argv ? p->argv : "";
    size_t n = strcspn(argv, " ");
    size_t start = n;
    while (start > 0 && argv[start - 1] != '/')
        start--;
    snprintf(out, 64, "%.*s", (int)(n - start), argv + start);
    return out;
}

/* Is the program one that the user may change? One that was found in PATH or lies below /usr or
 * /bin is most likely the system's (seq, awk). */
static bool is_the_users(const struct twin_run_process *p)
{
    const char *argv = p->argv ? p->argv : "";
    bool path = memchr(argv, '/', strcspn(argv, " ")) != NULL;
    return path && strncmp(argv, "/usr/", 5) != 0 && strncmp(argv, "/bin/", 5) != 0;
}

/* Is this a program that only starts others, and computes nothing of the job itself? */
static bool is_launcher(const char *program)
{
    static const char *const names[] = {"sh",      "bash", "dash",    "zsh",  "env",
                                        "timeout", "nice", "taskset", "time", "mpiexec",
                                        "mpirun",  "srun", "xargs",   NULL};
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], program) == 0)
            return true;
    return false;
}

/* What kind of program does the job's work. Python anywhere wins; otherwise a program of the user's
 * that twinrun's agent was in (armed). */
static enum programs programs_of(const struct twin_run *run)
{
    enum programs found = NOTHING_KNOWN;
    char name[64];
    for (size_t i = 0; i < run->process_count; i++) {
        const char *program = program_of(&run->processes[i], name);
        if (strncmp(program, "python", strlen("python")) == 0)
            return PYTHON;
        if (run->processes[i].armed && is_the_users(&run->processes[i]) && !is_launcher(program))
            found = NATIVE;
    }
    return found;
}

/* Is what was unseen something that no hook saw, so that only the job itself can show it? Known by
 * how the sentences of `unseen` begin, which src/compare writes; that of functions is the Python
 * agent's, behind the run's name. */
static bool lacks_records(const struct twin_verdict *v)
{
    static const char *const beginnings[] = {"what the job computes:", "batches or inputs",
                                             "weights, gradients", NULL};
    for (size_t i = 0; i < v->unseen_count; i++) {
        if (strstr(v->unseen[i], ": what functions of "))
            return true;
        for (size_t k = 0; beginnings[k]; k++)
            if (strncmp(v->unseen[i], beginnings[k], strlen(beginnings[k])) == 0)
                return true;
    }
    return false;
}

/* A line of Python for the job. A job that records already is told only what is missing. */
static void show_from_python(const struct twin_verdict *v, struct tw_next *next)
{
    bool only_inputs = v->records_compared > 0;
    for (size_t i = 0; i < v->unseen_count; i++)
        only_inputs &= strncmp(v->unseen[i], "batches or inputs", strlen("batches or inputs")) == 0;
    if (only_inputs) {
        tw_buf_puts(&next->command, "twinrun.record(\"batch:x\", array)");
        next->why = "in the job, in each step, so that what it is fed is seen";
        return;
    }
    tw_buf_puts(&next->command,
                "import twinrun; twinrun.record(\"weights\", array); twinrun.step()");
    next->why = "in the job, in each step, so that what it computes is seen";
}

/* Known by the sentence of src/compare about CUDA graphs. */
static bool replays_a_graph(const struct twin_verdict *v)
{
    for (size_t i = 0; i < v->unseen_count; i++)
        if (strstr(v->unseen[i], " captured a CUDA graph"))
            return true;
    return false;
}

/* After INCONCLUSIVE: how more can be seen. The first reason that holds is the only one
 * suggested. */
static void show_more(const struct twin_report *r, struct tw_next *n, size_t *count)
{
    /* a CUDA graph comes before all else: twinrun cannot take it out of the job, and doctor finds
     * nothing wrong with it */
    if (replays_a_graph(r->verdict)) {
        struct tw_next *next = &n[(*count)++];
        *next = (struct tw_next){.why = "what a replay computes is not seen"};
        tw_buf_puts(&next->command, "check the job without its CUDA graph");
        return;
    }
    if (r->run_count == 0 || r->runs[0]->torch) {
        add_behind(NULL, n, count, "doctor", "what can be seen here, and why not more");
        return;
    }
    if (!lacks_records(r->verdict))
        return;
    struct tw_next *next = &n[(*count)++];
    *next = (struct tw_next){.why = "to see what the job computes"};
    switch (programs_of(r->runs[0])) {
    case PYTHON: show_from_python(r->verdict, next); break;
    case NATIVE:
        tw_buf_puts(&next->command, "twin_record(...) and twin_step() of <twin/twin.h>");
        break;
    case NOTHING_KNOWN:
        tw_buf_puts(&next->command, "twinrun.record (Python) or twin_record of <twin/twin.h> (C)");
        next->why = "in the programs that it starts";
        break;
    }
}

/* The difference may be meant: then the job has a new baseline. */
static void save_baseline(const struct twin_report *r, struct tw_next *n, size_t *count)
{
    struct tw_buf *b = add_command(n, count, r, "check --save-baseline ", "if the change is meant");
    tw_say_safe(b, r->verdict->against->path, 0);
    add_options(b, r->again.check);
    add_job(b, r);
}

/* A proof: the pins for good. Runs that differ under them have another cause beside those that were
 * named; pins that took no effect were found for another job than this one is now. */
static void about_pins(const struct twin_report *r, struct tw_next *n, size_t *count)
{
    const struct twin_verdict *v = r->verdict;
    const bool same = v->outcome == TWIN_SAME || v->outcome == TWIN_WITHIN_TOLERANCE;
    struct tw_buf *b;
    if (v->outcome == TWIN_DIFFER || v->outcome == TWIN_FAILED)
        suggest_show(r, n, count, v->outcome == TWIN_FAILED ? 0 : twin_report_other(v),
                     "how it ended, what it printed, its processes");
    if (!has_job(r) || (!same && v->pinned->held && v->outcome != TWIN_DIFFER))
        return;
    if (same) {
        b = add_command(n, count, r, "run --pin ", "to train like this from now on");
        tw_say_safe(b, v->pinned->factors, 0);
        add_options(b, r->again.run);
    } else if (v->pinned->held) {
        b = add_command(n, count, r, "isolate --resume --thorough", "is there another cause?");
        add_options(b, r->again.isolate);
    } else {
        b = add_command(n, count, r, "isolate", "which pin holds the job as it is now?");
        add_options(b, r->again.isolate);
    }
    add_job(b, r);
}

/* First what to look at, then what to try, then the search for the cause. SAME suggests nothing but
 * of pins. */
size_t tw_report_next(const struct twin_report *r, struct tw_next *n)
{
    const struct twin_verdict *v = r->verdict;
    bool differs = v->outcome == TWIN_DIFFER;
    size_t count = 0;
    if (v->pinned) {
        about_pins(r, n, &count);
        return count;
    }
    if (differs && v->first && tw_is_record(v->first))
        about_a_record(r, n, &count);
    else if (differs || v->outcome == TWIN_FAILED)
        suggest_show(r, n, &count, v->outcome == TWIN_FAILED ? 0 : twin_report_other(v),
                     "how it ended, what it printed, its processes");
    else if (v->outcome == TWIN_INCONCLUSIVE && (v->runs > 1 || v->against))
        show_more(r, n, &count);
    if (differs && v->against && v->against->path && has_job(r) && !r->can_isolate)
        save_baseline(r, n, &count);
    if (differs && r->shares_files && has_job(r) && !v->against) {
        struct tw_buf *b = add_command(n, &count, r, "check --fresh-dir",
                                       "do they differ in folders of their own, too?");
        add_options(b, r->again.check);
        add_job(b, r);
    }
    if (differs && r->can_isolate && has_job(r)) {
        struct tw_buf *b = add_command(n, &count, r, "isolate", "why?");
        add_options(b, r->again.isolate);
        add_job(b, r);
    }
    return count;
}
