/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_EXPORT_TRACKERS_H
#define TW_EXPORT_TRACKERS_H
/*
 * Export to trackers and viewers of traces: MLflow, W&B, TensorBoard, Perfetto, OpenTelemetry,
 * OpenLineage. What the traces hold for them is read here (trackers_facts.c); what each of them
 * wants to be told is Python's affair (python/twinrun/_trackers), since the libraries that write
 * TensorBoard's files are.
 */
#include "front.h"

#include "src/launch/run.h"

#include <stdbool.h>
#include <jansson.h>

/* Where to. NULL: not there. */
struct tw_trackers {
    const char *mlflow, *experiment; /* URL of the server; NULL: the run's project */
    const char *wandb;               /* PROJECT or ENTITY/PROJECT */
    const char *tensorboard;         /* folder, made when missing */
    const char *perfetto;            /* file */
    const char *otlp, *openlineage;  /* file, or URL that takes them by HTTP */
    const char *python;              /* that has tensorboard, or wandb; NULL: of PATH */
    bool replace;                    /* files that are there already */
};

/*
 * Tells each of them of these runs; what was written is said by tw_front_line, what was not by
 * tw_front_say. *broken: a trace could not be read whole, and that was said. TWIN_EIO: something
 * was not written, and why was said; TWIN_EINTR, TWIN_ENOMEM, TWIN_ENOENT.
 */
int tw_export_trackers(struct twin_run *const *runs, size_t count, const struct tw_trackers *to,
                       const struct tw_front *front, bool *broken, struct twin_error *err);

/* Curves of runs that twinrun did not record. NULL: not said. */
struct tw_curves_asked {
    const char *from;                /* "csv", "tensorboard", "mlflow" */
    const char *source;              /* file, folder, URL */
    const char *metric;              /* column, tag, key */
    const char *take;                /* "last", "min", "max": the value that stands for a run */
    const char *step, *run;          /* csv: columns */
    const char *experiment, *filter; /* mlflow */
    const char *out;                 /* file that gets the curves (docs/import.md) */
    const char *python;              /* as above */
    bool replace;                    /* a file that is there already */
};

/* Reads them and writes the file; what is not known of these runs is said by tw_front_line.
 * Errors: as above. */
int tw_import_curves(const struct tw_curves_asked *a, const struct tw_front *front,
                     struct twin_error *err);

/*
 * Holds models of a registry against an MLflow server's, or tells them to it. request: {"mirror":
 * URL, "push": whether it is told, "registry": id, "models": [{"name", "canary", "production": a
 * version's number or 0, "versions": [{"version", "artifact", "tags": {...}}]}]}. *result (the
 * caller's; NULL on error): {"findings": [{"model", "alias": or null, "version": ours that MLflow's
 * alias names, 0: none, "names": whether the alias names anything, "what": a sentence}], "wrote":
 * [sentences]}. Errors: as above.
 */
int tw_mirror_models(const json_t *request, const char *python, const struct tw_front *front,
                     json_t **result, struct twin_error *err);

/* What the traces of a run hold for trackers: curves, times of steps, collectives. NULL: no memory,
 * or front stops it. What cannot be read is said, left out, and marked in the object. */
json_t *tw_trackers_facts(const struct twin_run *run, const struct tw_front *front);

#endif
