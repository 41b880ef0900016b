/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_WATCH_INSIDE_H
#define TW_WATCH_INSIDE_H
/* Inside of the room: one run as the watch keeps it. */
#include "src/provenance/provenance.h"
#include "src/watch/watch.h"

/* Looks at the steps that the rate is made of: some 5 seconds at one look a second. */
enum { TW_WATCH_SAMPLES = 6 };

struct tw_watched {
    struct tw_flight f; /* what others see */
    struct twin_parity *parity;
    struct {
        uint64_t ns, step;
    } sample[TW_WATCH_SAMPLES]; /* the oldest first */
    size_t samples;
    uint64_t compared_records; /* against: what it had recorded when it was compared last */
};

/* Takes over the run. NULL: no memory; the run is still the caller's. */
struct tw_watched *tw_watched_new(struct twin_run *run);
void tw_watched_free(struct tw_watched *x);
/* Takes over a newer load of the same run, and looks at all that changes while it goes on. */
void tw_watched_look(struct tw_watched *x, struct twin_run *run, const struct twin_run *against,
                     bool only);

#endif
