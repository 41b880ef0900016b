/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of one open file in another, by the cheapest way that works: shared blocks, a copy
 * inside the kernel, reading and writing. */
#include "base.h"
#include "front.h"

#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define AT_ONCE ((size_t)16 << 20) /* between two questions whether to stop */

static int stopped(void)
{
    errno = ECANCELED;
    return -1;
}

/* What the kernel copies by itself: 1 when all is there, 0 when it is left to us, -1 with errno. */
static int copy_inside(int in, int out, const struct tw_front *front)
{
    for (;;) {
        ssize_t n = copy_file_range(in, NULL, out, NULL, AT_ONCE, 0);
        if (n == 0)
            return 1;
        if (n > 0 && tw_front_stops(front))
            return stopped();
        if (n > 0 || errno == EINTR)
            continue;
        bool ours = errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP ||
                    errno == EPERM;
        return ours ? 0 : -1;
    }
}

static int copy_through(int in, int out, const struct tw_front *front)
{
    char chunk[65536];
    for (;;) {
        ssize_t n = read(in, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return (int)n;
        if (tw_write_all(out, chunk, (size_t)n) != 0)
            return -1;
        if (tw_front_stops(front))
            return stopped();
    }
}

int tw_copy_bytes(int in, int out, const struct tw_front *front)
{
    if (ioctl(out, FICLONE, in) == 0)
        return 0;
    int done = copy_inside(in, out, front);
    if (done == 0)
        return copy_through(in, out, front);
    return done > 0 ? 0 : -1;
}
