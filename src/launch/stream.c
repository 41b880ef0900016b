/* SPDX-License-Identifier: Apache-2.0 */
/* One of the job's output streams: where it comes from (a pipe or a pseudo-terminal), where it is
 * kept (a file of the run folder, with a SHA-256 of all bytes) and where it is passed on to (our
 * own stdout or stderr). launch.c opens two of them; the event loop (supervise.c) pumps them
 * without ever waiting.
 *
 * The job must not notice us. It gets a terminal where it would have one, a pipe that breaks where
 * its pipe would break, and what is a file stays a file (direct.c). Storing has a cap; the digest
 * and the count cover every byte. One chunk is in memory at a time: nothing is read while it has
 * not been passed on, so a slow reader slows the job and not our memory. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

/* Bytes that are read at once, and the size that pipes are asked to have. */
enum { CHUNK_BYTES = 256 << 10, PIPE_BYTES = 1 << 20 };

void tw_sha256_hex(void *ctx, char out[65])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    out[0] = '\0';
    if (ctx && EVP_DigestFinal_ex(ctx, digest, &n) == 1 && n == 32)
        tw_hex(digest, n, out);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The job sees a terminal where it would have seen one; its bytes stay as they are (no \n to \r\n:
 * our own terminal does that). */
static int open_pty(struct tw_stream *s, int terminal)
{
    struct termios modes;
    char path[64];
    s->source = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (s->source < 0 || grantpt(s->source) != 0 || unlockpt(s->source) != 0 ||
        ptsname_r(s->source, path, sizeof path) != 0)
        return -1;
    s->job_end = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (s->job_end < 0 || tcgetattr(terminal, &modes) != 0)
        return -1;
    modes.c_oflag &= ~(tcflag_t)OPOST;
    modes.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    if (tcsetattr(s->job_end, TCSANOW, &modes) != 0)
        return -1;
    s->pty = true;
    s->terminal = terminal;
    tw_stream_resize(s);
    return 0;
}

void tw_stream_resize(struct tw_stream *s)
{
    struct winsize size;
    if (s->pty && s->source >= 0 && ioctl(s->terminal, TIOCGWINSZ, &size) == 0)
        ioctl(s->source, TIOCSWINSZ, &size);
}

/* Was this descriptor handed to us? A closed one is not, nor is what we hold in its place: that
 * is closed by exec, and nothing that we inherited can be. */
static bool is_given(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    return flags >= 0 && !(flags & FD_CLOEXEC);
}

/* A slow reader of ours must slow the job, not stop us from seeing signals. Opened anew, the
 * non-blocking mode is our own; set on the inherited description it would reach the shell's. Files
 * and devices never block: they are used as they are. */
static void open_sink(struct tw_stream *s, int fd)
{
    struct stat st;
    char path[32];
    s->sink = -1;
    if (!is_given(fd) || fstat(fd, &st) != 0)
        return; /* ours is closed: nothing to pass on to */
    s->sink = fd;
    s->sink_is_socket = S_ISSOCK(st.st_mode);
    if (S_ISFIFO(st.st_mode) || isatty(fd)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (again >= 0) {
            s->sink = again;
            s->sink_is_ours = true;
        }
    }
}

/* Makes the two ends: s->source for us, s->job_end for the job. 0, or -1 with errno. */
static int open_source(struct tw_stream *s, int fd, bool show)
{
    int ends[2];
    if (show && isatty(fd)) {
        if (open_pty(s, fd) == 0)
            return 0;
        close_fd(&s->source); /* no pseudo-terminals here: a pipe does */
        close_fd(&s->job_end);
    }
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    s->source = ends[0];
    s->job_end = ends[1];
    fcntl(s->source, F_SETPIPE_SZ, PIPE_BYTES); /* fewer wake-ups; the default size works too */
    return 0;
}

/* On failure what was opened stays in s for tw_stream_close(). */
int tw_stream_open(struct tw_stream *s, const char *run_dir, int fd, enum tw_stream_show show,
                   uint64_t cap, struct twin_error *err)
{
    *s = (struct tw_stream)TW_STREAM_CLOSED;
    s->name = fd == 1 ? "stdout" : "stderr";
    s->cap = cap;
    s->breaks_with_sink = show == TW_STREAM_NATIVE;
    char *path = tw_path_join(run_dir, s->name);
    s->chunk = tw_malloc(CHUNK_BYTES);
    s->sha = EVP_MD_CTX_new();
    int rc = 0;
    if (!path || !s->chunk || !s->sha || EVP_DigestInit_ex(s->sha, EVP_sha256(), NULL) != 1) {
        rc = tw_no_memory(err, "for the job's %s", s->name);
        goto out;
    }
    s->store = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->store < 0) {
        rc = twin_error_system(err, "cannot write %s", path);
        goto out;
    }
    if (show == TW_STREAM_NATIVE && !is_given(fd))
        goto out; /* closed for the job, too: it fails to write as it would without us */
    if (show == TW_STREAM_NATIVE && tw_stream_try_direct(s, fd))
        goto out;
    if (open_source(s, fd, show != TW_STREAM_STORED) != 0 ||
        fcntl(s->source, F_SETFL, O_NONBLOCK) != 0) {
        rc = twin_error_system(err, "cannot make a pipe for the job's %s", s->name);
        goto out;
    }
    if (show != TW_STREAM_STORED)
        open_sink(s, fd);
out:
    tw_free(path);
    return rc;
}

/* Two descriptors of the same terminal have one device number; pipes, sockets and files are one
 * when their inode is. */
bool tw_stream_is_one(void)
{
    struct stat out;
    struct stat errors;
    if (fstat(1, &out) != 0 || fstat(2, &errors) != 0)
        return false;
    if (S_ISCHR(out.st_mode) && S_ISCHR(errors.st_mode))
        return out.st_rdev == errors.st_rdev && isatty(1) && isatty(2);
    return out.st_dev == errors.st_dev && out.st_ino == errors.st_ino;
}

int tw_stream_join(struct tw_stream *s, const struct tw_stream *into, struct twin_error *err)
{
    s->joined = true;
    if (into->direct >= 0) /* one file: each has its own way to it, and one copy is enough */
        return 0;
    close_fd(&s->source);
    close_fd(&s->job_end);
    s->job_end = fcntl(into->job_end, F_DUPFD_CLOEXEC, 3);
    if (s->job_end < 0)
        return twin_error_system(err, "cannot make one stream of the job's stdout and stderr");
    return 0;
}

/* Appends the first n bytes of the chunk to the copy, up to the cap. */
static void store_chunk(struct tw_stream *s, size_t n)
{
    uint64_t left = s->cap > s->stored ? s->cap - s->stored : 0;
    size_t keep = n < left ? n : (size_t)left;
    if (s->store < 0 || keep == 0)
        return;
    if (tw_write_all(s->store, s->chunk, keep) == 0) {
        s->stored += keep;
        return;
    }
    /* The job goes on; what is stored stays a prefix of what it printed. */
    s->store_errno = errno;
    if (ftruncate(s->store, (off_t)s->stored) != 0 || close(s->store) != 0)
        s->store_errno = errno;
    s->store = -1;
}

void tw_stream_keep(struct tw_stream *s, size_t n)
{
    s->bytes += (uint64_t)n;
    EVP_DigestUpdate(s->sha, s->chunk, n);
    store_chunk(s, n);
}

/* Reads one chunk, keeps it and passes it on. The source is closed at its end. */
void tw_stream_pump(struct tw_stream *s)
{
    if (s->source < 0 || tw_stream_is_stuck(s))
        return;
    ssize_t n = read(s->source, s->chunk, CHUNK_BYTES);
    if (n < 0 && errno == EAGAIN)
        /* empty, whatever the count said (a pseudo-terminal's may be too high) */
        s->must_drain = 0;
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) { /* a pseudo-terminal whose last writer closed it says EIO */
        close_fd(&s->source);
        s->must_drain = 0;
        return;
    }
    if (s->muted)
        return;
    s->must_drain -= s->must_drain < (uint64_t)n ? s->must_drain : (uint64_t)n;
    tw_stream_keep(s, (size_t)n);
    s->chunk_len = (size_t)n;
    s->chunk_off = 0;
    tw_stream_pass_on(s);
}

/* Writes as much of the chunk as the sink takes now. */
void tw_stream_pass_on(struct tw_stream *s)
{
    while (s->sink >= 0 && s->chunk_off < s->chunk_len) {
        const char *from = s->chunk + s->chunk_off;
        size_t n = s->chunk_len - s->chunk_off;
        ssize_t done = s->sink_is_socket ? send(s->sink, from, n, MSG_DONTWAIT | MSG_NOSIGNAL)
                                         : write(s->sink, from, n);
        if (done > 0) {
            s->chunk_off += (size_t)done;
        } else if (done < 0 && errno == EAGAIN) {
            return; /* poll will say when */
        } else if (done == 0 || errno != EINTR) {
            /* The reader went away (head, a closed window). Without us the job's next write would
             * fail. */
            if (s->sink_is_ours)
                close(s->sink);
            s->sink = -1;
            if (s->breaks_with_sink) {
                close_fd(&s->source);
                s->must_drain = 0;
            }
        }
    }
    s->chunk_len = s->chunk_off = 0;
}

bool tw_stream_is_stuck(const struct tw_stream *s)
{
    return s->chunk_off < s->chunk_len;
}

void tw_stream_mute(struct tw_stream *s)
{
    tw_stream_direct_cut(s);
    tw_stream_job_ended(s);
    while (s->must_drain > 0 && !tw_stream_is_stuck(s))
        tw_stream_pump(s);
    s->must_drain = 0;
    s->muted = true;
}

/* From the end of the main process on, only what is in the pipe at this moment must still be read:
 * a daemon that holds the pipe open could go on writing for ever. */
void tw_stream_job_ended(struct tw_stream *s)
{
    int waiting = 0;
    if (s->source >= 0 && !s->muted && ioctl(s->source, FIONREAD, &waiting) == 0 && waiting > 0)
        s->must_drain = (uint64_t)waiting;
}

bool tw_stream_drained(const struct tw_stream *s)
{
    return (s->source < 0 || s->must_drain == 0) && !tw_stream_is_stuck(s);
}

void tw_stream_finish(struct tw_stream *s, char sha256[65])
{
    tw_sha256_hex(s->sha, sha256);
}

void tw_stream_close(struct tw_stream *s)
{
    close_fd(&s->source);
    close_fd(&s->job_end);
    close_fd(&s->store);
    if (s->sink_is_ours)
        close_fd(&s->sink);
    tw_free(s->chunk);
    EVP_MD_CTX_free(s->sha);
    *s = (struct tw_stream)TW_STREAM_CLOSED;
}
