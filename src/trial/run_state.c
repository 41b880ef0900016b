/* SPDX-License-Identifier: Apache-2.0 */
/* What a run folder says of its run in a word or a number: totals of its traces, its state, its
 * last words. */
#include "run_state.h"

#include "base.h"

#include "src/trace/trace.h"

#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Steps of one rank: its processes differ (loader workers end no steps), the largest is the
 * trainer's. */
struct rank_steps {
    int32_t rank;
    uint64_t steps;
};

static void count_rank(struct rank_steps *ranks, size_t *n, const struct twin_trace_info *info)
{
    size_t i = 0;
    while (i < *n && ranks[i].rank != info->rank)
        i++;
    if (i == *n)
        ranks[(*n)++] = (struct rank_steps){info->rank, 0};
    if (info->steps > ranks[i].steps)
        ranks[i].steps = info->steps;
}

void tw_run_totals(const struct twin_run *r, struct tw_run_totals *t)
{
    size_t n = 0;
    struct rank_steps *ranks = tw_calloc(r->trace_count + 1, sizeof *ranks);
    *t = (struct tw_run_totals){.observer = NAN};
    for (size_t i = 0; i < r->trace_count; i++) {
        struct twin_trace *trace = NULL;
        if (twin_trace_open(r->traces[i], &trace, NULL) != 0) {
            t->unreadable++;
            continue;
        }
        twin_trace_definitions(trace, NULL); /* for a rank that was told late */
        const struct twin_trace_info *info = twin_trace_info(trace);
        if (ranks)
            count_rank(ranks, &n, info);
        t->records += info->records;
        t->dropped += info->dropped;
        t->bytes += info->file_bytes;
        double ratio = r->wall_s > 0 ? (double)info->observer_ns / 1e9 / r->wall_s : NAN;
        if (!(ratio <= t->observer))
            t->observer = ratio;
        twin_trace_close(trace);
    }
    for (size_t i = 0; i < n; i++) /* a rank without steps is a launcher's, not a trainer's */
        if (ranks[i].steps && (t->steps == 0 || ranks[i].steps < t->steps))
            t->steps = ranks[i].steps;
    tw_free(ranks);
}

/* Not sigabbrev_np: it is newer than the oldest system a wheel must run on. */
static const char *signal_name(int signal)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
        {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
        {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
        {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"}, {SIGXCPU, "SIGXCPU"},
        {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].number == signal)
            return names[i].name;
    return NULL;
}

const char *tw_run_state(const struct twin_run *r, char text[32])
{
    if (r->in_progress)
        return "running";
    if (r->elsewhere)
        return "not known";
    switch (r->outcome) {
    case TWIN_RUN_EXITED:
        if (r->exit_code == 0)
            return "ok";
        snprintf(text, 32, "exit %d", r->exit_code);
        return text;
    case TWIN_RUN_SIGNALED: {
        const char *name = signal_name(r->signal);
        if (name)
            return name;
        snprintf(text, 32, "signal %d", r->signal);
        return text;
    }
    case TWIN_RUN_NOT_STARTED: return "not started";
    case TWIN_RUN_STOPPED: return "stopped";
    case TWIN_RUN_INTERRUPTED: return "interrupted";
    }
    return "?";
}

bool tw_run_failed(const struct twin_run *r)
{
    return r->outcome == TWIN_RUN_SIGNALED || r->outcome == TWIN_RUN_NOT_STARTED ||
           (r->outcome == TWIN_RUN_EXITED && r->exit_code != 0);
}

/* ---- did the hooks see what goes in? */

/* Ends the walk at a record that shows what goes in: something of the data, a single operation
 * (operation level), or a value that the job recorded itself. */
static int stop_at_input(void *user, const struct twin_trace_record *r)
{
    const struct twin_series *s = twin_trace_series(user, r->series);
    return s->phase == TWIN_PHASE_DATA || s->phase == TWIN_PHASE_KERNEL ||
           s->kind == TWIN_KIND_VALUE;
}

static bool trace_saw_input(const char *path)
{
    struct twin_trace *t = NULL;
    if (twin_trace_open(path, &t, NULL) != 0)
        return false;
    bool saw = twin_trace_definitions(t, NULL) == 0 &&
               twin_trace_walk(t, stop_at_input, NULL, t, NULL) == 1;
    twin_trace_close(t);
    return saw;
}

bool tw_run_shows_no_input(const struct twin_run *r)
{
    if (!r->torch) /* there are no operations to see */
        return false;
    for (size_t i = 0; i < r->trace_count; i++)
        if (trace_saw_input(r->traces[i]))
            return false;
    return true;
}

enum twin_level tw_run_level_that_sees(const struct twin_run *r)
{
    if (r->level != TWIN_LEVEL_TENSORS || tw_run_failed(r) || !tw_run_shows_no_input(r))
        return r->level;
    return TWIN_LEVEL_OPS;
}

char *tw_run_last_words(const struct twin_run *r)
{
    char *path = tw_path_join(r->dir, r->one_stream ? "stdout" : "stderr"), *text = NULL;
    size_t n = 0;
    if (!path || tw_read_file(path, (size_t)1 << 26, &text, &n, NULL) != 0) {
        tw_free(path);
        return NULL;
    }
    tw_free(path);
    /* frames of lines, as mpirun draws them, say nothing */
    while (n && !isalnum((unsigned char)text[n - 1]) && !strchr(".)]}'\"", text[n - 1]))
        n--;
    size_t from = n;
    while (from && text[from - 1] != '\n' && n - from < 300)
        from--;
    char *words = n > from ? tw_printable(text + from, n - from) : NULL;
    tw_free(text);
    return words;
}

void tw_run_show_tail(const struct tw_front *front, const char *who, const struct twin_run *r)
{
    enum { TAIL = 2000, LINES = 8 };
    /* streams that were one are kept as stdout */
    char *path = tw_path_join(r->dir, r->one_stream ? "stdout" : "stderr"), *data = NULL;
    size_t bytes = 0, lines = 0;
    if (path && tw_read_file(path, 64u << 20, &data, &bytes, NULL) == 0 && bytes) {
        size_t from = bytes;
        while (from > 0 && bytes - from < TAIL &&
               (data[from - 1] != '\n' || from == bytes || ++lines < LINES))
            from--;
        tw_front_say(front, "%s printed last (%s):", who, path);
        for (const char *line = data + from; line < data + bytes;) {
            size_t n = strcspn(line, "\n");
            tw_front_line(front, "  | %.*s", (int)n, line);
            line += n + 1;
        }
    }
    tw_free(data);
    tw_free(path);
}
