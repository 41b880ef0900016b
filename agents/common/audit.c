/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who consumed: a table of (function, thread, call stack), bounded, with counts. Stacks come from
 * glibc's backtrace(), which unwinds code without frame pointers and loads libgcc_s once; so it is
 * used in audit mode only. A stack is named when it is first seen: by the end its library may be
 * gone.
 */
#include "factors.h"
#include "state.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define ENTRIES 192
#define DEPTH 12
#define WALK 40 /* frames looked at: ours on top are left out */
#define TEXT_BYTES 1000

struct entry {
    const char *what;
    /* Atomic, since find_use() reads entries while another thread adds one; and because a
     * ThreadSanitizer of the job, which sees our calls of memcpy and memcmp but not the order that
     * `used` gives them, would report a race of ours as the job's. */
    _Atomic(void *) stack[DEPTH];
    _Atomic int depth;
    _Atomic int factor;
    _Atomic bool in_thread; /* not in the process's first one */
    _Atomic uint64_t calls;
    char text[TEXT_BYTES];
};

static struct entry entries[ENTRIES];
static _Atomic int used;
static _Atomic uint64_t left_out;
static atomic_flag lock = ATOMIC_FLAG_INIT;

/* file name of a path */
static const char *base_name(const char *path)
{
    if (!path)
        return "?";
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* symbol+offset (module), or module+offset where no exported symbol covers it. The offset is the
 * return address's. */
static int name_frame(char *out, size_t room, void *address)
{
    Dl_info i;
    if (!dladdr(address, &i) || !i.dli_fname)
        return snprintf(out, room, "%p", address);
    if (i.dli_sname)
        return snprintf(out, room, "%s+0x%zx (%s)", i.dli_sname,
                        (size_t)((char *)address - (char *)i.dli_saddr), base_name(i.dli_fname));
    return snprintf(out, room, "%s+0x%zx", base_name(i.dli_fname),
                    (size_t)((char *)address - (char *)i.dli_fbase));
}

/* "what < caller < its caller ...", as many as there is room for. */
static void name_stack(struct entry *e)
{
    int n = snprintf(e->text, sizeof e->text, "%s%s", e->what,
                     e->in_thread ? " in another thread" : "");
    for (int i = 0; i < e->depth && n > 0 && n < TEXT_BYTES; i++) {
        char frame[200];
        if (name_frame(frame, sizeof frame, e->stack[i]) < 0)
            return;
        int k = snprintf(e->text + n, sizeof e->text - (size_t)n, " < %s", frame);
        if (k < 0 || k >= TEXT_BYTES - n) {
            e->text[n] = '\0';
            return;
        }
        n += k;
    }
}

/* The caller's stack without our own frames. */
static int walk_stack(void **stack)
{
    void *all[WALK];
    Dl_info own, i;
    int n = backtrace(all, WALK), first = 0, depth = 0;
    bool known = dladdr((void *)walk_stack, &own) != 0;
    while (known && first < n && dladdr(all[first], &i) && i.dli_fbase == own.dli_fbase)
        first++;
    for (; first + depth < n && depth < DEPTH; depth++)
        stack[depth] = all[first + depth];
    return depth;
}

static bool same_stack(const struct entry *e, void *const *stack, int depth)
{
    bool same = atomic_load_explicit(&e->depth, memory_order_relaxed) == depth &&
                atomic_load_explicit(&e->in_thread, memory_order_relaxed) == tw_stream_in_thread();
    for (int i = 0; same && i < depth; i++)
        same = atomic_load_explicit(&e->stack[i], memory_order_relaxed) == stack[i];
    return same;
}

static struct entry *find_use(enum tw_factor f, const char *what, void *const *stack, int depth)
{
    int n = atomic_load_explicit(&used, memory_order_acquire);
    for (int i = 0; i < n; i++) {
        struct entry *e = &entries[i];
        if (atomic_load_explicit(&e->factor, memory_order_relaxed) == (int)f && e->what == what &&
            same_stack(e, stack, depth))
            return e;
    }
    return NULL;
}

static struct entry *add_use(enum tw_factor f, const char *what, void *const *stack, int depth)
{
    /* Naming a frame takes a while, once per stack; who waits here consumes entropy for the first
     * time as well. */
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        sched_yield();
    struct entry *e = find_use(f, what, stack, depth);
    int n = atomic_load_explicit(&used, memory_order_relaxed);
    if (!e && n < ENTRIES) {
        e = &entries[n];
        e->what = what;
        atomic_store_explicit(&e->factor, (int)f, memory_order_relaxed);
        atomic_store_explicit(&e->depth, depth, memory_order_relaxed);
        atomic_store_explicit(&e->in_thread, tw_stream_in_thread(), memory_order_relaxed);
        for (int i = 0; i < depth; i++)
            atomic_store_explicit(&e->stack[i], stack[i], memory_order_relaxed);
        name_stack(e);
        atomic_store_explicit(&used, n + 1, memory_order_release);
    }
    atomic_flag_clear_explicit(&lock, memory_order_release);
    return e;
}

void tw_audit_record(enum tw_factor f, const char *what)
{
    void *stack[DEPTH] = {0};
    int depth = walk_stack(stack);
    struct entry *e = find_use(f, what, stack, depth);
    if (!e)
        e = add_use(f, what, stack, depth);
    atomic_fetch_add_explicit(e ? &e->calls : &left_out, 1, memory_order_relaxed);
}

void tw_audit_forget(void)
{
    for (int i = 0; i < atomic_load(&used); i++)
        atomic_store(&entries[i].calls, 0);
    atomic_store(&used, 0);
    atomic_store(&left_out, 0);
    atomic_flag_clear(&lock);
}

void tw_audit_report(tw_note_sink *sink, void *user)
{
    int n = atomic_load_explicit(&used, memory_order_acquire);
    for (int i = 0; i < n; i++) {
        char key[32], text[TEXT_BYTES + 32];
        snprintf(key, sizeof key, "audit.%s", tw_factor_names[atomic_load(&entries[i].factor)]);
        snprintf(text, sizeof text, "%llux %s", (unsigned long long)atomic_load(&entries[i].calls),
                 entries[i].text);
        sink(user, key, text);
    }
    if (atomic_load(&left_out)) {
        char text[80];
        snprintf(text, sizeof text, "%llu calls from further places",
                 (unsigned long long)atomic_load(&left_out));
        sink(user, "audit.left_out", text);
    }
}
