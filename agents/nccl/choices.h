/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_NCCL_CHOICES_H
#define TW_NCCL_CHOICES_H
/*
 * What NCCL chose for each collective, as records of a trace beside the rank's own
 * (docs/internals/nccl.md says why beside it). Nothing here fails or waits for anybody: what could
 * not be recorded is counted, and the count is a note of that trace.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether there is a trace for such records. */
bool tw_nccl_on(void);

struct tw_nccl_comm; /* a communicator of this process; valid until the process ends */

/* A new communicator. ranks 0: neither its name nor its ranks are known yet, the first collective
 * tells. version: of the interface. NULL: it is not recorded (no run, or too many of them). */
struct tw_nccl_comm *tw_nccl_comm_new(int version, const char *name, int ranks, int rank);
/* Its collectives that come after this were not expected, and are counted as lost. */
void tw_nccl_comm_end(struct tw_nccl_comm *comm);

/* One call of a collective by one rank. Strings may be NULL; they are read during the call alone.
 */
struct tw_nccl_call {
    const char *function, *datatype, *algorithm, *protocol;
    uint64_t sequence, count;
    uint32_t channels;
    int rank;         /* in the communicator */
    const char *name; /* of the communicator, where it was not known before; or NULL */
};

/* comm NULL, or no communicator of ours: counted as lost. */
void tw_nccl_record(struct tw_nccl_comm *comm, const struct tw_nccl_call *call);
#endif
