/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output that goes into a file: the job gets the file itself, as it would without us. So a full
 * disk, a limit of the file's size, O_APPEND, seeking and the order of two streams in one file are
 * its own. What it wrote is copied into the run folder when the job has ended: from the place where
 * the file stood before to the place where it stands then.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Bytes that are copied at once, through the stream's chunk (stream.c), which has as many. */
enum { COPY_BYTES = 256 << 10 };

/* Where the next byte goes. */
static off_t place_in_file(int fd)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_APPEND) && fstat(fd, &st) == 0)
        return st.st_size;
    return lseek(fd, 0, SEEK_CUR);
}

/* Of devices, /dev/null aside: what it takes and refuses (/dev/full) is between it and the job. */
static bool is_device(const struct stat *st, int fd)
{
    return S_ISCHR(st->st_mode) && !isatty(fd) && st->st_rdev != makedev(1, 3);
}

/* False when fd cannot be given to the job, which then gets a pipe. s->direct is the caller's
 * descriptor and stays its own. */
bool tw_stream_try_direct(struct tw_stream *s, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !(S_ISREG(st.st_mode) || is_device(&st, fd)))
        return false;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return false;
    s->direct = fd;
    s->direct_is_file = S_ISREG(st.st_mode);
    s->direct_from = s->direct_is_file ? place_in_file(fd) : 0;
    s->direct_until = -1;
    return true;
}

void tw_stream_direct_cut(struct tw_stream *s)
{
    if (s->direct >= 0 && s->direct_is_file && s->direct_until < 0)
        s->direct_until = place_in_file(s->direct);
}

/* Copies [from, until) of `in`. Returns 0, or an errno; what was copied before it counts. */
static int copy_range(struct tw_stream *s, int in, off_t from, off_t until)
{
    while (from < until) {
        size_t want = until - from < COPY_BYTES ? (size_t)(until - from) : COPY_BYTES;
        ssize_t n = pread(in, s->chunk, want, from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0) /* cut off meanwhile */
            return 0;
        tw_stream_keep(s, (size_t)n);
        from += n;
    }
    return 0;
}

/* Opens the file anew, to read what may have been opened for writing only. */
int tw_stream_direct_collect(struct tw_stream *s, const char **why)
{
    char path[32];
    *why = NULL;
    if (s->direct < 0)
        return 0;
    if (!s->direct_is_file) {
        *why = "it went to a device";
        return ENODEV;
    }
    tw_stream_direct_cut(s);
    if (s->direct_until < s->direct_from) {
        *why = "the job made the file shorter";
        return ESPIPE;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->direct);
    int in = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int error = in < 0 ? errno : copy_range(s, in, s->direct_from, s->direct_until);
    if (in >= 0)
        close(in);
    if (error)
        *why = strerror(error);
    return error;
}
