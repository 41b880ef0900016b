/* SPDX-License-Identifier: Apache-2.0 */
/* The file by which the agents tell how far they are: `progress` of the run folder, made by the
 * launcher and mapped by every agent. A process of the job writes its own slot and no other; the
 * launcher reads them some four times a second and learns from it when max_steps are made. */
#include "launch.h"

#include <fcntl.h>
#include <unistd.h>

/* One slot as the agents write it (docs/format/run-folder.md). */
struct slot {
    uint32_t pid;
    int32_t rank;
    uint64_t steps, records, dropped, observer_ns;
    uint32_t state, kind;
    uint32_t ranks_here;
    uint8_t reserved[12];
};
enum { RECORDING = 1 }; /* of state */
_Static_assert(sizeof(struct slot) == 64, "the agents map the same 64 bytes");

int tw_progress_create(const char *run_dir, struct twin_error *err)
{
    static const char zeros[TW_PROGRESS_BYTES];
    char *path = tw_path_join(run_dir, "progress");
    if (!path)
        return tw_no_memory(err, "for the progress file");
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 || tw_write_all(fd, zeros, sizeof zeros) != 0) {
        int rc = twin_error_system(err, "cannot write %s", path);
        if (fd >= 0)
            close(fd);
        fd = rc;
    }
    tw_free(path);
    return fd;
}

/* Adds up what all slots say. A rank may have several processes (loader workers carry its number,
 * too): its steps are those of the farthest one. The run's steps are those of the slowest rank. */
enum tw_enough tw_progress_read(int fd, uint32_t max_steps, struct twin_progress *p)
{
    /* Read, not mapped: a job that truncates the file must not end us by SIGBUS. */
    struct slot slots[TW_PROGRESS_SLOTS];
    ssize_t got = tw_pread_all(fd, slots, sizeof slots, 0);
    size_t count = got > 0 ? (size_t)got / sizeof *slots : 0;
    struct {
        int32_t rank;
        uint64_t steps;
    } ranks[TW_PROGRESS_SLOTS];
    size_t n = 0, expected = 0, taken = 0;
    p->step = p->records = 0;
    for (size_t i = 0; i < count; i++) {
        const struct slot *s = &slots[i];
        if (s->pid == 0)
            continue;
        taken++;
        p->records += s->records;
        if (s->steps == 0 && s->records == 0 && s->state != RECORDING)
            continue; /* it had nothing to record */
        if (s->ranks_here > expected)
            expected = s->ranks_here;
        size_t k = 0;
        while (k < n && ranks[k].rank != s->rank)
            k++;
        if (k == n) {
            ranks[n].rank = s->rank;
            ranks[n++].steps = 0;
        }
        if (s->steps > ranks[k].steps)
            ranks[k].steps = s->steps;
    }
    for (size_t k = 0; k < n; k++)
        if (k == 0 || ranks[k].steps < p->step)
            p->step = ranks[k].steps;
    if (max_steps == 0 || n == 0 || p->step < max_steps)
        return TW_NOT_ENOUGH;
    /* Without a free slot a rank does not show up here. */
    return n < expected && taken < TW_PROGRESS_SLOTS ? TW_ENOUGH_SO_FAR : TW_ENOUGH;
}

void twin_progress_of(const char *run_dir, struct twin_progress *p)
{
    char *path = tw_path_join(run_dir, "progress");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    p->step = p->records = 0;
    if (fd >= 0) {
        tw_progress_read(fd, 0, p);
        close(fd);
    }
    tw_free(path);
}
