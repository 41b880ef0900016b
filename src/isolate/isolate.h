/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_ISOLATE_H
#define TWIN_ISOLATE_H
/*
 * Factors, worlds and the search for a cause by controlled experiment. Room: src/isolate. Calls
 * launch, compare, stats, trace. A *factor* is one source of variation; a *setting* holds it still
 * (pin) or shakes it (vary); a *world* is a set of settings under which runs are made: the natural
 * world has none, W0 pins everything that applies.
 */
#include "src/compare/compare.h"
#include "src/launch/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* ---- factors (factors.c) */

enum twin_factor_unit {
    TWIN_UNIT_RUN,     /* drawn once per run: hash seed, directory order, seeds, kernel choice */
    TWIN_UNIT_EXPOSURE /* acts at every step: threads, races, nondeterministic operations */
};
enum twin_factor_mode { TWIN_FREE, TWIN_PIN, TWIN_VARY };

struct twin_factor {
    /* "hash-seed", "torch-deterministic", ...: the words of 00-overview's JSON contract */
    const char *id;
    const char *layer; /* one of the twelve words */
    const char *title; /* one line, what varies */
    /* "environment", "libc agent", "python agent", "launcher": who applies it */
    const char *how;
    /* what the pin does, as a person would do it by hand: "PYTHONHASHSEED=0" */
    const char *pin;
    const char *vary; /* what shaking does; NULL when it can only be pinned */
    const char *fix;  /* what to change in the job, for the report */
    enum twin_factor_unit unit;
    /* NULL, or why this factor cannot be set here or yet: shown, never silently passed over */
    const char *unavailable;
    /* "python", "numpy", "torch", "tensorflow": what a job must use for this factor to act in it;
     * NULL = any program */
    const char *needs;
    /* it holds so much still that it is tried only where nothing else is found */
    bool last_resort;
    /* why jobs may end in an error under its pin, so that "all" does not set it; NULL: they do not
     */
    const char *may_fail;
    /* what agents call asking for it (TWINRUN_CONSUMERS); NULL: nobody can see who asks */
    const char *asked_as;
    /* of a factor file: what it changes; NULL for the built-in ones */
    const struct tw_factor_edits *edits;
};

/* The built-in factors in the order of their layers, then those of a factor file. */
struct twin_factors {
    struct twin_factor *factor;
    size_t count;  /* owned */
    bool on_trial; /* twin_factors_on_trial */
};
/* file: TOML of the user's own factors ([[factor]] id, layer, title, env or argument edits), or
 * NULL. TWIN_EFORMAT names key and line. */
/* Looks around (agent, processor, GPU driver, kernel) to say what is unavailable here. */
int twin_factors_load(const char *file, struct twin_factors *out, struct twin_error *err);
enum { TW_FACTOR_FILE_MAX = 1 << 20 }; /* bytes of such a file: far more than a person writes */
void twin_factors_free(struct twin_factors *f);
/* Whoever sets them now has a recorded run to replay, and looks by himself whether that worked. */
void twin_factors_with_recording(struct twin_factors *f);
/* The same for the node, of whoever tells an engine where runs are made. */
void twin_factors_with_nodes(struct twin_factors *f);
/* "all" sets those under which a job may fail, too: for a search, which finds that out and drops
 * them. */
void twin_factors_on_trial(struct twin_factors *f);
/* NULL when unknown */
const struct twin_factor *twin_factor_find(const struct twin_factors *f, const char *id);
/* Does the libc agent count who asks for it? Else the Python agent alone can see it. f may be NULL:
 * no. */
bool twin_factor_is_counted(const struct twin_factor *f);

/* ---- worlds (world.c) */

struct twin_setting {
    const struct twin_factor *factor;
    enum twin_factor_mode mode;
    uint64_t seed; /* of vary, value of pin */
    bool on_trial; /* set by "all" though the job may fail under it; nobody has named it */
};
struct twin_world {
    struct twin_setting *setting;
    size_t count;
};

/* "all" (every pin there is), or a comma-separated list of ids, each perhaps with `=VALUE`;
 * "all,-threads" leaves out; `id=vary[:SEED]` shakes. Unknown ids: TWIN_EINVAL with the nearest one
 * that exists; so is a value that the factor does not take. One that is unavailable and named:
 * TWIN_EUNSUPPORTED with the reason. Factors that are unavailable, cannot be pinned, or may break a
 * job (unless on trial) are left out of "all" and named, with the reasons, in *left_out (malloc'ed;
 * NULL when there is none; may be NULL). The world points into f. A seed of 0 in a pin stands for
 * the factor's default (docs/factors.md). */
int twin_world_parse(const struct twin_factors *f, const char *list, struct twin_world *out,
                     char **left_out, struct twin_error *err);
void twin_world_free(struct twin_world *w);
/* held still or shaken, not left free */
bool twin_world_sets(const struct twin_world *w, const char *id);

/* What a world means for a launch: goes into twin_launch_options. All malloc'ed; free with
 * twin_world_plan_free. The natural world (count 0) gives an empty plan. TWIN_EINVAL: an argument
 * that a factor of a file replaces is not in argv. */
struct twin_world_plan {
    /* NAME=value, NULL-terminated; contains TWINRUN_FACTORS (libc agent) and TWINRUN_PINS (python
     * agent) */
    char **env;
    size_t env_count;
    bool no_aslr; /* personality(ADDR_NO_RANDOMIZE) */
    int cpu;      /* pin to this CPU; -1 = not */
    /* libtwinrun_hot.so must be preloaded, too (malloc, schedule) */
    bool hot;
    /* the command after edits of user factors; NULL when unchanged */
    char **argv;
};
int twin_world_plan(const struct twin_world *w, char *const *argv, struct twin_world_plan *out,
                    struct twin_error *err);
/* All clocks run `factor` times as fast since this second of the monotonic clock. TWIN_EINVAL where
 * the plan sets the clock. */
int twin_world_plan_faster(struct twin_world_plan *p, unsigned factor, uint64_t second,
                           struct twin_error *err);
/* Puts the plan into a launch. The options borrow from it. */
void twin_world_plan_apply(const struct twin_world_plan *p, struct twin_launch_options *o);
void twin_world_plan_free(struct twin_world_plan *p);

/* Did each setting take effect in the processes that matter? Reads the run's `factors` file and the
 * notes of its traces. */
enum twin_effect {
    TWIN_EFFECT_UNKNOWN,
    TWIN_EFFECT_IN_FORCE,
    TWIN_EFFECT_NOT_USED /* nothing asked for it */,
    TWIN_EFFECT_FAILED
};
struct twin_world_effect {
    enum twin_effect effect;
    char *text; /* "pinned, 12 calls", or why it failed */
};
int twin_world_effects(const struct twin_world *w, const struct twin_run *run,
                       struct twin_world_effect **out, struct twin_error *err);
void twin_world_effects_free(struct twin_world_effect *e, size_t count);

/* Lets a run say which sources of variation it meets (TWINRUN_WATCH). For worlds in which nothing
 * is set. */
int twin_world_plan_watch(struct twin_world_plan *p, struct twin_error *err);
/* One more variable of the launch, NAME=value; takes the text over, also on failure. NULL text:
 * TWIN_ENOMEM. */
int twin_world_plan_variable(struct twin_world_plan *p, char *text, struct twin_error *err);
/* Python draws its hash salt from the system's random bytes, so that a pin of `entropy` alone holds
 * it, too. In an experiment each factor is to be held by its own pin: where w pins the one and
 * leaves the other free, the salt is drawn here. */
int twin_world_plan_apart(struct twin_world_plan *p, const struct twin_world *w,
                          struct twin_error *err);
/* out[i]: neither of two watched runs met factor[i], or both met it with one value: it cannot be
 * what makes them part. All false when a process of theirs has not said everything (killed, without
 * the agent, or no memory). */
void twin_factors_common(const struct twin_run *a, const struct twin_run *b,
                         const struct twin_factor *const *factor, size_t count, bool *out);
#endif
