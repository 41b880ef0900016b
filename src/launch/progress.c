/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* One slot as the agents write it (docs/format/run-folder.md). */
struct slot {
    uint32_t pid;
    int32_t rank;
    uint64_t steps, records, dropped, observer_ns;
    uint32_t state, kind;
    uint8_t reserved[16];
};
_Static_assert(sizeof(struct slot) == 64, "the agents map the same 64 bytes");

void *tw_progress_create(const char *run_dir, struct twin_error *err)
{
    static const char zeros[TW_PROGRESS_BYTES];
    char *path = tw_path_join(run_dir, "progress");
    void *page = NULL;
    if (!path) {
        twin_error_set(err, TWIN_ENOMEM, "out of memory for the progress file");
        return NULL;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    /* Written, not only sized: on a full disk the agents' first store into a hole would be a SIGBUS inside the job. */
    if (fd < 0 || tw_write_all(fd, zeros, sizeof zeros) != 0) {
        twin_error_system(err, "cannot write %s", path);
    } else {
        page = mmap(NULL, sizeof zeros, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED) {
            twin_error_system(err, "cannot map %s", path);
            page = NULL;
        }
    }
    if (fd >= 0)
        close(fd);
    tw_free(path);
    return page;
}

void tw_progress_unmap(void *page)
{
    if (page)
        munmap(page, TW_PROGRESS_BYTES);
}

/* A rank may have several processes (loader workers carry its number too): its steps are those of the farthest one. */
bool tw_progress_read(const void *page, uint32_t max_steps, struct twin_progress *p)
{
    const struct slot *slots = page;
    struct { int32_t rank; uint64_t steps; } ranks[TW_PROGRESS_SLOTS];
    size_t n = 0;
    p->step = p->records = 0;
    for (size_t i = 0; i < TW_PROGRESS_SLOTS; i++) {
        if (__atomic_load_n(&slots[i].pid, __ATOMIC_ACQUIRE) == 0)
            continue;
        uint64_t steps = __atomic_load_n(&slots[i].steps, __ATOMIC_RELAXED);
        uint64_t records = __atomic_load_n(&slots[i].records, __ATOMIC_RELAXED);
        int32_t rank = __atomic_load_n(&slots[i].rank, __ATOMIC_RELAXED);
        p->records += records;
        if (steps == 0 && records == 0)
            continue; /* armed, but nothing to record: a shell, torchrun itself */
        size_t k = 0;
        while (k < n && ranks[k].rank != rank)
            k++;
        if (k == n) {
            ranks[n].rank = rank;
            ranks[n++].steps = 0;
        }
        if (steps > ranks[k].steps)
            ranks[k].steps = steps;
    }
    for (size_t k = 0; k < n; k++)
        if (k == 0 || ranks[k].steps < p->step)
            p->step = ranks[k].steps;
    return max_steps > 0 && n > 0 && p->step >= max_steps;
}
