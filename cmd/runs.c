/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a command finds and puts its runs: the home, the run that a user named, the ledger
 * (src/ledger/noted.h). The ledger's trouble is said and is no error, so that no command can end by
 * it: the run folders are the truth, and a ledger that was not written catches up from them.
 */
#include "runs.h"

#include "say.h"

#include "base.h"

#include <unistd.h>

char *tw_home(const char *option)
{
    return option ? tw_strdup(option) : twin_home_default();
}

char *tw_home_to_read(const char *option)
{
    return option ? tw_strdup(option) : twin_home_nearest();
}

/* Made now, and tried: a home that cannot be written is said before the job is run. */
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

/* One complaint for both ways to fail: there is no such run, or it cannot be read. */
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

/* One run that cannot be opened ends it: an answer about the others would not be what was asked. */
struct twin_run **tw_runs_open(const char *command, const char *home,
                               const struct tw_operands *names)
{
    struct twin_run **runs = home ? tw_calloc(names->count, sizeof *runs) : NULL;
    if (!runs) {
        tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "%s: cannot open the runs", command);
        return NULL;
    }
    for (size_t i = 0; i < names->count; i++)
        if (!(runs[i] = tw_run_open(home, names->items[i]))) {
            tw_runs_close(runs, i);
            return NULL;
        }
    return runs;
}

void tw_runs_close(struct twin_run **runs, size_t count)
{
    for (size_t i = 0; runs && i < count; i++)
        twin_run_free(runs[i]);
    tw_free(runs);
}

/* ---- the ledger */

void tw_ledger_note(const struct tw_noted *n)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_ledger_write(n, &err) != 0)
        tw_say("the ledger was not written: %s; nothing is lost: `twinrun ls` catches up from the "
               "run folders",
               err.message);
}

/* Without --home it is the default one; a run of another home is not noted there. */
void tw_ledger_note_run(const char *home, const char *url, const struct twin_run *r)
{
    char *given = home ? NULL : twin_home_default();
    if (!home)
        home = given ? given : "";
    char *path = tw_path_absolute(home, NULL);
    if (path)
        tw_ledger_note(&(struct tw_noted){.home = path, .url = url, .runs = &r, .count = 1});
    tw_free(path);
    tw_free(given);
}

void tw_ledger_note_event(const char *home, const char *kind, const char *outcome,
                          const char *subject)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const struct twin_ledger_event e = {.kind = kind, .outcome = outcome, .subject = subject};
    char *given = tw_home(home), *path = given ? tw_path_absolute(given, NULL) : NULL;
    if (path && tw_ledger_write_event(path, NULL, &e, &err) != 0)
        tw_say("the ledger was not written: %s; `twinrun ls` catches up from the files of the home",
               err.message);
    tw_free(path);
    tw_free(given);
}

struct twin_ledger *tw_ledger_open(const char *home, const char *url, tw_live_fn *live, void *user)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_ledger *l = NULL;
    if (tw_ledger_catch_up(home, url, live, user, &l, &err) != 0)
        tw_say("the ledger cannot be read: %s; this comes from the run folders", err.message);
    return l;
}
