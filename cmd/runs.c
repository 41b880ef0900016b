/* SPDX-License-Identifier: Apache-2.0 */
/* Where a command finds and puts its runs: the home, and the run that a user named. */
#include "runs.h"

#include "base.h"
#include "say.h"

#include <unistd.h>

char *tw_home(const char *option)
{
    return option ? tw_strdup(option) : twin_home_default();
}

char *tw_home_for_runs(const char *option, const char *command)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *given = tw_home(option), *home = given ? tw_path_absolute(given, &err) : NULL;
    tw_free(given);
    if (!home) {
        tw_trouble(&err, "%s: cannot name the home", command);
        return NULL;
    }
    if (twin_home_make(home, &err) == 0 && access(home, W_OK) == 0)
        return home;
    twin_error_system(&err, "%s", home);
    tw_trouble(&err,
               "%s: cannot write the run folders; choose another place with --home or TWINRUN_HOME",
               command);
    tw_free(home);
    return NULL;
}

struct twin_run *tw_run_open(const char *home, const char *spec)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *r = NULL;
    char *dir = NULL;
    if (twin_run_resolve(home, spec, &dir, &err) != 0 || twin_run_load(dir, &r, &err) != 0)
        tw_trouble(&err, "run \"%s\"", spec);
    tw_free(dir);
    return r;
}
