/* SPDX-License-Identifier: Apache-2.0 */
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

void tw_progress_show(const char *title, const struct twin_progress *p, double expected_s, uint64_t expected_steps)
{
    if (!enabled)
        return;
    char elapsed[24], left[24], step[32], of[32], line[256];
    int n = snprintf(line, sizeof line, "%s  %s", title, tw_human_seconds(p->elapsed_s, elapsed));
    if (p->step && expected_steps)
        n += snprintf(line + n, sizeof line - (size_t)n, "  step %s of %s", tw_human_count(p->step, step),
                      tw_human_count(expected_steps, of));
    else if (p->step)
        n += snprintf(line + n, sizeof line - (size_t)n, "  step %s", tw_human_count(p->step, step));
    if (expected_s > p->elapsed_s)
        snprintf(line + n, sizeof line - (size_t)n, "  about %s left in this run",
                 tw_human_seconds(expected_s - p->elapsed_s, left));
    tw_progress_line(line);
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
