/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_REPLAY_H
#define TW_CMD_REPLAY_H
/*
 * twinrun replay: what its files share. replay.c replays here; replay_container.c lays everything
 * out and starts a container; replay_inside.c is what runs in it, and says in a file how it ended.
 */
#include "options.h"

#include "src/package/package.h"
#include "src/package/replayed.h"

#include <jansson.h>
#include <stdbool.h>

/* What the command line gave; NULL, false or 0 where it gave nothing. */
struct tw_replay_args {
    const char *into, *environment, *python, *trust, *at, *tolerance;
    const char *container, *image, *gpus;
    struct tw_strings data, pip, keys;
    bool fetch, json, quiet, network, print;
};

/* Why nothing came of it. */
struct tw_replay_end {
    char said[2048]; /* the last thing that was said of it */
    /* what could not be had: "package", "code", "data", "environment", "engine", "image",
     * "program"; NULL: it is none of these. A literal. */
    const char *missing;
    /* of the environment, where that was refused: a list of texts, or NULL; the caller's */
    json_t *differences;
};

/* ---- replay.c */

/* Do the options go together? -1, or the exit code of a complaint. */
int tw_replay_check(const struct tw_replay_args *a);
/* The whole, of options that were looked at. *end: for TW_EXIT_TROUBLE. */
int tw_replay(const struct tw_replay_args *a, const char *package, struct tw_replay_end *end);
/* A step on the way, as a line that goes away again: twin_unpack_options' progress. */
void tw_replay_show_step(void *user, const char *what);
/* What differs between the environment here and the package's. how: of --environment. -1: the job
 * may run all the same; else the exit code of a refusal. */
int tw_replay_say_differences(const char *how, const struct twin_unpacked *u);
/* Runs the job in its folder, with its variables, and hands over the run. The working folder of
 * this process is the job's from here on. -1, or the exit code. */
int tw_replay_launch(bool json, const struct twin_unpacked *u, const char *home,
                     struct twin_run **out);
/* Holds what came out against the package, and prints it. differences: of the environment.
 * container: as in struct tw_replayed, taken over; NULL: in none. The exit code. */
int tw_replay_print(const struct tw_replay_args *a, const struct twin_unpacked *u,
                    const struct twin_run *now, const json_t *differences, json_t *container);

/* ---- replay_container.c */

/* The options that go with --container. -1, or the exit code of a complaint. */
int tw_replay_container_check(const struct tw_replay_args *a);
/* copy: the verified package in `into`; dir: where it came from. *started: the job may have run.
 * The exit code. */
int tw_replay_contained(const struct tw_replay_args *a, const char *dir, const char *copy,
                        const struct twin_bag_verdict *verdict, const char *into, bool *started,
                        struct tw_replay_end *end);
/* --print: the command lines, for a package that was verified where it lies. */
int tw_replay_print_lines(const struct tw_replay_args *a, const char *dir,
                          const struct twin_bag_verdict *verdict, const char *into);

/* ---- replay_inside.c */

/* Names of files in the folder of a replay: what to do in the container, and how it ended. */
#define TW_REPLAY_ORDER "inside-order.json"
#define TW_REPLAY_ENDED "inside-ended.json"
/* twinrun --replay-inside FOLDER. The exit code. */
int tw_replay_inside(const char *folder);
#endif
