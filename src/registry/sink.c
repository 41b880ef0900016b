/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that arrive in pieces, digested on their way (sink.h). */
#include "sink.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { COPY_BYTES = 1 << 18 };

int tw_sink_begin(struct tw_sink *k, const char *shown, struct twin_error *err)
{
    assert(!k->into || k->fd < 0);
    k->bytes = 0;
    k->over = false;
    k->failed = 0;
    k->sha256[0] = '\0';
    return tw_sha256_begin(&k->sum) ? 0 : tw_no_memory(err, "reading %s", shown);
}

bool tw_sink_take(void *to, const char *data, size_t n)
{
    struct tw_sink *k = to;
    k->over = k->most && n > k->most - k->bytes;
    if (k->over)
        return false;
    k->bytes += n;
    tw_sha256_add(&k->sum, data, n);
    if (k->into)
        return tw_buf_append(k->into, data, n) == 0;
    if (k->fd < 0 || tw_write_all(k->fd, data, n) == 0)
        return true;
    k->failed = errno;
    return false;
}

int tw_sink_refused(const struct tw_sink *k, const char *shown, struct twin_error *err)
{
    errno = k->failed;
    return twin_error_system(err, "cannot write a copy of %s", shown);
}

int tw_sink_end(struct tw_sink *k, int rc, const char *shown, struct twin_error *err)
{
    unsigned char digest[32];
    if (k->failed)
        rc = tw_sink_refused(k, shown, err);
    else if (rc == 0 && !tw_sha256_end(&k->sum, digest))
        rc = tw_no_memory(err, "reading %s", shown);
    if (rc == 0)
        tw_hex(digest, sizeof digest, k->sha256);
    tw_sha256_free(&k->sum);
    return rc;
}

int tw_sink_read(struct tw_sink *k, int in, const char *shown, struct twin_error *err)
{
    char *room = tw_malloc(COPY_BYTES);
    ssize_t n = 1;
    int rc = room ? 0 : tw_no_memory(err, "reading %s", shown);
    while (rc == 0 && n > 0) {
        n = tw_read_up_to(in, room, COPY_BYTES);
        if (n < 0)
            rc = twin_error_system(err, "cannot read %s", shown);
        else if (!tw_sink_take(k, room, (size_t)n))
            rc = tw_sink_refused(k, shown, err);
    }
    tw_free(room);
    return rc;
}

int tw_sink_file(struct tw_sink *k, int in, const char *shown, struct twin_error *err)
{
    int rc = tw_sink_begin(k, shown, err);
    return rc ? rc : tw_sink_end(k, tw_sink_read(k, in, shown, err), shown, err);
}

int tw_sink_is(const struct tw_sink *k, const char *sha256, uint64_t bytes, const char *shown,
               struct twin_error *err)
{
    return k->bytes == bytes && strcmp(k->sha256, sha256) == 0
               ? 0
               : twin_error_set(err, TWIN_EFORMAT,
                                "%s changed while it was read: nothing was stored", shown);
}
