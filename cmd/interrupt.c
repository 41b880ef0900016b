/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C and SIGTERM are only marked here, so that what is known when they come is still reported.
 * */
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t marked;

static void mark(int signal)
{
    (void)signal;
    marked = 1;
}

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
