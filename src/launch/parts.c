/* SPDX-License-Identifier: Apache-2.0 */
/* Finds twinrun's own parts: the agent's library, the Python half, the known cases, the workloads.
 * Called when a run is prepared, and by commands that need one of them.
 *
 * They are looked for beside the executable in each layout in which twinrun exists (a wheel, the
 * build tree, an installation), so nothing has to be configured. TWINRUN_LIBDIR names a folder that
 * comes first. A part that is not found stays NULL; whoever needs it says so. */
#include "launch.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY "libtwinrun.so"

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Sets *slot to <folder>/<name>, resolved, if that is a file and nothing was found before. */
static int take_library(char **slot, const char *folder, const char *name, struct twin_error *err)
{
    if (*slot)
        return 0;
    char *path = tw_path_join(folder, name);
    char real[PATH_MAX];
    int rc = path ? 0 : tw_no_memory(err, "looking for twinrun's own parts");
    if (path && is_file(path) && realpath(path, real) && !(*slot = tw_strdup(real)))
        rc = tw_no_memory(err, "looking for twinrun's own parts");
    tw_free(path);
    return rc;
}

/* Libraries that are only ever used with the agent, which they lie beside. */
static int take_beside(struct twin_parts *p, char **slot, const char *name, struct twin_error *err)
{
    const char *slash = p->agent_library ? strrchr(p->agent_library, '/') : NULL;
    if (!slash)
        return 0;
    char *path = tw_printf("%.*s/%s", (int)(slash - p->agent_library), p->agent_library, name);
    if (path && is_file(path))
        *slot = path;
    else
        tw_free(path);
    return path ? 0 : tw_no_memory(err, "looking for twinrun's own parts");
}

/* Takes <folder>/<name> as the Python half if it has the sitecustomize. */
static int take_python(struct twin_parts *p, const char *folder, const char *name,
                       struct twin_error *err)
{
    if (p->python_dir)
        return 0;
    char *joined = tw_path_join(folder, name);
    char *site = joined ? tw_path_join(joined, "twinrun/_site/sitecustomize.py") : NULL;
    char real[PATH_MAX];
    int rc = site ? 0 : tw_no_memory(err, "looking for twinrun's own parts");
    if (site && is_file(site) && realpath(joined, real)) {
        p->python_dir = tw_strdup(real);
        p->site_dir = tw_printf("%s/twinrun/_site", real);
        if (!p->python_dir || !p->site_dir)
            rc = tw_no_memory(err, "looking for twinrun's own parts");
    }
    tw_free(site);
    tw_free(joined);
    return rc;
}

/* Sets *slot to <folder>/<name>, resolved, if that is a folder and nothing was found before. */
static int take_folder(char **slot, const char *folder, const char *name, struct twin_error *err)
{
    struct stat st;
    char real[PATH_MAX];
    if (*slot)
        return 0;
    char *path = tw_path_join(folder, name);
    int rc = path ? 0 : tw_no_memory(err, "looking for twinrun's own parts");
    if (path && stat(path, &st) == 0 && S_ISDIR(st.st_mode) && realpath(path, real) &&
        !(*slot = tw_strdup(real)))
        rc = tw_no_memory(err, "looking for twinrun's own parts");
    tw_free(path);
    return rc;
}

/* The folders to look into, relative to the executable's, first match wins for each half:
 * the wheel (everything beside the executable), the build tree, an installation, the same with
 * Debian's library folders. */
static const struct {
    const char *library, *python, *cases, *workloads;
} places[] = {
    {LIBRARY, "agent", "cases", "workloads"},
    {"../agents/" LIBRARY, "../python", "../cases", "../workloads"},
    {"../lib/twinrun/" LIBRARY, "../lib/twinrun/python", "../share/twinrun/cases",
     "../libexec/twinrun"},
    {"../lib64/twinrun/" LIBRARY, "../lib64/twinrun/python", "../share/twinrun/cases",
     "../libexec/twinrun"},
#if defined(__x86_64__)
    {"../lib/x86_64-linux-gnu/twinrun/" LIBRARY, "../lib/x86_64-linux-gnu/twinrun/python",
     "../share/twinrun/cases", "../libexec/twinrun"},
#elif defined(__aarch64__)
    {"../lib/aarch64-linux-gnu/twinrun/" LIBRARY, "../lib/aarch64-linux-gnu/twinrun/python",
     "../share/twinrun/cases", "../libexec/twinrun"},
#endif
};

/* Whatever is found first stays, so TWINRUN_LIBDIR is looked at before the executable's
 * surroundings. A part that is missing is NULL and no error. */
int twin_parts_find(struct twin_parts *out, struct twin_error *err)
{
    char self[PATH_MAX];
    *out = (struct twin_parts){0};
    int rc = 0;
    const char *given = getenv("TWINRUN_LIBDIR");
    if (given && *given) {
        rc = take_library(&out->agent_library, given, LIBRARY, err);
        if (rc == 0)
            rc = take_python(out, given, "python", err);
        if (rc == 0)
            rc = take_python(out, given, "agent", err);
        if (rc == 0)
            rc = take_folder(&out->cases_dir, given, "cases", err);
        if (rc == 0)
            rc = take_folder(&out->workloads_dir, given, "workloads", err);
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0 && rc == 0) {
        self[n] = '\0';
        char *slash = strrchr(self, '/');
        if (slash)
            slash[slash == self] = '\0';
        for (size_t i = 0; rc == 0 && i < sizeof places / sizeof places[0]; i++) {
            rc = take_library(&out->agent_library, self, places[i].library, err);
            if (rc == 0)
                rc = take_python(out, self, places[i].python, err);
            if (rc == 0)
                rc = take_folder(&out->cases_dir, self, places[i].cases, err);
            if (rc == 0)
                rc = take_folder(&out->workloads_dir, self, places[i].workloads, err);
        }
    }
    if (rc == 0)
        rc = take_beside(out, &out->hot_library, "libtwinrun_hot.so", err);
    if (rc == 0)
        rc = take_beside(out, &out->mpi_library, "libtwinrun_mpi.so", err);
    if (rc != 0)
        twin_parts_free(out);
    return rc;
}

void twin_parts_free(struct twin_parts *p)
{
    tw_free(p->agent_library);
    tw_free(p->python_dir);
    tw_free(p->site_dir);
    tw_free(p->cases_dir);
    tw_free(p->hot_library);
    tw_free(p->mpi_library);
    tw_free(p->workloads_dir);
    *p = (struct twin_parts){0};
}
