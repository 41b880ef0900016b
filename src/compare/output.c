/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares what the job printed: stdout and stderr, as they are stored in the run folders. pair.c
 * calls tw_output_compare() behind all records. Streams of equal digests are equal; else both are
 * read and lines.c compares them line by line. What cannot be compared (too long, no copy kept) is
 * added to the unknown texts with the option that leaves it out.
 */
#include "internal.h"
#include "printed.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a stream that are read. A longer one is not read at all and counts as cut. */
#define STREAM_CAP ((size_t)64 << 20)

/* One loaded stream; data is malloc'ed and may be NULL. */
struct stream {
    char *data;
    size_t bytes;
    bool cut; /* longer than is read here, or stored */
};

/*
 * Reads the stream `which` of a run into s, which the caller frees (s->data). truncated: the run
 * folder stores only a part of it. A stream that does not exist is empty; any other failure makes
 * it cut, since then what it says is not known.
 */
static void stream_load(struct tw_cmp *c, const struct twin_run *run, const char *which,
                        bool truncated, struct stream *s)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *path = tw_path_join(run->dir, which);
    *s = (struct stream){.cut = truncated};
    int rc = path ? tw_read_file(path, STREAM_CAP, &s->data, &s->bytes, &err) : TWIN_ENOMEM;
    tw_free(path);
    c->oom |= rc == TWIN_ENOMEM;
    s->cut |= rc != 0 && rc != TWIN_ENOENT;
}

/*
 * Did both runs end by themselves and well? Stopped and failed runs print other things by nature.
 */
static bool both_ended(const struct tw_side *a, const struct tw_side *b)
{
    return tw_side_complete(a) && tw_side_complete(b) && !tw_side_failed(a) && !tw_side_failed(b);
}

/*
 * Loads the two streams of a run as one text: as they were written where they were one, else stderr
 * behind stdout. The caller frees s->data.
 */
static void both_load(struct tw_cmp *c, const struct twin_run *run, struct stream *s)
{
    struct stream errors;
    stream_load(c, run, "stdout", run->stdout_truncated, s);
    if (run->one_stream)
        return;
    stream_load(c, run, "stderr", run->stderr_truncated, &errors);
    char *both = tw_malloc(s->bytes + errors.bytes + 1);
    c->oom |= !both;
    if (both) {
        size_t n = s->bytes;
        if (n)
            memcpy(both, s->data, n);
        /* The last line of stdout may have no end; the first of stderr must not be glued to it. */
        if (n && both[n - 1] != '\n')
            both[n++] = '\n';
        if (errors.bytes)
            memcpy(both + n, errors.data, errors.bytes);
        tw_free(s->data);
        *s = (struct stream){both, n + errors.bytes, s->cut || errors.cut};
    }
    tw_free(errors.data);
}

/*
 * The last line that says something of what a run wrote to stderr (to stdout where they were one),
 * cut at 200 bytes; the caller frees it. NULL: there is none, or it was not kept.
 */
char *tw_last_printed(struct tw_cmp *c, const struct twin_run *run)
{
    char *path = tw_path_join(run->dir, run->one_stream ? "stdout" : "stderr");
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    struct stat st;
    char text[4096], *line = NULL;
    ssize_t n = -1;
    c->oom |= !path;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        const off_t from = st.st_size > (off_t)sizeof text ? st.st_size - (off_t)sizeof text : 0;
        n = tw_pread_all(fd, text, sizeof text, (uint64_t)from);
    }
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    ssize_t start = n;
    while (start > 0 && text[start - 1] != '\n' && text[start - 1] != '\r')
        start--;
    while (start < n && isspace((unsigned char)text[start]))
        start++;
    if (start >= 0 && start < n) {
        const size_t most = 200, bytes = (size_t)(n - start);
        /* as it is, up to a NUL: what shows a note makes it safe */
        const int shown = (int)strnlen(text + start, bytes < most ? bytes : most);
        line = tw_cmp_text(c, "%.*s%s", shown, text + start, (size_t)shown < bytes ? "..." : "");
    }
    if (fd >= 0)
        close(fd);
    tw_free(path);
    return line;
}

/* Compares two loaded texts and frees both. `which` is the name that findings and --ignore use. */
static void compare_texts(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                          const char *which, struct stream x, struct stream y,
                          struct tw_last_resort *out)
{
    struct tw_lines l = {.name = which,
                         .name_b = which,
                         .kind = TWIN_KIND_LINE,
                         .a = {x.data, x.bytes, a->facts},
                         .b = {y.data, y.bytes, b->facts},
                         .whole = both_ended(a, b) && !x.cut && !y.cut,
                         .several_writers = a->run->process_count > 1 && b->run->process_count > 1,
                         .shift = out->shift,
                         .other_ends = out->other_ends};
    tw_lines_compare(c, &l, out);
    if (x.cut || y.cut)
        tw_texts_add(
            c, &out->unknown,
            tw_cmp_text(c,
                        "%s: longer than the %zu MiB that are compared (--ignore %s leaves it out)",
                        which, STREAM_CAP >> 20, which));
    tw_free(x.data);
    tw_free(y.data);
}

/*
 * Is there a copy of this stream? What a job wrote to a device itself has none, and so no digest.
 */
static bool has_copy(const char *sha256, bool truncated)
{
    return *sha256 || !truncated;
}

/* Loads and compares one stream of both runs. */
static void compare_stream(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                           const char *which, bool cut_a, bool cut_b, struct tw_last_resort *out)
{
    struct stream x, y;
    stream_load(c, a->run, which, cut_a, &x);
    stream_load(c, b->run, which, cut_b, &y);
    compare_texts(c, a, b, which, x, y, out);
}

/*
 * In one run the streams were one file or terminal, in the other they were not: which line belongs
 * to which stream is known of one run only. So both streams are compared as one text. When --ignore
 * names just one of them nothing can be compared, and that is said.
 */
static void compare_both(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                         struct tw_last_resort *out)
{
    struct stream x, y;
    bool no_stdout = tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE, "stdout");
    bool no_stderr = tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE, "stderr");
    if (no_stdout && no_stderr)
        return;
    if (no_stdout || no_stderr) {
        tw_texts_add(c, &out->unknown,
                     tw_cmp_text(c,
                                 "%s: not compared: in one of the runs stdout and stderr were one "
                                 "(--ignore both, or record both runs alike)",
                                 no_stdout ? "stderr" : "stdout"));
        return;
    }
    both_load(c, a->run, &x);
    both_load(c, b->run, &y);
    compare_texts(c, a, b, "stdout and stderr", x, y, out);
}

int tw_output_compare(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                      struct tw_last_resort *out)
{
    const struct twin_run *x = a->run, *y = b->run;
    if (x->one_stream != y->one_stream) {
        compare_both(c, a, b, out);
        return c->oom ? TWIN_ENOMEM : 0;
    }
    static const char *const name[] = {"stdout", "stderr"};
    const char *sha_a[] = {x->stdout_sha256, x->stderr_sha256};
    const char *sha_b[] = {y->stdout_sha256, y->stderr_sha256};
    bool cut_a[] = {x->stdout_truncated, x->stderr_truncated};
    bool cut_b[] = {y->stdout_truncated, y->stderr_truncated};
    for (size_t i = 0; i < 2; i++) {
        if (tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE, name[i]))
            continue;
        if (!has_copy(sha_a[i], cut_a[i]) || !has_copy(sha_b[i], cut_b[i]))
            tw_texts_add(c, &out->unknown,
                         tw_cmp_text(c,
                                     "%s: not compared: it went to a device, and no copy was kept "
                                     "(--ignore %s leaves it out)",
                                     name[i], name[i]));
        else if (strcmp(sha_a[i], sha_b[i]) != 0)
            compare_stream(c, a, b, name[i], cut_a[i], cut_b[i], out);
    }
    return c->oom ? TWIN_ENOMEM : 0;
}

/* Lines of a stream that both runs have a copy of. */
static size_t lines_of(struct tw_cmp *c, const struct tw_side *side, const char *which)
{
    struct stream s;
    size_t lines = 0;
    stream_load(c, side->run, which, false, &s);
    for (size_t i = 0; i < s.bytes; i++)
        lines += s.data[i] == '\n' || i + 1 == s.bytes;
    tw_free(s.data);
    return lines;
}

size_t tw_output_lines(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b)
{
    const struct twin_run *x = a->run, *y = b->run;
    const bool out = !tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE, "stdout") &&
                     has_copy(x->stdout_sha256, x->stdout_truncated) &&
                     has_copy(y->stdout_sha256, y->stdout_truncated);
    const bool errors = !tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_LINE, "stderr") &&
                        has_copy(x->stderr_sha256, x->stderr_truncated) &&
                        has_copy(y->stderr_sha256, y->stderr_truncated);
    return (out ? lines_of(c, a, "stdout") : 0) +
           (errors && !x->one_stream ? lines_of(c, a, "stderr") : 0);
}

void tw_last_resort_free(struct tw_last_resort *r)
{
    tw_findings_free(&r->findings);
    tw_findings_free(&r->benign);
    tw_texts_free(&r->unknown);
}
