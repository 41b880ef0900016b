/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYNTH_H
#define SYNTH_H
/* Run folders made by the tests themselves, with the shipped trace writer: a tiny model that really
 * trains, in which any value can be disturbed at any step, so that a difference spreads as it does
 * in a real job. */
#include "src/launch/run.h"
#include "src/trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

#define SYNTH_PARAMS 4
#define SYNTH_SIZE 8

struct synth; /* a run folder under construction */

struct synth *synth_new(const char *label);
/* A writer for one process; the trace belongs to the run. role NULL = main. */
struct twin_writer *synth_process(struct synth *s, int32_t rank, int32_t world, const char *role);
/* the only process; drops what does not fit into a small ring (synth_flood) */
struct twin_writer *synth_dropping(struct synth *s);
/* which: "stdout" or "stderr" */
void synth_print(struct synth *s, const char *which, const char *text);
void synth_file(struct synth *s, const char *path, const char *contents);
struct twin_run *synth_run(struct synth *s); /* to change exit code, outcome, ... */
/* Closes all writers and returns the run; it stays owned by s. */
const struct twin_run *synth_done(struct synth *s);
void synth_free(struct synth *s);

struct synth_record {
    enum twin_phase phase;
    enum twin_kind kind;
    const char *name, *scope, *op, *site, *role;
    uint32_t flags;
    bool no_sketch;
};
uint64_t synth_put(struct twin_writer *w, struct synth_record r, const float *x, size_t n);
uint64_t synth_put_linked(struct twin_writer *w, struct synth_record r, const float *x, size_t n,
                          const uint64_t *links, uint32_t count);

/* `n` records of one number each, number i of which is value(i, user), or 0 where value is NULL.
 * The writer is held from the first one until the last is there: a small ring overflows each time,
 * whatever the machine does. One that waits for room is not held. */
void synth_flood(struct twin_writer *w, struct synth_record r, uint32_t n,
                 float (*value)(uint32_t i, const void *user), const void *user);

/* Places in a step where a disturbance can be put. */
enum synth_place {
    AT_INDICES,
    AT_BATCH,
    AT_ACTIVATION,
    AT_LOSS,
    AT_LOCAL,
    AT_GRADIENT,
    AT_MOMENT,
    AT_WEIGHT,
    AT_INIT,
    AT_PLACES
};

struct synth_model {
    uint32_t steps, start; /* start: first step (a resumed run) */
    int32_t rank, world;
    float lr;
    uint64_t generator; /* its state at the start */
    bool shuffle;       /* batches depend on the generator */
    /* a resumed run: draws the epoch's order again, and reads and drops the batches of the steps
     * before `start` */
    bool replay;
    uint32_t shuffle_every; /* the sampler draws anew every so many steps; 0 = every step */
    bool eval_apart;        /* evaluation draws from a generator of its own */
    uint64_t eval_generator, shuffled;
    /* an evaluation with a loader of its own every so many steps; 0 = never */
    uint32_t eval_every;
    float weight[SYNTH_PARAMS][SYNTH_SIZE], moment[SYNTH_PARAMS][SYNTH_SIZE];
    struct {
        enum synth_place place;
        uint32_t step;
        int param;
        float by;
    } disturb[4];
    int disturbances;
    bool reorder; /* activations come in another order in every step */
    /* records half of this step, then ends without closing it; 0 = never */
    uint32_t die_at;
    const char *skip; /* name of a record left out */
    /* not 0: stands for the order of the optimizer's parameters, which it says in its first step */
    float order;
};

void synth_model_init(struct synth_model *m, uint32_t steps);
/*
 * Runs steps [start, steps); weights, moments and generator are left as they were after the last.
 */
void synth_train(struct synth_model *m, struct twin_writer *w);

/* Real threads that take turns, so that a test decides which comes first. Number 0 is the caller's
 * own, 1 to 4 are the crew's. */
struct synth_crew;
struct synth_crew *synth_crew_open(void);
/* returns when it is done */
void synth_crew_do(struct synth_crew *c, int thread, void (*work)(void *), void *user);
void synth_crew_close(struct synth_crew *c);

/* One call for the usual case: a run of one process. */
struct synth *synth_train_run(const char *label, struct synth_model *m);
#endif
