/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun --node-run FOLDER: what an engine starts on a node, and nobody types. It takes the order
 * that lies in the ticket's folder, makes that one watched run here, and leaves result.json there
 * (src/engine/order.h). So the job is armed and its surroundings are written down on the machine
 * that it runs on.
 *
 * The run ends when the caller says so (a file `stop`), when the folder is gone, or when the caller
 * has given no sign of life for an hour.
 */
#include "node_run.h"

#include "say.h"

#include "base.h"

#include "src/engine/order.h"
#include "src/provenance/provenance.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { ALIVE_EVERY_S = 20, ALIVE_LOST_S = 3600, ORDER_SEEN_S = 30, REASON_MAX = 4096 };

struct node_run {
    const char *folder;
    struct tw_order order;
    bool dir_said;
    char *stopped_because;        /* what the caller wrote into `stop`; owned */
    uint64_t alive_ns, looked_ns; /* monotonic: the pulse changed; it was looked at */
    struct timespec pulse;
};

/* ---- the environment of the caller, and what the node knows better */

static bool is_the_nodes(const char *entry)
{
    static const char *const own[] = {"SLURM",
                                      "PBS_",
                                      "LSB_",
                                      "LS_JOB",
                                      "PMI",
                                      "TMPDIR=",
                                      "HOSTNAME=",
                                      "SSH_",
                                      "KUBERNETES_",
                                      "CUDA_VISIBLE_DEVICES=",
                                      "ROCR_VISIBLE_DEVICES=",
                                      "GPU_DEVICE_ORDINAL=",
                                      "TWINRUN_NODE=",
                                      "XDG_RUNTIME_DIR="};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (tw_starts(entry, own[i]))
            return true;
    return false;
}

/* Is there an entry of this name among ours? */
static bool is_set_here(const char *entry)
{
    const size_t n = strcspn(entry, "=");
    for (size_t i = 0; environ[i]; i++)
        if (strncmp(environ[i], entry, n) == 0 && environ[i][n] == '=')
            return true;
    return false;
}

/* The job's environment is the caller's, but for what says where it is. In a container what the
 * image and the manifest set (PATH, above all) is what fits its files, and the caller's is added to
 * it. The list stays in use. */
static int take_environment(const struct tw_order *o, struct twin_error *err)
{
    const bool contained = tw_engine_has_containers(o->engine);
    size_t mine = 0, n = 0;
    while (environ[mine])
        mine++;
    char **all = tw_calloc(mine + o->environment_count + 1, sizeof *all);
    if (!all)
        return tw_no_memory(err, "for an environment");
    for (size_t i = 0; i < o->environment_count; i++)
        if (!is_the_nodes(o->environment[i]) && !(contained && is_set_here(o->environment[i])))
            all[n++] = o->environment[i];
    for (size_t i = 0; i < mine; i++)
        if (contained || is_the_nodes(environ[i]))
            all[n++] = environ[i];
    environ = all;
    return 0;
}

/* What the caller's stdin held lies in a file, which each run reads from its beginning. */
static void take_stdin(const char *spool)
{
    int fd = spool ? open(spool, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return; /* the caller had none: ours leads nowhere */
    dup2(fd, STDIN_FILENO);
    close(fd);
}

/* ---- while the run goes on */

static bool there(const char *folder, const char *name)
{
    struct stat st;
    char *path = tw_path_join(folder, name);
    bool found = path && stat(path, &st) == 0;
    tw_free(path);
    return found;
}

/* Has the caller shown no sign of life for too long? Only changes count: clocks may differ. */
static bool is_forgotten(struct node_run *n)
{
    struct stat st;
    uint64_t now = tw_monotonic_ns();
    if ((double)(now - n->looked_ns) * 1e-9 < ALIVE_EVERY_S)
        return false;
    n->looked_ns = now;
    char *path = tw_printf("%s/../../alive", n->folder);
    bool found = path && stat(path, &st) == 0;
    tw_free(path);
    if (found && (st.st_mtim.tv_sec != n->pulse.tv_sec || st.st_mtim.tv_nsec != n->pulse.tv_nsec)) {
        n->pulse = st.st_mtim;
        n->alive_ns = now;
    }
    return (double)(now - n->alive_ns) * 1e-9 > ALIVE_LOST_S;
}

/* malloc'ed; NULL: none was given. */
static char *stop_reason(const char *folder)
{
    char *path = tw_path_join(folder, "stop"), *text = NULL;
    size_t n = 0;
    if (path)
        tw_read_file(path, REASON_MAX, &text, &n, NULL);
    tw_free(path);
    if (n)
        return text;
    tw_free(text);
    return NULL;
}

static int on_tick(void *user, const struct twin_progress *p)
{
    struct node_run *n = user;
    if (!n->dir_said) {
        char *path = tw_path_join(n->folder, "dir");
        n->dir_said = path && tw_write_file_atomic(path, p->run_dir, strlen(p->run_dir), NULL) == 0;
        tw_free(path);
    }
    if (there(n->folder, "stop")) {
        if (!n->stopped_because)
            n->stopped_because = stop_reason(n->folder);
        return 1;
    }
    return !there(n->folder, "claim.json") || is_forgotten(n);
}

/* ---- from the order to the result */

/* The folder may be seen here a little later than it was written there. */
static int read_order(struct node_run *n, struct twin_error *err)
{
    const struct timespec wait = {.tv_nsec = 200000000};
    for (int i = 0;; i++) {
        if (there(n->folder, "claim.json"))
            return 0;
        int rc = tw_order_read(n->folder, &n->order, err);
        if (rc != TWIN_ENOENT || i >= ORDER_SEEN_S * 5)
            return rc;
        tw_order_free(&n->order);
        *err = (struct twin_error)TWIN_ERROR_INIT;
        nanosleep(&wait, NULL);
    }
}

/* What the scheduler calls what we are in. */
static const char *job_here(const char *engine, char text[96])
{
    const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID");
    static const char *const others[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"};
    if (array && task) {
        snprintf(text, 96, "%.40s_%.40s", array, task);
        return text;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (getenv(others[i]))
            return getenv(others[i]);
    const char *pod = tw_engine_has_containers(engine) ? getenv("HOSTNAME") : NULL;
    return pod ? pod : "";
}

static int launch(struct node_run *n, const char *node, struct tw_result *result,
                  struct twin_error *err)
{
    char job[96];
    struct twin_run_node at = {.engine = n->order.engine,
                               .name = (char *)(uintptr_t)node,
                               .job = (char *)(uintptr_t)job_here(n->order.engine, job),
                               .attempt = n->order.attempt};
    struct twin_launch_options o = n->order.o;
    struct twin_run *run = NULL;
    o.node = &at;
    o.on_tick = on_tick;
    o.user = n;
    o.stopped_because = &n->stopped_because;
    n->alive_ns = n->looked_ns = tw_monotonic_ns();
    int rc = n->order.bare ? twin_launch(&o, &run, err) : twin_provenance_launch(&o, &run, err);
    if (rc == 0)
        rc = tw_run_digest(run, result->digest, err);
    if (rc == 0) {
        result->dir = tw_strdup(run->dir);
        result->interrupted = run->outcome == TWIN_RUN_INTERRUPTED;
        result->exit_code = run->exit_code;
    }
    twin_run_free(run);
    return rc;
}

/* Makes the run and writes what came of it, also of a launch that failed. */
static int make(struct node_run *n, struct twin_error *err)
{
    char node[256], host[256] = "";
    struct twin_error why = TWIN_ERROR_INIT;
    struct tw_result result = {.rc = 0};
    tw_engine_here(n->order.engine, node);
    if (tw_engine_has_containers(n->order.engine)) /* a new host name in each container */
        snprintf(host, sizeof host, "%s", node);
    else
        gethostname(host, sizeof host - 1);
    struct tw_claim claim = {.node = node, .host = host, .pid = getpid()};
    int rc = tw_claim_make(n->folder, n->order.ticket, &claim, err);
    if (rc != 0)
        return rc;
    tw_order_delete(n->folder);
    umask((mode_t)n->order.mask);
    result.rc = take_environment(&n->order, &why);
    if (result.rc == 0 && chdir(n->order.cwd) != 0)
        result.rc = twin_error_system(&why, "%s, where the job is to run: the nodes have to see it",
                                      n->order.cwd);
    if (result.rc == 0)
        take_stdin(n->order.spool);
    if (result.rc == 0)
        result.rc = launch(n, node, &result, &why);
    result.message = why.message;
    result.node = node;
    result.host = host;
    rc = tw_result_write(n->folder, &n->order, &result, err);
    tw_free(result.dir);
    return rc;
}

int tw_node_run(const char *folder)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct node_run n = {.folder = folder};
    int rc = read_order(&n, &err);
    if (rc == 0 && !n.order.ticket) { /* somebody has taken it: leave the mark, do nothing */
        char host[256] = "", node[256];
        gethostname(host, sizeof host - 1);
        tw_engine_here("", node);
        struct tw_claim claim = {.node = node, .host = host, .pid = getpid()};
        rc = tw_claim_make(folder, "", &claim, &err);
    } else if (rc == 0) {
        rc = make(&n, &err);
    }
    tw_order_free(&n.order);
    tw_free(n.stopped_because);
    return rc == 0 ? 0 : tw_trouble(&err, "--node-run");
}
