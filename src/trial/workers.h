/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_WORKERS_H
#define TW_TRIAL_WORKERS_H
/*
 * Several runs at the same time. A launch owns its process (it reads the signals, is the job's
 * subreaper and buries whatever child ends), so each one is made in a process of its own: a fork of
 * this one, which launches and says where the run folder is.
 *
 * From open until the wait is over stop signals are held here. Those that the terminal sends reach
 * every worker as well, others are passed on; a worker ends its job and comes back. A worker whose
 * parent is gone ends its job, too.
 */
#include "trial.h"

#include "src/launch/run.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* One process that makes one run, and what came of it. */
struct tw_worker {
    pid_t pid;                    /* 0: none, or it has ended */
    int fd;                       /* what it says; -1 once it has said all */
    struct tw_remote_run *remote; /* the run, where an engine makes it: then there is no process */
    struct tw_trial trial;        /* after the wait: what was found. Its run NULL: rc says why */
    struct twin_progress progress;
    int rc; /* of tw_trial_make; TWIN_EINTR: stopped before there was a run */
    struct twin_error err;
};

/* A batch of workers, at most `room` of them. */
struct tw_workers {
    struct tw_worker *worker;
    size_t count, room;
    struct pollfd *poll; /* what the wait polls: each worker, and signal_fd */
    int signal_fd;
    sigset_t mask; /* the signal mask before tw_workers_open */
    const struct tw_front *front;
    bool interrupted;
};

int tw_workers_open(struct tw_workers *w, const struct tw_front *front, size_t room,
                    struct twin_error *err);
/* Makes a run as tw_trial_make does, with a copy of *trial, but comes back at once. o and what it
 * points to may go then. */
int tw_workers_start(struct tw_workers *w, const struct twin_launch_options *o,
                     const struct tw_trial *trial, struct twin_error *err);
/* Until all have ended; then the signals are let through again. title and expected_s: of the
 * progress line. */
void tw_workers_wait(struct tw_workers *w, const char *title, double expected_s);
/* Ends what still runs, waits for it, and frees everything. */
void tw_workers_close(struct tw_workers *w);

#endif
