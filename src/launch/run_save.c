/* SPDX-License-Identifier: Apache-2.0 */
/* Writes run.json, schema twinrun.run/1 (docs/format/run-folder.md). launch.c calls it twice:
 * before the job with what is known then, after it with everything. The file is replaced in one
 * step, so a reader sees one of the two and never a half. Secrets in the command and in the
 * environment are redacted on the way.
 *
 * Building a JSON value can only fail for lack of memory. The builder remembers that, so the
 * functions below need no checks, and tw_run_save() looks once at the end. */
#include "launch.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* failed: some value could not be made. jansson's functions take NULL for a value and then fail
 * themselves, so building goes on harmlessly to the end. */
struct builder {
    bool failed;
};

/* Passes v through and remembers when it is NULL. */
static json_t *checked(struct builder *b, json_t *v)
{
    if (!v)
        b->failed = true;
    return v;
}

static void put_value(struct builder *b, json_t *object, const char *key, json_t *value)
{
    /* json_object_set_new takes the reference, also when it fails */
    if (!checked(b, value) || json_object_set_new(object, key, value) != 0)
        b->failed = true;
}

static void add_value(struct builder *b, json_t *array, json_t *value)
{
    if (!checked(b, value) || json_array_append_new(array, value) != 0)
        b->failed = true;
}

json_t *tw_json_bytes(const char *s)
{
    json_t *v = s ? json_string(s) : json_null();
    if (v)
        return v;
    size_t n = strlen(s);
    char *hex = tw_malloc(2 * n + 1);
    if (!hex)
        return NULL;
    tw_hex(s, n, hex);
    v = json_pack("{s:s}", "hex", hex);
    tw_free(hex);
    return v;
}

static json_t *strings(struct builder *b, char *const *v, size_t n)
{
    json_t *a = checked(b, json_array());
    for (size_t i = 0; i < n; i++)
        add_value(b, a, tw_json_bytes(v[i]));
    return a;
}

/* One word with its secrets replaced. *pending carries over from word to word ("--password" and
 * then the password); NULL for a word that stands alone. */
static json_t *redacted(const struct twin_redactor *r, const char *s, int *pending)
{
    char *safe = twin_redact(r, s, pending);
    json_t *v = safe ? tw_json_bytes(safe) : NULL;
    tw_free(safe);
    return v;
}

static json_t *command_json(struct builder *b, const struct twin_run *run,
                            const struct twin_redactor *r)
{
    int pending = TW_SECRET_NONE;
    json_t *a = checked(b, json_array());
    for (size_t i = 0; i < run->argc; i++)
        add_value(b, a, redacted(r, run->argv[i], &pending));
    return a;
}

/* The variables that decide about numbers (tw_env_is_kept); all others stay out of the record. */
static json_t *kept_environment(struct builder *b, const struct tw_env *e,
                                const struct twin_redactor *r)
{
    json_t *o = checked(b, json_object());
    for (size_t i = 0; i < e->n; i++) {
        if (!tw_env_is_kept(e->v[i]))
            continue;
        size_t n = strcspn(e->v[i], "=");
        char *name = tw_strndup(e->v[i], n);
        if (name)
            put_value(b, o, name, redacted(r, e->v[i] + n + 1, NULL));
        else
            b->failed = true;
        tw_free(name);
    }
    return o;
}

/* The kernel, the processor's model and how many processors are online: what a reader first asks
 * when two runs of two machines differ. */
static json_t *machine_json(struct builder *b)
{
    struct utsname u;
    char *text = NULL, model[256] = "";
    size_t n = 0;
    json_t *o = checked(b, json_object());
    if (uname(&u) == 0) {
        put_value(b, o, "system", tw_json_bytes(u.sysname));
        put_value(b, o, "release", tw_json_bytes(u.release));
        put_value(b, o, "version", tw_json_bytes(u.version));
        put_value(b, o, "machine", tw_json_bytes(u.machine));
    }
    if (tw_read_file("/proc/cpuinfo", 16 << 20, &text, &n, NULL) == 0) {
        const char *p = strstr(text, "model name");
        p = p ? strchr(p, ':') : NULL;
        if (p)
            snprintf(model, sizeof model, "%.*s", (int)strcspn(p + 1 + (p[1] == ' '), "\n"),
                     p + 1 + (p[1] == ' '));
        tw_free(text);
    }
    put_value(b, o, "cpu", tw_json_bytes(model));
    put_value(b, o, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    return o;
}

/* Enough to tell later whether the process that writes this is still alive: pids are used again,
 * boots come and go. */
static json_t *launcher(struct builder *b)
{
    char *boot = NULL;
    size_t n = 0;
    json_t *o = checked(b, json_object());
    put_value(b, o, "pid", json_integer(getpid()));
    put_value(b, o, "start_ticks", json_integer((json_int_t)tw_process_start_ticks(getpid())));
    if (tw_read_file("/proc/sys/kernel/random/boot_id", 256, &boot, &n, NULL) == 0) {
        boot[strcspn(boot, "\n")] = '\0';
        put_value(b, o, "boot_id", tw_json_bytes(boot));
        tw_free(boot);
    }
    char space[64] = "";
    if (readlink("/proc/self/ns/pid", space, sizeof space - 1) > 0)
        put_value(b, o, "pid_space", tw_json_bytes(space));
    return o;
}

static json_t *processes(struct builder *b, const struct twin_run *run)
{
    json_t *a = checked(b, json_array());
    for (size_t i = 0; i < run->process_count; i++) {
        const struct twin_run_process *p = &run->processes[i];
        json_t *o = checked(b, json_object());
        put_value(b, o, "pid", json_integer(p->pid));
        put_value(b, o, "ppid", json_integer(p->ppid));
        put_value(b, o, "argv", tw_json_bytes(p->argv));
        put_value(b, o, "armed", json_boolean(p->armed));
        put_value(b, o, "why", tw_json_bytes(p->why));
        put_value(b, o, "outlived", json_boolean(p->outlived));
        add_value(b, a, o);
    }
    return a;
}

/* Fields that most files lack are left out. */
static json_t *files(struct builder *b, const struct twin_run *run)
{
    json_t *a = checked(b, json_array());
    for (size_t i = 0; i < run->file_count; i++) {
        const struct twin_run_file *f = &run->files[i];
        json_t *o = checked(b, json_object());
        put_value(b, o, "path", tw_json_bytes(f->path));
        put_value(b, o, "bytes", json_integer((json_int_t)f->bytes));
        put_value(b, o, "sha256", tw_json_bytes(f->sha256));
        put_value(b, o, "why", tw_json_bytes(f->why));
        put_value(b, o, "existed_before", json_boolean(f->existed_before));
        if (f->existed_before)
            put_value(b, o, "bytes_before", json_integer((json_int_t)f->bytes_before));
        if (f->kept)
            put_value(b, o, "kept", tw_json_bytes(f->kept));
        if (f->listing)
            put_value(b, o, "listing", json_boolean(true));
        add_value(b, a, o);
    }
    return a;
}

/* `s` is NULL before the job and gives 0 stored bytes. */
static json_t *output(struct builder *b, uint64_t n, const struct tw_stream *s, const char *sha256,
                      bool truncated)
{
    json_t *o = checked(b, json_object());
    put_value(b, o, "bytes", json_integer((json_int_t)n));
    put_value(b, o, "stored_bytes", json_integer(s ? (json_int_t)s->stored : 0));
    put_value(b, o, "sha256", tw_json_bytes(sha256));
    put_value(b, o, "truncated", json_boolean(truncated));
    return o;
}

/* Writes nothing for what was not asked for. cpu: -1 where the hold has no processor. */
static void put_hold(struct builder *b, json_t *o, const char *name, const struct twin_run_hold *h,
                     int cpu)
{
    if (!h->asked)
        return;
    json_t *v = checked(b, json_object());
    if (cpu >= 0)
        put_value(b, v, "cpu", json_integer(cpu));
    put_value(b, v, "done", json_boolean(h->done));
    put_value(b, v, "why", tw_json_bytes(h->why));
    put_value(b, o, name, v);
}

/*
 * What the agents were to hold still or shake, in their own words: a replay says the same to them.
 */
static json_t *asked_of_agents(struct builder *b, const struct tw_env *env)
{
    static const char *const names[] = {"TWINRUN_FACTORS", "TWINRUN_PINS", "TWINRUN_HELD",
                                        "TWINRUN_TORCH_THREADS"};
    json_t *o = checked(b, json_object());
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (tw_env_get(env, names[i]))
            put_value(b, o, names[i], tw_json_bytes(tw_env_get(env, names[i])));
    return o;
}

static json_t *factors(struct builder *b, const struct twin_run *run, const struct tw_env *env)
{
    json_t *o = checked(b, json_object());
    put_hold(b, o, "aslr", &run->aslr, -1);
    put_hold(b, o, "affinity", &run->affinity, run->cpu);
    put_hold(b, o, "hot", &run->hot, -1);
    put_value(b, o, "agents", asked_of_agents(b, env));
    return o;
}

static json_t *data_json(struct builder *b, const struct twin_run *run)
{
    json_t *a = checked(b, json_array());
    for (size_t i = 0; i < run->data_count; i++) {
        const struct twin_run_data *d = &run->data[i];
        json_t *o = checked(b, json_object());
        put_value(b, o, "folder", tw_json_bytes(d->folder));
        put_value(b, o, "manifest", tw_json_bytes(d->manifest));
        put_value(b, o, "root", tw_json_bytes(d->root));
        put_value(b, o, "files", json_integer((json_int_t)d->files));
        put_value(b, o, "bytes", json_integer((json_int_t)d->bytes));
        add_value(b, a, o);
    }
    return a;
}

/* Where an engine put the run. */
static json_t *node_json(struct builder *b, const struct twin_run_node *at)
{
    json_t *o = checked(b, json_object());
    put_value(b, o, "engine", tw_json_bytes(at->engine));
    put_value(b, o, "name", tw_json_bytes(at->name));
    put_value(b, o, "job", tw_json_bytes(at->job));
    put_value(b, o, "attempt", json_integer(at->attempt));
    return o;
}

/* What a rollout decided of the run. */
static json_t *rollout_json(struct builder *b, const struct twin_run_rollout *x)
{
    json_t *o = checked(b, json_object());
    put_value(b, o, "id", tw_json_bytes(x->id));
    put_value(b, o, "arm", tw_json_bytes(x->arm));
    put_value(b, o, "share", json_integer(x->share));
    put_value(b, o, "key", tw_json_bytes(x->key));
    put_value(b, o, "why", tw_json_bytes(x->why));
    return o;
}

/* Names are a person's, but a secret that slipped into one is replaced as anywhere. */
static json_t *belongs_json(struct builder *b, const struct twin_run_belongs *to,
                            const struct twin_redactor *r)
{
    json_t *o = checked(b, json_object());
    put_value(b, o, "project", redacted(r, to->project, NULL));
    put_value(b, o, "family", redacted(r, to->family, NULL));
    put_value(b, o, "contributor", redacted(r, to->contributor, NULL));
    put_value(b, o, "sweep", redacted(r, to->sweep, NULL));
    put_value(b, o, "ci", json_boolean(to->ci));
    return o;
}

/* What is known before the job; the final run.json begins with it, too. */
static void put_start(struct builder *b, json_t *o, const struct twin_run *run,
                      const struct tw_run_extra *x)
{
    char version[] = "twinrun.run/1";
    put_value(b, o, "schema", tw_json_bytes(version));
    put_value(b, o, "id", tw_json_bytes(run->id));
    put_value(b, o, "label", tw_json_bytes(run->label));
    put_value(b, o, "argv", command_json(b, run, x->redactor));
    put_value(b, o, "cwd", tw_json_bytes(run->cwd));
    put_value(b, o, "launched_from", tw_json_bytes(x->launched_from));
    put_value(b, o, "fresh_dir", json_boolean(x->o->fresh_dir));
    put_value(b, o, "host", tw_json_bytes(run->host));
    if (run->node.engine)
        put_value(b, o, "node", node_json(b, &run->node));
    if (run->rollout.arm)
        put_value(b, o, "rollout", rollout_json(b, &run->rollout));
    put_value(b, o, "belongs", belongs_json(b, &run->belongs, x->redactor));
    put_value(b, o, "machine", machine_json(b));
    put_value(b, o, "launcher", launcher(b));
    put_value(b, o, "start_realtime_ns", json_integer(run->start_realtime_ns));
    put_value(b, o, "start_monotonic_ns", json_integer(run->start_monotonic_ns));
    put_value(b, o, "level", tw_json_bytes(twin_level_name(run->level)));
    put_value(b, o, "window",
              json_pack("[I,I]", (json_int_t)x->o->window_first, (json_int_t)x->o->window_last));
    put_value(b, o, "max_steps", json_integer(run->max_steps));
    put_value(b, o, "sketch_every", json_integer(x->o->sketch_every));
    put_value(b, o, "telemetry", json_boolean(x->o->agents && !x->o->no_telemetry));
    put_value(b, o, "lossless", json_boolean(x->o->lossless));
    put_value(b, o, "agents", json_boolean(run->agents));
    json_t *agent = checked(b, json_object());
    put_value(b, agent, "library",
              tw_json_bytes(x->agent->library ? x->agent->library : x->agent->parts.agent_library));
    put_value(b, agent, "site_dir", tw_json_bytes(x->agent->parts.site_dir));
    put_value(b, agent, "preloaded", json_boolean(x->agent->preload));
    put_value(b, agent, "why", tw_json_bytes(x->agent->why));
    put_value(b, agent, "load_s", json_real(run->agent_load_s));
    put_value(b, o, "agent", agent);
    put_value(b, o, "env", kept_environment(b, x->env, x->redactor));
    put_value(b, o, "factors", factors(b, run, x->env));
    put_value(b, o, "data", data_json(b, run));
    put_value(b, o, "notes", strings(b, run->notes, run->note_count));
}

/* What is known when the job has ended; `outcome` tells a reader that all of it is there. */
static void put_end(struct builder *b, json_t *o, const struct twin_run *run,
                    const struct tw_run_extra *x)
{
    put_value(b, o, "outcome", tw_json_bytes(tw_outcome_name(run->outcome)));
    put_value(b, o, "exit_code", json_integer(run->exit_code));
    put_value(b, o, "signal", json_integer(run->signal));
    put_value(b, o, "message", tw_json_bytes(run->message));
    put_value(b, o, "wall_s", json_real(run->wall_s));
    put_value(b, o, "stdout",
              output(b, run->stdout_bytes, x->stream ? &x->stream[0] : NULL, run->stdout_sha256,
                     run->stdout_truncated));
    put_value(b, o, "stderr",
              output(b, run->stderr_bytes, x->stream ? &x->stream[1] : NULL, run->stderr_sha256,
                     run->stderr_truncated));
    put_value(b, o, "one_stream", json_boolean(run->one_stream));
    put_value(b, o, "processes", processes(b, run));
    put_value(b, o, "files", files(b, run));
    put_value(b, o, "files_truncated", json_boolean(run->files_truncated));
    put_value(b, o, "ids", json_pack("[i,i]", run->first_id, run->last_id));
    put_value(b, o, "fresh_names", strings(b, run->fresh_names, run->fresh_count));
}

/* Where jansson writes the text of the file to. */
static int append_bytes(const char *text, size_t n, void *data)
{
    return tw_buf_append(data, text, n) == 0 ? 0 : -1;
}

/* ASCII with escapes, so that any tool reads the file. */
int tw_run_save(const struct twin_run *run, const struct tw_run_extra *x, struct twin_error *err)
{
    struct builder b = {0};
    struct tw_buf text = {0};
    char *path = tw_path_join(run->dir, "run.json");
    json_t *o = checked(&b, json_object());
    put_start(&b, o, run, x);
    if (x->complete)
        put_end(&b, o, run, x);
    int rc = 0;
    if (b.failed || !path ||
        json_dump_callback(o, append_bytes, &text, JSON_INDENT(1) | JSON_ENSURE_ASCII) != 0 ||
        tw_buf_puts(&text, "\n") != 0)
        rc = tw_no_memory(err, "writing run.json of %s", run->dir);
    else
        rc = tw_write_file_atomic(path, text.data, text.len, err);
    json_decref(o);
    tw_buf_free(&text);
    tw_free(path);
    return rc;
}
