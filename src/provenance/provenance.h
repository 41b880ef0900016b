/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_PROVENANCE_H
#define TWIN_PROVENANCE_H
/*
 * What surrounded a run: code, data, environment, accelerators, libraries, launch, seeds,
 * configuration. A process beside the job collects it while the job runs and writes
 * `provenance.json` into the run folder (docs/format/provenance.md, schema twinrun.provenance/1).
 * Before the job starts, only what the job could change itself is looked at (code, configuration),
 * for 250 ms at most. Secrets: src/launch/redact.h.
 */
#include "src/launch/run.h"

#include <stdbool.h>
#include <stddef.h>

struct json_t;

/* twin_launch, with the provenance of the run. Fails as twin_launch does; what could not be found
 * out is said in the record. */
int twin_provenance_launch(const struct twin_launch_options *o, struct twin_run **out,
                           struct twin_error *err);

/* The record of a run folder: a jansson object, the caller's reference. TWIN_ENOENT: the run has
 * none (made by an older twinrun); TWIN_EIO; TWIN_EFORMAT: damaged; TWIN_EVERSION; TWIN_ENOMEM. */
int twin_provenance_load(const char *run_dir, struct json_t **out, struct twin_error *err);

/*
 * Code, programs, configuration and data of a recorded run as they are now, in this process's
 * working folder and environment: what its record says of them, looked at again. home: whose
 * secrets are masked alike. folder: is given a copy of the code's uncommitted differences
 * (code.diff); the run's own folder is not touched. *out: the caller's reference. TWIN_EIO,
 * TWIN_ENOMEM.
 */
int twin_provenance_now(const struct twin_run *run, const char *home, const char *folder,
                        struct json_t **out, struct twin_error *err);

/*
 * Sets *why (malloc'ed) to the first difference between that and the run's record `world` that
 * decides about numbers: "code has changed: train.py"; NULL: there is none among what was recorded.
 * folder: made, and removed at the end. What the run wrote itself is no difference. The rest as
 * above.
 */
int twin_provenance_changed(const struct twin_run *run, const struct json_t *world,
                            const char *home, const char *folder, char **why,
                            struct twin_error *err);
/* Is the path, of the working folder or absolute, a file that the run wrote, or a folder of one? */
bool twin_provenance_wrote(const struct twin_run *run, const char *path);

/* ---- what differs between two worlds */

/* How much a difference may change a result's bits, by experience. */
enum twin_power {
    TWIN_POWER_HIGH,   /* decides about numbers: code, libraries that compute, configuration */
    TWIN_POWER_MEDIUM, /* may: other libraries, variables, topology, compilers */
    TWIN_POWER_LOW,    /* seldom: kernel, packages that were not loaded, limits */
    TWIN_POWER_NOISE   /* names and times */
};
const char *twin_power_name(enum twin_power p); /* "high", "medium", "low", "noise" */

/* One thing that two worlds do not have in common. */
struct twin_world_difference {
    enum twin_power power;
    const char *group; /* "code", "libraries", ...: static */
    char *what;        /* "torch", "OMP_NUM_THREADS", "train.py" */
    char *a, *b;       /* NULL: not there */
    /* between ranks: "ranks 0-2 have torch 2.13.0, rank 3 has 2.12.1"; else NULL */
    char *groups;
    /*
     * items that this one stands for, itself included: 1, or more when many of a kind were gathered
     */
    size_t count;
};
/* A list of them, the ones with the most power first. Needs twin_world_differences_free. */
struct twin_world_differences {
    struct twin_world_difference *item;
    size_t count;
};

/*
 * Sorted by power, then by group. Values that were not collected on either side make no difference.
 */
int twin_provenance_diff(const struct json_t *a, const struct json_t *b,
                         struct twin_world_differences *out, struct twin_error *err);

/* Between the ranks of one run: `a` is what most have, `b` what those named in `what` ("rank 17:
 * NCCL_ALGO") have. */
int twin_provenance_parity(const struct json_t *p, struct twin_world_differences *out,
                           struct twin_error *err);
void twin_world_differences_free(struct twin_world_differences *d);

/* ---- the ranks of a run that goes on */

/* What its ranks have said so far. One run each. */
struct twin_parity;
/* NULL: no memory. */
struct twin_parity *twin_parity_begin(const char *run_dir);
/* The same for who writes nothing, not even a key for secrets where there is none yet. Without a
 * key all secrets look alike, so ranks that differ in nothing else count as equal. NULL: no
 * memory. */
struct twin_parity *twin_parity_begin_to_read(void);
void twin_parity_free(struct twin_parity *p); /* NULL: nothing */
/*
 * One look, of some 20 ms at most; ended: at the run's end, without that limit. True once: when all
 * ranks have been compared, or some differ, or a rank has not been seen for a minute, or the run
 * has ended. From then on the two functions below can be asked, and nothing is read any more.
 */
bool twin_parity_look(struct twin_parity *p, const char *run_dir, bool ended);
/* "ranks 0-2 have torch 2.13.0, rank 3 has 2.12.1; rank 4 was not seen, so nothing is known of it";
 * NULL: all ranks were compared and agree, or there are no ranks. */
const char *twin_parity_words(const struct twin_parity *p);
bool twin_parity_differs(const struct twin_parity *p); /* false: at most, ranks were not seen */

/* "rank 3 was not seen": ranks of the world that said nothing. malloc'ed; NULL: all did. */
char *twin_provenance_unseen(const struct json_t *p);
/* One line about the ranks of a run; NULL when they agree in all that may change bits, or nothing
 * is known. malloc'ed (tw_free). */
char *twin_provenance_parity_summary(const struct twin_run *run);
/* One line about the worlds of several runs; NULL when they agree in all that decides about bits
 * (seeds and commands left aside). threads_said: that numbers of PyTorch's threads differ is said
 * elsewhere. malloc'ed. */
char *twin_provenance_summary(const struct twin_run *const *runs, size_t count, bool threads_said);
#endif
