/* SPDX-License-Identifier: Apache-2.0 */
/* What each node's folder holds, and whether the folders are those of one job. */
#include "parts.h"

#include "base.h"

#include "src/trace/trace.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Folders inside of each other that are looked through for run folders: HOME/runs/NAME in an
 * archive, with one above. Bytes of a world that are read. */
enum { LOOKED_DEPTH = 4, WORLD_MAX = 4 << 20 };

/* What tells one job from another: a launcher gives it to all ranks, and to no other job. */
static const char *const job_variables[] = {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT",
                                            "SLURM_JOB_ID",        "PBS_JOBID",   "LSB_JOBID",
                                            "PMIX_NAMESPACE"};
enum { JOB_VARIABLES = sizeof job_variables / sizeof job_variables[0] };
_Static_assert(JOB_VARIABLES <= sizeof((struct tw_part *)0)->job / sizeof(char *), "room for all");

/* ---- one part */

/* Torchrun calls a job "none" where nobody named it. */
static bool says_nothing(const char *variable)
{
    const char *value = strchr(variable, '=');
    return !value || !value[1] || strcmp(value + 1, "none") == 0;
}

/* Keeps what a line "env NAME=VALUE" of a world says of the job. False: no memory. */
static bool take_variable(struct tw_part *p, const char *variable)
{
    bool ok = true;
    for (size_t i = 0; i < JOB_VARIABLES; i++) {
        size_t n = strlen(job_variables[i]);
        if (strncmp(variable, job_variables[i], n) == 0 && variable[n] == '=' && !p->job[i] &&
            !says_nothing(variable))
            ok &= (p->job[i] = tw_strdup(variable)) != NULL;
    }
    return ok;
}

/* 0 or TWIN_ENOMEM: a world that cannot be read says nothing. */
static int read_world(struct tw_part *p, const char *path)
{
    char *text = NULL, *save = NULL;
    size_t n;
    bool ok = true;
    int rc = tw_read_file(path, WORLD_MAX, &text, &n, NULL);
    if (rc != 0)
        return rc == TWIN_ENOMEM ? rc : 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (tw_starts(line, "env\t"))
            ok &= take_variable(p, line + 4);
    tw_free(text);
    return ok ? 0 : TWIN_ENOMEM;
}

/* All processes of a part were started by one launcher, so the first that says something counts. */
static int read_worlds(struct tw_part *p)
{
    char *folder = tw_path_join(p->dir, "worlds");
    DIR *d = folder ? opendir(folder) : NULL;
    int rc = folder ? 0 : TWIN_ENOMEM;
    for (struct dirent *e; rc == 0 && d && (e = readdir(d));) {
        char *path = tw_path_join(folder, e->d_name);
        struct stat st;
        if (!path)
            rc = TWIN_ENOMEM;
        else if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
            rc = read_world(p, path);
        tw_free(path);
    }
    if (d)
        closedir(d);
    tw_free(folder);
    return rc;
}

static int read_trace(const char *path, struct tw_part_trace *out, struct twin_error *err)
{
    struct twin_trace *t = NULL;
    *out = (struct tw_part_trace){.path = path, .rank = -1};
    int rc = twin_trace_open(path, &t, err);
    rc = rc ? rc : twin_trace_definitions(t, err);
    if (rc == 0) {
        const struct twin_trace_info *i = twin_trace_info(t);
        out->readable = true;
        out->rank = i->rank;
        out->world = i->world;
        out->attempt = twin_trace_attempt(t);
        out->main = strcmp(i->role, "main") == 0;
        out->silent = i->records == 0 && i->steps == 0;
    }
    twin_trace_close(t);
    return rc == TWIN_ENOMEM ? rc : 0; /* one that is damaged is taken as it is */
}

static int add_part(struct tw_parts *p, const char *dir, struct twin_error *err)
{
    if (p->count == TW_GATHER_PARTS)
        return twin_error_set(err, TWIN_ELIMIT, "expected at most %d folders", TW_GATHER_PARTS);
    if (p->count == p->room) {
        size_t room = p->room ? 2 * p->room : 8;
        struct tw_part *grown = tw_reallocarray(p->item, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(err, "gathering runs");
        p->item = grown;
        p->room = room;
    }
    struct tw_part *x = &p->item[p->count++];
    *x = (struct tw_part){.dir = tw_strdup(dir)};
    int rc = x->dir ? twin_run_load(dir, &x->run, err) : tw_no_memory(err, "gathering runs");
    if (rc != 0)
        return rc;
    x->trace = tw_calloc(x->run->trace_count + 1, sizeof *x->trace);
    if (!x->trace)
        return tw_no_memory(err, "gathering runs");
    for (size_t i = 0; rc == 0 && i < x->run->trace_count; i++)
        rc = read_trace(x->run->traces[i], &x->trace[i], err);
    if (rc == 0 && read_worlds(x) != 0)
        rc = tw_no_memory(err, "gathering runs");
    return rc;
}

/* Looks into dir and the folders below; no link is followed. */
static int look(struct tw_parts *p, const char *dir, int depth, struct twin_error *err)
{
    struct stat st;
    char *run = tw_path_join(dir, "run.json");
    if (!run)
        return tw_no_memory(err, "gathering runs");
    const bool is_run = lstat(run, &st) == 0 && S_ISREG(st.st_mode);
    tw_free(run);
    if (is_run)
        return add_part(p, dir, err);
    struct dirent **entries = NULL;
    int n = depth > 0 ? scandir(dir, &entries, NULL, alphasort) : 0, rc = 0;
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        const bool below = strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
        char *path = rc == 0 && below ? tw_path_join(dir, name) : NULL;
        if (path && lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            rc = look(p, path, depth - 1, err);
        else if (rc == 0 && below && !path)
            rc = tw_no_memory(err, "gathering runs");
        tw_free(path);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int tw_parts_add(struct tw_parts *p, const char *dir, const char *name, struct twin_error *err)
{
    const size_t before = p->count;
    int rc = look(p, dir, LOOKED_DEPTH, err);
    if (rc == 0 && p->count == before)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: no run folder: expected a run.json in it",
                            name);
    return rc;
}

void tw_parts_free(struct tw_parts *p)
{
    for (size_t i = 0; i < p->count; i++) {
        twin_run_free(p->item[i].run);
        for (size_t k = 0; k < JOB_VARIABLES; k++)
            tw_free(p->item[i].job[k]);
        tw_free(p->item[i].trace);
        tw_free(p->item[i].dir);
    }
    tw_free(p->item);
    *p = (struct tw_parts){0};
}

/* ---- all parts */

static const char *name_of(const struct tw_part *p)
{
    return tw_base_name(p->dir);
}

static int32_t world_of(const struct tw_part *p)
{
    int32_t world = 0;
    for (size_t i = 0; i < p->run->trace_count; i++)
        if (p->trace[i].world > world)
            world = p->trace[i].world;
    return world;
}

/* Had a ended when b began, as far as the clocks of two nodes can tell? */
static bool before(const struct tw_part *a, const struct tw_part *b)
{
    const double slack_s = 300;
    const double end = (double)a->run->start_realtime_ns / 1e9 + a->run->wall_s;
    return isfinite(end) && a->run->wall_s > 0 &&
           end + slack_s < (double)b->run->start_realtime_ns / 1e9;
}

/* Of runs with ids of their own: what both know of their job must be equal, and something must be
 * known. */
static int is_one_job(const struct tw_part *a, const struct tw_part *b, bool one_job,
                      struct twin_error *err)
{
    size_t equal = 0;
    if (strcmp(a->run->id, b->run->id) == 0 || one_job)
        return 0;
    for (size_t i = 0; i < JOB_VARIABLES; i++) {
        if (!a->job[i] || !b->job[i])
            continue;
        if (strcmp(a->job[i], b->job[i]) != 0)
            return twin_error_set(err, TWIN_EFORMAT, "not one job: %s has %s, %s has %s",
                                  name_of(a), a->job[i], name_of(b), b->job[i]);
        equal++;
    }
    if (world_of(a) && world_of(b) && world_of(a) != world_of(b))
        return twin_error_set(err, TWIN_EFORMAT, "not one job: %s has %d ranks, %s %d", name_of(a),
                              world_of(a), name_of(b), world_of(b));
    if (before(a, b) || before(b, a))
        return twin_error_set(err, TWIN_EFORMAT, "not one job: %s had ended when %s began",
                              name_of(before(a, b) ? a : b), name_of(before(a, b) ? b : a));
    if (equal == 0)
        return twin_error_set(err, TWIN_EFORMAT,
                              "nothing says that %s and %s are of one job: their runs have other "
                              "ids, and no variable of a launcher is known of both; --one-job says "
                              "that they are",
                              name_of(a), name_of(b));
    return 0;
}

bool tw_same_bytes(int a, int b)
{
    char one[8192], other[8192];
    for (uint64_t at = 0;;) {
        ssize_t n = tw_pread_all(a, one, sizeof one, at),
                k = tw_pread_all(b, other, sizeof other, at);
        if (n < 0 || n != k || memcmp(one, other, (size_t)n) != 0)
            return false;
        if (n == 0)
            return true;
        at += (uint64_t)n;
    }
}

static bool same_files(const char *a, const char *b)
{
    int x = open(a, O_RDONLY | O_CLOEXEC | O_NOFOLLOW),
        y = open(b, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool same = x >= 0 && y >= 0 && tw_same_bytes(x, y);
    if (x >= 0)
        close(x);
    if (y >= 0)
        close(y);
    return same;
}

/* A rank of one attempt runs on one node. A trace that was copied twice is no conflict. */
static int are_apart(const struct tw_part *a, const struct tw_part *b, struct twin_error *err)
{
    for (size_t i = 0; i < a->run->trace_count; i++)
        for (size_t k = 0; k < b->run->trace_count; k++) {
            const struct tw_part_trace *x = &a->trace[i], *y = &b->trace[k];
            const bool both = x->main && y->main && !x->silent && !y->silent &&
                              x->rank == y->rank && x->attempt == y->attempt;
            const bool one_name = strcmp(tw_base_name(x->path), tw_base_name(y->path)) == 0;
            if ((!both && !(one_name && !(x->readable && y->readable))) ||
                (one_name && same_files(x->path, y->path)))
                continue;
            if (!both)
                return twin_error_set(err, TWIN_EFORMAT,
                                      "%s is in %s and in %s with other bytes, and cannot be read",
                                      tw_base_name(x->path), name_of(a), name_of(b));
            return twin_error_set(
                err, TWIN_EFORMAT, "rank %d is in %s (%s) and in %s (%s): expected each rank once",
                x->rank, name_of(a), tw_base_name(x->path), name_of(b), tw_base_name(y->path));
        }
    return 0;
}

int tw_parts_belong(const struct tw_parts *p, bool one_job, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->count; i++)
        for (size_t k = i + 1; rc == 0 && k < p->count; k++) {
            rc = is_one_job(&p->item[i], &p->item[k], one_job, err);
            rc = rc ? rc : are_apart(&p->item[i], &p->item[k], err);
        }
    return rc;
}

size_t tw_parts_base(const struct tw_parts *p)
{
    size_t base = 0;
    uint32_t attempt = UINT32_MAX;
    for (size_t i = 0; i < p->count; i++)
        for (size_t k = 0; k < p->item[i].run->trace_count; k++) {
            const struct tw_part_trace *t = &p->item[i].trace[k];
            if (!t->main || t->silent || t->rank != 0 || t->attempt >= attempt)
                continue;
            base = i;
            attempt = t->attempt;
        }
    return base;
}

static int by_value(const void *x, const void *y)
{
    const int32_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

int tw_parts_missing(const struct tw_parts *p, struct tw_gathered *out, struct twin_error *err)
{
    size_t traces = 0, n = 0;
    int64_t next = 0;
    out->world = 0;
    for (size_t i = 0; i < p->count; i++)
        traces += p->item[i].run->trace_count;
    int32_t *ranks = tw_calloc(traces + 1, sizeof *ranks);
    if (!ranks)
        return tw_no_memory(err, "gathering runs");
    for (size_t i = 0; i < p->count; i++) {
        const struct tw_part *x = &p->item[i];
        out->world = world_of(x) > out->world ? world_of(x) : out->world;
        for (size_t k = 0; k < x->run->trace_count; k++)
            if (!x->trace[k].silent && x->trace[k].rank >= 0)
                ranks[n++] = x->trace[k].rank;
    }
    if (n > 1)
        qsort(ranks, n, sizeof *ranks, by_value);
    for (size_t i = 0; i <= n; i++) {
        const int64_t rank = i < n && ranks[i] < out->world ? ranks[i] : out->world;
        for (; next < rank; next++) {
            if (out->missing_count == TW_GATHER_NAMED)
                break;
            out->missing[out->missing_count++] = (int32_t)next;
        }
        if (rank > next) /* more than are named */
            out->missing_count += (size_t)(rank - next);
        next = rank + 1 > next ? rank + 1 : next;
    }
    tw_free(ranks);
    return 0;
}
