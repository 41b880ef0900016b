/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SHADOW_INSIDE_H
#define TW_SHADOW_INSIDE_H
/* Inside of src/shadow: pick.c (which runs, in which order), world.c (can a run be repeated, and
 * was its world the same), repeat.c (one repeat and what came of it), shadow.c (all of them). */
#include "shadow.h"

#include "src/ledger/ledger.h"

#include <jansson.h>

/* The verb of comparisons, and the kind of events. */
#define TW_SHADOW_VERB "shadow"
/* A repeat's label: these words and the first digits of the original's id. */
#define TW_SHADOW_LABEL "shadow-"
enum { TW_SHADOW_DIGITS = 16, TW_SHADOW_ATTEMPTS = 3 };

/* ---- pick.c */
/* A command, and how many repeats of it were compared. */
struct shadow_command {
    const char *text;
    uint64_t compared;
};
/* A run that the ledger knows. Texts are owned. */
struct shadow_run {
    char *id, *name, *label, *command, *project, *state;
    int64_t start_ns;
    double wall_s;
    bool gone;
    bool others;   /* another command made it: check, isolate, ... */
    bool answered; /* there is a comparison of its repeat */
    bool told;     /* an event says that it was not repeated */
    bool compared; /* it is a repeat, and was held against its original */
    size_t cut;    /* repeats of it that did not come to an end */
    /* a repeat of it that ended and was not compared: its place in the list; SIZE_MAX: none */
    size_t ended;
    bool drawn;
    bool done; /* of this call */
    struct shadow_command *of;
};
struct shadow_runs {
    struct shadow_run *run; /* by id */
    size_t count, room;
    struct shadow_command *command; /* by text */
    size_t commands;
};
int tw_shadow_runs_load(struct twin_ledger *l, const char *owner, struct shadow_runs *out,
                        struct twin_error *err);
void tw_shadow_runs_free(struct shadow_runs *r);
/* Was it recorded whole by itself, and did it end well? */
bool tw_shadow_is_original(const struct shadow_run *r);
/* Draws: sets `drawn` of each original. */
void tw_shadow_draw(struct shadow_runs *all, const struct tw_shadow_asked *a);
/* The next of those that are drawn and not done; NULL: none. */
struct shadow_run *tw_shadow_next(struct shadow_runs *all, const struct tw_shadow_asked *a);

/* Was it found before that it cannot be repeated? A repeat of it that ended is compared all the
 * same. */
bool tw_shadow_is_told(const struct shadow_run *r);

/* An original, opened. Owned by tw_shadow_original_free. */
struct shadow_original {
    struct twin_run *run;
    json_t *record; /* run.json */
    json_t *world;  /* provenance.json */
    char *from;     /* the folder in which twinrun was started then */
    char *stage;    /* a copy of it, as it was before the run; NULL: none yet */
};
int tw_shadow_open(const char *dir, struct shadow_original *out, struct twin_error *err);
void tw_shadow_original_free(struct shadow_original *o);
/* May it be repeated? *why: NULL, or the reason why not, malloc'ed. The working folder is o->from
 * and the environment is o's. */
int tw_shadow_may_repeat(const struct tw_shadow *s, const struct shadow_original *o, char **why,
                         struct twin_error *err);
/* The environment of the repeat: ours, with the recorded values of what is recorded. NULL: no
 * memory. tw_shadow_environment_free. */
char **tw_shadow_environment(const struct shadow_original *o);
void tw_shadow_environment_free(char **env);
/* Makes o->stage: what the original wrote anew is not in it. */
int tw_shadow_stage(const struct tw_shadow *s, struct shadow_original *o, struct twin_error *err);
/* A repeat that differs: was its world what the original's was? *why as above. */
int tw_shadow_other_world(const struct tw_shadow *s, const struct shadow_original *o,
                          const struct twin_run *repeat, char **why, struct twin_error *err);

/* ---- repeat.c */
/* Repeats one run, or compares the repeat that is there already, and notes it. Fills the row's
 * outcome, why, repeat and took_s. An error is trouble that concerns all. */
int tw_shadow_repeat(struct tw_shadow *s, const struct shadow_runs *all, struct shadow_run *r,
                     struct tw_shadow_row *row, struct twin_error *err);

#endif
