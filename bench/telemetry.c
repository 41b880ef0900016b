/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a row of telemetry at the end of a step costs the job. The agent's own file is compiled in
 * as it stands; here stand the configuration and the steps. Blocks of steps with and without it
 * take turns in drawn order, in one process on one thread, so that what else changes the speed hits
 * all alike: `on`, `off`, and `off` once more as a control. Prints a line for each round: processor
 * seconds per step of the three, and the share of `on` spent in the call itself, by the thread's
 * clock, less what reading that clock takes in `off`. bench/telemetry.py sums up. usage:
 * telemetry_blocks FOLDER ROUNDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "agents/common/state.h"

struct tw_agent_config tw_agent_config = {.rank = 0, .world = 1, .role = "main"};

/* Steps of some 2 ms over 1 MiB, whose caches a row can disturb. Blocks of 0.2 s: a row is due at
 * the begin of each, since time has passed without any, which makes the cost look higher by one row
 * in a block, and by a flush that is due every 0.25 s. */
enum { FLOATS = 1 << 18, SWEEPS = 80, STEPS = 100 };
static float weights[FLOATS];

static double thread_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void step(void)
{
    for (int s = 0; s < SWEEPS; s++)
        for (int i = 0; i < FLOATS; i++)
            weights[i] = weights[i] * .999f + .001f;
}

/* Processor seconds per step; *inside: seconds spent in the call. */
static double block(bool on, uint32_t *steps, double *inside)
{
    double begin = thread_s();
    *inside = 0;
    tw_agent_config.telemetry = on;
    for (int i = 0; i < STEPS; i++) {
        step();
        double before = thread_s();
        tw_telemetry_row(++*steps);
        *inside += thread_s() - before;
    }
    return (thread_s() - begin) / STEPS;
}

int main(int argc, char **argv)
{
    uint32_t steps = 0;
    double inside;
    if (argc != 3)
        return 2;
    snprintf(tw_agent_config.run_dir, sizeof tw_agent_config.run_dir, "%s", argv[1]);
    srand((unsigned)time(NULL));
    block(true, &steps, &inside);
    for (int round = atoi(argv[2]); round > 0; round--) {
        double found[3], spent[3];
        int order[3] = {0, 1, 2};
        for (int i = 2; i > 0; i--) {
            int k = rand() % (i + 1), kept = order[i];
            order[i] = order[k];
            order[k] = kept;
        }
        for (int i = 0; i < 3; i++) {
            found[order[i]] = block(order[i] == 0, &steps, &inside);
            spent[order[i]] = inside;
        }
        printf("%.9f %.9f %.9f %.9f\n", found[0], found[1], found[2],
               (spent[0] - spent[1]) / (found[0] * STEPS));
    }
    return weights[FLOATS - 1] > 2;
}
