/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the traces of one run of many ranks, sparsely: one record a step. bench/many_ranks.py puts
 * run folders around them and measures `twinrun diff`; bench/serve_page.py wants many tensors.
 *
 *   many_ranks FOLDER RANKS STEPS [RANK STEP [TENSORS]]     RANK, STEP: where the digest is another
 *     one; of the tensors the upper half */
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
                       unsigned other_from, unsigned tensors)
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
    uint32_t *id = calloc(tensors, sizeof *id);
    if (!id)
        stop("no memory");
    for (unsigned i = 0; i < tensors; i++) {
        char name[32];
        const int n = snprintf(name, sizeof name, tensors > 1 ? "layer%u" : "loss", i);
        const struct twin_series s = {.phase = TWIN_PHASE_FORWARD,
                                      .kind = TWIN_KIND_LOSS,
                                      .name = twin_writer_string(w, name, (size_t)n)};
        id[i] = twin_writer_series(w, &s);
    }
    for (unsigned step = 0; step < steps; step++) {
        const uint64_t value = tw_mix64((uint64_t)rank << 32 ^ step);
        for (unsigned i = 0; i < tensors; i++) {
            const bool other = step >= other_from && i >= tensors / 2;
            const struct twin_observation seen = {.series = id[i],
                                                  .digest = {value + other, step + i}};
            twin_writer_record(w, &seen);
        }
        twin_writer_step_end(w);
    }
    free(id);
    twin_writer_close(w);
    const int failed = twin_writer_counts(w).failed_errno;
    tw_writer_free(w);
    if (failed)
        stop("a trace could not be written: is the disk full?");
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 6 && argc != 7)
        stop("expected FOLDER RANKS STEPS [RANK STEP [TENSORS]]");
    const unsigned ranks = (unsigned)atoi(argv[2]), steps = (unsigned)atoi(argv[3]);
    const unsigned tensors = argc == 7 && atoi(argv[6]) > 0 ? (unsigned)atoi(argv[6]) : 1;
    for (unsigned rank = 0; rank < ranks; rank++) {
        const bool other = argc >= 6 && rank == (unsigned)atoi(argv[4]);
        write_rank(argv[1], rank, ranks, steps, other ? (unsigned)atoi(argv[5]) : steps, tensors);
    }
    return 0;
}
