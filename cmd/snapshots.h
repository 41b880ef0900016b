/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_SNAPSHOTS_H
#define TW_CMD_SNAPSHOTS_H
/* Looks at folders of data, with the person at the terminal. (data.c) */
#include "looking.h"

/* From here on Ctrl-C only asks for an end. */
struct twin_snapshot_options tw_snapshot_options(struct tw_looking *l, const char *what);
/* After a failed look: says why; the exit code. */
int tw_snapshot_failed(const struct tw_looking *l, const struct twin_error *err);
#endif
