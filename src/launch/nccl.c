/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether NCCL is asked to load our agent as its profiler plugin (agents/nccl), by the variable
 * NCCL_PROFILER_PLUGIN. NCCL loads one such plugin: one of the user's own stays, and a note says
 * what is not seen for it. It is asked with TWINRUN_NCCL=on only, as long as the plugin has not run
 * in a job on a GPU (docs/internals/nccl.md).
 */
#include "launch.h"

#include <string.h>
#include <unistd.h>

/* NCCL cuts longer names. */
enum { NAME_MOST = 254, CONF_MOST = 64 << 10 };

static const char variable[] = "NCCL_PROFILER_PLUGIN";

static bool is_wanted(const char *said)
{
    return said && *said && strcmp(said, "off") != 0;
}

/* Does a file of NCCL's settings name a plugin? Lines are NAME=value, "#" begins a comment. */
static bool file_names_one(const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    bool found = false;
    if (!path || tw_read_file(path, CONF_MOST, &text, &bytes, NULL) != 0)
        return false;
    for (const char *line = text; line && !found; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *name = line + strspn(line, " \t");
        found = tw_starts(name, variable) && strchr(" \t=", name[sizeof variable - 1]) &&
                name[sizeof variable - 1];
    }
    tw_free(text);
    return found;
}

/* One that NCCL finds by its own name, in the folders where the loader looks. NULL: there is none,
 * or no memory. tw_free. */
static char *found_by_name(const char *folders)
{
    static const char name[] = "libnccl-profiler.so";
    static const char usual[] = "/usr/local/lib:/usr/lib/x86_64-linux-gnu:/usr/lib/"
                                "aarch64-linux-gnu:/usr/lib64:/usr/lib:/lib64:/lib";
    const char *const lists[] = {folders ? folders : "", usual};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (const char *at = lists[i]; *at;) {
            const size_t n = strcspn(at, ":");
            char *path = n ? tw_printf("%.*s/%s", (int)n, at, name) : NULL;
            if (path && access(path, F_OK) == 0)
                return path;
            tw_free(path);
            at += n + (at[n] == ':');
        }
    return NULL;
}

/* What the user has of this kind, in words; NULL: nothing (or no memory). tw_free. */
static char *users_own(const struct tw_env *e)
{
    const char *set = tw_env_get(e, variable), *home = tw_env_get(e, "HOME");
    const char *conf = tw_env_get(e, "NCCL_CONF_FILE");
    if (set && *set)
        return tw_printf("%s is set to %s already", variable, set);
    char *own = home && !conf ? tw_path_join(home, ".nccl.conf") : NULL;
    const char *files[] = {conf ? conf : own, "/etc/nccl.conf"};
    char *why = NULL;
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !why; i++)
        if (file_names_one(files[i]))
            why = tw_printf("%s sets %s already", files[i], variable);
    tw_free(own);
    char *library = why ? NULL : found_by_name(tw_env_get(e, "LD_LIBRARY_PATH"));
    if (library)
        why = tw_printf("%s is there already", library);
    tw_free(library);
    return why;
}

void tw_nccl_prepare(struct tw_agent_setup *a, const struct tw_env *e, struct twin_run *run)
{
    if (!a->preload || !is_wanted(tw_env_get(e, "TWINRUN_NCCL")))
        return;
    char *why = users_own(e);
    if (!why && strlen(a->library) > NAME_MOST)
        why = tw_printf("the path of libtwinrun.so has more than %d bytes", NAME_MOST);
    a->nccl = !why;
    if (why)
        tw_run_note(run,
                    "which algorithms NCCL chose is not seen: %s, and NCCL loads one profiler "
                    "plugin only",
                    why);
    tw_free(why);
}

int tw_nccl_protocol(struct tw_env *e, const struct tw_agent_setup *a, struct twin_error *err)
{
    return a->nccl ? tw_env_set(e, variable, a->library, err) : 0;
}

void tw_nccl_not_outer(struct tw_env *e)
{
    const char *set = tw_env_get(e, variable), *outer = tw_env_get(e, "TWINRUN_LIB");
    if (set && outer && strcmp(set, outer) == 0)
        tw_env_unset(e, variable);
}
