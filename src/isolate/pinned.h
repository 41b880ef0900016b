/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ISOLATE_PINNED_H
#define TW_ISOLATE_PINNED_H
/*
 * A check under the pins that the last search of the same command named (check --pinned). It stands
 * in this room since pins are a world, and searches are kept here.
 */
#include "isolate.h"

#include "src/trial/check.h"

struct tw_pinned {
    char *folder; /* of the search */
    char *run;    /* folder of the first run that its verdict names */
    char *list;   /* the factors, "hash-seed,threads" */
    struct twin_factors factors;
    struct twin_world world; /* exactly these, held still */
    struct twin_world_plan plan;
};

/*
 * Finds the newest search for this command in this working folder, and what it named. *out is the
 * caller's to close, also after an error. TWIN_ENOENT: there is no such search, or it has not
 * ended, or named no cause; TWIN_EFORMAT: its verdict is none that twinrun wrote; TWIN_ENOMEM. The
 * message says what to do.
 */
int tw_pins_find(const char *home, char *const *argv, struct tw_pinned *out,
                 struct twin_error *err);
/* Makes the world of it. factor_file: factors of one's own; may be NULL. TWIN_EUNSUPPORTED: a check
 * cannot hold one of them. */
int tw_pins_world(struct tw_pinned *p, char *const *argv, const char *factor_file,
                  struct twin_error *err);
void tw_pins_close(struct tw_pinned *p);

/* Puts the pins into a launch; the options borrow from p, a struct tw_pinned. */
void tw_pins_dress(void *p, struct twin_launch_options *o);
/*
 * The last word on such a check: writes into the verdict which pins it was of, and whether they
 * took effect in every run. Where that is not so, or not known, "same" becomes "inconclusive".
 */
int tw_pins_judge(const struct tw_pinned *p, struct twin_run *const *runs, size_t count,
                  struct twin_verdict *v, struct twin_error *err);

#endif
