/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job leaves behind in its replay's folder is the caller's: a file with the bit for setuid
 * is a program that runs with the caller's rights, whoever starts it. In the container it gained
 * nobody anything. Others may write to the folder, if the job let them: so each file is opened
 * first, then looked at, and changed by what was opened.
 */
#include "image.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 0, or -1 with errno. What is no regular file is left alone. */
static int take_from_file(const char *name, uint64_t *count)
{
    char path[40];
    struct stat st;
    int rc = 0, fd = open(name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) != 0)
        rc = -1;
    else if (S_ISREG(st.st_mode) && (st.st_mode & (S_ISUID | S_ISGID))) {
        rc = chmod(path, st.st_mode & 01777);
        *count += rc == 0;
    }
    const int why = errno;
    close(fd);
    errno = why;
    return rc;
}

/* One step of the walk. 0, or -1 with errno. */
static int look(const FTSENT *e, uint64_t *count)
{
    switch (e->fts_info) {
    case FTS_F:
        return e->fts_statp->st_mode & (S_ISUID | S_ISGID) ? take_from_file(e->fts_accpath, count)
                                                           : 0;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS: errno = e->fts_errno; return errno == ENOENT ? 0 : -1;
    default: return 0;
    }
}

int tw_container_take_bits(const char *folder, uint64_t *count, struct twin_error *err)
{
    char *const roots[] = {(char *)(uintptr_t)folder, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_XDEV, NULL);
    int rc = walk ? 0 : twin_error_system(err, "cannot look through %s", folder);
    *count = 0;
    errno = 0;
    /* all are looked at, whatever one of them is; the first trouble is told */
    for (FTSENT *e; walk && (e = fts_read(walk)); errno = 0)
        if (look(e, count) != 0)
            rc = twin_error_system(err, "cannot look at %s", e->fts_path);
    if (walk && errno != 0)
        rc = twin_error_system(err, "cannot look through %s", folder);
    if (walk && fts_close(walk) != 0)
        rc = twin_error_system(err, "cannot go back from %s", folder);
    return rc;
}
