/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_WATCH_H
#define TW_WATCH_H
/*
 * The runs of a home that go on, looked at from outside again and again: how far their ranks are,
 * what they cost, whether the ranks began alike, and where a run diverged from its reference.
 *
 * It only reads, and decides nothing anew: steps come from the progress files, worlds are compared
 * by src/provenance, divergence by who makes the run (src/trial/reference.h) or, against a run that
 * the caller names, by twin_compare_live. Whatever a folder holds is foreign: what cannot be read
 * is counted or left out, and nothing here fails but for lack of memory and a home that cannot be
 * listed. One thread at a time.
 */
#include "src/launch/run.h"
#include "src/telemetry/telemetry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

enum tw_flight_reference {
    TW_FLIGHT_ALONE,    /* it has no reference */
    TW_FLIGHT_NOT_YET,  /* it has one, and no divergence was seen so far */
    TW_FLIGHT_DIVERGED, /* at diverged_step */
    TW_FLIGHT_NOT_READ  /* against: it could not be compared */
};

/* A run that goes on, or one that this watch has seen going on and that has ended since. */
struct tw_flight {
    char *dir;            /* absolute */
    struct twin_run *run; /* as it was loaded last */
    bool running;
    const char *state; /* "running", "ok", "exit 1", ... */
    char state_text[32];
    double elapsed_s;
    struct twin_progress_ranks ranks;
    double rate; /* steps per second of the slowest rank, over some 5 seconds; NaN: not known */
    struct twin_telemetry_now now;
    enum tw_flight_reference reference;
    char *reference_name; /* NULL: TW_FLIGHT_ALONE */
    uint32_t diverged_step;
    bool parity_known, parity_differs;
    char *told;   /* the caller's: what it said of the run last; freed with it */
    char *parity; /* which ranks differ, or were not seen; NULL: nothing to say */
};

struct tw_watch;

/* against: what runs without a reference of their own are compared with; NULL: nothing. It is
 * borrowed. NULL is returned for lack of memory. */
struct tw_watch *tw_watch_open(const char *home, const struct twin_run *against);
void tw_watch_close(struct tw_watch *w); /* NULL: nothing */
/* One look at all of them. only: there will be no other one, so what is not known after this look
 * is said to be so. TWIN_EIO, TWIN_ENOMEM: nothing has changed. */
int tw_watch_look(struct tw_watch *w, bool only, struct twin_error *err);

/* Those that go on, the newest first; behind them those that have ended, in the same order. They
 * live until the next look. */
size_t tw_watch_count(const struct tw_watch *w);
struct tw_flight *tw_watch_at(const struct tw_watch *w, size_t i);
size_t tw_watch_running(const struct tw_watch *w);
size_t tw_watch_unreadable(const struct tw_watch *w); /* run folders that tell nothing */

/* ---- in words (flight_words.c). malloc'ed (tw_free); NULL: no memory. What is foreign in them is
 * printable. */

/* Whether a rank is behind. Synchronous ranks end a step at nearly the same time, so one step is no
 * lag; two are. */
enum { TW_FLIGHT_LAG = 2 };
bool tw_flight_lags(const struct tw_flight *f, const struct twin_progress_rank *r);
/* Ranks of this machine that no process has armed: their number, and which they are where that
 * follows. False for more ranks than the progress file has slots. */
size_t tw_flight_unarmed(const struct tw_flight *f);
bool tw_flight_is_unarmed(const struct tw_flight *f, int32_t rank);

/* "ranks 0 and 1 in step", "rank 2 is 14 steps behind (106 of 120)", "rank 3 has not been armed".
 * figures false: without numbers that change all the time. */
char *tw_flight_ranks_words(const struct tw_flight *f, bool figures);
/* "diverged from NAME at step 17", "no divergence from NAME so far", "no reference: ..." */
char *tw_flight_reference_words(const struct tw_flight *f);
/* What matters most, in a few words: "DIVERGED at 17", "ranks differ", "rank 2 behind", "in step".
 * A run that has ended: how. Static, or in text. */
const char *tw_flight_note(const struct tw_flight *f, char text[64]);
/* Is that a finding, which a person should see first? */
bool tw_flight_alarms(const struct tw_flight *f);
/* LABEL-ID in so many bytes, with a label that is cut to leave the id whole. malloc'ed. */
char *tw_flight_short_name(const struct tw_flight *f, size_t room);

struct json_t;
/* One element of the list of `twinrun top --json` (docs/top.md). NULL: no memory. */
struct json_t *tw_flight_json(const struct tw_flight *f);

#endif
