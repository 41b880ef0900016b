/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: word i of factor f in the stream `id` is mix(mix(key + i * golden) ^ key'), with keys
 * from (seed, f, id): a counter put through a bijection twice, so that two streams are not windows
 * of one orbit.
 *
 * The position is raised with one atomic addition although it is the thread's own: a signal handler
 * may draw in between.
 */
#include "agent.h"
#include "factors.h"
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "src/base/base.h"

extern char **environ;

#define NAME "TWINRUN_STREAM"
#define GOLDEN 0x9E3779B97F4A7C15u

struct stream {
    uint64_t id; /* 0: this thread has not asked yet */
    uint64_t clock_ns;
    _Atomic uint64_t drawn[TW_FACTORS]; /* words */
    uint32_t creations;                 /* threads and children so far */
};

static __thread struct stream self __attribute__((tls_model("initial-exec")));
static __thread bool other __attribute__((tls_model("initial-exec"))); /* see tw_factors_other */
static _Atomic uint64_t process_id; /* the main thread's stream; 0 not known yet */
static _Atomic uint64_t process_clock;
static _Atomic uint32_t strangers; /* threads that were not made by pthread_create */
static pid_t owner;
/* between the handlers of one fork; they hold agent.c's lock */
static struct tw_stream_seed for_child;
static char entry[TW_STREAM_ENTRY_BYTES];

/* What a stream is derived for. */
enum { BY_CREATION = 1, BY_RANK, BY_START, BY_STRANGER, BY_CLONE, BY_DEFAULT, BY_OTHER };

static uint64_t derive(uint64_t id, unsigned kind, uint64_t ordinal)
{
    uint64_t h = tw_mix64(tw_mix64(id + GOLDEN) ^
                          (ordinal * 0xD1B54A32D192ED03u + kind * 0x8CB92BA72F3D8DD7u));
    return h ? h : 1;
}

static bool parse_seed(const char *text, struct tw_stream_seed *s)
{
    unsigned long long id, ns;
    int n = 0;
    if (!text || sscanf(text, "%16llx.%16llx%n", &id, &ns, &n) != 2 || n != 33 || text[n])
        return false;
    *s = (struct tw_stream_seed){id, ns};
    return true;
}

/*
 * The first stream of this program: what its creator assigned, mixed with the rank that it has now.
 */
static void find_process(void)
{
    struct tw_stream_seed s = {0};
    int32_t rank, world;
    parse_seed(getenv(NAME), &s);
    tw_config_rank(&rank, &world);
    uint64_t id = derive(derive(s.id, BY_START, 0), BY_RANK, (uint64_t)rank), none = 0;
    atomic_store(&process_clock, s.clock_ns);
    if (atomic_compare_exchange_strong(&process_id, &none, id))
        owner = (pid_t)syscall(SYS_getpid);
}

static struct stream *mine(void)
{
    if (self.id)
        return &self;
    if (!atomic_load(&process_id))
        find_process();
    uint64_t id = atomic_load(&process_id);
    self.clock_ns = atomic_load(&process_clock);
    /* A thread of raw clone: in order of arrival, which is the best that can be done. */
    if (syscall(SYS_gettid) != syscall(SYS_getpid))
        id = derive(id, BY_STRANGER, atomic_fetch_add(&strangers, 1));
    self.id = id;
    return &self;
}

/* Word by word, so that a word is a word however it is asked for. */
static void draw_words(enum tw_factor f, void *out, size_t n)
{
    struct stream *s = mine();
    uint64_t id = s->id, count = n / 8 + (n % 8 != 0);
    /* A child that no fork handler saw (raw clone, _Fork) must not repeat its parent. A vfork child
     * shares our memory. */
    if (f == TW_ENTROPY && owner != (pid_t)syscall(SYS_getpid))
        id = derive(id, BY_CLONE, 0);
    if (other)
        id = derive(id, BY_OTHER, 0);
    uint64_t at = atomic_fetch_add_explicit(&s->drawn[f], count, memory_order_relaxed);
    uint64_t key = derive(id, 16 + f, tw_factors[f].value + (tw_factor_varies(f) ? GOLDEN : 0));
    uint64_t second = tw_mix64(~key);
    for (unsigned char *p = out; n > 0; p += 8, n -= n < 8 ? n : 8) {
        uint64_t w = tw_mix64(tw_mix64(key + ++at * GOLDEN) ^ second);
        memcpy(p, &w, n < 8 ? n : 8);
    }
}

void tw_stream_bytes(enum tw_factor f, void *out, size_t n)
{
    if (n)
        draw_words(f, out, n);
}

uint64_t tw_stream_word(enum tw_factor f)
{
    uint64_t w;
    draw_words(f, &w, sizeof w);
    return w;
}

bool tw_factors_other(void)
{
    return other;
}

void tw_agent_factor_other(int on)
{
    other = on != 0;
}

uint64_t tw_stream_id(void)
{
    return mine()->id;
}

uint64_t *tw_stream_clock(void)
{
    return &mine()->clock_ns;
}

/* ---- creation */

struct tw_stream_seed tw_stream_derive(void)
{
    struct stream *s = mine();
    return (struct tw_stream_seed){derive(s->id, BY_CREATION, ++s->creations), s->clock_ns};
}

void tw_stream_take_back(void)
{
    if (self.creations)
        self.creations--;
}

void tw_stream_adopt(struct tw_stream_seed seed)
{
    memset(&self, 0, sizeof self);
    self.id = seed.id;
    self.clock_ns = seed.clock_ns;
}

bool tw_stream_in_thread(void)
{
    return self.id && self.id != atomic_load(&process_id);
}

void tw_stream_before_fork(void)
{
    for_child = tw_stream_derive();
}

void tw_stream_child_after_fork(void)
{
    owner = (pid_t)syscall(SYS_getpid);
    tw_stream_adopt(for_child);
    atomic_store(&process_id, for_child.id);
    atomic_store(&process_clock, for_child.clock_ns);
    atomic_store(&strangers, 0);
    tw_stream_pass_on();
}

/* ---- the variable */

static void write_entry(char out[TW_STREAM_ENTRY_BYTES], struct tw_stream_seed s)
{
    snprintf(out, TW_STREAM_ENTRY_BYTES, NAME "=%016llx.%016llx", (unsigned long long)s.id,
             (unsigned long long)s.clock_ns);
}

void tw_stream_begin(void)
{
    mine();
    /* A child whose start no hook of ours sees inherits this, and not the number that we were
     * given. */
    write_entry(entry, (struct tw_stream_seed){derive(self.id, BY_DEFAULT, 0), self.clock_ns});
    if (putenv(entry) != 0)
        entry[0] = '\0';
}

void tw_stream_pass_on(void)
{
    if (entry[0])
        write_entry(entry, tw_stream_derive());
}

size_t tw_stream_environment_size(char *const envp[])
{
    size_t n = 0;
    bool of_the_run = false; /* an emptied environment stays empty */
    if (!entry[0] || !envp)
        return 0;
    for (; envp[n]; n++)
        of_the_run |= strncmp(envp[n], "TWINRUN_RUN_DIR=", 16) == 0;
    return of_the_run ? n + 2 : 0;
}

char **tw_stream_environment(char *const envp[], char **copy, char text[TW_STREAM_ENTRY_BYTES])
{
    size_t n = 0;
    write_entry(text, tw_stream_derive());
    for (size_t i = 0; envp[i]; i++)
        if (strncmp(envp[i], NAME "=", sizeof NAME) != 0)
            copy[n++] = envp[i];
    copy[n++] = text;
    copy[n] = NULL;
    return copy;
}
