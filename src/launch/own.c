/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch changes in twinrun's own process, and puts back: blocked signals, SIGCHLD's
 * disposition, descriptors 0 to 2, and being the subreaper. launch.c calls the halves in pairs; the
 * first half of each remembers in struct tw_own how it was. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static const int held_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* Stop signals wait while the job is prepared and are read from a descriptor while it runs: no
 * handler is installed, so the job inherits the dispositions that we inherited. An ignored one
 * (nohup) stays ignored. SIGPIPE and SIGXFSZ wait too: a write to a reader that went away, or
 * beyond the user's file size limit, then only fails. */
void tw_own_hold_signals(struct tw_own *own, sigset_t *wanted)
{
    sigset_t hold;
    struct sigaction act;
    sigemptyset(&hold);
    for (size_t i = 0; i < sizeof held_signals / sizeof held_signals[0]; i++)
        if (sigaction(held_signals[i], NULL, &act) == 0 && act.sa_handler != SIG_IGN)
            sigaddset(&hold, held_signals[i]);
    sigaddset(&hold, SIGCHLD);
    sigaddset(&hold, SIGWINCH);
    *wanted = hold;
    sigaddset(&hold, SIGPIPE);
    sigaddset(&hold, SIGXFSZ);
    sigaction(SIGCHLD, NULL, &own->sigchld);
    own->sigchld_ignored = own->sigchld.sa_handler == SIG_IGN;
    if (own->sigchld_ignored || (own->sigchld.sa_flags & SA_NOCLDWAIT)) {
        act = (struct sigaction){.sa_handler = SIG_DFL};
        sigaction(SIGCHLD, &act, NULL); /* else the kernel throws exit codes away */
    }
    sigprocmask(SIG_BLOCK, &hold, &own->mask);
    own->signals_held = true;
}

/* Takes all stop signals that wait and returns one of them, 0 when there is none. They are reported
 * as the outcome; left waiting they would end us as soon as they are let through, before anybody
 * could say so. */
int tw_own_take_stop_signal(void)
{
    struct timespec at_once = {0};
    sigset_t stops;
    int first = 0, signal;
    sigemptyset(&stops);
    for (size_t i = 0; i < sizeof held_signals / sizeof held_signals[0]; i++)
        sigaddset(&stops, held_signals[i]);
    while ((signal = sigtimedwait(&stops, NULL, &at_once)) > 0)
        first = first ? first : signal;
    return first;
}

/* Signals that our own work raised while they were held are thrown away; stop signals are not. The
 * mask comes last. */
void tw_own_release_signals(struct tw_own *own)
{
    static const int ours[] = {SIGPIPE, SIGXFSZ, SIGCHLD, SIGWINCH};
    struct timespec at_once = {0};
    if (!own->signals_held)
        return;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, ours[i]);
        if (!sigismember(&own->mask, ours[i]))
            while (sigtimedwait(&one, NULL, &at_once) > 0)
                ; /* raised by what we did: not the caller's business */
    }
    if (own->sigchld_ignored || (own->sigchld.sa_flags & SA_NOCLDWAIT))
        sigaction(SIGCHLD, &own->sigchld, NULL);
    sigprocmask(SIG_SETMASK, &own->mask, NULL);
}

/* A file of ours must not become the job's stdin because ours was closed. These are closed again by
 * exec. */
void tw_own_fill_descriptors(struct tw_own *own)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            own->filled[fd] = open("/dev/null", O_RDWR | O_CLOEXEC) == fd;
}

void tw_own_unfill_descriptors(struct tw_own *own)
{
    for (int fd = 0; fd < 3; fd++)
        if (own->filled[fd])
            close(fd);
}

/* Orphans of the job become our children, so tree.c still finds them below us. */
void tw_own_become_subreaper(struct tw_own *own)
{
    own->subreaper_known = prctl(PR_GET_CHILD_SUBREAPER, &own->subreaper) == 0 &&
                           prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

void tw_own_resign_subreaper(struct tw_own *own)
{
    if (own->subreaper_known)
        prctl(PR_SET_CHILD_SUBREAPER, own->subreaper);
    own->subreaper_known = false;
}
