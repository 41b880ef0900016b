/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of a run that goes on told last: processor time, memory, pace. Somebody who
 * looks once a second must not read whole files for it, so of each file only its head, which names
 * the columns, and its end are read.
 */
#include "telemetry_inside.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* HEAD: a header and its columns are shorter. TAIL: some 100 rows. FILES: of one run. */
enum { HEAD_BYTES = 4096, TAIL_BYTES = 16384, FILES_MAX = 512 };
#define SECOND_NS UINT64_C(1000000000)

/* The head's first two lines and the whole lines of the end, as one text. malloc'ed; NULL: there is
 * nothing to read, or no memory. */
static char *ends_of(int folder, const char *name, size_t *bytes)
{
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    char *text = fd >= 0 ? tw_malloc(HEAD_BYTES + TAIL_BYTES + 1) : NULL;
    bool regular = text && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    const uint64_t size = regular ? (uint64_t)st.st_size : 0;
    const bool whole = size <= HEAD_BYTES + TAIL_BYTES;
    const size_t wanted = whole ? (size_t)size : HEAD_BYTES;
    ssize_t got = size ? tw_pread_all(fd, text, wanted, 0) : -1;
    size_t n = got > 0 ? (size_t)got : 0;
    char *first = n ? memchr(text, '\n', n) : NULL;
    char *second = first ? memchr(first + 1, '\n', (size_t)(text + n - first - 1)) : NULL;
    if (second && !whole) {
        char *end = second + 1;
        got = tw_pread_all(fd, end, TAIL_BYTES, size - TAIL_BYTES);
        /* the first of these lines has lost its beginning */
        const char *line = got > 0 ? memchr(end, '\n', (size_t)got) : NULL;
        size_t rest = line ? (size_t)(end + got - line - 1) : 0;
        if (rest)
            memmove(end, line + 1, rest);
        n = (size_t)(end - text) + rest;
    }
    if (fd >= 0)
        close(fd);
    if (!second) {
        tw_free(text);
        return NULL;
    }
    text[n] = '\0';
    *bytes = n;
    return text;
}

/* A cell; TW_UNKNOWN also when the table has no such column. */
static uint64_t cell(const struct tw_table *t, size_t row, const char *name)
{
    size_t column = tw_table_column(t, name);
    return column == SIZE_MAX ? TW_UNKNOWN : t->cell[row * t->columns + column];
}

/* How much an amount grew from one row to another, in each second; NaN: not known. */
static double pace(const struct tw_table *t, size_t from, size_t to, const char *name)
{
    uint64_t a = cell(t, from, name), b = cell(t, to, name);
    if (a == TW_UNKNOWN || b == TW_UNKNOWN || b < a || t->t_ns[to] == t->t_ns[from])
        return NAN;
    return (double)(b - a) * 1e9 / (double)(t->t_ns[to] - t->t_ns[from]);
}

/* Adds a value to a sum that is NaN as long as nothing was known. */
static void add(double *sum, double value)
{
    if (!isnan(value))
        *sum = isnan(*sum) ? value : *sum + value;
}

static void take_table(const struct tw_table *t, const char *host, struct twin_telemetry_now *out)
{
    if (t->kind != TW_TABLE_PROCESS || t->rows == 0)
        return;
    const size_t last = t->rows - 1;
    size_t from = last;
    while (from > 0 && t->t_ns[last] - t->t_ns[from] < SECOND_NS)
        from--;
    const uint64_t rss = cell(t, last, "rss_bytes"), now = tw_monotonic_ns();
    const double rate = pace(t, from, last, "steps");
    out->processes++;
    add(&out->cpu, pace(t, from, last, "cpu_ns") / 1e9);
    add(&out->rss, rss == TW_UNKNOWN ? NAN : (double)rss);
    if (!isnan(rate) && !(out->rate <= rate))
        out->rate = rate;
    if (strcmp(t->host, host) != 0 || t->t_ns[last] > now)
        return;
    const double age_s = (double)(now - t->t_ns[last]) * 1e-9;
    if (!(out->age_s <= age_s))
        out->age_s = age_s;
}

/* Of a file only its last table counts: a process that became another program is that one now. */
static void take_file(int folder, const char *name, const char *host,
                      struct twin_telemetry_now *out)
{
    struct tw_table *list = NULL;
    size_t count = 0, bytes = 0;
    char *text = ends_of(folder, name, &bytes);
    if (text && tw_tables_parse(name, text, bytes, &list, &count, NULL) == 0 && count)
        take_table(&list[count - 1], host, out);
    tw_tables_free(list, count);
    tw_free(text);
}

void twin_telemetry_latest(const char *run_dir, struct twin_telemetry_now *out)
{
    char host[65] = "", *dir = tw_path_join(run_dir, "telemetry");
    DIR *d = dir ? opendir(dir) : NULL;
    *out = (struct twin_telemetry_now){.cpu = NAN, .rss = NAN, .rate = NAN, .age_s = NAN};
    gethostname(host, sizeof host - 1);
    size_t files = 0;
    for (struct dirent *e; d && files < FILES_MAX && (e = readdir(d)); files++)
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9') /* RANK.PID */
            take_file(dirfd(d), e->d_name, host, out);
    if (d)
        closedir(d);
    tw_free(dir);
}
