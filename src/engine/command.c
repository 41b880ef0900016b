/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine that is a command of the user's: `cmd:ssh {host} {command}`, `cmd:bsub -K {script}`.
 * The command is run by sh for each ticket, and stands for it: it must not return before the run
 * has ended. With {host} each host of --hosts has one run at a time; without it there is one at a
 * time unless --slots says how many.
 *
 * What is put in for a placeholder is quoted for the shell that reads the template. ssh gives what
 * it gets to another shell, which reads it again: {quoted} is quoted for both.
 */
#include "engine_inside.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool has(const struct tw_engine *e, const char *placeholder)
{
    return strstr(e->words, placeholder) != NULL;
}

static int command_probe(struct tw_engine *e, struct twin_error *err)
{
    if (!has(e, "{command}") && !has(e, "{quoted}") && !has(e, "{script}"))
        return twin_error_set(err, TWIN_EINVAL,
                              "--on cmd: expected {command}, {quoted} or {script} in the template, "
                              "found \"%s\"; write: --on 'cmd:ssh {host} {quoted}' --hosts a,b",
                              e->words);
    if (has(e, "{host}") && !e->node_count)
        return twin_error_set(err, TWIN_EINVAL,
                              "--on cmd: the template has {host}: name the hosts with --hosts a,b");
    if (!has(e, "{host}") && e->node_count)
        return twin_error_set(err, TWIN_EINVAL,
                              "--hosts: the template of --on has no {host} to put them in");
    return 0;
}

/* Features are a scheduler's; and a run that fits no host would wait for ever. */
static int command_knows_place(const struct tw_engine *e, const struct tw_place *place,
                               struct twin_error *err)
{
    if (place->kind == TW_PLACE_TYPE)
        return twin_error_set(err, TWIN_EINVAL,
                              "--place: type:WORDS is for --on slurm and k8s: others have only "
                              "hosts by name");
    for (size_t i = 0; i < e->node_count; i++)
        if (tw_place_holds(place, e->node[i].name))
            return 0;
    if (!e->node_count)
        return 0;
    return twin_error_set(err, TWIN_EINVAL, "--place: it leaves none of the hosts");
}

static int command_can_pin(const struct tw_engine *e, struct twin_error *err)
{
    if (has(e, "{host}"))
        return 0;
    return twin_error_set(err, TWIN_EUNSUPPORTED,
                          "the template of --on has no {host}, so that nobody here says where a "
                          "run is made");
}

/* The free host that has lost the fewest runs; NULL: none is free. */
static struct tw_node *choose(const struct tw_engine *e, const struct tw_place *place)
{
    struct tw_node *best = NULL;
    for (size_t i = 0; i < e->node_count; i++) {
        struct tw_node *n = &e->node[i];
        if (n->busy || !tw_place_holds(place, n->name))
            continue;
        if (!best || n->failed < best->failed)
            best = n;
    }
    return best;
}

static size_t command_room(const struct tw_engine *e, const struct tw_place *place)
{
    size_t most = e->slots ? e->slots : 1;
    if (has(e, "{host}"))
        return choose(e, place) ? 1 : 0;
    return e->out < most ? most - e->out : 0;
}

/* Writes the template with its placeholders filled in. Braces that are none of ours are the
 * shell's. */
static char *fill_in(const struct tw_engine *e, const char *host, const char *script)
{
    char *at = tw_shell_word(host), *file = tw_shell_word(script);
    char *command = file ? tw_printf("/bin/sh %s", file) : NULL;
    char *quoted = command ? tw_shell_word(command) : NULL;
    const struct {
        const char *name, *value;
    } all[] = {{"{host}", at}, {"{command}", command}, {"{quoted}", quoted}, {"{script}", file}};
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    for (const char *p = e->words; quoted && at && *p;) {
        size_t i = 0;
        while (i < sizeof all / sizeof all[0] && !tw_starts(p, all[i].name))
            i++;
        if (i < sizeof all / sizeof all[0]) {
            tw_buf_puts(&b, all[i].value);
            p += strlen(all[i].name);
        } else {
            tw_buf_append(&b, p++, 1);
        }
    }
    bool failed = !quoted || !at;
    tw_free(at);
    tw_free(file);
    tw_free(command);
    tw_free(quoted);
    if (failed) {
        tw_buf_free(&b);
        return NULL;
    }
    return tw_buf_steal(&b);
}

/*
 * Starts the command in a process group of its own: Ctrl-C at the terminal is ours, and what is
 * cancelled is cancelled with its children. /bin/sh would end at once then, and what it started is
 * still ending: the trap, which runs behind the command of that moment, has it stay as long. What
 * is printed goes into the ticket's log.
 */
static int start(const char *text, const char *log, pid_t *pid, struct twin_error *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    char *argv[4], *trapped = tw_printf("trap 'exit 143' TERM\n%s", text);
    if (!trapped || posix_spawn_file_actions_init(&files) != 0) {
        tw_free(trapped);
        return tw_no_memory(err, "for a command");
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        tw_free(trapped);
        return tw_no_memory(err, "for a command");
    }
    tw_shell_argv(trapped, argv);
    sigemptyset(&none);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    int rc = posix_spawn(pid, "/bin/sh", &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    tw_free(trapped);
    if (rc == 0)
        return 0;
    errno = rc;
    return twin_error_system(err, "cannot execute /bin/sh");
}

/* The node is called as the template called it, unless the template itself says otherwise. */
static const char script_text[] = "#!/bin/sh\n"
                                  "at=%s\n"
                                  "if [ -n \"$at\" ] && [ -z \"$TWINRUN_NODE\" ]; then\n"
                                  "  TWINRUN_NODE=$at\n"
                                  "  export TWINRUN_NODE\n"
                                  "fi\n"
                                  "exec %s --node-run %s\n";

static int submit_one(struct tw_engine *e, struct tw_ticket *t, struct twin_error *err)
{
    struct tw_node *at = has(e, "{host}") ? choose(e, &t->place) : NULL;
    char *script = tw_path_join(t->folder, "run.sh"), *log = tw_path_join(t->folder, "log");
    char *program = tw_engine_program(err), *folder = tw_shell_word(t->folder);
    char *host = at ? tw_shell_word(at->name) : tw_strdup("");
    char *content = program && folder && host ? tw_printf(script_text, host, program, folder)
                                              : NULL;
    const char *name = at ? at->name : "";
    char *text = script ? fill_in(e, name, script) : NULL;
    int rc = script && log && content && text ? 0 : tw_no_memory(err, "for a command");
    if (rc == 0)
        rc = tw_engine_write_script(script, content, err);
    if (rc == 0)
        rc = start(text, log, &t->pid, err);
    if (rc == 0) {
        snprintf(t->job, sizeof t->job, "%d", (int)t->pid);
        snprintf(t->node, sizeof t->node, "%s", at ? at->name : "");
        snprintf(t->asked, sizeof t->asked, "%s", at ? at->name : "");
        t->state = TW_JOB_RUNNING;
        if (at)
            at->busy++;
    }
    tw_free(script);
    tw_free(log);
    tw_free(program);
    tw_free(folder);
    tw_free(host);
    tw_free(content);
    tw_free(text);
    return rc;
}

static int command_submit(struct tw_engine *e, const char *batch, struct tw_ticket *const *ticket,
                          size_t n, struct twin_error *err)
{
    int rc = 0;
    (void)batch;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = submit_one(e, ticket[i], err);
    return rc;
}

static void command_poll(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n)
{
    (void)e;
    for (size_t i = 0; i < n; i++) {
        struct tw_ticket *t = ticket[i];
        int status = 0;
        pid_t gone = t->pid ? waitpid(t->pid, &status, WNOHANG) : 0;
        if (gone == 0 || (gone < 0 && errno == EINTR))
            continue;
        t->pid = 0;
        t->state = TW_JOB_GONE;
        if (gone < 0)
            snprintf(t->why, sizeof t->why, "the command is gone");
        else if (WIFSIGNALED(status))
            snprintf(t->why, sizeof t->why, "the command was killed by signal %d",
                     WTERMSIG(status));
        else
            snprintf(t->why, sizeof t->why, "the command ended with exit code %d",
                     WEXITSTATUS(status));
    }
}

static void command_cancel(struct tw_engine *e, struct tw_ticket *const *ticket, size_t n)
{
    (void)e;
    for (size_t i = 0; i < n; i++)
        if (ticket[i]->pid) {
            kill(-ticket[i]->pid, SIGTERM);
            ticket[i]->cancelled_ns = tw_monotonic_ns();
        }
}

/* A command that has not ended yet has done its work; it gets two seconds to end. One that was
 * cancelled has its job to end first, which a node that is killed meanwhile would leave behind: the
 * node gives the job five seconds, kills it, and writes down what came of it. */
static void command_release(struct tw_engine *e, struct tw_ticket *t)
{
    enum { DONE_S = 2, CANCELLED_S = 30, ROUND_US = 50000 };
    struct tw_node *at = tw_engine_node(e, t->asked);
    const uint64_t second = UINT64_C(1000000000), done = tw_monotonic_ns() + DONE_S * second;
    const uint64_t cancelled = t->cancelled_ns ? t->cancelled_ns + CANCELLED_S * second : 0;
    const uint64_t end = cancelled > done ? cancelled : done;
    while (t->pid && tw_monotonic_ns() < end) {
        command_poll(e, &t, 1);
        if (t->pid)
            usleep(ROUND_US);
    }
    if (t->pid) {
        kill(-t->pid, SIGKILL);
        while (waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        t->pid = 0;
    }
    if (at && at->busy)
        at->busy--;
}

/* A kind that starts commands of a template; its probe makes the template, and names the hosts. */
#define OF_TEMPLATE(name_, grace_, probe_) \
    {.name = (name_),                      \
     .poll_s = 0.1,                        \
     .grace_s = (grace_),                  \
     .probe = (probe_),                    \
     .knows_place = command_knows_place,   \
     .can_pin = command_can_pin,           \
     .room = command_room,                 \
     .submit = command_submit,             \
     .poll = command_poll,                 \
     .cancel = command_cancel,             \
     .release = command_release}

const struct tw_engine_kind tw_engine_command = OF_TEMPLATE("cmd", 5, command_probe);
const struct tw_engine_kind tw_engine_ray = OF_TEMPLATE("ray", 30, tw_ray_probe); /* ray.c */
