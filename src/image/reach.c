/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the job of a container can read. As root it is uid 0 without any right of root there: it can
 * read what uid 0 owns, and what its group and everybody may read. The kernel is asked, since it
 * alone knows of access lists and of file systems of other machines.
 */
#include "image.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The rights of this thread that hold now; it may take them again. */
struct rights {
    struct __user_cap_header_struct head;
    struct __user_cap_data_struct set[_LINUX_CAPABILITY_U32S_3];
};

static int lay_down(struct rights *r)
{
    r->head = (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
    if (syscall(SYS_capget, &r->head, r->set) != 0)
        return -1;
    struct rights none = *r;
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        none.set[i].effective = 0;
    return (int)syscall(SYS_capset, &none.head, none.set);
}

static int take_again(struct rights *r)
{
    return (int)syscall(SYS_capset, &r->head, r->set);
}

/* Is it one that cannot be read? A link leads to what is mounted, or nowhere. */
static bool is_closed(const FTSENT *e)
{
    if (e->fts_info == FTS_DNR || e->fts_info == FTS_NS)
        return e->fts_errno == EACCES || e->fts_errno == EPERM;
    if (e->fts_info != FTS_F || !S_ISREG(e->fts_statp->st_mode))
        return false;
    int fd = open(e->fts_accpath, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd < 0 && (errno == EACCES || errno == EPERM);
}

/* The first one below the open folder, relative to it ("" is the folder); NULL: none. tw_free. */
static char *first_closed(int folder)
{
    char top[64];
    snprintf(top, sizeof top, "/proc/self/fd/%d/.", folder);
    char *const tops[] = {top, NULL};
    char *found = NULL;
    FTS *walk = fts_open(tops, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (const FTSENT *e; walk && !found && (e = fts_read(walk));)
        if (is_closed(e))
            found = tw_strdup(e->fts_path + strlen(top));
    if (walk)
        fts_close(walk);
    return found;
}

int tw_container_reads(const char *folder, struct twin_error *err)
{
    struct rights all;
    struct stat st;
    if (geteuid() != 0)
        return 0;
    /* what lies above it is not asked: it is mounted by somebody who has the right */
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return twin_error_system(err, "cannot open %s", folder);
    int rc = lay_down(&all) == 0 ? 0 : twin_error_system(err, "cannot lay down the rights of root");
    char *closed = rc == 0 ? first_closed(fd) : NULL;
    if (rc == 0 && take_again(&all) != 0)
        rc = twin_error_system(err, "cannot take the rights of root again");
    if (rc == 0 && closed) {
        const char *below = *closed == '/' ? closed + 1 : closed;
        if (fstatat(fd, below, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0)
            memset(&st, 0, sizeof st);
        rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                            "the job in a container is root without root's rights, and cannot read "
                            "%s%s%s (of uid %u, gid %u, mode %04o): replay as its owner, or let "
                            "others read it",
                            folder, *below ? "/" : "", below, (unsigned)st.st_uid,
                            (unsigned)st.st_gid, (unsigned)st.st_mode & 07777u);
    }
    tw_free(closed);
    close(fd);
    return rc;
}
