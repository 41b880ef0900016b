/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TRACE_RESULTS_H
#define TW_TRACE_RESULTS_H
/*
 * The file in which a process of Python keeps the order in which executors and loaders told it of
 * results: "results.PID.NUMBER" in the run's folder (python/twinrun/_agent/results_file.py writes
 * it). It grows by whole entries, each with a check of its own, so that what is there when the
 * process is killed can be read. It is of one machine's byte order.
 *
 *     head, then entries; the text of an entry stands behind it, filled up with NULs to 4 bytes
 *
 * In the folder of a run that replays it, "order.results.ROLE" (ROLE: the CRC-32 of the role, in 8
 * hexadecimal digits) is an order head and then that file as it was.
 */
#include <stdint.h>

#define TW_RESULTS_MAGIC "twinres"
#define TW_RESULTS_ORDER_MAGIC "twinrso"
enum {
    TW_RESULTS_VERSION = 1,
    TW_RESULTS_ROLE = 104, /* bytes, the final NUL among them */
    TW_RESULTS_TEXT_MOST = 400,
    TW_RESULTS_BYTES_MOST = (32 << 20) + 65536,
    TW_RESULTS_CALLS_MOST = 1 << 22
};

struct tw_results_head {
    char magic[8];
    uint32_t version;
    int32_t rank;
    uint32_t pid;
    char role[TW_RESULTS_ROLE]; /* which of the job's processes it is, filled up with NULs */
    uint32_t check;             /* CRC-32 of what stands before it */
};

enum {
    TW_RESULTS_CALL = 1,     /* value: for how many results it is; text: the line of the job */
    TW_RESULTS_RESULT = 2,   /* value: its place among those of its call, by submission */
    TW_RESULTS_GIVEN_UP = 3, /* text: why a replay was */
    TW_RESULTS_FULL = 4,     /* what came then is not recorded */
    TW_RESULTS_END = 5       /* the process has ended, and nothing is missing up to here */
};
/* of a call */
enum {
    TW_RESULTS_AS_COMPLETED = 1,
    TW_RESULTS_WAIT = 2, /* all results of one call were told of at once */
    TW_RESULTS_POOL = 3,
    TW_RESULTS_LOADER = 4,
    TW_RESULTS_OTHER = 5 /* told of in an order that is not recorded */
};
struct tw_results_entry {
    uint8_t what, kind;
    uint16_t bytes;  /* of text */
    uint32_t thread; /* of a call: UINT32_MAX where no place is known, since several submitted */
    uint32_t call;   /* its number in the process */
    uint32_t value;
    uint32_t rest;  /* of a wait: a check of the order of those that were not done */
    uint32_t check; /* CRC-32 of what stands before it, and of the text, begun with the head's */
};

struct tw_results_order_head {
    char magic[8];
    uint32_t version;
    uint32_t wait_ms; /* how long a result is waited for while others could be told of */
};
#define TW_RESULTS_ORDER_FILE "%s/order.results.%08x"
#endif
