/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_REFERENCE_H
#define TW_TRIAL_REFERENCE_H
/*
 * What a run is compared with while it goes on, and where it diverged, as told in its folder
 * (`reference.json`, docs/format/run-folder.md): for those who look at it from outside, so that
 * they need not compare anything themselves. It is not the verdict, which comes at the end.
 */
#include "src/launch/run.h"

#include <stdbool.h>
#include <stdint.h>

struct tw_run_reference {
    char *id;   /* of the reference run */
    char *name; /* of its folder */
    bool diverged;
    uint32_t step;
};

/* Writes it, or writes it anew. What cannot be written is not known to others, and nothing else
 * happens. */
void tw_reference_write(const char *run_dir, const struct twin_run *reference, bool diverged,
                        uint32_t step);
/* False: the run has none, or what is there cannot be read. The texts are the caller's
 * (tw_reference_free). */
bool tw_reference_read(const char *run_dir, struct tw_run_reference *out);
void tw_reference_free(struct tw_run_reference *r);

#endif
