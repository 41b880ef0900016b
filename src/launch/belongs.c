/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To whom a run belongs: project, family of models, contributor, sweep. The environment of twinrun
 * says so, not that of the job, which isolate and lab change.
 */
#include "run.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

/* The first of these variables that says something, cut at 256 bytes; "". malloc'ed. */
static char *said_by(const char *const *names)
{
    enum { NAME_BYTES = 256 };
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value)
            return tw_strndup(value, strnlen(value, NAME_BYTES));
    }
    return tw_strdup("");
}

bool twin_run_belongs_here(struct twin_run_belongs *to)
{
    static const char *const project[] = {"TWINRUN_PROJECT", NULL};
    static const char *const family[] = {"TWINRUN_FAMILY", NULL};
    static const char *const sweep[] = {"TWINRUN_SWEEP", NULL};
    static const char *const contributor[] = {"TWINRUN_CONTRIBUTOR", "GITHUB_ACTOR",
                                              "GITLAB_USER_LOGIN", NULL};
    const char *ci = getenv("CI");
    to->project = said_by(project);
    to->family = said_by(family);
    to->sweep = said_by(sweep);
    to->contributor = said_by(contributor);
    to->ci = ci && *ci && strcmp(ci, "false") != 0 && strcmp(ci, "0") != 0;
    return to->project && to->family && to->sweep && to->contributor;
}

void twin_run_belongs_free(struct twin_run_belongs *to)
{
    tw_free(to->project);
    tw_free(to->family);
    tw_free(to->contributor);
    tw_free(to->sweep);
    *to = (struct twin_run_belongs){0};
}
