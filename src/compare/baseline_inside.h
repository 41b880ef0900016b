/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_BASELINE_H
#define TW_COMPARE_BASELINE_H
/* Inside of baselines: what one is in memory, and what the files that make, write, read and judge
 * it share. baseline_sums.c hashes what a trace computed, step by step; baseline_make.c turns the
 * sums of several runs into a baseline; baseline_write.c and baseline_read.c put it into text and
 * back; baseline_judge.c holds a run against it. The spec of the text is
 * docs/format/baseline.md. */
#include "internal.h"

#include "src/compare/baseline.h"

enum {
    /* spans of one step each, in all processes together; at least TW_BL_SINGLE_MIN in each */
    TW_BL_SINGLE = 256,
    TW_BL_SINGLE_MIN = 16,
    TW_BL_RANGES = 64, /* the steps behind them, in so many spans */
};
/* The steps of one process, the bytes of a file and the processes that a baseline may have. A
 * reader meets files of strangers: what is beyond these is refused before memory is asked for. */
#define TW_BL_STEPS_MAX (UINT64_C(1) << 22)
#define TW_BL_FILE_MAX ((size_t)4 << 20)
#define TW_BL_PROCESSES_MAX 4096u

/* A record's name, as all steps of all processes share it: every other struct names it by its place
 * in the list. `key` is made of all but the occurrence, which tells records of one name in a step
 * apart. */
struct tw_bl_name {
    uint8_t phase, kind;
    char *name, *scope, *role;
    uint32_t occurrence;
    uint64_t key;
};
/* Steps first..last as one hash. The step behind the last finished one holds what came after it.
 * phase 0: no record of it. */
struct tw_bl_span {
    uint32_t first, last;
    struct tw_hash128 hash;
    uint32_t phase[TWIN_PHASE_COUNT];
};
/* One record of a step: which name, and a short hash of what it held. */
struct tw_bl_record {
    uint32_t name, hash;
};
/* The records of one step, so that a tensor of it can be named and not just the step. */
struct tw_bl_detail {
    uint32_t step;
    size_t n;
    struct tw_bl_record *rec;
};
/* A number to measure a tolerance by: of one element its value; else the norm, and a sketch where
 * there is one. */
struct tw_bl_number {
    uint32_t step, name;
    uint64_t count;
    double value;
    struct twin_sketch *sketch;
};

/* One process of the job, and all that is kept of what it computed. */
struct tw_bl_proc {
    int32_t rank;
    char *role;
    uint64_t steps, records;
    /* What came after the last finished step was known, and is the last span. A job that was
     * stopped in the middle of a step has none. */
    bool tail;
    /* names whose values did not repeat */
    uint32_t *left_out;
    size_t left_out_count, left_out_room;
    struct tw_bl_span *span;
    size_t spans, span_room;
    struct tw_bl_detail *detail;
    size_t details, detail_room;
    struct tw_bl_number *number;
    size_t numbers, number_room;
};

/* One fact of the world: "torch" and "2.4.1". */
struct tw_bl_pair {
    char *name, *value;
};

struct twin_baseline {
    char *twinrun, *made;
    char **command;
    size_t command_count;
    uint64_t runs;
    enum twin_level level;
    uint32_t max_steps;
    char **ignore;
    size_t ignore_count;
    struct tw_bl_pair *world;
    size_t world_count, world_room;
    struct tw_bl_name *name;
    size_t names, name_room;
    struct tw_bl_proc *proc;
    size_t procs, proc_room;
    /* An index of the names, by key and occurrence: each slot holds the place in `name` plus one,
     * or 0. It lives only while the baseline is made. */
    uint32_t *slot;
    size_t slots;
};

/* ---- baseline_sums.c: what a trace computed, step by step, in a form that does not depend on the
 * order of records */
struct tw_bl_sum {
    uint64_t a, b;
    uint32_t count, dropped;
    uint32_t phase[TWIN_PHASE_COUNT];
};
/* n = finished steps + 1: the last holds what came after them */
struct tw_bl_sums {
    struct tw_bl_sum *step;
    size_t n;
};
/* Is a series left out of the sums? It is asked once for each series of a trace. */
typedef bool tw_bl_skip_fn(void *user, struct tw_proc *p, uint32_t series, uint64_t key);
/* Adds up the records of every step of p. 0, TWIN_ELIMIT (more steps than a baseline holds),
 * TWIN_ENOMEM, or a trace error; *out is the caller's to free where it is 0. */
int tw_bl_sums_load(struct tw_cmp *c, struct tw_proc *p, tw_bl_skip_fn *skip, void *user,
                    struct tw_bl_sums *out, struct twin_error *err);
void tw_bl_sums_free(struct tw_bl_sums *s);
/* Steps first..last as one hash, which depends on their order. */
struct tw_bl_span tw_bl_span_of(const struct tw_bl_sums *s, uint32_t first, uint32_t last);
/* The short hash of one record. */
uint32_t tw_bl_record_hash(uint64_t key, uint32_t occurrence, uint64_t content, bool unobserved);
/* 128 bits of the same, summed up in a step. */
struct tw_hash128 tw_bl_record_hash128(uint64_t key, uint32_t occurrence, uint64_t content,
                                       bool unobserved);
/* Skips what the baseline leaves out of this process. user: a struct tw_bl_left_out. */
struct tw_bl_left_out {
    const struct tw_cmp *c;
    const struct twin_baseline *b;
    const struct tw_bl_proc *proc;
};
bool tw_bl_skip(void *user, struct tw_proc *p, uint32_t series, uint64_t key);
/* Is this a process that a baseline speaks of? Not a worker of another one, nor one without steps
 * beside others that have some. */
bool tw_bl_wanted(const struct tw_side *s, struct tw_proc *p);

void tw_bl_proc_free(struct tw_bl_proc *p);
#endif
