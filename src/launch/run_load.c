/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a run folder back: run.json into a struct twin_run, and the list of its traces. Called by
 * everything that looks at a run after it has ended. The names of levels and outcomes are here,
 * too, since reading needs them both ways.
 *
 * A run folder may come from anybody (packages are handed around), so run.json is foreign: it has a
 * cap, every field is typed, numbers have ranges, and the path of a kept copy must not lead out of
 * the folder. The first field that is wrong is named in the error, and the rest is not read. A
 * run.json without an outcome is that of a run whose launcher was killed, or is still going on. */
#include "launch.h"

#include "json_load.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Bytes of run.json, and items of one list in it (also: traces of one run). */
enum { RUN_JSON_MAX = 64 << 20, ITEMS_MAX = 1 << 20 };

static const char *const level_names[] = {"steps", "tensors", "modules", "ops"};
static const char *const outcome_names[] = {"exited", "signaled", "not-started", "stopped",
                                            "interrupted"};

const char *twin_level_name(enum twin_level l)
{
    return (unsigned)l < 4 ? level_names[l] : "unknown";
}

/* The place of s among n names, -1 when it is none of them. */
static int index_of(const char *s, const char *const *names, int n)
{
    int i = 0;
    while (i < n && strcmp(s, names[i]) != 0)
        i++;
    return i < n ? i : -1;
}

int twin_level_parse(const char *s, enum twin_level *out)
{
    int i = index_of(s, level_names, 4);
    if (i < 0)
        return TWIN_EINVAL;
    *out = (enum twin_level)i;
    return 0;
}

const char *tw_outcome_name(enum twin_outcome o)
{
    return (unsigned)o < 5 ? outcome_names[o] : "unknown";
}

int tw_outcome_parse(const char *s, enum twin_outcome *out)
{
    int i = index_of(s, outcome_names, 5);
    if (i < 0)
        return TWIN_EINVAL;
    *out = (enum twin_outcome)i;
    return 0;
}

bool twin_run_same_command(const struct twin_run *a, const struct twin_run *b)
{
    bool same = a->argc == b->argc;
    for (size_t i = 0; same && i < a->argc; i++)
        same = strcmp(a->argv[i], b->argv[i]) == 0;
    return same;
}

/* Takes a run that was filled in part, and NULL. */
void twin_run_free(struct twin_run *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->argc; i++)
        tw_free(r->argv[i]);
    for (size_t i = 0; i < r->trace_count; i++)
        tw_free(r->traces[i]);
    for (size_t i = 0; i < r->process_count; i++) {
        tw_free(r->processes[i].argv);
        tw_free(r->processes[i].why);
    }
    for (size_t i = 0; i < r->file_count; i++) {
        tw_free(r->files[i].path);
        tw_free(r->files[i].why);
        tw_free(r->files[i].kept);
    }
    for (size_t i = 0; i < r->note_count; i++)
        tw_free(r->notes[i]);
    for (size_t i = 0; i < r->data_count; i++) {
        tw_free(r->data[i].folder);
        tw_free(r->data[i].manifest);
    }
    char *strings[] = {
        r->dir,      r->id,           r->label,      r->cwd,         r->host,        r->message,
        r->aslr.why, r->affinity.why, r->hot.why,    r->processor,   r->node.engine, r->node.name,
        r->node.job, r->rollout.arm,  r->rollout.id, r->rollout.key, r->rollout.why};
    twin_run_belongs_free(&r->belongs);
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        tw_free(strings[i]);
    for (size_t i = 0; i < r->fresh_count; i++)
        tw_free(r->fresh_names[i]);
    tw_free(r->fresh_names);
    tw_free(r->argv);
    tw_free(r->traces);
    tw_free(r->processes);
    tw_free(r->files);
    tw_free(r->notes);
    tw_free(r->data);
    tw_free(r);
}

int tw_launch_grow(void *array, size_t n, size_t size, struct twin_error *err)
{
    /* Room is always the next power of two, at least 8: it need not be stored. */
    if (n != 0 && (n < 8 || (n & (n - 1)) != 0))
        return 0;
    void *old;
    memcpy(&old, array, sizeof old);
    void *grown = tw_reallocarray(old, n ? n * 2 : 8, size);
    if (!grown)
        return tw_no_memory(err, "for %zu items", n + 1);
    memcpy(array, &grown, sizeof grown);
    return 0;
}

/* ---- traces */

/* One file of ranks/. Its name is <rank>.<pid>.twt. */
struct trace_name {
    long rank, pid;
    char *path;
};

/* For qsort: by rank, then by process, then by path, so that every reader sees the traces of a run
 * in one order. */
static int by_rank(const void *a, const void *b)
{
    const struct trace_name *x = a, *y = b;
    if (x->rank != y->rank)
        return (x->rank > y->rank) - (x->rank < y->rank);
    if (x->pid != y->pid)
        return (x->pid > y->pid) - (x->pid < y->pid);
    return strcmp(x->path, y->path);
}

/* Adds each *.twt of the folder to *list. On failure *list keeps what was added; the caller frees
 * it. */
static int collect_traces(DIR *d, const char *folder, struct trace_name **list, size_t *n,
                          struct twin_error *err)
{
    for (struct dirent *e; (e = readdir(d));) {
        if (!tw_ends(e->d_name, ".twt") || e->d_name[0] == '.')
            continue;
        if (*n == ITEMS_MAX)
            return twin_error_set(err, TWIN_ELIMIT, "%s holds more than %d traces", folder,
                                  ITEMS_MAX);
        int rc = tw_launch_grow(list, *n, sizeof **list, err);
        if (rc)
            return rc;
        struct trace_name *t = &(*list)[*n];
        *t = (struct trace_name){
            .rank = LONG_MAX, .pid = LONG_MAX, .path = tw_path_join(folder, e->d_name)};
        if (!t->path)
            return tw_no_memory(err, "listing %s", folder);
        ++*n;
        if (sscanf(e->d_name, "%ld.%ld", &t->rank, &t->pid) != 2)
            t->rank = t->pid = LONG_MAX; /* not named as agents do: last */
    }
    return 0;
}

/* Sets run->torch. The agent leaves a file of this name in the run folder when a process has
 * imported torch: a program that works on bare tensors may leave no trace, and this is how it is
 * known that PyTorch was there. */
static int find_torch(struct twin_run *run, struct twin_error *err)
{
    char *mark = tw_path_join(run->dir, "torch");
    if (!mark)
        return tw_no_memory(err, "listing %s", run->dir);
    run->torch = access(mark, F_OK) == 0;
    tw_free(mark);
    return 0;
}

/* Fills run->traces. A folder without ranks/ has none, which is no error. */
int tw_run_find_traces(struct twin_run *run, struct twin_error *err)
{
    struct trace_name *list = NULL;
    size_t n = 0;
    char *folder = tw_path_join(run->dir, "ranks");
    if (!folder)
        return tw_no_memory(err, "listing %s", run->dir);
    DIR *d = opendir(folder);
    int rc = 0;
    if (d)
        rc = collect_traces(d, folder, &list, &n, err);
    else if (errno != ENOENT)
        rc = twin_error_system(err, "cannot list %s", folder);
    if (d)
        closedir(d);
    if (rc == 0 && n > 0) {
        qsort(list, n, sizeof *list, by_rank);
        run->traces = tw_calloc(n, sizeof *run->traces);
        if (!run->traces)
            rc = tw_no_memory(err, "listing %s", folder);
    }
    for (size_t i = 0; i < n; i++) {
        if (rc == 0 && run->traces)
            run->traces[run->trace_count++] = list[i].path;
        else
            tw_free(list[i].path);
    }
    tw_free(list);
    tw_free(folder);
    return rc == 0 ? find_torch(run, err) : rc;
}

/* ---- run.json: every field is typed; the first one that is missing or of another type is named */

/* While run.json is read: the file's name for errors, and the first error, which later ones do not
 * overwrite. The functions below can so be called one after another without a check between them;
 * each returns something harmless after an error. */
struct reader {
    const char *path;
    struct twin_error *err;
    int rc;
};

/* Says that a field is not as expected. Only the first complaint is kept. */
static void bad_field(struct reader *r, const char *key, const char *expected)
{
    if (r->rc == 0)
        r->rc = twin_error_set(r->err, TWIN_EFORMAT, "%s: field \"%s\" is not %s", r->path, key,
                               expected);
}

/* A byte string: a JSON string, or {"hex": ...}. NULL when it is neither. */
static char *text_of(struct reader *r, json_t *v, const char *key)
{
    const char *s = json_string_value(v), *hex = json_string_value(json_object_get(v, "hex"));
    char *out = NULL;
    if (s && strlen(s) == json_string_length(v)) {
        out = tw_strdup(s);
    } else if (hex && strlen(hex) % 2 == 0) {
        size_t n = strlen(hex) / 2;
        out = tw_malloc(n + 1);
        if (out) {
            out[n] = '\0';
            if (!tw_unhex(hex, n, out) || strlen(out) != n) {
                tw_free(out);
                bad_field(r, key, "a string of hexadecimal digits");
                return NULL;
            }
        }
    } else {
        bad_field(r, key, "a string");
        return NULL;
    }
    if (!out && r->rc == 0)
        r->rc = tw_no_memory(r->err, "reading %s", r->path);
    return out;
}

static char *text_in(struct reader *r, json_t *o, const char *key)
{
    return text_of(r, json_object_get(o, key), key);
}

/* For fields that may be absent or null; NULL then, without an error. */
static char *text_or_null(struct reader *r, json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    return !v || json_is_null(v) ? NULL : text_of(r, v, key);
}

/* A whole number from low to high; `low` when it is none, with the error set. */
static int64_t integer_of(struct reader *r, json_t *o, const char *key, int64_t low, int64_t high)
{
    json_t *v = json_object_get(o, key);
    if (!json_is_integer(v) || json_integer_value(v) < low || json_integer_value(v) > high) {
        bad_field(r, key, "a whole number in its range");
        return low;
    }
    return json_integer_value(v);
}

static bool boolean(struct reader *r, json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    if (!json_is_boolean(v))
        bad_field(r, key, "true or false");
    return json_is_true(v);
}

static double number_of(struct reader *r, json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    if (!json_is_number(v))
        bad_field(r, key, "a number");
    return json_number_value(v);
}

/* A SHA-256 in hex, or an empty string where nothing was hashed. On error `out` is left as it was.
 */
static void digest(struct reader *r, json_t *o, const char *key, char out[65])
{
    const char *s = json_string_value(json_object_get(o, key));
    if (tw_is_hex(s, 64) || tw_is_hex(s, 0))
        memcpy(out, s, strlen(s) + 1);
    else
        bad_field(r, key, "a SHA-256 in 64 hexadecimal digits, or empty");
}

/* Room for the items of array `key`; NULL and *n = 0 when it is empty or wrong. */
static void *items(struct reader *r, json_t *o, const char *key, size_t size, json_t **array)
{
    *array = json_object_get(o, key);
    if (!json_is_array(*array) || json_array_size(*array) > ITEMS_MAX) {
        bad_field(r, key, "a list");
        *array = NULL;
        return NULL;
    }
    void *p = tw_calloc(json_array_size(*array) + 1, size);
    if (!p && r->rc == 0)
        r->rc = tw_no_memory(r->err, "reading %s", r->path);
    return p;
}

/* A list of byte strings. *n counts those that were read, also when one of them was wrong: all are
 * freed with the run. */
static void read_strings(struct reader *r, json_t *o, const char *key, char ***out, size_t *n)
{
    json_t *a;
    *out = items(r, o, key, sizeof **out, &a);
    for (size_t i = 0; *out && r->rc == 0 && i < json_array_size(a); i++)
        if (((*out)[i] = text_of(r, json_array_get(a, i), key)))
            ++*n;
}

/* process_count grows before the fields are read, so that a run that is given up halfway frees what
 * it has. */
static void read_processes(struct reader *r, json_t *o, struct twin_run *run)
{
    json_t *a;
    run->processes = items(r, o, "processes", sizeof *run->processes, &a);
    for (size_t i = 0; run->processes && r->rc == 0 && i < json_array_size(a); i++) {
        json_t *v = json_array_get(a, i);
        struct twin_run_process *p = &run->processes[run->process_count++];
        p->pid = (int)integer_of(r, v, "pid", 0, INT_MAX);
        p->ppid = (int)integer_of(r, v, "ppid", 0, INT_MAX);
        p->argv = text_in(r, v, "argv");
        p->armed = boolean(r, v, "armed");
        p->why = text_or_null(r, v, "why");
        p->outlived = boolean(r, v, "outlived");
    }
}

/* Fields that older versions did not write may be absent. */
static void read_files(struct reader *r, json_t *o, struct twin_run *run)
{
    json_t *a;
    run->files = items(r, o, "files", sizeof *run->files, &a);
    for (size_t i = 0; run->files && r->rc == 0 && i < json_array_size(a); i++) {
        json_t *v = json_array_get(a, i);
        struct twin_run_file *f = &run->files[run->file_count++];
        f->path = text_in(r, v, "path");
        f->bytes = (uint64_t)integer_of(r, v, "bytes", 0, INT64_MAX);
        digest(r, v, "sha256", f->sha256);
        f->why = text_or_null(r, v, "why");
        f->existed_before = boolean(r, v, "existed_before");
        if (json_object_get(v, "bytes_before"))
            f->bytes_before = (uint64_t)integer_of(r, v, "bytes_before", 0, INT64_MAX);
        f->listing = json_is_true(json_object_get(v, "listing"));
        f->kept = text_or_null(r, v, "kept");
        /* the copy is read later: its path must not lead out of the run folder */
        if (f->kept && tw_path_fault(f->kept, strlen(f->kept), TW_PATH_ANY_NAME | TW_PATH_GIT))
            bad_field(r, "kept", "a path in the run folder");
    }
    run->files_truncated = boolean(r, o, "files_truncated");
}

/* Absent: the run is of an older twinrun. */
static void read_data(struct reader *r, json_t *o, struct twin_run *run)
{
    json_t *a;
    if (!json_object_get(o, "data"))
        return;
    run->data = items(r, o, "data", sizeof *run->data, &a);
    for (size_t i = 0; run->data && r->rc == 0 && i < json_array_size(a); i++) {
        json_t *v = json_array_get(a, i);
        struct twin_run_data *d = &run->data[run->data_count++];
        d->folder = text_in(r, v, "folder");
        d->manifest = text_in(r, v, "manifest");
        digest(r, v, "root", d->root);
        d->files = (uint64_t)integer_of(r, v, "files", 0, INT64_MAX);
        d->bytes = (uint64_t)integer_of(r, v, "bytes", 0, INT64_MAX);
    }
}

/* One of the two streams: how many bytes, their digest, whether the stored copy is only a part. */
static void read_output(struct reader *r, json_t *o, const char *key, uint64_t *n, char sha256[65],
                        bool *truncated)
{
    json_t *v = json_object_get(o, key);
    if (!json_is_object(v)) {
        bad_field(r, key, "an object");
        return;
    }
    *n = (uint64_t)integer_of(r, v, "bytes", 0, INT64_MAX);
    digest(r, v, "sha256", sha256);
    *truncated = boolean(r, v, "truncated");
}

/* Absent: nothing was asked for, or the run is of an older twinrun. */
static void read_hold(struct reader *r, json_t *factors, const char *name, struct twin_run_hold *h,
                      int *cpu)
{
    json_t *v = json_object_get(factors, name);
    if (!v)
        return;
    h->asked = true;
    h->done = boolean(r, v, "done");
    h->why = text_or_null(r, v, "why");
    if (cpu)
        *cpu = (int)integer_of(r, v, "cpu", 0, INT_MAX);
}

/* What was held still or shaken. The time that the job was shown is not stored: it follows from the
 * words that the agents were given. */
static void read_factors(struct reader *r, json_t *o, struct twin_run *run)
{
    json_t *factors = json_object_get(o, "factors");
    if (!factors)
        return;
    if (!json_is_object(factors)) {
        bad_field(r, "factors", "an object");
        return;
    }
    read_hold(r, factors, "aslr", &run->aslr, NULL);
    read_hold(r, factors, "affinity", &run->affinity, &run->cpu);
    read_hold(r, factors, "hot", &run->hot, NULL);
    run->clock_factor = tw_env_clock_factor(
        json_string_value(json_object_get(json_object_get(factors, "agents"), "TWINRUN_FACTORS")));
    run->shown_clock_s = tw_env_shown_clock(
        json_string_value(json_object_get(json_object_get(factors, "agents"), "TWINRUN_FACTORS")));
}

/* Only runs that an engine made have the object. */
static void read_node(struct reader *r, json_t *o, struct twin_run *run)
{
    json_t *node = json_object_get(o, "node");
    if (!json_is_object(node))
        return;
    run->node.engine = text_in(r, node, "engine");
    run->node.name = text_in(r, node, "name");
    run->node.job = text_in(r, node, "job");
    run->node.attempt = (uint32_t)integer_of(r, node, "attempt", 1, UINT32_MAX);
}

/* Only runs that a rollout had a say in have the object. */
static void read_rollout(struct reader *r, json_t *o, struct twin_run *run)
{
    json_t *rollout = json_object_get(o, "rollout");
    if (!json_is_object(rollout))
        return;
    run->rollout.id = text_in(r, rollout, "id");
    run->rollout.arm = text_in(r, rollout, "arm");
    run->rollout.share = (uint32_t)integer_of(r, rollout, "share", 0, 1000000);
    run->rollout.key = text_in(r, rollout, "key");
    run->rollout.why = text_in(r, rollout, "why");
}

/* Runs of older versions lack the object. */
static void read_belongs(struct reader *r, json_t *o, struct twin_run *run)
{
    json_t *belongs = json_object_get(o, "belongs");
    if (!json_is_object(belongs))
        return;
    run->belongs.project = text_in(r, belongs, "project");
    run->belongs.family = text_in(r, belongs, "family");
    run->belongs.contributor = text_in(r, belongs, "contributor");
    run->belongs.sweep = text_in(r, belongs, "sweep");
    run->belongs.ci = boolean(r, belongs, "ci");
}

/* The fields that are written before the job starts; every run has them. */
static void read_start(struct reader *r, json_t *o, struct twin_run *run)
{
    run->id = text_in(r, o, "id");
    run->label = text_in(r, o, "label");
    read_strings(r, o, "argv", &run->argv, &run->argc);
    run->cwd = text_in(r, o, "cwd");
    run->host = text_in(r, o, "host");
    read_node(r, o, run);
    read_rollout(r, o, run);
    read_belongs(r, o, run);
    json_t *machine = json_object_get(o, "machine");
    if (json_is_string(json_object_get(machine, "cpu")))
        run->processor = text_in(r, machine, "cpu");
    json_int_t pid = json_integer_value(json_object_get(json_object_get(o, "launcher"), "pid"));
    run->launcher_pid = pid > 0 && pid <= INT_MAX ? (int)pid : 0;
    run->start_realtime_ns = integer_of(r, o, "start_realtime_ns", INT64_MIN, INT64_MAX);
    if (json_object_get(o, "start_monotonic_ns")) /* older runs have none */
        run->start_monotonic_ns = integer_of(r, o, "start_monotonic_ns", 0, INT64_MAX);
    char *level = text_in(r, o, "level");
    if (level && twin_level_parse(level, &run->level) != 0)
        bad_field(r, "level", "one of steps, tensors, modules, ops");
    tw_free(level);
    run->max_steps = (uint32_t)integer_of(r, o, "max_steps", 0, UINT32_MAX);
    run->agents = boolean(r, o, "agents");
    json_t *agent = json_object_get(o, "agent");
    if (!json_is_object(agent))
        bad_field(r, "agent", "an object");
    else
        run->agent_load_s = number_of(r, agent, "load_s");
    read_factors(r, o, run);
    read_strings(r, o, "notes", &run->notes, &run->note_count);
    read_data(r, o, run);
}

/* What tells noise from results in what the job printed (src/compare/run_facts.c). Runs of older
 * versions lack it. */
static void read_facts(struct reader *r, json_t *o, struct twin_run *run)
{
    const json_t *ids = json_object_get(o, "ids");
    json_int_t first = json_integer_value(json_array_get(ids, 0));
    json_int_t last = json_integer_value(json_array_get(ids, 1));
    if (first > 0 && last >= first && last <= INT_MAX) {
        run->first_id = (int)first;
        run->last_id = (int)last;
    }
    if (json_object_get(o, "fresh_names"))
        read_strings(r, o, "fresh_names", &run->fresh_names, &run->fresh_count);
}

/* The fields that are known when the job has ended. Only a complete run.json has them. */
static void read_end(struct reader *r, json_t *o, struct twin_run *run)
{
    char *outcome = text_in(r, o, "outcome");
    if (outcome && tw_outcome_parse(outcome, &run->outcome) != 0)
        bad_field(r, "outcome", "one of exited, signaled, not-started, stopped, interrupted");
    tw_free(outcome);
    run->exit_code = (int)integer_of(r, o, "exit_code", 0, 255);
    run->signal = (int)integer_of(r, o, "signal", 0, 255);
    run->message = text_in(r, o, "message");
    run->wall_s = number_of(r, o, "wall_s");
    read_output(r, o, "stdout", &run->stdout_bytes, run->stdout_sha256, &run->stdout_truncated);
    read_output(r, o, "stderr", &run->stderr_bytes, run->stderr_sha256, &run->stderr_truncated);
    /* runs of older versions lack it: false */
    run->one_stream = json_is_true(json_object_get(o, "one_stream"));
    read_processes(r, o, run);
    read_files(r, o, run);
    read_facts(r, o, run);
}

/* Bytes of a file of the run folder, 0 when it is not there. */
static uint64_t size_of(const char *dir, const char *name)
{
    struct stat st;
    char *path = tw_path_join(dir, name);
    uint64_t n = path && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    tw_free(path);
    return n;
}

/* Is the process that wrote this run.json still alive? Its number alone does not tell: numbers are
 * used again. It is the same process when the machine has not been booted since and the start time
 * fits. */
static bool launcher_alive(json_t *o)
{
    char *boot = NULL;
    size_t n = 0;
    json_t *l = json_object_get(o, "launcher");
    const char *then = json_string_value(json_object_get(l, "boot_id"));
    json_int_t ticks = json_integer_value(json_object_get(l, "start_ticks"));
    json_int_t pid = json_integer_value(json_object_get(l, "pid"));
    if (tw_read_file("/proc/sys/kernel/random/boot_id", 256, &boot, &n, NULL) != 0)
        return false;
    bool same_boot = then && tw_starts(boot, then) && strlen(then) > 8;
    tw_free(boot);
    return same_boot && pid > 0 && pid < INT_MAX && ticks > 0 &&
           tw_process_start_ticks((pid_t)pid) == (uint64_t)ticks;
}

/* Was the launcher where its number says nothing here? On this machine before it was booted anew it
 * has ended. */
static bool is_elsewhere(json_t *o, const char *host)
{
    char *boot = NULL, space[64] = "";
    size_t n = 0;
    json_t *l = json_object_get(o, "launcher");
    const char *then = json_string_value(json_object_get(l, "boot_id"));
    const char *ids = json_string_value(json_object_get(l, "pid_space"));
    struct utsname here;
    if (!then || tw_read_file("/proc/sys/kernel/random/boot_id", 256, &boot, &n, NULL) != 0)
        return false;
    const bool same_boot = tw_starts(boot, then) && strlen(then) > 8;
    tw_free(boot);
    if (!same_boot)
        return uname(&here) != 0 || !host || strcmp(here.nodename, host) != 0;
    return ids && readlink("/proc/self/ns/pid", space, sizeof space - 1) > 0 &&
           strcmp(ids, space) != 0;
}

/* A run whose launcher was killed (or still runs): what the agents and the streams left is all
 * there is. */
static void infer_end(struct reader *r, json_t *o, struct twin_run *run)
{
    run->outcome = TWIN_RUN_INTERRUPTED;
    /* As a shell shows a process that SIGKILL ended, which is what most often ends a launcher. */
    run->exit_code = 128 + 9;
    run->elsewhere = is_elsewhere(o, run->host);
    run->in_progress = !run->elsewhere && launcher_alive(o);
    const char *what = "twinrun itself was ended before the job: its exit code, process table and "
                       "files are not known; the traces hold what the agents had written";
    if (run->in_progress)
        what = "this run is still going on: what is here so far is not all of it";
    else if (run->elsewhere)
        what = "this run was started on another machine or in another container, and no end of it "
               "is written: whether it still goes on cannot be known here";
    run->message = tw_strdup(what);
    if (!run->message && r->rc == 0)
        r->rc = tw_no_memory(r->err, "reading %s", r->path);
    run->stdout_bytes = size_of(run->dir, "stdout");
    run->stderr_bytes = size_of(run->dir, "stderr");
    run->stdout_truncated = run->stderr_truncated = true;
}

/* TWIN_EVERSION for a run in another version of the format, TWIN_EFORMAT for a file that is no run
 * at all. */
static int check_schema(json_t *o, const char *path, struct twin_error *err)
{
    const char *schema = json_string_value(json_object_get(o, "schema"));
    if (schema && strcmp(schema, "twinrun.run/1") == 0)
        return 0;
    if (schema && tw_starts(schema, "twinrun.run/"))
        return twin_error_set(err, TWIN_EVERSION,
                              "%s: this twinrun reads twinrun.run/1, the run was written as %s",
                              path, schema);
    return twin_error_set(err, TWIN_EFORMAT,
                          "%s: not a run: expected \"schema\": \"twinrun.run/1\", found %s", path,
                          schema ? schema : "none");
}

/* Reads and parses the file. *out is the caller's to decref, also after an error of check_schema.
 */
static int parse_file(const char *path, json_t **out, struct twin_error *err)
{
    char *data = NULL;
    size_t n = 0;
    json_error_t where;
    int rc = tw_read_file(path, RUN_JSON_MAX, &data, &n, err);
    if (rc)
        return rc;
    *out = tw_json_load(data, n, JSON_REJECT_DUPLICATES, &where);
    tw_free(data);
    /* jansson says nothing at all when its first allocations fail. */
    if (!*out && (where.text[0] == '\0' || json_error_code(&where) == json_error_out_of_memory))
        return tw_no_memory(err, "reading %s", path);
    if (!*out)
        return twin_error_set(err, TWIN_EFORMAT, "%s, line %d, column %d: %s", path, where.line,
                              where.column, where.text);
    return check_schema(*out, path, err);
}

/* Whatever has been read is freed when something fails: *out is a whole run or NULL. */
int twin_run_load(const char *dir, struct twin_run **out, struct twin_error *err)
{
    *out = NULL;
    json_t *o = NULL;
    struct twin_run *run = tw_calloc(1, sizeof *run);
    char *path = NULL;
    int rc = run ? 0 : tw_no_memory(err, "loading the run %s", dir);
    if (rc == 0 && !(run->dir = tw_path_absolute(dir, err)))
        rc = TWIN_ENOMEM;
    if (rc == 0 && !(path = tw_path_join(run->dir, "run.json")))
        rc = tw_no_memory(err, "loading the run %s", dir);
    if (rc == 0)
        rc = parse_file(path, &o, err);
    if (rc == 0) {
        struct reader r = {.path = path, .err = err};
        read_start(&r, o, run);
        if (json_object_get(o, "outcome"))
            read_end(&r, o, run);
        else
            infer_end(&r, o, run);
        rc = r.rc;
    }
    if (rc == 0)
        rc = tw_run_find_traces(run, err);
    if (rc == 0)
        *out = run;
    else
        twin_run_free(run);
    json_decref(o);
    tw_free(path);
    return rc;
}
