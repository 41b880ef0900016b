/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ISOLATE_APPLIES_H
#define TW_ISOLATE_APPLIES_H
/* Which factors apply to a command, told from its program alone: nothing of the job is run. */
#include "capture.h"

#include "src/isolate/isolate.h"

#include <stdbool.h>
#include <stddef.h>
#include <twin/error.h>

/* What a command is, as far as its program tells. */
struct tw_factor_job {
    bool given;     /* false: there is no command, so that only this machine decides */
    char *no_agent; /* why the agent cannot be loaded into its program; NULL: it can */
    char *python;   /* the interpreter that it starts; NULL: by its name no Python job */
    bool starter;   /* a shell or the like: what it starts is not known beforehand */
    struct tw_python_packages has;
};

/* Looks at the program of a command. TWIN_ENOENT: there is none in PATH. out is the caller's to
 * free in any case. */
int tw_factor_job_look(struct tw_factor_job *out, char *const *argv, struct twin_error *err);
void tw_factor_job_free(struct tw_factor_job *j);

/* "yes", "perhaps: ..." or "no: ...", put into text, which is returned. What this machine lacks
 * comes before what the job is. */
const char *tw_factor_applies(const struct twin_factor *f, const struct tw_factor_job *j,
                              char *text, size_t room);

#endif
