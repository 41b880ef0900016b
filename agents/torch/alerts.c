/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the operations that PyTorch itself lists as nondeterministic, without switching any mode:
 * each of them calls at::Context::alertNotDeterministic(name), which does nothing unless
 * deterministic algorithms were asked for. We stand in front of it, count, and hand over to the
 * original, which may throw through us (no frame of ours needs cleaning up).
 *
 * What it cannot show: operations that do not alert. On a CPU these are index_put_ and scatter with
 * duplicate indices. The pin `torch-deterministic` asks for quiet: then the call is counted and not
 * handed over, so that it warns of nothing. Notes: `nondeterministic.first` at the first call of
 * each, `nondeterministic.alerts` ("count name" lines) at the end.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "agents/common/life.h"
#include "agents/common/lookup.h"
#include "agents/common/state.h"

#define EXPORT __attribute__((visibility("default")))
#define NAMES 64
#define NAME_BYTES 96

struct alert {
    _Atomic int state; /* 0 free, 1 being filled, 2 filled */
    _Atomic uint64_t calls;
    char name[NAME_BYTES];
};
static struct alert alerts[NAMES];
static _Atomic int quiet; /* 0 hand over; 1 do nothing; 2 count */

static inline bool is_recording(void)
{
    return atomic_load_explicit(&tw_agent_state, memory_order_relaxed) == TW_STATE_OPEN;
}

static void count_alert(const char *name, size_t length)
{
    if (length >= NAME_BYTES)
        length = NAME_BYTES - 1;
    for (size_t i = 0; i < NAMES; i++) {
        struct alert *a = &alerts[i];
        int state = atomic_load_explicit(&a->state, memory_order_acquire);
        if (state == 0 && atomic_compare_exchange_strong(&a->state, &state, 1)) {
            memcpy(a->name, name, length);
            a->name[length] = '\0';
            atomic_store_explicit(&a->calls, 1, memory_order_relaxed);
            atomic_store_explicit(&a->state, 2, memory_order_release);
            if (is_recording())
                tw_agent_note("nondeterministic.first", a->name);
            return;
        }
        /* A slot that another thread is filling may hold our name: then it stands twice, and the
         * report adds up. */
        if (state == 2 && strncmp(a->name, name, length) == 0 && a->name[length] == '\0') {
            atomic_fetch_add_explicit(&a->calls, 1, memory_order_relaxed);
            return;
        }
    }
}

static size_t all(char *text, size_t bytes, const char *between)
{
    size_t used = 0;
    for (size_t i = 0;
         i < NAMES && atomic_load_explicit(&alerts[i].state, memory_order_acquire) == 2; i++) {
        bool again = false;
        uint64_t calls = 0;
        for (size_t k = 0;
             k < NAMES && atomic_load_explicit(&alerts[k].state, memory_order_acquire) == 2; k++)
            if (strcmp(alerts[k].name, alerts[i].name) == 0) {
                again |= k < i;
                calls += atomic_load_explicit(&alerts[k].calls, memory_order_relaxed);
            }
        int n = 0;
        if (!again)
            n = snprintf(text + used, bytes - used, "%s%llu %s", used ? between : "",
                         (unsigned long long)calls, alerts[i].name);
        if (n > 0 && (size_t)n < bytes - used)
            used += (size_t)n;
    }
    text[used] = '\0';
    return used;
}

static void report_alerts(struct twin_writer *w)
{
    char text[NAMES * (NAME_BYTES + 24)];
    if (all(text, sizeof text, "\n"))
        twin_writer_note(w, "nondeterministic.alerts", text);
}

static void forget_alerts(void)
{
    memset(alerts, 0, sizeof alerts);
}

static const struct tw_agent_life torch_life = {.fork = forget_alerts, .report = report_alerts};
TW_AGENT_REGISTER(torch_life);

void tw_agent_quiet_alerts(int how)
{
    atomic_store_explicit(&quiet, how, memory_order_relaxed);
}

size_t tw_agent_alerts(char *text, size_t bytes)
{
    return bytes ? all(text, bytes, ", ") : 0;
}

typedef void alert_fn(const void *view);

/* Counts where somebody wants to know; true when the original is to be called. */
static bool seen(const char *name, size_t length)
{
    int how = atomic_load_explicit(&quiet, memory_order_relaxed);
    if (how == 2 || (how == 0 && is_recording()))
        count_alert(name, length);
    return how == 0;
}

/* PyTorch since 2.6: const std::string_view &, which libstdc++ lays out as length, pointer. */
#define STD_VIEW _ZN2at7Context21alertNotDeterministicERKSt17basic_string_viewIcSt11char_traitsIcEE
/* Before: const c10::string_view &, pointer, length. */
#define C10_VIEW _ZN2at7Context21alertNotDeterministicERKN3c1017basic_string_viewIcEE
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

EXPORT void STD_VIEW(const void *view);
EXPORT void C10_VIEW(const void *view);

void STD_VIEW(const void *view)
{
    static void *_Atomic cache;
    const struct {
        size_t length;
        const char *text;
    } *v = view;
    if (!seen(v->text, v->length))
        return;
    alert_fn *f = (alert_fn *)tw_lookup_anywhere(&cache, TEXT(STD_VIEW), (void *)STD_VIEW);
    if (f)
        f(view);
}

void C10_VIEW(const void *view)
{
    static void *_Atomic cache;
    const struct {
        const char *text;
        size_t length;
    } *v = view;
    if (!seen(v->text, v->length))
        return;
    alert_fn *f = (alert_fn *)tw_lookup_anywhere(&cache, TEXT(C10_VIEW), (void *)C10_VIEW);
    if (f)
        f(view);
}
