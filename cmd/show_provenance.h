/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SHOW_PROVENANCE_H
#define TW_CMD_SHOW_PROVENANCE_H
#include <stdbool.h>
#include <twin/provenance.h>

/* twinrun show RUN --provenance. Returns the exit code. */
int tw_show_provenance(const struct twin_run *r, bool json);
/* twinrun diff --env A B. */
int tw_diff_environment(const struct twin_run *a, const struct twin_run *b, bool json);

#endif
