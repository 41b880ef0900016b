/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_REPLAY_WORDS_H
#define TW_REPORT_REPLAY_WORDS_H
/* What twinrun replay says of what came out. */
#include "replayed.h"

#include <stdio.h>

/* What stands behind the verdict on the runs. came_to: r->outcome, or TW_REPLAY_FAILED where the
 * verdict could not be given out. */
void tw_replay_text(FILE *out, const struct tw_replayed *r, enum tw_replay_outcome came_to);
/* environment: list of texts. The caller's; NULL: no memory. */
json_t *tw_replay_json(const struct tw_replayed *r, const json_t *environment);

#endif
