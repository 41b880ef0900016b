/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_H
#define TW_AGENT_H
/*
 * What every agent shares inside the user's process: one writer per process, opened at the first
 * record; the environment protocol (docs/format/run-folder.md); fork; _exit; the progress slot.
 * House rule 2: nothing here exits, prints, changes errno, or raises. On failure the agent is off
 * and says so in the run folder. These functions are exported from libtwinrun.so for the Python
 * half (ctypes): plain C types only, ABI-stable.
 */
#include "src/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

enum tw_agent_level {
    TW_LEVEL_STEPS = 0,
    TW_LEVEL_TENSORS = 1,
    TW_LEVEL_MODULES = 2,
    TW_LEVEL_OPS = 3
};

int tw_agent_abi(void);   /* version of this interface: 1 */
int tw_agent_on(void);    /* 1 when this process records or would record, else 0 */
int tw_agent_level(void); /* enum tw_agent_level as asked for by the launcher */
int tw_agent_window(uint32_t *first, uint32_t *last); /* 1 when a window was given */
int tw_agent_in_window(void); /* 1 when operation level is active at the current step */
uint32_t tw_agent_sketch_every(void);
/* Says who we are; before the first record. rank -1 = from the environment. role NULL = "main".
 * kind: 1 native, 2 python. After the first record only a rank >= 0 of role NULL counts: the
 * process has joined its group late. */
void tw_agent_identify(int32_t rank, int32_t world, const char *role, int kind);

uint32_t tw_agent_string(const char *s, size_t bytes);
/* phase, kind: enum twin_phase / twin_kind; the others may be NULL. */
uint32_t tw_agent_series(int phase, int kind, const char *name, const char *scope, const char *role,
                         const char *op, const char *site);
uint32_t tw_agent_layout(int dtype, uint32_t ndim, const int64_t *shape);

/* One tensor to record; arrays of these cross from Python in one call. 64 bytes. */
struct tw_agent_item {
    const void *data;     /* first logical element */
    const int64_t *shape; /* NULL: contiguous, element count in `count` */
    /* in elements; NULL: contiguous. Of a part (TWIN_REC_PART; shape NULL): the element count of
     * the whole */
    const int64_t *strides;
    uint64_t count; /* elements */
    uint64_t global_offset;
    uint32_t series, layout;
    /* TW_ITEM_* | TWIN_REC_* that the caller knows (RECOMPUTED, UNOBSERVED, UNORDERED, OFFSET,
     * PART) << 8 */
    uint32_t flags;
    uint16_t dtype, ndim; /* enum twin_dtype */
    uint64_t link;        /* out: the record's link */
};
/* SKETCH counts only in steps that tw_agent_sketch_every asks for. DIGESTED: `data` points to the
 * digest, found before. DEVICE: `data` is in the memory of the GPU whose number stands in the bits
 * from TW_ITEM_DEVICE_AT on (see tw_agent_device); shape and strides are read before the call ends,
 * or gathering does. */
enum { TW_ITEM_STATS = 1, TW_ITEM_SKETCH = 2, TW_ITEM_DIGESTED = 4, TW_ITEM_DEVICE = 8 };
enum { TW_ITEM_DEVICE_AT = 24, TW_ITEM_DEVICES = 32 };
/* The calling thread's items with TW_ITEM_DEVICE and this number come after the work that this CUDA
 * stream of that GPU (a CUstream, 0: the default one) holds. 1 when fingerprints can be made there,
 * 0 when such items must be copied to the host by the caller. Records of such items wait for the
 * stream: without the interpreter lock, which another thread may need to get it done. */
int tw_agent_device(uint32_t device, uint64_t stream);
/* Between gather(1) and gather(0) the calling thread's arrays with a TW_ITEM_DEVICE among them are
 * kept, and then looked at and recorded all at once, so that the stream is waited for once. What
 * they point to must stay as it is until then. Order among records is kept: an array that lies in
 * the host's memory sends off what was gathered first. No links are given. */
void tw_agent_gather(int on);
/* Digests and records n tensors on the calling thread. Time spent is added to the observer's
 * account. Returns n, or 0 when off. consumed/consumed_count: links stored with every item (may be
 * NULL/0). */
size_t tw_agent_records(struct tw_agent_item *items, size_t n, const uint64_t *consumed,
                        size_t consumed_count);
/* Digests n tensors without recording them: out[i] is what a record of items[i] with
 * TW_ITEM_DIGESTED may point to. */
void tw_agent_digests(const struct tw_agent_item *items, size_t n, struct twin_digest *out);
/* Records opaque bytes (generator states, file digests). flags: as in tw_agent_item. Returns the
 * link. */
uint64_t tw_agent_bytes(uint32_t series, const void *data, size_t bytes, uint32_t flags);
uint64_t tw_agent_now_ns(void);
void tw_agent_add_observer_ns(uint64_t ns);
uint32_t tw_agent_step(void); /* current step number */
/* closes it, updates progress; returns the new step; beyond TWINRUN_STEPS recording stops */
uint32_t tw_agent_step_end(void);
void tw_agent_note(const char *key, const char *value);
void tw_agent_flush(void);
void tw_agent_close(void);
/* Digest of bytes without recording them: to see whether a state changed. Returns a ^ rotl(b). */
uint64_t tw_agent_quick_digest(const void *data, size_t bytes);
/* Calls of PyTorch's alertNotDeterministic: 0 counted while recording, and handed over; 1 dropped;
 * 2 counted and dropped. */
void tw_agent_quiet_alerts(int how);
/* What was counted so far, as "3 put_, 1 kthvalue"; cut at `bytes`. Returns its length. */
size_t tw_agent_alerts(char *text, size_t bytes);
/* From now on pinned factors answer the calling thread with other values than the pin's, until it
 * is switched off again. */
void tw_agent_factor_other(int on);
/* Calls of enum tw_factor so far in this process, where it is armed; else 0. here: by the calling
 * thread alone (no malloc, no schedule). */
uint64_t tw_agent_factor_calls(int f, int here);
/* Copies text with every secret in it replaced; returns the length. What a job's own words go
 * through before they are written. */
size_t tw_agent_masked(const char *text, size_t bytes, char *out, size_t room);
/* tw_agent_quick_digest of n regions at once: regions[2i] is an address, regions[2i + 1] a size in
 * bytes, out[i] the digest. */
void tw_agent_quick_digests(const uint64_t *regions, size_t n, uint64_t *out);
/* 1 when all of this memory can be read by the CPU, else 0: a device's memory, or none. */
int tw_agent_can_read(const void *data, size_t bytes);

#pragma GCC visibility pop

#endif
