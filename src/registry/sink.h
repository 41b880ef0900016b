/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REGISTRY_SINK_H
#define TW_REGISTRY_SINK_H
/*
 * Where bytes go that arrive in pieces: into memory, into a file, or nowhere. They are digested as
 * they pass by, so that what was written is what was digested.
 */
#include "sha256.h"

#include "base.h"

struct tw_sink {
    struct tw_buf *into; /* up to its cap; NULL: to fd */
    int fd;              /* -1: nowhere */
    uint64_t most;       /* bytes that are taken; 0: no limit */
    /* out */
    uint64_t bytes;  /* that came */
    bool over;       /* more than `most` came */
    int failed;      /* errno of a write */
    char sha256[65]; /* once it has ended */
    struct tw_sha256 sum;
};

/* Before the first piece. After a success it needs tw_sink_end. */
int tw_sink_begin(struct tw_sink *k, const char *shown, struct twin_error *err);
/* One piece; to: the sink. False: it takes no more. In the form that a request wants. */
bool tw_sink_take(void *to, const char *data, size_t n);
/* The error of a file that takes no more. */
int tw_sink_refused(const struct tw_sink *k, const char *shown, struct twin_error *err);
/* After the last one. rc, the end of whoever gave the pieces, unless this fails by itself. */
int tw_sink_end(struct tw_sink *k, int rc, const char *shown, struct twin_error *err);
/* All that a file yields from its offset on; the sink has been begun. */
int tw_sink_read(struct tw_sink *k, int in, const char *shown, struct twin_error *err);
/* The same from begin to end. */
int tw_sink_file(struct tw_sink *k, int in, const char *shown, struct twin_error *err);
/* Was it this content? Else TWIN_EFORMAT: `shown` changed between its digest and its reading. */
int tw_sink_is(const struct tw_sink *k, const char *sha256, uint64_t bytes, const char *shown,
               struct twin_error *err);
#endif
