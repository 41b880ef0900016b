/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of descriptors for the drain thread alone. Programs close descriptors that they did not
 * open, and dup2 onto numbers of their choice; between a check that a number is still the trace and
 * the write to it, it can become a file of the program. In a table of its own the thread's number
 * is nobody else's, and the program does not see the trace among its descriptors.
 *
 * A thread sanitizer believes that a process has one table, and takes equal numbers in two for a
 * race. Linux only (unshare(2) with CLONE_FILES, no privilege needed). Under a system call filter
 * it is not tried: a filter may kill for it.
 */
#include "writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

bool tw_drain_shares_descriptors;
extern void __tsan_init(void) __attribute__((weak)); /* there under a thread sanitizer only */

/* Is a system call filter in force? When it cannot be told, yes. */
static bool is_filtered(void)
{
    char text[4096];
    int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return strstr(text, "\nSeccomp:\t0\n") == NULL;
}

/* For kernels without close_range(2), which is there from 5.9 on. */
static void close_one_by_one(void)
{
    DIR *d = opendir("/proc/thread-self/fd");
    struct dirent *e;
    while (d && (e = readdir(d)) != NULL) {
        int fd = atoi(e->d_name);
        if (e->d_name[0] != '.' && fd != dirfd(d))
            close(fd);
    }
    if (d)
        closedir(d);
}

/* What the copied table holds must go at once: while it is held here, a pipe of the program has no
 * end. */
bool tw_drain_stand_alone(void)
{
    if (tw_drain_shares_descriptors || __tsan_init || is_filtered() ||
        syscall(SYS_unshare, CLONE_FILES) != 0)
        return false;
    if (syscall(SYS_close_range, 0u, ~0u, 0u) != 0)
        close_one_by_one();
    return true;
}
