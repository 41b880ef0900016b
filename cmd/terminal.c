/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal of this process. Ctrl-C and SIGTERM are only marked, so that what is known when they
 * come is still reported. The progress line is drawn where stderr is a terminal that can take a
 * line back; whoever prints something else takes it away first. Rooms get both, with messages, as
 * one struct of functions (tw_terminal).
 */
#include "terminal.h"

#include "say.h"

#include "base.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- Ctrl-C */

static volatile sig_atomic_t marked;

static void mark(int signal)
{
    (void)signal;
    marked = 1;
}

/* The first signal is marked, and SA_RESETHAND lets the second one end us as ever: a program that
 * hangs must stay stoppable. What was ignored stays ignored. */
void tw_interrupt_hold(void)
{
    static const int stops[] = {SIGINT, SIGTERM};
    struct sigaction now, ours = {.sa_handler = mark, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&ours.sa_mask);
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++)
        /* nohup, a shell's & */
        if (sigaction(stops[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(stops[i], &ours, NULL);
}

bool tw_interrupted(void)
{
    return marked;
}

/* ---- the progress line */

static bool enabled, visible;

/* Not where stderr is a file, nor where the terminal cannot take a line back. */
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

/* The text is cut at the width of the terminal. */
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

/* ---- the person, as rooms see them */

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
