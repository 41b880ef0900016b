/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_FACTORS_H
#define TW_AGENT_FACTORS_H
/*
 * What a run may hold still or shake inside the process (docs/internals/libc-agent.md).
 * TWINRUN_FACTORS says what; it is read at the first call of any hook, which may come before every
 * constructor, or at ours. Nothing here allocates.
 *
 * A hook asks tw_factor_armed() first: one load and one branch when its factor is not asked for.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tw_factor { TW_ENTROPY, TW_CLOCK, TW_DIRECTORY, TW_MALLOC, TW_SCHEDULE, TW_FACTORS };
enum tw_factor_mode {
    TW_FACTOR_UNREAD,
    TW_FACTOR_OFF,
    TW_FACTOR_COUNT,
    TW_FACTOR_AUDIT,
    TW_FACTOR_PIN,
    TW_FACTOR_VARY,
    TW_FACTOR_SCALE, /* clock: faster; value: how many times, extra: since when */
    TW_FACTOR_BACK /* clock: set back; value: by seconds, extra: when, ms of the monotonic clock */
};

struct tw_factor_state {
    _Atomic int mode;       /* enum tw_factor_mode */
    bool reversed;          /* dir-order=vary:reversed */
    uint64_t value, extra;  /* the numbers behind the mode: see libc-agent.md */
    char text[64];          /* "pin 7" */
    _Atomic uint64_t calls; /* of this process: what was answered (pin, vary) or counted (audit) */
};
extern struct tw_factor_state tw_factors[TW_FACTORS];

bool tw_factor_armed_slow(enum tw_factor f);

/* Whether a hook has anything to do. False inside the agent: our own use of a clock or of memory
 * meets the originals. */
static inline bool tw_factor_armed(enum tw_factor f)
{
    if (__builtin_expect(
            atomic_load_explicit(&tw_factors[f].mode, memory_order_relaxed) == TW_FACTOR_OFF, 1))
        return false;
    return tw_factor_armed_slow(f);
}

/* For an armed factor: counts this use and, in audit mode, writes down who it was. True when the
 * hook answers by itself (pin, vary), false when the original does (audit, count). what: a literal.
 * Keeps errno. */
bool tw_factor_take(enum tw_factor f, const char *what);
void tw_factor_count(enum tw_factor f); /* only counts */
/* A line of the run folder's `factors`, at once. Keeps errno. Nothing where there is no folder, or
 * this thread is inside of the agent. */
void tw_factor_say(const char *key, const char *value);
static inline bool tw_factor_varies(enum tw_factor f)
{
    return atomic_load_explicit(&tw_factors[f].mode, memory_order_relaxed) == TW_FACTOR_VARY;
}
/* Whether the calling thread is in a line of the job that is to get other values than its pin would
 * give it. What it takes of a stream is as much as without, so all other lines get what they got
 * before. tw_agent_factor_other switches it. */
bool tw_factors_other(void);
bool tw_factors_any(void); /* is any armed, and more than counted? */

/* ---- for agents/common */
struct twin_writer;
/*
 * in the constructor of an armed process: says what was not understood, names the process's stream
 */
void tw_factors_start(void);
void tw_factors_before_fork(void);
void tw_factors_child_after_fork(void);
void tw_factors_report(struct twin_writer *w); /* notes factor.*, audit.*, schedule.* */
/* the same into the run folder's `factors`, once; nothing in a vfork child */
void tw_factors_end(void);
void tw_factors_go_on(void); /* it was not the end: an exec that failed */

/* ---- streams (streams.c): pseudorandom words that belong to a thread, not to a moment.
 * A stream is H(its creator's stream, the how-manieth creation of its creator); a program's first
 * is mixed with the rank. So threads and children draw what they drew in another run with the same
 * seed, in whatever order they run. Each factor has a position of its own. Signal handlers may
 * draw. */
struct tw_stream_seed {
    uint64_t id;
    uint64_t clock_ns; /* how far the creator's pinned clock has come */
};
void tw_stream_bytes(enum tw_factor f, void *out, size_t n);
uint64_t tw_stream_word(enum tw_factor f);
uint64_t tw_stream_id(void);     /* of the calling thread */
uint64_t *tw_stream_clock(void); /* the calling thread's */
/* of the next thread or child of the calling thread */
struct tw_stream_seed tw_stream_derive(void);
void tw_stream_adopt(struct tw_stream_seed seed); /* at the start of a new thread */
bool tw_stream_in_thread(void);                   /* not the process's first one; asks nobody */

/* A child that starts another program learns its stream from TWINRUN_STREAM. */
enum { TW_STREAM_ENTRY_BYTES = 64 };
void tw_stream_begin(void);   /* in the constructor: puts the variable into the environment */
void tw_stream_pass_on(void); /* before a child that gets `environ` as it stands (system, popen) */
void tw_stream_before_fork(void);
void tw_stream_child_after_fork(void);
/* Entries that tw_stream_environment writes, the final NULL included; 0 when envp can stay as it
 * is. */
size_t tw_stream_environment_size(char *const envp[]);
/* Copies envp with the variable for the next child; entry is kept by the caller. */
char **tw_stream_environment(char *const envp[], char **copy, char entry[TW_STREAM_ENTRY_BYTES]);
void tw_stream_take_back(void); /* that child was not made after all (exec failed) */

/* ---- who consumed (audit.c) */
void tw_audit_record(enum tw_factor f, const char *what); /* what is told apart by its address */
void tw_audit_forget(void);
typedef void tw_note_sink(void *user, const char *key, const char *value);
void tw_audit_report(tw_note_sink *sink, void *user);

/* ---- scheduling noise (schedule.c) */
enum tw_boundary {
    TW_AT_START,
    TW_AT_CREATE,
    TW_AT_LOCK,
    TW_AT_COND,
    TW_AT_BARRIER,
    TW_BOUNDARIES
};
void tw_schedule_boundary(enum tw_boundary kind); /* perhaps a delay, as the thread's stream says */
void tw_schedule_forget(void);
void tw_schedule_report(tw_note_sink *sink, void *user);

/* watch.c: TWINRUN_WATCH, which arms entropy, clock and directory to be counted where nothing else
 * is asked of them. */
/* the next entry of a directory; NULL: its end */
void tw_watch_entry(const void *dir, const char *name);
/* a directory was read where we cannot see it */
void tw_watch_unseen(void);
void tw_watch_forget(void); /* in a forked child */
void tw_watch_report(tw_note_sink *sink, void *user);

extern const char *const tw_factor_names[TW_FACTORS];
#endif
