/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated job as oracle for the search: what makes its runs part is stated here, and nothing of
 * it is told to the search. */
#ifndef SEARCH_WORLD_H
#define SEARCH_WORLD_H
#include "src/isolate/search.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_FACTORS 20
#define SIM_STEPS 200

/* Something that makes two runs part when every one of its factors differs between them. Without
 * factors: always. */
struct sim_source {
    /* -1: none. Two: both have to be free, so that pinning either helps (also what redundant pins
     * look like) */
    int factor[2];
    double rate; /* chance to part in one comparison; or, with hazard, at each step */
    bool hazard;
    bool classes;   /* the rate comes from runs that fall into a rare class, not from pairs */
    bool operation; /* a replay shows the operation itself disagreeing */
    const char *layer;
};

struct sim {
    struct sim_source source[3];
    int sources;
    bool blind;             /* of runs that do not part nothing more can be known */
    bool unjudged;          /* they differ in something that nobody can judge */
    uint32_t number_unseen; /* run of which too little is seen to say that it is the same */
    double noise;           /* comparisons that part for no reason */
    uint64_t shift;         /* factors whose pin changes the bits, steadily: bit per factor */
    /* settable factors whose value is the same in all natural runs, but which have influence when
     * set */
    uint64_t constant;
    uint64_t fails, sticks; /* pins under which the job fails or deadlocks */
    double fails_by_itself; /* share of runs that end badly whatever is pinned */
    enum twin_search_vote vote;
    bool by_core; /* and natural replays say so, too */
    uint64_t seed;
    /* while a search goes on */
    struct sim_run *run;
    uint32_t runs, room;
    uint32_t interrupt_after; /* runs; 0: never */
    uint32_t made;            /* by this process: what the log spared is not in it */
    uint32_t largest_batch;
    bool repeated;
    struct twin_search_log *kept; /* what was persisted */
};

extern const struct twin_candidate sim_candidate[SIM_FACTORS];
int sim_index(const char *id);
/* A layer in which a factor is seen to make runs part; `which` is any number. */
const char *sim_layer(int factor, uint64_t which);
uint64_t sim_random(uint64_t *state);
double sim_uniform(uint64_t *state);
twin_search_run sim_make_runs;
void sim_close(struct sim *s);
/* Verdict and evidence; NULL: no memory. tw_free. */
char *sim_text(const struct twin_search_report *r, const struct twin_candidate *candidate);
#endif
