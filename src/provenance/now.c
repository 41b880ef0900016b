/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recorded run would be made from if it were made again now. It is put together by the same
 * functions as the record of a run, so that twin_provenance_diff can hold the two against each
 * other before anything is started.
 */
#include "provenance_inside.h"

#include "base.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* Variables that tw_pv_code sets for git, which elsewhere ends with the collector's process. */
static const char *const set_for_git[] = {"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS",
                                          "GIT_NO_LAZY_FETCH", "LC_ALL"};
enum { SET_FOR_GIT = sizeof set_for_git / sizeof *set_for_git };

/* The values before, NULL where there was none. False: no memory. */
static bool remember(char *was[SET_FOR_GIT])
{
    bool ok = true;
    for (size_t i = 0; i < SET_FOR_GIT; i++) {
        const char *value = getenv(set_for_git[i]);
        was[i] = value ? tw_strdup(value) : NULL;
        ok &= !value || was[i];
    }
    return ok;
}

static void put_back(char *was[SET_FOR_GIT])
{
    for (size_t i = 0; i < SET_FOR_GIT; i++) {
        if (was[i])
            setenv(set_for_git[i], was[i], 1);
        else
            unsetenv(set_for_git[i]);
        tw_free(was[i]);
    }
}

int twin_provenance_now(const struct twin_run *run, const char *home, const char *folder,
                        struct json_t **out, struct twin_error *err)
{
    struct twin_run as = *run;
    char from[PATH_MAX];
    struct tw_collector c = {
        .run = &as, .home = home, .env = environ, .root = json_object(), .notes = json_array()};
    *out = NULL;
    as.dir = (char *)(uintptr_t)folder; /* where a difference of the code is written to */
    c.from = getcwd(from, sizeof from) ? from : NULL;
    int rc = c.from ? 0 : twin_error_system(err, "the working folder");
    if (rc == 0 && (!c.root || !c.notes))
        rc = tw_no_memory(err, "looking at the code");
    rc = rc ? rc : twin_redactor_open(home, &c.redactor, err);
    char *was[SET_FOR_GIT] = {NULL};
    if (rc == 0 && !remember(was)) {
        for (size_t i = 0; i < SET_FOR_GIT; i++)
            tw_free(was[i]);
        rc = tw_no_memory(err, "looking at the code");
    } else if (rc == 0) {
        tw_pv_put(c.root, "code", tw_pv_code(&c));
        tw_pv_put(c.root, "programs", tw_pv_programs(&c));
        tw_pv_put(c.root, "config", tw_pv_config(&c));
        tw_pv_put(c.root, "data", tw_pv_data(&c));
        *out = json_incref(c.root);
        put_back(was);
    }
    twin_redactor_close(c.redactor);
    json_decref(c.root);
    json_decref(c.notes);
    return rc;
}
