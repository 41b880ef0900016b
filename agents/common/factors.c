/* SPDX-License-Identifier: Apache-2.0 */
/* TWINRUN_FACTORS: what is armed, how often it acted, and the words about it in the trace and in
 * the run folder. */
#include "factors.h"
#include "hot.h"
#include "state.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "src/base/base.h"

extern char **environ;

const char *const tw_factor_names[TW_FACTORS] = {
    [TW_ENTROPY] = "entropy",    [TW_CLOCK] = "clock",    [TW_DIRECTORY] = "dir-order",
    [TW_MALLOC] = "malloc-fill", [TW_SCHEDULE] = "noise",
};
struct tw_factor_state tw_factors[TW_FACTORS];

static _Atomic int reading; /* 0 not yet, 1 somebody reads, 2 read */
static char fault[256];     /* what was not understood, for the constructor to write down */
static bool watched;        /* TWINRUN_WATCH */
static pid_t owner;         /* whose counts these are: not a vfork child's */
static bool told;

/* ---- reading */

#define MODE(m) (1u << (m))

/* What each factor takes. The defaults stand for values that are not given. */
static const struct {
    unsigned modes;
    uint64_t value, value_max, extra, extra_max;
} grammar[TW_FACTORS] = {
    [TW_ENTROPY] = {MODE(TW_FACTOR_AUDIT) | MODE(TW_FACTOR_PIN) | MODE(TW_FACTOR_VARY), 0,
                    UINT64_MAX, 0, 0},
    /* seconds since 1970 (vary: seed), microseconds per call */
    [TW_CLOCK] = {MODE(TW_FACTOR_AUDIT) | MODE(TW_FACTOR_PIN) | MODE(TW_FACTOR_VARY) |
                      MODE(TW_FACTOR_SCALE) | MODE(TW_FACTOR_BACK),
                  1700000000, 4000000000u, 1000, 1000000000},
    [TW_DIRECTORY] = {MODE(TW_FACTOR_AUDIT) | MODE(TW_FACTOR_PIN) | MODE(TW_FACTOR_VARY), 0,
                      UINT64_MAX, 0, 0},
    [TW_MALLOC] = {MODE(TW_FACTOR_PIN) | MODE(TW_FACTOR_VARY), 0, UINT64_MAX, 0, 0},
    /* seed, strength */
    [TW_SCHEDULE] = {MODE(TW_FACTOR_VARY), 0, UINT64_MAX, 1, 10},
};

static bool parse_mode(const char *s, enum tw_factor_mode *mode)
{
    static const char *const names[] = {[TW_FACTOR_AUDIT] = "audit",
                                        [TW_FACTOR_PIN] = "pin",
                                        [TW_FACTOR_VARY] = "vary",
                                        [TW_FACTOR_SCALE] = "scale",
                                        [TW_FACTOR_BACK] = "back"};
    for (int i = TW_FACTOR_AUDIT; i <= TW_FACTOR_BACK; i++)
        if (strcmp(s, names[i]) == 0) {
            *mode = (enum tw_factor_mode)i;
            return true;
        }
    return false;
}

static bool parse_values(enum tw_factor f, enum tw_factor_mode mode, char *first)
{
    struct tw_factor_state *s = &tw_factors[f];
    s->value = grammar[f].value;
    s->extra = grammar[f].extra;
    if (!first)
        return true;
    char *second = strchr(first, ':');
    if ((mode == TW_FACTOR_SCALE || mode == TW_FACTOR_BACK) && !second)
        return false;
    if (second)
        *second++ = '\0';
    if (f == TW_DIRECTORY && mode == TW_FACTOR_VARY && !second && strcmp(first, "reversed") == 0) {
        s->reversed = true;
        return true;
    }
    uint64_t max = f == TW_MALLOC && mode == TW_FACTOR_PIN ? 255 : grammar[f].value_max;
    if (mode == TW_FACTOR_AUDIT || (f == TW_DIRECTORY && mode == TW_FACTOR_PIN) ||
        tw_parse_u64(first, max, &s->value) != 0)
        return false;
    /* milliseconds since the machine started are more than any of the other numbers */
    const uint64_t extra_max = mode == TW_FACTOR_BACK ? 1000000000000u : grammar[f].extra_max;
    return !second || (extra_max && tw_parse_u64(second, extra_max, &s->extra) == 0 && s->extra);
}

/* What is in force, with the defaults: "pin 7", "pin 1700000000 by 1000 us", "vary reversed", "vary
 * 3 strength 1". */
static void describe_factor(enum tw_factor f, const char *mode)
{
    struct tw_factor_state *s = &tw_factors[f];
    unsigned long long value = s->value, extra = s->extra;
    if (strcmp(mode, "scale") == 0)
        snprintf(s->text, sizeof s->text, "%s %llu since %llu", mode, value, extra);
    else if (strcmp(mode, "back") == 0)
        snprintf(s->text, sizeof s->text, "%s %llu s at %llu ms", mode, value, extra);
    else if (strcmp(mode, "audit") == 0 || (f == TW_DIRECTORY && strcmp(mode, "pin") == 0))
        snprintf(s->text, sizeof s->text, "%s", mode);
    else if (s->reversed)
        snprintf(s->text, sizeof s->text, "%s reversed", mode);
    else if (extra)
        snprintf(s->text, sizeof s->text, "%s %llu %s %llu%s", mode, value,
                 f == TW_CLOCK ? "by" : "strength", extra, f == TW_CLOCK ? " us" : "");
    else
        snprintf(s->text, sizeof s->text, "%s %llu", mode, value);
}

/* One `factor=mode[:value[:value]]`. */
static bool parse_one(char *item)
{
    char *mode_text = strchr(item, '='), *value;
    enum tw_factor_mode mode;
    if (!mode_text)
        return false;
    *mode_text++ = '\0';
    value = strchr(mode_text, ':');
    if (value)
        *value++ = '\0';
    for (int i = 0; i < TW_FACTORS; i++) {
        enum tw_factor f = (enum tw_factor)i;
        if (strcmp(item, tw_factor_names[f]) != 0)
            continue;
        if (!parse_mode(mode_text, &mode) || !(grammar[f].modes & MODE(mode)) ||
            !parse_values(f, mode, value))
            return false;
        describe_factor(f, mode_text);
        atomic_store_explicit(&tw_factors[f].mode, mode, memory_order_release);
        return true;
    }
    return false;
}

static void read_factors(const char *text)
{
    char item[96];
    while (text && *text) {
        size_t n = strcspn(text, ",");
        bool good = n < sizeof item;
        if (good) {
            memcpy(item, text, n);
            item[n] = '\0';
            good = n == 0 || parse_one(item);
        }
        if (!good && !fault[0])
            snprintf(fault, sizeof fault,
                     "'%.*s' was not understood and is off; expected factor=mode[:value], such as "
                     "entropy=pin:7, clock=pin:1700000000, dir-order=pin, malloc-fill=pin:0, "
                     "noise=vary:3",
                     n < 64 ? (int)n : 64, text);
        text += n + (text[n] == ',');
    }
}

/* Before libc has its environment nothing can be known: the factors stay UNREAD, and the originals
 * answer. */
static void read_once(void)
{
    int none = 0;
    if (!environ || !atomic_compare_exchange_strong(&reading, &none, 1))
        return;
    owner = (pid_t)syscall(SYS_getpid);
    const char *dir = getenv("TWINRUN_RUN_DIR");
    if (dir && dir[0] == '/')
        read_factors(getenv("TWINRUN_FACTORS"));
    watched = dir && dir[0] == '/' && getenv("TWINRUN_WATCH");
    for (int f = TW_ENTROPY; watched && f <= TW_DIRECTORY; f++) {
        int unread = TW_FACTOR_UNREAD;
        atomic_compare_exchange_strong(&tw_factors[f].mode, &unread, TW_FACTOR_COUNT);
    }
#ifndef TW_LIBC_HOOKS
    for (int f = 0; f < TW_FACTORS; f++)
        if (atomic_exchange(&tw_factors[f].mode, TW_FACTOR_OFF) > TW_FACTOR_OFF)
            snprintf(fault, sizeof fault,
                     "everything is off: this libtwinrun.so was built with a sanitizer, which has "
                     "these functions for itself");
#endif
    for (int f = 0; f < TW_FACTORS; f++) {
        int unread = TW_FACTOR_UNREAD;
        atomic_compare_exchange_strong(&tw_factors[f].mode, &unread, TW_FACTOR_OFF);
    }
    atomic_store(&reading, 2);
}

bool tw_factor_armed_slow(enum tw_factor f)
{
    if (tw_agent_inside)
        return false;
    if (atomic_load_explicit(&tw_factors[f].mode, memory_order_acquire) == TW_FACTOR_UNREAD)
        read_once();
    return atomic_load_explicit(&tw_factors[f].mode, memory_order_acquire) > TW_FACTOR_OFF;
}

bool tw_factors_any(void)
{
    for (int f = 0; f < TW_FACTORS; f++)
        if (tw_factor_armed((enum tw_factor)f) &&
            atomic_load_explicit(&tw_factors[f].mode, memory_order_relaxed) != TW_FACTOR_COUNT)
            return true;
    return false;
}

void tw_factor_say(const char *key, const char *value)
{
    struct tw_guard g;
    if (!tw_agent_config.run_dir[0] || !tw_guard_enter(&g))
        return;
    tw_folder_factor(key, value);
    tw_guard_leave(&g);
}

/* Said at the first use already: a process may be killed before its end (the workers of
 * multiprocessing's Pool are). */
static void say_first(enum tw_factor f)
{
    char key[32];
    if (atomic_load_explicit(&tw_factors[f].mode, memory_order_relaxed) == TW_FACTOR_COUNT)
        return;
    snprintf(key, sizeof key, "effect.%s", tw_factor_names[f]);
    tw_factor_say(key, tw_factors[f].text);
}

/* Of the calling thread. What several threads ask for at one moment is told apart by these. */
static _Thread_local uint64_t calls_here[TW_DIRECTORY + 1]
    __attribute__((tls_model("initial-exec")));

void tw_factor_count(enum tw_factor f)
{
    if (f <= TW_DIRECTORY)
        calls_here[f]++;
    if (__builtin_expect(
            atomic_fetch_add_explicit(&tw_factors[f].calls, 1, memory_order_relaxed) == 0, 0))
        say_first(f);
}

bool tw_factor_take(enum tw_factor f, const char *what)
{
    tw_factor_count(f);
    int mode = atomic_load_explicit(&tw_factors[f].mode, memory_order_relaxed);
    if (mode > TW_FACTOR_AUDIT)
        return true;
    struct tw_guard g;
    if (mode == TW_FACTOR_AUDIT && tw_guard_enter(&g)) {
        tw_audit_record(f, what);
        tw_guard_leave(&g);
    }
    return false;
}

uint64_t tw_agent_factor_calls(int f, int here)
{
    if (here)
        return f >= 0 && f <= TW_DIRECTORY ? calls_here[f] : 0;
    return f >= 0 && f < TW_FACTORS
               ? atomic_load_explicit(&tw_factors[f].calls, memory_order_relaxed)
               : 0;
}

/* ---- the library of hot functions */

static bool count_allocation(void)
{
    if (tw_agent_inside)
        return false;
    tw_factor_count(TW_MALLOC);
    return true;
}

static void fill_noise(void *p, size_t n)
{
    tw_stream_bytes(TW_MALLOC, p, n);
}

static void boundary(int kind)
{
    if (!tw_agent_inside)
        tw_schedule_boundary((enum tw_boundary)kind);
}

const struct tw_hot_plan *tw_hot_plan(void)
{
    static struct tw_hot_plan plan = {
        .count = count_allocation, .fill_noise = fill_noise, .boundary = boundary};
    read_once();
    if (atomic_load(&reading) != 2)
        return NULL;
    plan.byte = (unsigned char)tw_factors[TW_MALLOC].value;
    plan.noise = tw_factor_varies(TW_MALLOC);
    plan.boundaries = tw_factor_varies(TW_SCHEDULE);
    plan.fill = atomic_load(&tw_factors[TW_MALLOC].mode) > TW_FACTOR_OFF;
    return &plan;
}

/* ---- life */

/* Stops at us, or at libc, whichever was loaded first. */
static int find_first(struct dl_phdr_info *object, size_t bytes, void *before_libc)
{
    (void)bytes;
    const ElfW(Addr) here = (ElfW(Addr))(uintptr_t)&owner;
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && here - object->dlpi_addr - p->p_vaddr < p->p_memsz) {
            *(bool *)before_libc = true;
            return 1;
        }
    }
    return tw_ends(object->dlpi_name, "/libc.so.6");
}

/* Where LD_PRELOAD was lost on the way, Python loads this library itself: behind libc, in front of
 * none of its functions. What is armed then acts on nothing, and says so. */
static void give_up_behind_libc(void)
{
    bool before_libc = false;
    dl_iterate_phdr(find_first, &before_libc);
    for (int f = 0; !before_libc && f < TW_FACTORS; f++) {
        char key[32];
        if (atomic_exchange(&tw_factors[f].mode, TW_FACTOR_OFF) <= TW_FACTOR_COUNT)
            continue;
        snprintf(key, sizeof key, "effect.%s", tw_factor_names[f]);
        tw_folder_factor(key, "failed: libtwinrun.so is not preloaded in this process");
    }
}

void tw_factors_start(void)
{
    read_once();
    if (fault[0])
        tw_folder_fault("TWINRUN_FACTORS", fault);
    if (!tw_factors_any())
        return;
    give_up_behind_libc();
    bool hot = dlsym(RTLD_DEFAULT, "tw_hot_here") != NULL;
    const char *no_malloc = NULL;
    if (!hot)
        no_malloc = "malloc-fill is off: libtwinrun_hot.so is not preloaded";
    else if (dlsym(RTLD_DEFAULT, "__asan_region_is_poisoned"))
        /* It takes what the loader keeps for a leak of ours when we stand in between. */
        no_malloc = "malloc-fill is off: this program's AddressSanitizer fills memory by itself";
    if (no_malloc && tw_factor_armed(TW_MALLOC)) {
        tw_folder_fault("TWINRUN_FACTORS", no_malloc);
        atomic_store(&tw_factors[TW_MALLOC].mode, TW_FACTOR_OFF);
        tw_hot_plan(); /* which that library has read: the plan is written anew */
    }
    if (!hot && tw_factor_armed(TW_SCHEDULE))
        tw_folder_fault(
            "TWINRUN_FACTORS",
            "noise acts at thread and process starts only: libtwinrun_hot.so is not preloaded");
    for (int f = 0; f < TW_FACTORS; f++) /* used before there was a folder to write to */
        if (atomic_load_explicit(&tw_factors[f].calls, memory_order_relaxed))
            say_first((enum tw_factor)f);
    tw_stream_begin();
    tw_schedule_boundary(TW_AT_START);
}

void tw_factors_before_fork(void)
{
    if (tw_factors_any())
        tw_stream_before_fork();
}

void tw_factors_child_after_fork(void)
{
    if (!tw_factors_any() && !watched)
        return;
    owner = (pid_t)syscall(SYS_getpid);
    told = false;
    for (int f = 0; f < TW_FACTORS; f++)
        atomic_store_explicit(&tw_factors[f].calls, 0, memory_order_relaxed);
    memset(calls_here, 0, sizeof calls_here);
    tw_audit_forget();
    tw_watch_forget();
    tw_schedule_forget();
    if (!tw_factors_any())
        return;
    tw_stream_child_after_fork();
    tw_schedule_boundary(TW_AT_START);
}

/* ---- reporting */

static void report(tw_note_sink *sink, void *user, bool all)
{
    for (int f = 0; f < TW_FACTORS; f++) {
        char key[32], value[96];
        unsigned long long calls = atomic_load_explicit(&tw_factors[f].calls, memory_order_relaxed);
        if (atomic_load_explicit(&tw_factors[f].mode, memory_order_acquire) <= TW_FACTOR_COUNT ||
            (!calls && !all))
            continue;
        snprintf(key, sizeof key, "factor.%s", tw_factor_names[f]);
        snprintf(value, sizeof value, "%s, %llu call%s", tw_factors[f].text, calls,
                 calls == 1 ? "" : "s");
        sink(user, key, value);
    }
    tw_audit_report(sink, user);
    tw_schedule_report(sink, user);
}

static void into_trace(void *user, const char *key, const char *value)
{
    twin_writer_note(user, key, value);
}

void tw_factors_report(struct twin_writer *w)
{
    if (atomic_load(&reading) == 2)
        report(into_trace, w, true);
}

static void into_folder(void *user, const char *key, const char *value)
{
    (void)user;
    tw_folder_factor(key, value);
}

static void count_note(void *user, const char *key, const char *value)
{
    (void)key;
    (void)value;
    ++*(unsigned *)user;
}

/* A program that confined itself to the end of a process (a system call filter) must reach it: who
 * has nothing to tell asks the kernel for nothing, not even for the process id. */
static bool has_something_to_tell(void)
{
    unsigned lines = 0;
    if (!watched)
        report(count_note, &lines, false);
    return watched || lines > 0;
}

void tw_factors_end(void)
{
    struct tw_guard g;
    if (atomic_load(&reading) != 2 || told || !has_something_to_tell() ||
        owner != (pid_t)syscall(SYS_getpid) || !tw_guard_enter(&g))
        return;
    told = true;
    report(into_folder, NULL, false);
    if (watched)
        tw_watch_report(into_folder, NULL);
    tw_guard_leave(&g);
}

void tw_factors_go_on(void)
{
    if (owner == (pid_t)syscall(SYS_getpid))
        told = false;
}
