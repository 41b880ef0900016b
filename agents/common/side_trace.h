/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_SIDE_TRACE_H
#define TW_AGENT_SIDE_TRACE_H
/*
 * A trace beside the rank's own, FOLDER/<rank>.<pid>.twt in the run folder: for what informs and is
 * not to enter the value hash of a step, because two runs that computed the same bits by another
 * way must not differ. Inside a guard only.
 */
#include <stddef.h>
#include <stdint.h>

struct twin_writer;

/* Never lossless: whoever is watched this way is not made to wait. ring_bytes: a thread. NULL: it
 * cannot be written, and the run says that `what` ("NCCL's choices") is not recorded. */
struct twin_writer *tw_side_trace_open(const char *folder, size_t ring_bytes, const char *what);

/* With a note `lost_key` of how many were not recorded, where there are some. Flushing does not
 * wait without limit, closing does: a disk that hangs must not hang the job. NULL: nothing. */
void tw_side_trace_close(struct twin_writer *w, const char *lost_key, uint64_t lost);

/* Letters of a name that a line can hold; "-" for a name that was not given (NULL, empty). */
void tw_side_trace_word(char *out, size_t room, const char *word);
#endif
