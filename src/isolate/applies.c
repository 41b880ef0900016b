/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which factors apply to a command. Its program is found as exec would find it, a trial load says
 * whether it can carry the agent, and its name or its first line whether it is a Python job. Python
 * is asked what it could import, not made to import it.
 */
#include "applies.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a command is */

/* Programs that only start another one. */
static bool is_starter(const char *name)
{
    static const char *const starters[] = {"sh",   "bash",    "dash",    "zsh",    "env",
                                           "nice", "time",    "timeout", "mpirun", "mpiexec",
                                           "srun", "taskset", "numactl", "make"};
    for (size_t i = 0; i < sizeof starters / sizeof starters[0]; i++)
        if (strcmp(name, starters[i]) == 0)
            return true;
    return false;
}

static bool names_python(const char *path)
{
    return tw_starts(tw_base_name(path), "python");
}

/* The interpreter in the first line of a script: "#!/usr/bin/python3 -E", "#!/usr/bin/env python3".
 * malloc'ed, or NULL. */
static char *script_python(const char *path)
{
    char line[256] = "", *word, *save = NULL;
    FILE *f = fopen(path, "re");
    if (f && !fgets(line, sizeof line, f))
        line[0] = '\0';
    if (f)
        fclose(f);
    if (!tw_starts(line, "#!"))
        return NULL;
    for (word = strtok_r(line + 2, " \t\n", &save); word; word = strtok_r(NULL, " \t\n", &save))
        if (names_python(word))
            return tw_strdup(word);
    return NULL;
}

/* The program as exec will find it; malloc'ed, or NULL. */
static char *find_program(const char *name)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/') || !path)
        return tw_strdup(name);
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, ":");
        char *full = n ? tw_printf("%.*s/%s", (int)n, p, name) : tw_printf("./%s", name);
        FILE *f = full ? fopen(full, "re") : NULL;
        if (f) {
            fclose(f);
            return full;
        }
        tw_free(full);
        p += n;
        if (!*p)
            return NULL;
    }
}

int tw_factor_job_look(struct tw_factor_job *j, char *const *argv, struct twin_error *err)
{
    struct twin_parts parts;
    bool ok = false;
    *j = (struct tw_factor_job){.given = true};
    char *program = find_program(argv[0]);
    if (!program)
        return twin_error_set(err, TWIN_ENOENT, "there is no program %s in PATH", argv[0]);
    int rc = twin_parts_find(&parts, err);
    if (rc == 0 && parts.agent_library)
        rc = twin_trial_load(argv[0], parts.agent_library, &ok, &j->no_agent, err);
    if (rc == 0 && !parts.agent_library)
        j->no_agent = tw_strdup("libtwinrun.so was not found");
    if (rc == 0)
        twin_parts_free(&parts);
    j->starter = is_starter(tw_base_name(program));
    j->python = names_python(program) ? tw_strdup(program) : script_python(program);
    if (j->python)
        j->has = tw_python_packages(j->python);
    tw_free(program);
    return rc;
}

void tw_factor_job_free(struct tw_factor_job *j)
{
    tw_free(j->no_agent);
    tw_free(j->python);
    *j = (struct tw_factor_job){.given = false};
}

/* ---- and what applies to it */

/* Other packages than these are not asked for, and may be there. */
static bool can_import(const struct tw_python_packages *has, const char *package)
{
    const struct {
        const char *name;
        bool there;
    } asked[] = {{"numpy", has->numpy},
                 {"torch", has->torch},
                 {"jax", has->jax},
                 {"tensorflow", has->tensorflow}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        if (strcmp(package, asked[i].name) == 0)
            return asked[i].there;
    return true;
}

const char *tw_factor_applies(const struct twin_factor *f, const struct tw_factor_job *j,
                              char *text, size_t room)
{
    bool agent = strstr(f->how, "libc agent") || strcmp(f->how, "python agent") == 0;
    const char *needs = f->needs;
    if (f->unavailable)
        snprintf(text, room, "no: %s", f->unavailable);
    else if (!j->given)
        snprintf(text, room, "yes");
    else if (agent && j->no_agent)
        snprintf(text, room, "no: %s", j->no_agent);
    else if (j->starter)
        snprintf(text, room, "perhaps: what it starts decides");
    else if (needs && !j->python)
        snprintf(text, room, "no: not a Python job by its name");
    else if (needs && !can_import(&j->has, needs))
        snprintf(text, room, "no: %.80s cannot import %s", j->python, needs);
    else
        snprintf(text, room, "yes");
    return text;
}
