/* SPDX-License-Identifier: Apache-2.0 */
/* --on: the engine that makes the runs of a command. */
#include "on.h"

#include "say.h"
#include "terminal.h"

int tw_on_open(const char *command, struct tw_remote *r, const struct tw_remote_asked *asked,
               const char *home)
{
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_remote_open(r, asked, home, &tw_terminal, &err);
    if (rc == 0)
        return -1;
    if (rc == TWIN_EINVAL)
        return tw_bad_use(command, "%s", err.message);
    return tw_trouble(&err, "%s", command);
}
