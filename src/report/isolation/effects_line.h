/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_EFFECTS_LINE_H
#define TW_REPORT_EFFECTS_LINE_H
/* What became of the settings of a world in a run, in one line (twinrun run). */
#include "src/isolate/isolate.h"

#include <stdbool.h>

/*
 * "pinned: hash-seed, threads; NOT pinned: clock (why); ...; run in DIR". effect: one for each
 * setting of w. left_out: what could not be pinned here, with reasons, or NULL. quiet: only what
 * was asked for and failed; "" where nothing did. malloc'ed; NULL: no memory.
 */
char *tw_effects_line(const struct twin_world *w, const struct twin_world_effect *effect,
                      const char *left_out, const char *dir, bool quiet);

#endif
