/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_STATE_H
#define TW_SERVE_STATE_H
/* What a ledger says at one moment, with nothing borrowed from it: made by one thread, read by
 * another, never changed between. */
#include "incidents.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_buf;

/* Names of projects beyond these, in the order in which they first appeared, are one: "other". */
enum { SERVE_NAMES = 1000, SERVE_DIVERGENCES = 20, SERVE_NAME_BYTES = 128 };

/* A row of an indicator. row: its name and subject are ours, and nothing burned it. json: an object
 * of twinrun.slo/1 with all of it. */
struct serve_row {
    struct tw_slo_row row;
    char *name, *subject, *json;
};
struct serve_divergence {
    char *run, *verb, *command, *first, *layer;
    int64_t time_ns;
};
struct serve_state {
    int64_t made_ns;
    double seconds; /* what it took */
    struct tw_slo_counted counted;
    struct serve_row *row;
    size_t rows;
    enum tw_slo_state verdict;
    struct serve_divergence divergence[SERVE_DIVERGENCES];
    size_t divergences;
    struct serve_incidents incidents;
    size_t names_left_out; /* of projects, families and contributors: they have no rows */
};

/* What a snapshot is made of. h: all that the ledger l says. high: what was counted before, no
 * number of which may fall; it is brought up to the new ones. rules: NULL: no incidents. */
struct serve_making {
    struct twin_ledger *l;
    const struct tw_slo_history *h;
    const struct tw_slo_targets *targets;
    const struct serve_incident_rules *rules;
    struct tw_slo_counted *high;
    int64_t now_ns;
};
/* seconds is left to the caller, who has read h. */
int serve_state_make(const struct serve_making *m, struct serve_state **out,
                     struct twin_error *err);
void serve_state_free(struct serve_state *s);
/* For who asks once: the state of now, of the ledger that o names (textfile.c). */
struct tw_serve_options;
int serve_state_once(const struct tw_serve_options *o, struct serve_state **out,
                     struct twin_error *err);

/* A name as metrics, JSON and pages show it: printable, and a long one cut, with a part of its
 * digest behind it. malloc'ed; NULL: no memory. */
char *serve_name(const char *name);

#endif
