/* SPDX-License-Identifier: Apache-2.0 */
/* The file by which the agents tell how far they are: `progress` of the run folder, made by the
 * launcher and mapped by every agent. A process of the job writes its own slot and no other; the
 * launcher reads them some four times a second and learns from it when max_steps are made. */
#include "launch.h"

#include <fcntl.h>
#include <stdlib.h>
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
_Static_assert(TWIN_PROGRESS_RANKS == TW_PROGRESS_SLOTS, "each slot may be a rank of its own");
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

/* Takes what the slots say. A rank may have several processes (loader workers carry its number,
 * too): its steps are those of the farthest one. Returns how many slots are taken. */
static size_t take_slots(int fd, struct twin_progress_ranks *out)
{
    /* Read, not mapped: a job that truncates the file must not end us by SIGBUS. */
    struct slot slots[TW_PROGRESS_SLOTS];
    ssize_t got = tw_pread_all(fd, slots, sizeof slots, 0);
    size_t count = got > 0 ? (size_t)got / sizeof *slots : 0, taken = 0;
    *out = (struct twin_progress_ranks){0};
    for (size_t i = 0; i < count; i++) {
        const struct slot *s = &slots[i];
        if (s->pid == 0)
            continue;
        taken++;
        out->records += s->records;
        if (s->steps == 0 && s->records == 0 && s->state != RECORDING)
            continue; /* it had nothing to record */
        if (s->ranks_here > out->expected)
            out->expected = s->ranks_here;
        size_t k = 0;
        while (k < out->count && out->rank[k].rank != s->rank)
            k++;
        struct twin_progress_rank *r = &out->rank[k];
        if (k == out->count)
            out->rank[out->count++].rank = s->rank;
        if (s->steps > r->steps)
            r->steps = s->steps;
        r->records += s->records;
        r->dropped += s->dropped;
        r->recording |= s->state == RECORDING;
    }
    return taken;
}

/* The run's steps are those of the slowest rank. */
static uint64_t steps_of(const struct twin_progress_ranks *r)
{
    uint64_t steps = r->count ? r->rank[0].steps : 0;
    for (size_t k = 1; k < r->count; k++)
        if (r->rank[k].steps < steps)
            steps = r->rank[k].steps;
    return steps;
}

enum tw_enough tw_progress_read(int fd, uint32_t max_steps, struct twin_progress *p)
{
    struct twin_progress_ranks r;
    size_t taken = take_slots(fd, &r);
    p->records = r.records;
    p->step = steps_of(&r);
    if (max_steps == 0 || r.count == 0 || p->step < max_steps)
        return TW_NOT_ENOUGH;
    /* Without a free slot a rank does not show up here. */
    return r.count < r.expected && taken < TW_PROGRESS_SLOTS ? TW_ENOUGH_SO_FAR : TW_ENOUGH;
}

static int by_rank(const void *x, const void *y)
{
    const struct twin_progress_rank *a = x, *b = y;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

void twin_progress_ranks_of(const char *run_dir, struct twin_progress_ranks *out)
{
    char *path = tw_path_join(run_dir, "progress");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    *out = (struct twin_progress_ranks){0};
    if (fd >= 0) {
        out->full = take_slots(fd, out) == TW_PROGRESS_SLOTS;
        close(fd);
    }
    if (out->count > 1)
        qsort(out->rank, out->count, sizeof *out->rank, by_rank);
    out->step = steps_of(out);
    tw_free(path);
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
