/* SPDX-License-Identifier: Apache-2.0 */
/* Gives rooms the person at the terminal: messages, progress and the wish to stop. */
#include "terminal.h"

#include "interrupt.h"
#include "progress.h"
#include "say.h"

static void say_for_room(void *user, const char *message)
{
    (void)user;
    tw_say("%s", message);
}

static void put_line_for_room(void *user, const char *line)
{
    (void)user;
    tw_progress_clear();
    tw_put_to(stderr, "%s\n", line);
}

static void show_for_room(void *user, const char *line)
{
    (void)user;
    if (line)
        tw_progress_line(line);
    else
        tw_progress_clear();
}

static bool stop_for_room(void *user)
{
    (void)user;
    return tw_interrupted();
}

const struct tw_front tw_terminal = {
    .say = say_for_room,
    .line = put_line_for_room,
    .progress = show_for_room,
    .stop = stop_for_room,
};
