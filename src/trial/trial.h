/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_H
#define TW_TRIAL_H
/*
 * One watched run of a command in its world (the launch options). While it goes on, the person in
 * front is shown how far it is, and it is compared with a reference. It is ended when its time is
 * up, when it has diverged and enough is known of how, and when the person wants an end. Several at
 * once: workers.h.
 *
 * Fill in what is asked, call tw_trial_make, and look at what was found. Nothing is printed here:
 * what is said and shown goes to the front.
 */
#include "front.h"

#include "src/compare/compare.h"
#include "src/launch/run.h"

#include <stdbool.h>
#include <stdint.h>

enum tw_trial_end {
    TW_TRIAL_RAN,         /* to its own end, good or bad, or to the last of max_steps */
    TW_TRIAL_DIVERGED,    /* ended once enough was known of how it diverged from the reference */
    TW_TRIAL_OUT_OF_TIME, /* ended because its deadline had passed */
    TW_TRIAL_NO_PARITY,   /* its ranks differ, or were not all seen, though that was required */
    TW_TRIAL_INTERRUPTED, /* ended because the person in front wanted an end */
    TW_TRIAL_NOT_STARTED  /* the command could not be executed; the run's message says why */
};

struct tw_trial {
    /* what is asked */
    const struct tw_front *front; /* NULL: nobody sees it, and nobody stops it */
    const char *title;            /* for the progress line; NULL: no line */
    /* Told of the progress in place of that line, where one line stands for several runs. */
    void (*on_progress)(void *user, const struct twin_progress *p);
    void *user;
    double expected_s; /* of the first run; 0 = not known */
    uint64_t expected_steps;
    const struct twin_run *reference; /* compared with while the run goes on; NULL = not */
    struct twin_compare_options how;  /* of that comparison */
    uint64_t deadline_ns;             /* monotonic; 0 = none */
    /* on an engine: the deadline is a moment, whether or not the run has begun by then. Else it is
     * the time that the run may take, which begins when the run does. */
    bool holds_in_queue;
    /* who is told when ranks of one job differ, once; NULL: nobody */
    const struct tw_front *parity_front;
    bool require_parity; /* a job whose ranks differ is ended, and parity_front is told why */
    bool bare;           /* without provenance: a rerun of what has been run, and has its own */
    /* what was found out */
    enum tw_trial_end end;
    bool started;  /* the job was started: it must not be started anew */
    bool diverged; /* seen while it went on */
    uint32_t diverged_step;
    uint64_t last_step;
    double start_s; /* until its first steps had ended, to a quarter of a second; 0: not seen */
    struct twin_run *run; /* the caller's to free; NULL: tw_trial_make said why */
    /* while it goes on: what its ranks have said, and why it is ended */
    struct twin_parity *parity;
    char *stopped_because;
    bool reference_told; /* in its folder (reference.h) */
};

/*
 * Makes the run, here or (o->on) by an engine, with its provenance unless bare. on_tick and user of
 * the options are set here. 0: t->run is there, and t->end says how it ended. TWIN_EINTR: the
 * person in front wanted an end before it began, and there is no run. Else the error of
 * twin_launch. Not thread-safe, as twin_launch is not.
 */
int tw_trial_make(struct tw_trial *t, const struct twin_launch_options *o, struct twin_error *err);

/* Puts what was found out of one trial into another, whoever made the run: all but the run itself,
 * which has one owner, and but what is only there while it goes on. */
void tw_trial_take_found(struct tw_trial *to, const struct tw_trial *from);

/* One look at a run that goes on. Non-zero: it is to end, and t->end says why. For who makes runs.
 */
int tw_trial_watch(struct tw_trial *t, const struct twin_progress *p);
/* Have its ranks begun alike? Non-zero: it is to end, and t->end and t->stopped_because say why. */
int tw_trial_look_at_ranks(struct tw_trial *t, const struct twin_progress *p);
/* The same of t->run, which has ended by itself. */
void tw_trial_look_at_ranks_once_more(struct tw_trial *t);
void tw_trial_forget_ranks(struct tw_trial *t);

/* Shows how far a run is. expected_s, expected_steps: from the first run, 0 when not known. */
void tw_trial_show(const struct tw_front *front, const char *title, const struct twin_progress *p,
                   double expected_s, uint64_t expected_steps);
/* The line that a finished run leaves. state: "ok", "diverged", ... */
void tw_trial_line(const struct tw_front *front, const char *title, const struct twin_run *r,
                   const char *state);

/*
 * How much longer than usual a run may take before it counts as standing still: `times` as long,
 * and `more_s` seconds for a job so short that its start is all of it.
 */
struct tw_patience {
    unsigned times, more_s;
};
/* Pins cost time (one thread, sorted folders), seldom more than a few times as much. */
extern const struct tw_patience tw_patience_under_pins;
/* The agents note each call and its line, which a job that does little else pays for many times
 * over. */
extern const struct tw_patience tw_patience_traced;
/* Less work is no slower: what takes longer than the whole job does not end. */
extern const struct tw_patience tw_patience_of_less_work;
/* The lab's knobs reach further than pins (other libraries, cold caches), and its figures need
 * every run. */
extern const struct tw_patience tw_patience_in_the_lab;
/* Under a faster clock a job may wait for a moment that comes late or never; most end as fast as
 * ever. */
extern const struct tw_patience tw_patience_under_faster_clocks;

/* A zoom makes some reruns, each slower than a run, and each cut short. */
extern const struct tw_patience tw_patience_for_a_zoom;

/* The deadline of a run that begins now and usually takes usual_s. */
uint64_t tw_patience_ends_ns(const struct tw_patience *p, double usual_s);

#endif
