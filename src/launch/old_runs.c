/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which runs are old enough to be deleted. Whoever deletes them asks here first. */
#include "old_runs.h"

#include "base.h"

#include <ftw.h>
#include <sys/stat.h>

bool tw_run_may_go(const struct tw_old_runs *which, size_t kept, const struct twin_run *r,
                   int64_t now_ns)
{
    if (r->in_progress)
        return false;
    if (which->keep != TW_NOT_GIVEN && kept >= which->keep)
        return true;
    const double age_days = (double)(now_ns - r->start_realtime_ns) / 86400e9;
    return which->older_than_days >= 0 && age_days > which->older_than_days;
}

/* nftw has no user pointer. */
static uint64_t tree_bytes;

static int add_size(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)path;
    (void)where;
    if (type == FTW_F)
        tree_bytes += (uint64_t)st->st_blocks * 512;
    return 0;
}

uint64_t tw_folder_bytes(const char *dir)
{
    tree_bytes = 0;
    nftw(dir, add_size, 16, FTW_PHYS | FTW_MOUNT);
    return tree_bytes;
}
