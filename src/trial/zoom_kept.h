/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRIAL_ZOOM_KEPT_H
#define TW_TRIAL_ZOOM_KEPT_H
/*
 * What the first rerun of a zoom kept: the outputs of every call in its window, in two files of the
 * folder `values` (docs/format/run-folder.md). Of these the suspect's are taken, and the rest is
 * dropped.
 */
#include <stdbool.h>
#include <stdint.h>

/*
 * Writes the outputs of one call, "STEP:OCCURRENCE:OP@SCOPE", as files of their own beside the two.
 * True: all of them are there, but for those that are larger than `room` bytes, which no rerun
 * keeps. False: the process of this rank did not keep them, or the files are not what they should
 * be.
 */
bool tw_zoom_kept_take(const char *run_dir, int32_t rank, const char *call, uint64_t room);
/* Removes the two files of every process. */
void tw_zoom_kept_drop(const char *run_dir);

#endif
