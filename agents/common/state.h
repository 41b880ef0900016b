/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_STATE_H
#define TW_AGENT_STATE_H
/*
 * What the agent's own files share: the state machine of the process, the configuration, the guard
 * around every entry.
 *
 *     OFF     no TWINRUN_RUN_DIR, or recording could not be set up: every call is one load and a
 * branch READY   armed, no file yet (also a forked child before its first record) OPEN    the
 * writer exists DONE    closed, or stopped after TWINRUN_STEPS: nothing is recorded any more
 *
 * The state only moves under `lock` (agent.c), except into OFF. The writer is never freed while
 * threads may use it.
 */
#include "src/trace/trace.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "agent.h"

enum tw_agent_state { TW_STATE_OFF, TW_STATE_READY, TW_STATE_OPEN, TW_STATE_DONE };

enum tw_progress_state { TW_PROGRESS_RECORDING = 1, TW_PROGRESS_CLOSED = 2, TW_PROGRESS_OFF = 3 };

#define TW_ROLE_BYTES 64

struct tw_agent_config {
    char run_dir[PATH_MAX];
    uint8_t run_id[16];
    int level; /* enum tw_agent_level */
    bool window;
    uint32_t window_first, window_last;
    uint32_t max_steps;    /* 0 = no limit */
    bool hold;             /* wait for the launcher behind the last of them */
    uint32_t sketch_every; /* 0 = never */
    bool lossless;
    bool telemetry;
    int32_t rank, world;
    uint32_t ranks_here; /* on this machine, by the launcher's variables; 0: they do not tell */
    char role[TW_ROLE_BYTES];
    int kind; /* 1 native, 2 python */
};

extern _Atomic int tw_agent_state; /* enum tw_agent_state */
extern struct tw_agent_config tw_agent_config;
extern struct twin_writer *tw_agent_writer; /* valid when OPEN or DONE */
/* 1 in the process that opened the writer; the kernel wipes the page in every child that does not
 * share our memory, so that a child made behind the back of pthread_atfork (raw clone) can never
 * write into its parent's trace. */
extern _Atomic uint32_t *tw_agent_mine;
/* How deep this thread is inside the agent: a signal handler or an allocator hook that comes back
 * in is turned away. */
extern __thread int tw_agent_inside __attribute__((tls_model("initial-exec")));

/* Around every entry: keeps errno, keeps pthread_cancel from unwinding us with a lock held, turns
 * re-entry away. */
struct tw_guard {
    int saved_errno, cancel_state;
};

static inline bool tw_guard_enter(struct tw_guard *g)
{
    if (tw_agent_inside)
        return false;
    tw_agent_inside = 1;
    g->saved_errno = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &g->cancel_state);
    return true;
}

static inline void tw_guard_leave(const struct tw_guard *g)
{
    int unused;
    pthread_setcancelstate(g->cancel_state, &unused);
    errno = g->saved_errno;
    tw_agent_inside = 0;
}

/* The writer, opened when this is the first use; NULL when nothing is to be recorded. Inside a
 * guard only. */
struct twin_writer *tw_agent_open_slow(void);
static inline struct twin_writer *tw_agent_open(void)
{
    if (atomic_load_explicit(&tw_agent_state, memory_order_acquire) == TW_STATE_OPEN &&
        atomic_load_explicit(tw_agent_mine, memory_order_relaxed))
        return tw_agent_writer;
    return tw_agent_open_slow();
}

/* Reads TWINRUN_*; false when this process is not to be watched. (config.c) */
bool tw_config_read(struct tw_agent_config *c);
/* Rank and world from the variables that launchers set; 0 and 1 when there are none. */
void tw_config_rank(int32_t *rank, int32_t *world);

/* The run folder (folder.c). Each opens, writes once and closes: no descriptor of ours stays open
 * in the job, which might close or reuse it. All are best effort and fail in silence. */
void tw_folder_init(int argc, char **argv); /* keeps the argv line */
/* held.c: what was held still from outside, to `factors` */
void tw_held_report(void);
/* a forked child: its argv line is the parent's, told in short */
void tw_folder_forget(void);
bool tw_folder_announce(int kind); /* appends to `processes` */
/* appends to `faults`: why the agent went off */
void tw_folder_fault(const char *what, const char *why);
/* Appends to `factors`: what was pinned, shaken or audited here. */
void tw_folder_factor(const char *key, const char *value);
/* Appends to `written`: a file opened for writing, and its size before (0: not known). An empty
 * path stands for one that cannot be told in a line: it is too long, or a line ends in it. */
enum { TW_WRITTEN_PATH_BYTES = 1024 };
void tw_folder_written(uint64_t bytes_before, const char *path);
/* world.c: variables, libraries, versions of a trainer; without locks of ours */
void tw_world_report(bool begins);
/* The rank became known, or another one than `before`: what was told so far goes under its name. */
void tw_world_join(int32_t before);
void tw_progress_claim(void); /* takes a slot */
/* in a forked child: the slot is the parent's */
void tw_progress_forget(void);
/* now false: at most once in 10 ms */
void tw_progress_update(enum tw_progress_state state, bool now);

/* Says in `processes`, once, what this process is armed as: 1 native, 2 python. Inside a guard, or
 * with Python's lock held. */
void tw_agent_announce(int kind);

/* Counters of this process (telemetry.c), inside a guard. A row, unless the last one was just now,
 * after that many steps; the rest of the rows into the file; before the rank changes, since rows
 * behind that go into a file of that rank; in a forked child, which has a file of its own. */
void tw_telemetry_row(uint32_t steps);
void tw_telemetry_flush(void);
void tw_telemetry_begin_anew(void);
void tw_telemetry_forget(void);

/* In a forked child: the threads that helped with digests are the parent's. (record.c) */
void tw_record_forget(void);
/* Before the process image goes away without destructors: `_exit`, quick_exit (close true), exec
 * (false: only sealed). Does nothing in a vfork child, in a child that records nothing, and when
 * the calling thread is inside the agent. */
void tw_agent_seal(bool close);
/* Can all memory of the item's tensor be read, or its first and last page? (readable.c) */
bool tw_agent_readable(const struct tw_agent_item *item, bool ends_only);
#endif
