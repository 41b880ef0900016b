/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a run: launch options as a list of NAME=VALUE and back (order.h says why so). A new
 * launch option that a node has to know needs a line in both directions here. */
#include "order.h"

#include "base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* An order of more is none of ours: an environment has at most some megabytes. */
enum { ORDER_MAX = 64 << 20 };

/* ---- writing */

static void put_text(struct tw_buf *b, const char *name, const char *value)
{
    if (!value)
        return;
    tw_buf_puts(b, name);
    tw_buf_append(b, "=", 1);
    tw_buf_append(b, value, strlen(value) + 1);
}

static void put_number(struct tw_buf *b, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put_text(b, name, text);
}

static void put_texts(struct tw_buf *b, const char *name, char *const *texts)
{
    for (size_t i = 0; texts && texts[i]; i++)
        put_text(b, name, texts[i]);
}

/* A path that the node finds whatever its own working folder is. */
static int put_path(struct tw_buf *b, const char *name, const char *path, struct twin_error *err)
{
    char *absolute = path ? tw_path_absolute(path, err) : NULL;
    if (path && !absolute)
        return err && err->code ? err->code : TWIN_ENOMEM;
    put_text(b, name, absolute);
    tw_free(absolute);
    return 0;
}

static void put_data(struct tw_buf *b, const struct twin_launch_options *o)
{
    for (size_t i = 0; i < o->data_count; i++) {
        const struct twin_run_data *d = &o->data[i];
        put_text(b, "data", d->folder);
        put_text(b, "data.manifest", d->manifest);
        put_text(b, "data.root", d->root);
        put_number(b, "data.files", d->files);
        put_number(b, "data.bytes", d->bytes);
    }
}

int tw_order_body(const struct twin_launch_options *o, bool bare, struct tw_buf *b,
                  struct twin_error *err)
{
    mode_t mask = umask(0);
    umask(mask);
    char *cwd = realpath(".", NULL);
    if (!cwd)
        return twin_error_system(err, "cannot find the working folder");
    put_text(b, "cwd", cwd);
    free(cwd);
    put_number(b, "mask", mask);
    put_number(b, "bare", bare);
    put_texts(b, "argv", o->argv);
    put_texts(b, "env", o->env);
    put_texts(b, "environment", environ);
    put_text(b, "label", o->label);
    put_number(b, "level", (uint64_t)o->level);
    put_number(b, "agents", o->agents);
    put_number(b, "max_steps", o->max_steps);
    put_number(b, "hold", o->hold);
    put_number(b, "window_first", o->window_first);
    put_number(b, "window_last", o->window_last);
    put_number(b, "sketch_every", o->sketch_every);
    put_number(b, "lossless", o->lossless);
    put_number(b, "fresh_dir", o->fresh_dir);
    put_number(b, "output_cap_bytes", o->output_cap_bytes);
    put_number(b, "tick_ms", o->tick_ms);
    put_number(b, "no_aslr", o->no_aslr);
    put_number(b, "on_cpu", o->on_cpu);
    put_number(b, "cpu", (uint64_t)(o->cpu > 0 ? o->cpu : 0));
    put_number(b, "no_telemetry", o->no_telemetry);
    put_number(b, "hot", o->hot);
    put_data(b, o);
    char *home = o->home ? NULL : twin_home_default();
    int rc = put_path(b, "home", o->home ? o->home : home, err);
    tw_free(home);
    rc = rc ? rc : put_path(b, "copy_of", o->copy_of, err);
    rc = rc ? rc : put_path(b, "spool", o->stdin_spool, err);
    if (rc == 0 && b->failed)
        rc = tw_no_memory(err, "for an order");
    return rc;
}

/* The file holds an environment: nobody else may read it, not even for a moment. */
int tw_order_write(const struct tw_ticket *t, const char *engine, const struct tw_buf *body,
                   struct twin_error *err)
{
    struct tw_buf head = {0};
    char *path = tw_path_join(t->folder, "order"), *draft = tw_path_join(t->folder, ".order");
    put_text(&head, "version", TWINRUN_VERSION);
    put_text(&head, "engine", engine);
    put_text(&head, "ticket", t->number);
    put_number(&head, "attempt", t->attempt);
    int rc = path && draft && !head.failed ? 0 : tw_no_memory(err, "for an order");
    int fd = rc == 0 ? open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (rc == 0 && (fd < 0 || tw_write_all(fd, head.data, head.len) != 0 ||
                    tw_write_all(fd, body->data, body->len) != 0 || fsync(fd) != 0 ||
                    rename(draft, path) != 0))
        rc = twin_error_system(err, "cannot write %s", path);
    if (fd >= 0)
        close(fd);
    tw_buf_free(&head);
    tw_free(draft);
    tw_free(path);
    return rc;
}

/* ---- reading */

struct reading {
    struct tw_order *out;
    struct twin_error *err;
    int rc;
};

static char *copy(struct reading *r, const char *value)
{
    char *text = tw_strdup(value);
    if (!text && r->rc == 0)
        r->rc = tw_no_memory(r->err, "reading an order");
    return text;
}

static void add(struct reading *r, char ***list, size_t *count, const char *value)
{
    char **grown = tw_reallocarray(*list, *count + 2, sizeof *grown);
    if (!grown) {
        r->rc = r->rc ? r->rc : tw_no_memory(r->err, "reading an order");
        return;
    }
    *list = grown;
    grown[*count] = copy(r, value);
    grown[*count + 1] = NULL;
    *count += grown[*count] != NULL;
}

static void add_data(struct reading *r, const char *folder)
{
    struct tw_order *x = r->out;
    struct twin_run_data *grown = tw_reallocarray(x->data, x->o.data_count + 1, sizeof *grown);
    if (!grown) {
        r->rc = r->rc ? r->rc : tw_no_memory(r->err, "reading an order");
        return;
    }
    x->data = grown;
    grown[x->o.data_count++] = (struct twin_run_data){.folder = copy(r, folder)};
}

static bool read_texts(struct reading *r, const char *name, const char *value)
{
    struct tw_order *x = r->out;
    struct {
        const char *name;
        char **at;
    } const texts[] = {{"cwd", &x->cwd},        {"engine", &x->engine}, {"ticket", &x->ticket},
                       {"home", &x->home},      {"label", &x->label},   {"spool", &x->spool},
                       {"copy_of", &x->copy_of}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(name, texts[i].name) == 0) {
            tw_free(*texts[i].at);
            *texts[i].at = copy(r, value);
            return true;
        }
    if (strcmp(name, "argv") == 0)
        add(r, &x->argv, &x->argc, value);
    else if (strcmp(name, "env") == 0)
        add(r, &x->env, &x->env_count, value);
    else if (strcmp(name, "environment") == 0)
        add(r, &x->environment, &x->environment_count, value);
    else if (strcmp(name, "data") == 0)
        add_data(r, value);
    else
        return false;
    return true;
}

/* What belongs to the data named last. */
static bool read_data(struct reading *r, const char *name, const char *value, uint64_t n)
{
    struct tw_order *x = r->out;
    if (!tw_starts(name, "data.") || !x->o.data_count)
        return false;
    struct twin_run_data *d = &x->data[x->o.data_count - 1];
    if (strcmp(name, "data.manifest") == 0 && !d->manifest)
        d->manifest = copy(r, value);
    else if (strcmp(name, "data.root") == 0)
        snprintf(d->root, sizeof d->root, "%s", value);
    else if (strcmp(name, "data.files") == 0)
        d->files = n;
    else if (strcmp(name, "data.bytes") == 0)
        d->bytes = n;
    return true;
}

static bool read_flag(struct tw_order *x, const char *name, uint64_t n)
{
    struct {
        const char *name;
        bool *at;
    } const flags[] = {{"bare", &x->bare},         {"agents", &x->o.agents},
                       {"hold", &x->o.hold},       {"lossless", &x->o.lossless},
                       {"hot", &x->o.hot},         {"fresh_dir", &x->o.fresh_dir},
                       {"no_aslr", &x->o.no_aslr}, {"no_telemetry", &x->o.no_telemetry},
                       {"on_cpu", &x->o.on_cpu}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strcmp(name, flags[i].name) == 0) {
            *flags[i].at = n != 0;
            return true;
        }
    return false;
}

static void read_number(struct tw_order *x, const char *name, uint64_t n)
{
    struct {
        const char *name;
        uint32_t *at;
    } const numbers[] = {
        {"max_steps", &x->o.max_steps},       {"attempt", &x->attempt},
        {"window_first", &x->o.window_first}, {"tick_ms", &x->o.tick_ms},
        {"window_last", &x->o.window_last},   {"sketch_every", &x->o.sketch_every}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(name, numbers[i].name) == 0)
            *numbers[i].at = (uint32_t)n;
    if (strcmp(name, "level") == 0)
        x->o.level = (enum twin_level)n;
    else if (strcmp(name, "cpu") == 0)
        x->o.cpu = (int)n;
    else if (strcmp(name, "mask") == 0)
        x->mask = (unsigned)n;
    else if (strcmp(name, "output_cap_bytes") == 0)
        x->o.output_cap_bytes = n;
}

static void read_one(struct reading *r, char *entry)
{
    char *value = strchr(entry, '=');
    if (!value)
        return;
    *value++ = '\0';
    uint64_t n = strtoull(value, NULL, 10);
    if (strcmp(entry, "version") == 0 && strcmp(value, TWINRUN_VERSION) != 0) {
        r->rc = twin_error_set(r->err, TWIN_EVERSION,
                               "the node has another twinrun: expected version %s, found %s", value,
                               TWINRUN_VERSION);
        return;
    }
    if (!read_texts(r, entry, value) && !read_data(r, entry, value, n) &&
        !read_flag(r->out, entry, n))
        read_number(r->out, entry, n);
}

int tw_order_read(const char *folder, struct tw_order *out, struct twin_error *err)
{
    struct reading r = {.out = out, .err = err};
    char *path = tw_path_join(folder, "order"), *data = NULL;
    size_t bytes = 0;
    *out = (struct tw_order){.attempt = 0};
    int rc = path ? tw_read_file(path, ORDER_MAX, &data, &bytes, err)
                  : tw_no_memory(err, "reading an order");
    /* the text is NUL-terminated behind its end, too */
    for (size_t at = 0; rc == 0 && at < bytes; rc = r.rc) {
        size_t n = strlen(data + at);
        read_one(&r, data + at);
        at += n + 1;
    }
    if (rc == 0 &&
        (!out->argv || !out->home || !out->cwd || !out->ticket || !out->engine || !out->attempt))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: not a whole order", path);
    for (size_t i = 0; rc == 0 && i < out->o.data_count; i++)
        if (!out->data[i].manifest)
            rc = twin_error_set(err, TWIN_EFORMAT, "%s: not a whole order", path);
    out->o.argv = out->argv;
    out->o.env = out->env;
    out->o.home = out->home;
    out->o.label = out->label;
    out->o.copy_of = out->copy_of;
    out->o.stdin_spool = out->spool;
    out->o.data = out->data;
    tw_free(data);
    tw_free(path);
    return rc;
}

void tw_order_delete(const char *folder)
{
    char *path = tw_path_join(folder, "order");
    if (path)
        unlink(path);
    tw_free(path);
}

static void free_texts(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        tw_free(list[i]);
    tw_free(list);
}

void tw_order_free(struct tw_order *o)
{
    char *texts[] = {o->cwd, o->engine, o->ticket, o->home, o->label, o->copy_of, o->spool};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        tw_free(texts[i]);
    free_texts(o->argv);
    free_texts(o->env);
    free_texts(o->environment);
    for (size_t i = 0; i < o->o.data_count; i++) {
        tw_free(o->data[i].folder);
        tw_free(o->data[i].manifest);
    }
    tw_free(o->data);
    *o = (struct tw_order){.attempt = 0};
}
