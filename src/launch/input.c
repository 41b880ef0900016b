/* SPDX-License-Identifier: Apache-2.0 */
/* The job's stdin, when several runs must read the same: tw_input_open() decides how,
 * tw_input_pump() is called by the event loop (supervise.c), tw_input_close() after the job.
 *
 * A file is opened anew at the offset where ours stands. A pipe is read by us: what came is
 * spooled, given to the job, and given again to later runs before they read on. A terminal,
 * /dev/null and other devices are left as they are. We only read when the job has taken what was
 * read before, so a job that never looks at its stdin costs at most one chunk of it. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes that are read at once, of the spool or of our stdin. */
enum { CHUNK_BYTES = 64 << 10 };

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* A descriptor of its own for the job, at the place where ours stands: the job then moves its own
 * offset. Where opening is not allowed, the job shares ours, and the offset is put back after the
 * run. */
static void open_file_again(struct tw_input *in)
{
    off_t at = lseek(0, 0, SEEK_CUR);
    int mode = fcntl(0, F_GETFL);
    if (at < 0 || mode < 0)
        return;
    in->child_fd = open("/proc/self/fd/0", (mode & (O_ACCMODE | O_APPEND)) | O_CLOEXEC | O_NOCTTY);
    if (in->child_fd >= 0 && lseek(in->child_fd, at, SEEK_SET) == at)
        return;
    close_fd(&in->child_fd);
    in->rewind_to = at; /* not ours to open: shared with the job, put back after the run */
}

/* spool_path NULL: the run is alone, and the job gets our stdin as it is. On failure the caller
 * still calls tw_input_close(). */
int tw_input_open(struct tw_input *in, const char *spool_path, struct twin_error *err)
{
    struct stat st;
    int ends[2];
    *in = (struct tw_input){.child_fd = -1, .source = -1, .sink = -1, .spool = -1, .rewind_to = -1};
    if (!spool_path || fstat(0, &st) != 0)
        return 0;
    if (S_ISREG(st.st_mode)) {
        open_file_again(in);
        return 0;
    }
    if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
        return 0;
    in->chunk = tw_malloc(CHUNK_BYTES);
    if (!in->chunk)
        return tw_no_memory(err, "for the job's stdin");
    in->spool = open(spool_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (in->spool < 0 || fstat(in->spool, &st) != 0)
        return twin_error_system(
            err, "cannot write %s, which keeps the job's stdin for the next run", spool_path);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return twin_error_system(err, "cannot make a pipe for the job's stdin");
    in->replay_end = (uint64_t)st.st_size;
    in->child_fd = ends[0];
    in->sink = ends[1];
    in->source = 0;
    if (fcntl(in->sink, F_SETFL, O_NONBLOCK) != 0)
        return twin_error_system(err, "cannot set up the pipe for the job's stdin");
    return 0;
}

/* Is there something to give to the job? */
bool tw_input_wants_sink(const struct tw_input *in)
{
    return in->sink >= 0 && (in->chunk_off < in->chunk_len || in->replay < in->replay_end);
}

/* Only when the job has taken everything: what we read ahead would be missing in our own stdin
 * afterwards. */
bool tw_input_wants_source(const struct tw_input *in)
{
    return in->sink >= 0 && in->source >= 0 && !tw_input_wants_sink(in);
}

/* Fills the empty chunk: from the spool as long as earlier runs have left something there, then
 * from our stdin. Fills nothing when neither has anything now. */
static void refill_chunk(struct tw_input *in, bool source_ready)
{
    ssize_t n;
    if (in->replay < in->replay_end) {
        uint64_t left = in->replay_end - in->replay;
        n = tw_pread_all(in->spool, in->chunk, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES,
                         in->replay);
        if (n <= 0) {
            in->spool_failed = true;
            in->replay = in->replay_end;
            return;
        }
        in->replay += (uint64_t)n;
    } else {
        if (!source_ready || in->source < 0)
            return;
        n = read(in->source, in->chunk, CHUNK_BYTES);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return;
        if (n <= 0) {
            in->source = -1;
            return;
        }
        if (!in->spool_failed && tw_write_all(in->spool, in->chunk, (size_t)n) != 0)
            in->spool_failed = true;
    }
    in->chunk_off = 0;
    in->chunk_len = (size_t)n;
}

/* Moves what can be moved without waiting. source_ready: our stdin can be read. */
void tw_input_pump(struct tw_input *in, bool source_ready)
{
    if (in->sink < 0)
        return;
    if (in->chunk_off == in->chunk_len)
        refill_chunk(in, source_ready);
    while (in->chunk_off < in->chunk_len) {
        ssize_t n = write(in->sink, in->chunk + in->chunk_off, in->chunk_len - in->chunk_off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) { /* the job closed its stdin: the rest stays where it is */
            close_fd(&in->sink);
            return;
        }
        in->chunk_off += (size_t)n;
    }
    if (in->source < 0 && in->replay == in->replay_end)
        close_fd(&in->sink); /* the end of our input is the end of the job's */
}

/* run may be NULL, after a failure: then nothing is noted. Does no harm when called twice. */
void tw_input_close(struct tw_input *in, struct twin_run *run)
{
    if (in->spool_failed && run)
        tw_run_note(run, "the job's stdin could not be kept: a later run of this check would read "
                         "something else");
    if (in->rewind_to >= 0 && lseek(0, in->rewind_to, SEEK_SET) < 0 && run)
        tw_run_note(run, "stdin could not be put back to where it was: a later run of this check "
                         "reads on from there");
    close_fd(&in->child_fd);
    close_fd(&in->sink);
    close_fd(&in->spool);
    tw_free(in->chunk);
    in->chunk = NULL;
}
