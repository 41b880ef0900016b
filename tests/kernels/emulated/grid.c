/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fibers of a grid. A fiber is made once (ucontext) and then runs one kernel thread after
 * another; it is left and entered by _setjmp and _longjmp, which make no system call. The thread
 * that has to stop chooses who goes on.
 *
 * Threads that can go on are bits of a set for each thread block at work. A schedule is one of a
 * few habits, drawn at each launch: any thread; the first, or the last, that can; one warp, or one
 * thread, kept back until no other can go on.
 */
#include "grid.h"

#include <assert.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum {
    THREADS = 256, /* of a block, at most */
    WARP = 32,
    WARPS = THREADS / WARP,
    WORDS = THREADS / 64,
    SLOTS = 3, /* blocks at work at the same time */
    STACK = 64 << 10,
};

struct set {
    uint64_t word[WORDS];
};

/* A kernel thread. */
struct fiber {
    jmp_buf at;
    void *stack;
    bool made; /* `at` may be entered */
    uint32_t slot, x;
};

/* Values that go from lane to lane. Two rounds: a fast lane may give the next value before a slow
 * one has taken this one. */
struct warp {
    uint32_t waiting, round;
    uint64_t value[2][WARP];
};

/* A thread block at work. */
struct slot {
    bool busy;
    uint32_t block, alive, at_barrier;
    int barrier;                   /* which one they wait at */
    struct set ready, ended, held; /* can go on; done; kept back by the schedule */
    struct warp warp[WARPS];
    unsigned char *shared; /* its shared variables while another block runs */
};

enum habit { ANY, FIRST, LAST, WARP_HELD, THREAD_HELD, HABITS };

struct grid_index threadIdx, blockIdx, blockDim, gridDim;

static struct fiber fibers[SLOTS][THREADS];
static struct slot slots[SLOTS];
static struct fiber *running;
static jmp_buf outside;

static struct {
    void (*kernel)(void *);
    void *arguments;
    uint32_t next, end, threads;
    enum habit habit;
} launch;

static uint64_t state = 1, trouble;
static unsigned char *shared_memory;
static size_t shared_bytes;

static struct grid_site sites[GRID_SITES];
static int site_count, removed = -1;

static uint64_t draw(void)
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

void grid_seed(uint64_t seed)
{
    state = seed;
}

uint64_t grid_trouble(void)
{
    return trouble;
}

void grid_shared(void *start, size_t bytes)
{
    shared_memory = start;
    shared_bytes = bytes;
    for (int i = 0; i < SLOTS; i++) {
        free(slots[i].shared);
        slots[i].shared = malloc(bytes);
        assert(slots[i].shared);
    }
}

/* ---- sites */

int grid_site(const char *what, const char *file, int line)
{
    for (int i = 0; i < site_count; i++)
        if (sites[i].line == line && !strcmp(sites[i].file, file) && !strcmp(sites[i].what, what))
            return i;
    assert(site_count < GRID_SITES);
    sites[site_count] = (struct grid_site){what, file, line};
    return site_count++;
}

int grid_sites(struct grid_site list[GRID_SITES])
{
    memcpy(list, sites, sizeof sites);
    return site_count;
}

void grid_remove(int site)
{
    removed = site;
}

bool grid_removed(int site)
{
    return site == removed;
}

/* ---- sets of threads */

static void set_add(struct set *s, uint32_t x)
{
    s->word[x / 64] |= (uint64_t)1 << x % 64;
}

static void set_take(struct set *s, uint32_t x)
{
    s->word[x / 64] &= ~((uint64_t)1 << x % 64);
}

static bool set_empty(const struct set *s)
{
    return (s->word[0] | s->word[1] | s->word[2] | s->word[3]) == 0;
}

/* The first thread of the set that is not before x, else the first one. The set is not empty. */
static uint32_t set_from(const struct set *s, uint32_t x)
{
    uint64_t w = s->word[x / 64] >> x % 64;
    if (w)
        return x + (uint32_t)__builtin_ctzll(w);
    for (uint32_t i = 1; i <= WORDS; i++) {
        const uint32_t at = (x / 64 + i) % WORDS;
        if (s->word[at])
            return at * 64 + (uint32_t)__builtin_ctzll(s->word[at]);
    }
    abort();
}

static uint32_t set_last(const struct set *s)
{
    for (uint32_t i = WORDS; i-- > 0;)
        if (s->word[i])
            return i * 64 + 63 - (uint32_t)__builtin_clzll(s->word[i]);
    abort();
}

/* ---- going from one thread to another */

/* The values of the shared variables belong to the block that runs. */
static void change_shared(struct slot *from, struct slot *to)
{
    if (from == to)
        return;
    if (from->busy)
        memcpy(from->shared, shared_memory, shared_bytes);
    memcpy(shared_memory, to->shared, shared_bytes);
}

/* The threads that can go on, without those that are kept back. */
static struct set free_threads(const struct slot *s)
{
    struct set may = s->ready;
    for (int i = 0; i < WORDS; i++)
        may.word[i] &= ~s->held.word[i];
    return may;
}

static uint32_t chosen_thread(const struct slot *s)
{
    struct set may = free_threads(s);
    if (set_empty(&may))
        may = s->ready;
    switch (launch.habit) {
    case FIRST: return set_from(&may, 0);
    case LAST: return set_last(&may);
    default: return set_from(&may, (uint32_t)(draw() % launch.threads));
    }
}

static bool can_go_on(const struct slot *s, bool held)
{
    const struct set may = held ? s->ready : free_threads(s);
    return s->busy && !set_empty(&may);
}

/* The block that goes on: this one, or with `elsewhere` or where nobody of it can, any other.
 * Threads that are kept back have their turn when no block has another. */
static struct slot *chosen_slot(struct slot *here, bool elsewhere)
{
    if (!elsewhere && can_go_on(here, false))
        return here;
    const uint32_t first = (uint32_t)(draw() % SLOTS);
    for (uint32_t i = 0; i < 2 * SLOTS; i++) {
        struct slot *s = &slots[(first + i) % SLOTS];
        if (can_go_on(s, i >= SLOTS))
            return s;
    }
    return NULL;
}

static void enter(struct fiber *f)
{
    running = f;
    threadIdx.x = f->x;
    blockIdx.x = slots[f->slot].block;
    _longjmp(f->at, 1);
}

/* Stops this thread, and enters thread x of that block; NULL: the launch is over. Returns when it
 * is this thread's turn again. Apart, so that no variable lives across the jump. */
static __attribute__((noinline)) void change_thread(struct slot *here, struct slot *there,
                                                    uint32_t x)
{
    if (_setjmp(running->at))
        return;
    if (!there)
        _longjmp(outside, 1);
    change_shared(here, there);
    enter(&fibers[there - slots][x]);
}

/* Lets another thread go on, or the same one. No block can go on when all are done, or when all
 * wait for somebody who does not come. */
static void leave(bool elsewhere)
{
    const struct fiber *me = running;
    struct slot *here = &slots[me->slot], *there = chosen_slot(here, elsewhere);
    const uint32_t x = there ? chosen_thread(there) : 0;
    if (there != here || x != me->x)
        change_thread(here, there, x);
}

/* ---- blocks */

/* All threads of a block. */
static struct set all_threads(void)
{
    struct set all = {{0}};
    for (uint32_t x = 0; x < launch.threads; x++)
        set_add(&all, x);
    return all;
}

/* Which threads the schedule keeps back in this block. */
static struct set drawn_held(void)
{
    struct set held = {{0}};
    const uint32_t x = (uint32_t)(draw() % launch.threads);
    if (launch.habit == THREAD_HELD)
        set_add(&held, draw() % 2 ? x : x / WARP * WARP);
    for (uint32_t i = 0; launch.habit == WARP_HELD && i < WARP; i++)
        set_add(&held, x / WARP * WARP + i);
    return held;
}

/* The next block of the grid. Its shared variables hold what nobody has written. */
static void begin_block(struct slot *s)
{
    s->busy = true;
    s->block = launch.next++;
    s->alive = launch.threads;
    s->at_barrier = 0;
    s->ready = all_threads();
    s->ended = (struct set){{0}};
    s->held = drawn_held();
    for (int i = 0; i < WARPS; i++)
        s->warp[i].waiting = s->warp[i].round = 0;
    memset(s->shared, (int)(draw() | 1), shared_bytes);
}

/* The running thread has come to its end; with the last one the block's place is the next block's.
 * No barrier may be left out by one thread. */
static void end_thread(struct slot *s, uint32_t x)
{
    set_take(&s->ready, x);
    set_add(&s->ended, x);
    trouble += s->at_barrier > 0;
    if (--s->alive > 0)
        return;
    s->busy = false;
    if (launch.next < launch.end) {
        begin_block(s);
        blockIdx.x = s->block;
        memcpy(shared_memory, s->shared, shared_bytes);
    }
}

/* A fiber's life: once made, it waits to be entered, and runs one kernel thread each time. */
static void live(void)
{
    struct fiber *const me = running;
    if (_setjmp(me->at) == 0)
        _longjmp(outside, 1);
    for (;;) {
        launch.kernel(launch.arguments);
        end_thread(&slots[me->slot], me->x);
        leave(false);
    }
}

static void make_fiber(struct fiber *f, uint32_t slot, uint32_t x)
{
    static ucontext_t context;
    f->slot = slot;
    f->x = x;
    f->made = true;
    if (!f->stack)
        f->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    assert(f->stack != MAP_FAILED);
    getcontext(&context);
    context.uc_stack.ss_sp = f->stack;
    context.uc_stack.ss_size = STACK;
    context.uc_link = NULL;
    makecontext(&context, live, 0);
    running = f;
    if (_setjmp(outside) == 0)
        setcontext(&context);
}

/* Fibers that stand in the middle of a kernel are of no use any more. */
static void give_up(void)
{
    for (int i = 0; i < SLOTS; i++) {
        slots[i].busy = false;
        for (int x = 0; x < THREADS; x++)
            fibers[i][x].made = false;
    }
}

void grid_run(void (*kernel)(void *), void *arguments, uint32_t blocks, uint32_t first,
              uint32_t end, uint32_t threads)
{
    assert(threads > 0 && threads <= THREADS && threads % WARP == 0 && end <= blocks);
    launch.kernel = kernel;
    launch.arguments = arguments;
    launch.next = first;
    launch.end = end;
    launch.threads = threads;
    launch.habit = (enum habit)(draw() % HABITS);
    gridDim = (struct grid_index){blocks, 1, 1};
    blockDim = (struct grid_index){threads, 1, 1};
    for (uint32_t i = 0; i < SLOTS && launch.next < end; i++) {
        for (uint32_t x = 0; x < threads; x++)
            if (!fibers[i][x].made)
                make_fiber(&fibers[i][x], i, x);
        begin_block(&slots[i]);
    }
    struct slot *const s = chosen_slot(&slots[0], true);
    if (!s)
        return;
    memcpy(shared_memory, s->shared, shared_bytes);
    if (_setjmp(outside) == 0)
        enter(&fibers[s - slots][chosen_thread(s)]);
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].busy) {
            trouble++;
            give_up();
        }
}

/* ---- where threads meet */

void grid_pause(void)
{
    leave(draw() % 4 == 0);
}

void grid_hold(void)
{
    struct slot *s = &slots[running->slot];
    if (draw() % 2)
        set_add(&s->held, running->x);
    leave(true);
}

/* Another block seldom: its shared variables have to be put in place. */
static void wait_in_block(struct slot *s)
{
    set_take(&s->ready, running->x);
    leave(draw() % 256 == 0);
}

void grid_barrier(int site)
{
    struct slot *s = &slots[running->slot];
    if (site == removed) {
        grid_pause();
        return;
    }
    trouble += s->at_barrier > 0 && s->barrier != site;
    s->barrier = site;
    if (++s->at_barrier < s->alive) {
        wait_in_block(s);
        return;
    }
    s->at_barrier = 0;
    s->ready = all_threads();
    for (int i = 0; i < WORDS; i++)
        s->ready.word[i] &= ~s->ended.word[i];
    leave(draw() % 256 == 0);
}

/* All 32 lanes of the warp must come. */
static void warp_meets(struct slot *s, struct warp *w)
{
    if (++w->waiting < WARP) {
        wait_in_block(s);
        return;
    }
    w->waiting = 0;
    w->round++;
    for (uint32_t i = 0; i < WARP; i++)
        set_add(&s->ready, running->x / WARP * WARP + i);
    leave(draw() % 256 == 0);
}

void grid_warp_barrier(int site)
{
    struct slot *s = &slots[running->slot];
    if (site == removed)
        grid_pause();
    else
        warp_meets(s, &s->warp[running->x / WARP]);
}

uint64_t grid_shuffle_down(uint64_t v, uint32_t delta, uint32_t width)
{
    struct slot *s = &slots[running->slot];
    struct warp *w = &s->warp[running->x / WARP];
    const uint32_t lane = running->x % WARP, from = lane + delta;
    uint64_t *value = w->value[w->round % 2];
    value[lane] = v;
    warp_meets(s, w);
    return from / width == lane / width ? value[from] : v;
}
