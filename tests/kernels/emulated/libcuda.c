/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A DOUBLE of libcuda.so.1 (libcuda.h says what it is for). Types and codes as in the driver's
 * documented interface.
 */
#include "libcuda.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A function of the driver. */
#define DRIVER(name, ...)                                         \
    __attribute__((visibility("default"))) int name(__VA_ARGS__); \
    int name(__VA_ARGS__)
#define PAGE ((size_t)4096)
#ifdef DOUBLE_OF_A_JOB
#define DOUBLE_IMAGE "\x50\xed\x55\xba" /* a fatbin: that of libtwinrun.so */
#else
#define DOUBLE_IMAGE "a double's image" /* image.c, tests/gpu/run */
#endif

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700
};
enum { NAMES = 64, ALLOCATIONS = 512, MOST_PARAMETERS = 4, DEVICES = 3, STREAMS = 16, DEEP = 8 };

typedef unsigned long long address;

/* One lock for all: kernels run one at a time, and so do calls. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    const char *name;
    uint64_t calls;
} called[NAMES];

static struct {
    const char *function;
    uint64_t after;
    int code;
} refused;

/* Memory of a device. Nobody may touch it but work of a stream of the same. `lent`: it is the
 * host's, and a test says that it lies there. */
static struct {
    unsigned char *at;
    size_t bytes;
    int device;
    bool lent;
} allocations[ALLOCATIONS];
static int last_device; /* of those that memory was allocated on */

/* Streams that a test has put on a device; others but the default ones are on device 0. */
static struct {
    void *stream;
    int device;
} streams[STREAMS];

/* The primary contexts. A context that is none of them is of device 0. */
static struct primary {
    int holders;
} primaries[DEVICES];

/* at: the work that it waits for; NULL: it has come. */
struct event {
    struct work *at;
};

/* Work that waits in a stream. All streams together: their work is done in the order of the calls,
 * up to the last of the stream that is waited for. */
struct work {
    struct work *next;
    void *stream;
    int device;
    void (*run)(struct work *);
    const struct emulated_kernel *kernel;
    void *parameter[MOST_PARAMETERS];
    unsigned blocks, threads;
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
    int value;
    struct event *event;
    unsigned char copied[4096];
};

/* A kernel in one context. */
struct function {
    void *context;
    const struct emulated_kernel *kernel;
};

static struct work *first_work, **last_work = &first_work;
static int capturing; /* status of all streams */
static int sticky;    /* a failed kernel makes every later call fail */
/* A thread's contexts; the last one is current. */
static _Thread_local struct {
    void *context[DEEP];
    int n;
} stack;
static struct {
    uint32_t blocks, at, window;
} only;

/* Counts a call. 0, or the code that a test wants it to fail with. Takes the lock. */
static int enter_call(const char *name)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < NAMES && called[i].name && strcmp(called[i].name, name) != 0)
        i++;
    assert(i < NAMES);
    called[i].name = name;
    called[i].calls++;
    if (refused.function && strcmp(refused.function, name) == 0 && called[i].calls >= refused.after)
        return refused.code;
    return 0;
}

static int leave_call(int code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

static void protect(int how)
{
    for (int i = 0; i < ALLOCATIONS; i++)
        if (allocations[i].at && !allocations[i].lent)
            mprotect(allocations[i].at, allocations[i].bytes, how);
}

/* ---- work of streams */

static void run_kernel(struct work *w)
{
    const uint32_t n = w->blocks;
    if (!only.blocks || n < only.blocks) {
        grid_run(w->kernel->call, w->parameter, n, 0, n, w->threads);
        return;
    }
    grid_run(w->kernel->call, w->parameter, n, 0, only.window, w->threads);
    grid_run(w->kernel->call, w->parameter, n, only.at, only.at + only.window, w->threads);
    grid_run(w->kernel->call, w->parameter, n, n - only.window, n, w->threads);
}

static void run_copy(struct work *w)
{
    memcpy(w->to, w->from, w->bytes);
}

/* An event has come. */
static void run_event(struct work *w)
{
    w->event->at = NULL;
}

static void run_clear(struct work *w)
{
    memset(w->to, w->value, w->bytes);
}

static void *current_context(void)
{
    return stack.n ? stack.context[stack.n - 1] : NULL;
}

static int device_of_context(const void *context)
{
    for (int i = 0; i < DEVICES; i++)
        if (context == &primaries[i])
            return i;
    return 0;
}

/* The default stream is the current context's. */
static int device_of_stream(const void *stream)
{
    if (!stream)
        return device_of_context(current_context());
    for (int i = 0; i < STREAMS && streams[i].stream; i++)
        if (streams[i].stream == stream)
            return streams[i].device;
    return 0;
}

/* What work may not do: be put on a stream of a device whose context is not current. */
static int check_stream(const void *stream)
{
    const void *context = current_context();
    return !context || device_of_stream(stream) != device_of_context(context) ? INVALID_CONTEXT : 0;
}

/* Or touch memory of another device than that of the current context. */
static int check_address(address at)
{
    const int device = device_of_context(current_context());
    for (int i = 0; i < ALLOCATIONS; i++)
        if (allocations[i].at && allocations[i].device != device &&
            at - (address)(uintptr_t)allocations[i].at < allocations[i].bytes)
            return ILLEGAL_ADDRESS;
    return 0;
}

/* Looks at all words of a parameter that could be an address. */
static int check_parameter(const void *parameter, size_t bytes)
{
    int code = 0;
    for (size_t at = 0; at + sizeof(address) <= bytes && last_device && !code; at += 8) {
        address word;
        memcpy(&word, (const char *)parameter + at, sizeof word);
        code = word ? check_address(word) : 0;
    }
    return code;
}

static struct work *queue(void *stream, void (*run)(struct work *))
{
    struct work *w = calloc(1, sizeof *w);
    assert(w);
    w->stream = stream;
    w->device = device_of_stream(stream);
    w->run = run;
    *last_work = w;
    last_work = &w->next;
    return w;
}

/* Does all work up to this one; NULL: nothing. */
static void finish_work(const struct work *last)
{
    if (!last)
        return;
    protect(PROT_READ | PROT_WRITE);
    for (bool done = false; !done;) {
        struct work *w = first_work;
        done = w == last;
        w->run(w);
        first_work = w->next;
        if (!first_work)
            last_work = &first_work;
        free(w);
    }
    protect(PROT_NONE);
}

/* Does what was put into this stream, and all that was put anywhere before. */
static void finish(void *stream)
{
    struct work *last = NULL;
    const int device = device_of_stream(stream);
    for (struct work *w = first_work; w; w = w->next)
        if (w->stream == stream && w->device == device)
            last = w;
    finish_work(last);
}

/* ---- the driver's functions */

DRIVER(cuInit, unsigned flags)
{
    (void)flags;
    return leave_call(enter_call("cuInit"));
}

DRIVER(cuDeviceGetCount, int *count)
{
    *count = DEVICES;
    return 0;
}

DRIVER(cuDeviceGet, int *device, int number)
{
    const int code = enter_call("cuDeviceGet");
    const int none = number < 0 || number >= DEVICES ? INVALID_DEVICE : 0;
    *device = number;
    return leave_call(code ? code : none);
}

DRIVER(cuDevicePrimaryCtxGetState, int device, unsigned *flags, int *active)
{
    const int code = enter_call("cuDevicePrimaryCtxGetState");
    *flags = 0;
    *active = primaries[device].holders > 0;
    return leave_call(code);
}

DRIVER(cuDevicePrimaryCtxRetain, void **context, int device)
{
    const int code = enter_call("cuDevicePrimaryCtxRetain");
    if (!code) {
        primaries[device].holders++;
        *context = &primaries[device];
    }
    return leave_call(code);
}

DRIVER(cuDevicePrimaryCtxRelease_v2, int device)
{
    const int code = enter_call("cuDevicePrimaryCtxRelease_v2");
    assert(primaries[device].holders > 0);
    primaries[device].holders--;
    return leave_call(code);
}

/* Takes the current context's place; NULL takes it away. */
DRIVER(cuCtxSetCurrent, void *context)
{
    const int code = enter_call("cuCtxSetCurrent");
    if (!code) {
        stack.n -= stack.n > 0;
        if (context)
            stack.context[stack.n++] = context;
    }
    return leave_call(code);
}

DRIVER(cuCtxPushCurrent_v2, void *context)
{
    const int code = enter_call("cuCtxPushCurrent_v2");
    assert(stack.n < DEEP && context);
    if (!code)
        stack.context[stack.n++] = context;
    return leave_call(code);
}

DRIVER(cuCtxPopCurrent_v2, void **context)
{
    const int code = enter_call("cuCtxPopCurrent_v2");
    assert(stack.n > 0);
    *context = current_context();
    stack.n -= !code;
    return leave_call(code);
}

DRIVER(cuCtxGetCurrent, void **context)
{
    const int code = enter_call("cuCtxGetCurrent");
    *context = current_context();
    return leave_call(code);
}

DRIVER(cuCtxGetDevice, int *device)
{
    const int code = enter_call("cuCtxGetDevice");
    const int none = current_context() ? 0 : INVALID_CONTEXT;
    *device = device_of_context(current_context());
    return leave_call(code ? code : none);
}

DRIVER(cuModuleLoadData, void **module, const void *image)
{
    int code = enter_call("cuModuleLoadData");
    assert(image);
    /* Machine code is for a GPU, and its thread blocks have another size, but for a job's. */
    if (!code && strncmp(image, DOUBLE_IMAGE, sizeof DOUBLE_IMAGE - 1) != 0)
        code = NO_BINARY_FOR_GPU;
    *module = current_context(); /* a module is of one context, and so are its functions */
    return leave_call(*module ? code : INVALID_CONTEXT);
}

DRIVER(cuModuleGetFunction, void **function, void *module, const char *name)
{
    int code = enter_call("cuModuleGetFunction");
    const struct emulated_kernel *k = emulated_kernels;
    while (k->name && strcmp(k->name, name) != 0)
        k++;
    if (!code && !k->name)
        code = NOT_FOUND;
    if (!code) {
        struct function *f = calloc(1, sizeof *f);
        assert(f);
        *f = (struct function){module, k};
        *function = f;
    }
    return leave_call(code);
}

DRIVER(cuGetErrorName, int code, const char **name)
{
    switch (code) {
    case NO_BINARY_FOR_GPU: *name = "CUDA_ERROR_NO_BINARY_FOR_GPU"; return 0;
    case ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0;
    default: *name = NULL; return INVALID_VALUE;
    }
}

/* The memory ends where a page does that is not there: what is read beyond its end is seen. */
DRIVER(cuMemAlloc_v2, address *at, size_t bytes)
{
    int code = enter_call("cuMemAlloc_v2");
    const size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    int i = 0;
    while (i < ALLOCATIONS && allocations[i].at)
        i++;
    assert(i < ALLOCATIONS && bytes > 0);
    if (!code) {
        unsigned char *p = mmap(NULL, whole + PAGE, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED && mprotect(p, whole, PROT_READ | PROT_WRITE) != 0) {
            munmap(p, whole + PAGE);
            p = MAP_FAILED;
        }
        code = p == MAP_FAILED ? OUT_OF_MEMORY : mprotect(p, whole, PROT_NONE);
        if (!code) {
            allocations[i].at = p;
            allocations[i].bytes = whole;
            allocations[i].device = device_of_context(current_context());
            last_device = allocations[i].device > last_device ? allocations[i].device : last_device;
            *at = (address)(uintptr_t)p;
        }
    }
    return leave_call(code);
}

DRIVER(cuMemFree_v2, address at)
{
    const int code = enter_call("cuMemFree_v2");
    for (int i = 0; i < ALLOCATIONS; i++)
        if ((address)(uintptr_t)allocations[i].at == at) {
            assert(!allocations[i].lent);
            munmap(allocations[i].at, allocations[i].bytes + PAGE);
            allocations[i].at = NULL;
        }
    return leave_call(code);
}

DRIVER(cuMemHostAlloc, void **at, size_t bytes, unsigned flags)
{
    const int code = enter_call("cuMemHostAlloc");
    (void)flags;
    *at = code ? NULL : calloc(1, bytes);
    return leave_call(code);
}

DRIVER(cuMemsetD8Async, address at, unsigned char value, size_t bytes, void *stream)
{
    int code = enter_call("cuMemsetD8Async");
    if (!code)
        code = check_stream(stream);
    if (!code)
        code = check_address(at);
    if (!code && !sticky) {
        struct work *w = queue(stream, run_clear);
        w->to = (unsigned char *)(uintptr_t)at;
        w->value = value;
        w->bytes = bytes;
    }
    return leave_call(code ? code : sticky);
}

/* The parameters are copied now, as the driver does. */
DRIVER(cuLaunchKernel, void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, void *stream,
       void **arguments, void **extra)
{
    int code = enter_call("cuLaunchKernel");
    const struct function *f = function;
    const struct emulated_kernel *k = f->kernel;
    assert(grid_x > 0 && grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1 && !shared &&
           !extra);
    if (!code && f->context != current_context())
        code = INVALID_CONTEXT;
    if (!code)
        code = check_stream(stream);
    for (int i = 0; i < k->parameters && !code; i++)
        code = check_parameter(arguments[i], k->bytes[i]);
    if (code)
        sticky = code;
    if (!sticky) {
        struct work *w = queue(stream, run_kernel);
        size_t used = 0;
        w->kernel = k;
        w->blocks = grid_x;
        w->threads = block_x;
        for (int i = 0; i < k->parameters; i++) {
            used = (used + 15) / 16 * 16;
            assert(used + k->bytes[i] <= sizeof w->copied);
            w->parameter[i] = memcpy(w->copied + used, arguments[i], k->bytes[i]);
            used += k->bytes[i];
        }
    }
    return leave_call(sticky);
}

DRIVER(cuMemcpyDtoHAsync_v2, void *to, address from, size_t bytes, void *stream)
{
    int code = enter_call("cuMemcpyDtoHAsync_v2");
    if (!code)
        code = check_stream(stream);
    if (!code)
        code = check_address(from);
    if (!code && !sticky) {
        struct work *w = queue(stream, run_copy);
        w->to = to;
        w->from = (const unsigned char *)(uintptr_t)from;
        w->bytes = bytes;
    }
    return leave_call(code ? code : sticky);
}

DRIVER(cuStreamSynchronize, void *stream)
{
    const int code = enter_call("cuStreamSynchronize");
    finish(stream);
    return leave_call(code ? code : sticky);
}

DRIVER(cuMemFreeHost, void *at)
{
    free(at);
    return leave_call(enter_call("cuMemFreeHost"));
}

DRIVER(cuEventCreate, struct event **event, unsigned flags)
{
    const int code = enter_call("cuEventCreate");
    (void)flags;
    *event = code ? NULL : calloc(1, sizeof **event);
    return leave_call(code);
}

DRIVER(cuEventDestroy_v2, struct event *event)
{
    const int code = enter_call("cuEventDestroy_v2");
    assert(!event->at);
    free(event);
    return leave_call(code);
}

DRIVER(cuEventRecord, struct event *event, void *stream)
{
    const int code = enter_call("cuEventRecord");
    if (!code && !sticky) {
        event->at = queue(stream, run_event);
        event->at->event = event;
    }
    return leave_call(code ? code : sticky);
}

DRIVER(cuEventQuery, struct event *event)
{
    const int code = enter_call("cuEventQuery");
    const int state = event->at ? NOT_READY : 0;
    return leave_call(code ? code : state);
}

DRIVER(cuEventSynchronize, struct event *event)
{
    const int code = enter_call("cuEventSynchronize");
    finish_work(event->at);
    return leave_call(code ? code : sticky);
}

DRIVER(cuStreamIsCapturing, void *stream, int *status)
{
    (void)stream;
    *status = capturing;
    return leave_call(enter_call("cuStreamIsCapturing"));
}

DRIVER(cuThreadExchangeStreamCaptureMode, int *mode)
{
    static _Thread_local int now;
    const int before = now;
    now = *mode;
    *mode = before;
    return 0;
}

DRIVER(cuMemcpyHtoD_v2, address to, const void *from, size_t bytes)
{
    const int code = enter_call("cuMemcpyHtoD_v2");
    protect(PROT_READ | PROT_WRITE);
    memcpy((void *)(uintptr_t)to, from, bytes);
    protect(PROT_NONE);
    return leave_call(code);
}

DRIVER(cuMemcpyDtoD_v2, address to, address from, size_t bytes)
{
    return cuMemcpyHtoD_v2(to, (const void *)(uintptr_t)from, bytes);
}

DRIVER(cuCtxSynchronize, void)
{
    return 0;
}

/* ---- for tests */

static void refuse(const char *function, int after, int code)
{
    pthread_mutex_lock(&lock);
    refused.function = function;
    refused.after = (uint64_t)after;
    refused.code = code;
    for (int i = 0; i < NAMES; i++)
        called[i].calls = 0;
    sticky = 0;
    pthread_mutex_unlock(&lock);
}

static void progress(void *stream)
{
    pthread_mutex_lock(&lock);
    finish(stream);
    pthread_mutex_unlock(&lock);
}

static void capture(int status)
{
    capturing = status;
}

static uint64_t calls(const char *function)
{
    uint64_t n = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < NAMES && called[i].name; i++)
        if (!function || strcmp(called[i].name, function) == 0)
            n += called[i].calls;
    pthread_mutex_unlock(&lock);
    return n;
}

/* Where a test's own things lie. */
static void put_stream(void *stream, int device)
{
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < STREAMS && streams[i].stream && streams[i].stream != stream)
        i++;
    assert(i < STREAMS);
    streams[i].stream = stream;
    streams[i].device = device;
    pthread_mutex_unlock(&lock);
}

static void put_memory(void *at, size_t bytes, int device)
{
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < ALLOCATIONS && allocations[i].at && allocations[i].at != at)
        i++;
    assert(i < ALLOCATIONS);
    allocations[i].at = at;
    allocations[i].bytes = bytes;
    allocations[i].device = device;
    allocations[i].lent = true;
    last_device = DEVICES - 1;
    pthread_mutex_unlock(&lock);
}

static void run_only(uint32_t blocks, uint32_t at, uint32_t window)
{
    only.blocks = blocks;
    only.at = at;
    only.window = window;
}

__attribute__((visibility("default"))) const struct cuda_double twin_cuda_double = {
    .seed = grid_seed,
    .sites = grid_sites,
    .remove = grid_remove,
    .trouble = grid_trouble,
    .refuse = refuse,
    .progress = progress,
    .capture = capture,
    .calls = calls,
    .only = run_only,
    .stream = put_stream,
    .memory = put_memory,
};
