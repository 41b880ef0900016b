/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the progress line and takes it away. */
#include "progress.h"

#include "base.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool enabled, visible;

void tw_progress_setup(bool quiet)
{
    const char *term = getenv("TERM");
    enabled = !quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

bool tw_progress_on(void)
{
    return enabled;
}

static size_t terminal_columns(void)
{
    struct winsize w;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80;
}

void tw_progress_line(const char *text)
{
    if (!enabled)
        return;
    int room = (int)terminal_columns() - 1; /* a wrapped line could not be taken back */
    char *safe = tw_printable_again(text, strlen(text));
    fprintf(stderr, "\r\033[K%.*s", room, safe ? safe : "");
    tw_free(safe);
    fflush(stderr);
    visible = true;
}

void tw_progress_clear(void)
{
    if (visible)
        fputs("\r\033[K", stderr);
    visible = false;
}
