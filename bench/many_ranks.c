/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the traces of one run of many ranks, sparsely: one record a step. bench/many_ranks.py puts
 * run folders around them and measures `twinrun diff`.
 *
 *   many_ranks FOLDER RANKS STEPS [RANK STEP]     RANK, STEP: where the digest is another one */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "writer.h"

static void stop(const char *what)
{
    fprintf(stderr, "many_ranks: %s\n", what);
    exit(2);
}

static void write_rank(const char *folder, unsigned rank, unsigned ranks, unsigned steps,
                       unsigned other_from)
{
    char path[4096];
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_writer *w;
    snprintf(path, sizeof path, "%s/%u.%u.twt", folder, rank, 1000 + rank);
    struct twin_writer_options o = {.path = path,
                                    .rank = (int32_t)rank,
                                    .world = (int32_t)ranks,
                                    .role = "main",
                                    .lossless = true};
    if (twin_writer_open(&o, &w, &err) != 0)
        stop(err.message);
    const struct twin_series s = {.phase = TWIN_PHASE_FORWARD,
                                  .kind = TWIN_KIND_LOSS,
                                  .name = twin_writer_string(w, "loss", 4)};
    const uint32_t id = twin_writer_series(w, &s);
    for (unsigned step = 0; step < steps; step++) {
        const uint64_t value = tw_mix64((uint64_t)rank << 32 ^ step) + (step >= other_from);
        const struct twin_observation seen = {.series = id, .digest = {value, step}};
        twin_writer_record(w, &seen);
        twin_writer_step_end(w);
    }
    twin_writer_close(w);
    const int failed = twin_writer_counts(w).failed_errno;
    tw_writer_free(w);
    if (failed)
        stop("a trace could not be written: is the disk full?");
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 6)
        stop("expected FOLDER RANKS STEPS [RANK STEP]");
    const unsigned ranks = (unsigned)atoi(argv[2]), steps = (unsigned)atoi(argv[3]);
    for (unsigned rank = 0; rank < ranks; rank++) {
        const bool other = argc == 6 && rank == (unsigned)atoi(argv[4]);
        write_rank(argv[1], rank, ranks, steps, other ? (unsigned)atoi(argv[5]) : steps);
    }
    return 0;
}
