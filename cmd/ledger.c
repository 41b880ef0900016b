/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger as commands use it (src/ledger/noted.h): its trouble is said and changes nothing else.
 * No function here returns an error, so no command can end by one: the run folders are the truth,
 * and a ledger that was not written catches up from them.
 */
#include "ledger.h"

#include "base.h"
#include "say.h"

void tw_ledger_note(const struct tw_noted *n)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_ledger_write(n, &err) != 0)
        tw_say("the ledger was not written: %s; nothing is lost: `twinrun ls` catches up from the "
               "run folders",
               err.message);
}

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

struct twin_ledger *tw_ledger_open(const char *home, const char *url, tw_live_fn *live, void *user)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_ledger *l = NULL;
    if (tw_ledger_catch_up(home, url, live, user, &l, &err) != 0)
        tw_say("the ledger cannot be read: %s; this comes from the run folders", err.message);
    return l;
}
