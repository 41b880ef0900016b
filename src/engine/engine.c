/* SPDX-License-Identifier: Apache-2.0 */
/* One engine, whichever kind it is: the words of --on, the nodes, and the calls that go on to the
 * kind. The kinds: slurm.c, command.c, k8s.c, ray.c. */
#include "engine_inside.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- nodes */

int tw_engine_add_node(struct tw_engine *e, const char *name, const char *type, bool up,
                       struct twin_error *err)
{
    struct tw_node *grown = tw_reallocarray(e->node, e->node_count + 1, sizeof *grown);
    if (!grown)
        return tw_no_memory(err, "for the nodes of an engine");
    e->node = grown;
    struct tw_node *n = &grown[e->node_count];
    *n = (struct tw_node){.name = tw_strdup(name), .type = tw_strdup(type), .up = up};
    e->node_count++;
    return n->name && n->type ? 0 : tw_no_memory(err, "for the nodes of an engine");
}

void tw_engine_forget_nodes(struct tw_engine *e)
{
    for (size_t i = 0; i < e->node_count; i++) {
        tw_free(e->node[i].name);
        tw_free(e->node[i].type);
        tw_free(e->node[i].host);
        tw_free(e->node[i].processor);
    }
    tw_free(e->node);
    e->node = NULL;
    e->node_count = 0;
}

struct tw_node *tw_engine_node(struct tw_engine *e, const char *name)
{
    for (size_t i = 0; i < e->node_count; i++)
        if (e->node[i].name && strcmp(e->node[i].name, name) == 0)
            return &e->node[i];
    return NULL;
}

const struct tw_node *tw_engine_nodes(const struct tw_engine *e, size_t *count)
{
    *count = e->node_count;
    return e->node;
}

/* ---- what the kinds share */

char *tw_engine_program(struct twin_error *err)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) {
        twin_error_system(err, "cannot find the program that runs (/proc/self/exe)");
        return NULL;
    }
    path[n] = '\0';
    char *word = tw_shell_word(path);
    if (!word)
        tw_no_memory(err, "for a command");
    return word;
}

void tw_engine_add_words(struct tw_buf *b, const char *words)
{
    for (const char *p = words; *p;) {
        size_t n = strcspn(p, " ");
        char *word = n ? tw_strndup(p, n) : NULL;
        char *quoted = word ? tw_shell_word(word) : NULL;
        if (quoted)
            tw_buf_printf(b, " %s", quoted);
        tw_free(word);
        tw_free(quoted);
        p += n + (p[n] == ' ');
    }
}

int tw_engine_write_script(const char *path, const char *text, struct twin_error *err)
{
    int rc = tw_write_file_atomic(path, text, strlen(text), err);
    if (rc == 0 && chmod(path, 0700) != 0)
        rc = twin_error_system(err, "cannot make %s executable", path);
    return rc;
}

void tw_engine_here(const char *engine, char out[256])
{
    const char *said = getenv(strcmp(engine, "slurm") == 0 ? "SLURMD_NODENAME" : "TWINRUN_NODE");
    if (said && *said)
        snprintf(out, 256, "%s", said);
    else if (gethostname(out, 255) != 0)
        snprintf(out, 256, "unknown");
    out[255] = '\0';
}

bool tw_engine_has_containers(const char *engine)
{
    return strcmp(engine, tw_engine_k8s.name) == 0;
}

/* ---- the words of --on */

/* The names of hosts, each a node. What a host is cannot be asked beforehand, so all have one
 * type. */
static int add_hosts(struct tw_engine *e, const char *hosts, struct twin_error *err)
{
    int rc = 0;
    for (const char *p = hosts; rc == 0 && p && *p;) {
        size_t n = strcspn(p, ",");
        char *name = tw_strndup(p, n);
        if (!name)
            rc = tw_no_memory(err, "for the names of hosts");
        else if (n && tw_engine_node(e, name))
            rc = twin_error_set(err, TWIN_EINVAL, "--hosts: %s is there twice", name);
        else if (n)
            rc = tw_engine_add_node(e, name, "", true, err);
        tw_free(name);
        p += n + (p[n] == ',');
    }
    return rc;
}

static const struct tw_engine_kind *kind_of(const char *on, const char **words)
{
    static const struct tw_engine_kind *const all[] = {&tw_engine_slurm, &tw_engine_command,
                                                       &tw_engine_k8s, &tw_engine_ray};
    size_t n = strcspn(on, ":");
    *words = on[n] == ':' ? on + n + 1 : "";
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strlen(all[i]->name) == n && memcmp(all[i]->name, on, n) == 0)
            return all[i];
    return NULL;
}

int tw_engine_open(const char *on, const char *hosts, size_t slots, struct tw_engine **out,
                   struct twin_error *err)
{
    const char *words;
    *out = NULL;
    if (strcmp(on, "local") == 0)
        return 0;
    const struct tw_engine_kind *kind = kind_of(on, &words);
    if (!kind)
        return twin_error_set(err, TWIN_EINVAL,
                              "--on: expected local, slurm, slurm:OPTIONS, k8s:FILE, ray, "
                              "ray:OPTIONS or cmd:TEMPLATE, found "
                              "\"%s\"",
                              on);
    struct tw_engine *e = tw_calloc(1, sizeof *e);
    if (!e || !(e->words = tw_strdup(words))) {
        tw_free(e);
        return tw_no_memory(err, "for an engine");
    }
    e->kind = kind;
    e->slots = slots;
    int rc = add_hosts(e, hosts, err);
    if (rc == 0)
        rc = kind->probe(e, err);
    if (rc == 0)
        *out = e;
    else
        tw_engine_close(e);
    return rc;
}

void tw_engine_close(struct tw_engine *e)
{
    if (!e)
        return;
    if (e->kind && e->kind->close)
        e->kind->close(e);
    tw_engine_forget_nodes(e);
    tw_free(e->words);
    tw_free(e);
}

/* ---- the calls */

const char *tw_engine_name(const struct tw_engine *e)
{
    return e->kind->name;
}

int tw_engine_probe(struct tw_engine *e, struct twin_error *err)
{
    return e->kind->probe(e, err);
}

int tw_engine_knows_place(const struct tw_engine *e, const struct tw_place *place,
                          struct twin_error *err)
{
    return e->kind->knows_place ? e->kind->knows_place(e, place, err) : 0;
}

int tw_engine_can_pin(const struct tw_engine *e, struct twin_error *err)
{
    return e->kind->can_pin(e, err);
}

bool tw_engine_takes_node(const struct tw_engine *e, const char *node)
{
    return !e->kind->takes_node || e->kind->takes_node(e, node);
}

size_t tw_engine_room(const struct tw_engine *e, const struct tw_place *place)
{
    size_t room = e->kind->room(e, place);
    if (!e->slots)
        return room;
    size_t left = e->out < e->slots ? e->slots - e->out : 0;
    return left < room ? left : room;
}

int tw_engine_submit(struct tw_engine *e, const char *batch, struct tw_ticket *const *ticket,
                     size_t n, struct twin_error *err)
{
    int rc = e->kind->submit(e, batch, ticket, n, err);
    for (size_t i = 0; i < n; i++)
        e->out += ticket[i]->job[0] != '\0';
    return rc;
}

void tw_engine_poll(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n)
{
    if (n)
        e->kind->poll(e, ticket, n);
}

void tw_engine_cancel(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n)
{
    if (n)
        e->kind->cancel(e, ticket, n);
}

void tw_engine_release(struct tw_engine *e, struct tw_ticket *t)
{
    if (!t->job[0])
        return;
    e->kind->release(e, t);
    e->out -= e->out > 0;
    t->job[0] = '\0';
}

/* A test need not wait as long as a file system of a cluster may take. */
double tw_engine_grace_s(const struct tw_engine *e)
{
    const char *given = getenv("TWINRUN_ENGINE_GRACE");
    double s = given ? strtod(given, NULL) : 0;
    return s > 0 ? s : e->kind->grace_s;
}

double tw_engine_poll_s(const struct tw_engine *e)
{
    return e->kind->poll_s;
}
