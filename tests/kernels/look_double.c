/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only a double of the driver can show: kernels under drawn schedules, and that these find
 * every barrier and every atomic which is taken away; grids of more than 2^32 elements, of which
 * some blocks are run; a driver that refuses.
 */
#include <string.h>
#include "agents/cuda/look.h"
#include "agents/cuda/trouble.h"
#include "look_test.h"
#include "src/trace/trace.h"

/* Everything that the kernels do, once, quickly. Returns whether all was as on the host. */
static bool right(const struct cuda_double *d, uint64_t seed)
{
    const int before = unequal;
    const uint64_t trouble = d->trouble();
    d->seed(seed);
    check_many(tw_driver(), 150, seed, 32);
    check_long(tw_driver(), 150000);
    return unequal == before && d->trouble() == trouble;
}

/* A site that is removed must be missed, under some schedule. */
static void check_removed(const struct cuda_double *d)
{
    struct grid_site sites[GRID_SITES];
    const int n = d->sites(sites);
    quiet = true;
    for (int i = 0; i < n; i++) {
        bool missed = false;
        d->remove(i);
        for (uint64_t seed = 1; seed <= 12 && !missed; seed++)
            missed = !right(d, 7000 + seed);
        if (!missed)
            fprintf(stderr, "%s:%d: nobody misses this %s\n", sites[i].file, sites[i].line,
                    sites[i].what);
        CHECK(missed);
    }
    d->remove(-1);
    quiet = false;
    printf("%d barriers and atomics removed, one at a time\n", n);
    CHECK(n >= 9);
}

/* ---- more than 2^32 elements: all blocks would take minutes, so three windows of them are run */

enum { BLOCK_BYTES = TW_LOOK_UNITS * 16, WINDOW = 2 };

/* Which bytes a window of blocks digests. */
struct window {
    uint64_t from, bytes;
};

/* The windows of a tensor of so many bytes, and what the double is to run: the first blocks, those
 * where byte number 2^32 lies, and the last ones, one of which is cut. */
static void open_windows(const struct cuda_double *d, uint64_t bytes, struct window w[3])
{
    const uint32_t blocks = (uint32_t)((bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
    const uint32_t at = (uint32_t)(((uint64_t)1 << 32) / BLOCK_BYTES - 1);
    d->only(1000, at, WINDOW);
    w[0] = (struct window){0, WINDOW * BLOCK_BYTES};
    w[1] = (struct window){(uint64_t)at * BLOCK_BYTES, WINDOW * BLOCK_BYTES};
    w[2].from = (uint64_t)(blocks - WINDOW) * BLOCK_BYTES;
    w[2].bytes = bytes - w[2].from;
}

/* The digest of the windows, whose bytes `byte` gives, and that of the double. */
static void compare_windows(const struct window w[3], unsigned char (*byte)(uint64_t),
                            const struct tw_device_tensor *t)
{
    static unsigned char bytes[WINDOW * BLOCK_BYTES];
    struct twin_digest sum = {0, 0};
    struct tw_device_found found;
    for (int i = 0; i < 3; i++) {
        for (uint64_t j = 0; j < w[i].bytes; j++)
            bytes[j] = byte(w[i].from + j);
        const struct twin_digest part = twin_digest_bytes(bytes, w[i].bytes, w[i].from);
        sum.a += part.a;
        sum.b += part.b;
    }
    CHECK(tw_device_look(0, t, 1, NULL, &found));
    CHECK(found.digest.a == sum.a && found.digest.b == sum.b);
}

static unsigned char drawn_byte(uint64_t at)
{
    uint64_t state = at;
    return (unsigned char)next(&state);
}

/* Of a tensor whose row i is 65,536 times byte number i: the row is in the upper bits. */
static unsigned char row_byte(uint64_t at)
{
    return drawn_byte(at >> 16);
}

static void check_huge(const struct cuda_double *d)
{
    const uint64_t bytes = ((uint64_t)1 << 32) + BLOCK_BYTES * 3 + 77;
    struct window w[3];
    tw_cu_address memory;
    CHECK(tw_driver()->allocate(&memory, bytes) == 0);
    open_windows(d, bytes, w);
    for (int i = 0; i < 3; i++) {
        static unsigned char filled[WINDOW * BLOCK_BYTES];
        for (uint64_t j = 0; j < w[i].bytes; j++)
            filled[j] = drawn_byte(w[i].from + j);
        CHECK(to_device(memory + w[i].from, filled, w[i].bytes) == 0);
    }
    struct tw_device_tensor t = {
        .data = (const void *)(uintptr_t)memory, .count = bytes, .dtype = TWIN_U8};
    compare_windows(w, drawn_byte, &t);
    tw_driver()->release(memory);

    const int64_t shape[2] = {65536 + 4, 65536}, strides[2] = {1, 0};
    unsigned char rows[65536 + 4];
    for (uint64_t i = 0; i < sizeof rows; i++)
        rows[i] = drawn_byte(i);
    CHECK(tw_driver()->allocate(&memory, sizeof rows) == 0 &&
          to_device(memory, rows, sizeof rows) == 0);
    t = (struct tw_device_tensor){.data = (const void *)(uintptr_t)memory,
                                  .count = (uint64_t)shape[0] * 65536,
                                  .shape = shape,
                                  .strides = strides,
                                  .ndim = 2,
                                  .dtype = TWIN_U8};
    open_windows(d, t.count, w);
    compare_windows(w, row_byte, &t);
    tw_driver()->release(memory);
    d->only(0, 0, 0);
}

/* ---- a driver that refuses */

/* In place of the trace: the last note. */
static char noted_key[32], noted[400];

void twin_writer_note(struct twin_writer *w, const char *key, const char *value)
{
    (void)w;
    snprintf(noted_key, sizeof noted_key, "%s", key);
    snprintf(noted, sizeof noted, "%s", value);
}

/* The line that the trace gets; "" when there is none. */
static const char *report(void)
{
    noted_key[0] = noted[0] = '\0';
    tw_trouble_report(NULL);
    return noted;
}

/* A tensor that is looked at where nothing is refused. */
static bool look_once(tw_cu_address memory)
{
    static struct tw_device_found found;
    const struct tw_device_tensor t = {.data = (const void *)(uintptr_t)memory,
                                       .count = 1000,
                                       .dtype = TWIN_F32,
                                       .want_stats = true,
                                       .want_sketch = true};
    return tw_device_look(0, &t, 1, NULL, &found);
}

/* Whatever fails: the first error is told, nothing is tried any more, and no call is made. */
static void check_refused(const struct cuda_double *d, tw_cu_address memory)
{
    static const struct {
        const char *function;
        int after;
        const char *line;
    } refusals[] = {
        {"cuMemsetD8Async", 1, "cuMemsetD8Async failed with CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
        {"cuLaunchKernel", 1, "cuLaunchKernel failed with CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
        {"cuLaunchKernel", 4, "cuLaunchKernel failed with CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
        {"cuMemcpyDtoHAsync_v2", 1, "cuMemcpyDtoHAsync failed with"},
        {"cuStreamSynchronize", 1, "cuStreamSynchronize failed with"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        d->refuse(refusals[i].function, refusals[i].after, 700);
        CHECK(!look_once(memory));
        const uint64_t calls = d->calls(NULL);
        CHECK(!look_once(memory) && !tw_device_ready(0));
        CHECK(d->calls(NULL) == calls);
        CHECK(strstr(report(), refusals[i].line) &&
              strstr(noted, " 2 tensors there were not read"));
        CHECK(strcmp(noted_key, "unseen") == 0);
        d->refuse(NULL, 0, 0);
        tw_trouble_forget();
        CHECK(look_once(memory) && report()[0] == '\0');
    }
}

/* The context of another library: kernels of its own, which may not be had while those of the first
 * go on. */
static void check_contexts(const struct cuda_double *d, tw_cu_address memory)
{
    static int other[2];
    set_context((tw_cu_context)&other[0]);
    CHECK(tw_device_ready(0) && look_once(memory));
    set_context((tw_cu_context)&other[1]);
    d->refuse("cuModuleLoadData", 1, 209);
    CHECK(!tw_device_ready(0) && !look_once(memory));
    CHECK(d->calls("cuModuleLoadData") == 1); /* it is asked once */
    CHECK(strstr(report(), "copied to the host") &&
          strstr(noted, "cuModuleLoadData failed with CUDA_ERROR_NO_BINARY_FOR_GPU (209)"));
    CHECK(strcmp(noted_key, "gpu.copied") == 0);
    d->refuse(NULL, 0, 0);
    set_context(context);
    CHECK(tw_device_ready(0) && look_once(memory));
    tw_trouble_forget();
    d->capture(1);
    CHECK(!look_once(memory) && report()[0] == '\0'); /* nothing is wrong with that */
    d->capture(0);
}

static void check_trouble(const struct cuda_double *d)
{
    tw_cu_address memory;
    CHECK(tw_driver()->allocate(&memory, 4000) == 0);
    CHECK(look_once(memory) && report()[0] == '\0');
    check_refused(d, memory);
    check_contexts(d, memory);
    tw_driver()->release(memory);
}

void check_on_double(const struct cuda_double *d)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        d->seed(seed);
        check_many(tw_driver(), MANY, seed, 16);
    }
    check_long(tw_driver(), 300003);
    check_changes(tw_driver(), 20);
    check_huge(d);
    check_trouble(d);
    check_devices(d);
    check_ring(d);
    CHECK(compared >= 7000);
    CHECK(d->trouble() == 0);
    check_removed(d);
}
