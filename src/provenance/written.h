/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_WRITTEN_H
#define TW_WRITTEN_H
/* What is in the files that a job wrote, as text that can be compared line by line when the files
 * themselves are gone. */
#include "src/launch/run.h"

#include "base.h"

/* Lists the tensors and values of a file in a format that is read here into the run folder; sets
 * f->kept and f->listing. A file that cannot be listed stays as it is. */
void tw_written_list(const struct twin_run *run, struct twin_run_file *f);
/* TensorBoard's events, a line each without the time at which it was written. False: these bytes
 * are none, or damaged. */
bool tw_written_events(const unsigned char *data, size_t n, struct tw_buf *out);
#endif
