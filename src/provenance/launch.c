/* SPDX-License-Identifier: Apache-2.0 */
/* How the job was started: its variables, its scheduler, files that steer its libraries. Ranks:
 * ranks.c. */
#include "provenance_inside.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

/* Variables that twinrun itself sets. The home is the user's choice, and stays. */
static bool is_ours(const char *name)
{
    return tw_starts(name, "TWINRUN_") && strcmp(name, "TWINRUN_HOME") != 0;
}

/* A list such as LD_PRELOAD without what twinrun put in front of it; NULL: nothing is left.
 * tw_free. */
static char *without_ours(const json_t *ours, const char *name, const char *value)
{
    static const char asan[] = "verify_asan_link_order=0";
    const bool list = strcmp(name, "LD_PRELOAD") == 0 || strcmp(name, "PYTHONPATH") == 0 ||
                      strcmp(name, "NCCL_PROFILER_PLUGIN") == 0 ||
                      strcmp(name, "CUDA_INJECTION64_PATH") == 0;
    const char *rest = value;
    bool again = list && json_array_size(ours) > 0;
    while (again) {
        size_t i;
        json_t *item;
        again = false;
        json_array_foreach (ours, i, item) {
            const char *path = json_string_value(item);
            size_t n = path ? strlen(path) : 0;
            if (n == 0 || strncmp(rest, path, n) != 0 ||
                (rest[n] && rest[n] != ':' && rest[n] != ' '))
                continue;
            rest += n + (rest[n] != '\0');
            again = *rest != '\0';
        }
    }
    if (json_array_size(ours) && strcmp(name, "ASAN_OPTIONS") == 0 && tw_starts(rest, asan))
        rest += sizeof asan - 1 + (rest[sizeof asan - 1] == ':');
    return rest != value && !*rest ? NULL : tw_strdup(rest);
}

/* The order matters: first what is ours goes, then secrets, then what cannot be printed. */
void tw_pv_put_variable(const struct tw_collector *c, json_t *o, const json_t *ours,
                        const char *name, const char *value)
{
    char *rest = is_ours(name) ? NULL : without_ours(ours, name, value);
    char *safe = rest ? twin_redact_variable(c->redactor, name, rest) : NULL;
    char *shown = safe ? tw_printable(name, strlen(name)) : NULL;
    if (shown)
        tw_pv_put(o, shown, tw_json_bytes(safe));
    tw_free(shown);
    tw_free(safe);
    tw_free(rest);
}

/* Names of all variables; the values of those that may be kept, of the others whether they have
 * changed. What twinrun itself sets is left out. */
static json_t *collect_variables(const struct tw_collector *c)
{
    json_t *o = json_object();
    for (char *const *env = c->env; env && *env; env++) {
        size_t n = strcspn(*env, "=");
        char *name = (*env)[n] == '=' && n ? tw_strndup(*env, n) : NULL;
        if (name)
            tw_pv_put_variable(c, o, NULL, name, *env + n + 1);
        tw_free(name);
    }
    return o;
}

/* Which scheduler started the job, by its variables; null: none that is known. */
static json_t *scheduler(const struct tw_collector *c)
{
    static const char *const all[][3] = {{"slurm", "SLURM_JOB_ID", "SLURM_JOB_NODELIST"},
                                         {"pbs", "PBS_JOBID", "PBS_NODEFILE"},
                                         {"lsf", "LSB_JOBID", "LSB_HOSTS"},
                                         {"sge", "JOB_ID", "PE_HOSTFILE"},
                                         {"kubernetes", "KUBERNETES_SERVICE_HOST", "HOSTNAME"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *job = tw_pv_variable(c->env, all[i][1]);
        const char *where = tw_pv_variable(c->env, all[i][2]);
        if (job)
            return json_pack("{s:s, s:o, s:o}", "kind", all[i][0], "job", tw_pv_text(c, job),
                             "where", tw_pv_text(c, where));
    }
    return json_null();
}

/* Takes comments and empty lines out of a text, in place: they change nothing. */
static void drop_comments(char *text)
{
    char *out = text;
    for (char *line = text; *line;) {
        size_t n = strcspn(line, "\n") + 1;
        n -= line[n - 1] == '\0';
        if (*line != '#' && *line != '\n') {
            memmove(out, line, n);
            out += n;
        }
        line += n;
    }
    *out = '\0';
}

/* Files outside of the environment that change what collectives do. */
static json_t *steering_files(const struct tw_collector *c)
{
    const char *home = tw_pv_variable(c->env, "HOME");
    char *nccl = home ? tw_path_join(home, ".nccl.conf") : NULL;
    char *mca = home ? tw_path_join(home, ".openmpi/mca-params.conf") : NULL;
    const char *const paths[] = {"/etc/nccl.conf", nccl, "/etc/openmpi/openmpi-mca-params.conf",
                                 mca, "/etc/ucx/ucx.conf"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char hex[65];
        uint64_t bytes;
        const char *why;
        char *text = paths[i] ? tw_pv_read(paths[i], 65536) : NULL;
        if (text)
            drop_comments(text);
        if (text && tw_pv_sha256(paths[i], 0, 0, hex, &bytes, &why) == 0)
            tw_pv_add(list, json_pack("{s:o, s:s, s:o}", "path", tw_json_bytes(paths[i]), "sha256",
                                      hex, "text", tw_pv_text(c, text)));
        tw_free(text);
    }
    tw_free(nccl);
    tw_free(mca);
    return list;
}

json_t *tw_pv_launch(struct tw_collector *c)
{
    json_t *o = json_object();
    tw_pv_put(o, "cwd", tw_json_bytes(c->run->cwd));
    tw_pv_put(o, "launched_from", tw_json_bytes(c->from));
    tw_pv_put(o, "fresh_dir", json_boolean(strcmp(c->from, c->run->cwd) != 0));
    tw_pv_put(o, "variables", collect_variables(c));
    tw_pv_put(o, "scheduler", scheduler(c));
    tw_pv_put(o, "files", steering_files(c));
    return o;
}
