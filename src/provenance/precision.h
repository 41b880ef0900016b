/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_PRECISION_H
#define TWIN_PRECISION_H
/*
 * A precision policy, held against what a run did: the types of its tensors, autocast regions,
 * gradient scaling, and the switches of its libraries. The file: docs/precision.md. Room:
 * src/provenance. What was not seen is unknown, and never taken for kept.
 */
#include "src/launch/run.h"
#include "src/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* The rules of a policy. Read-only once it was read. */
struct twin_precision_policy;

/* What became of a rule, and of all of them. */
enum twin_precision_outcome {
    TWIN_PRECISION_KEPT,
    TWIN_PRECISION_BROKEN,
    TWIN_PRECISION_UNKNOWN,
    TWIN_PRECISION_IDLE /* it speaks of what this run does not have */
};
/* kept|broken|unknown|not applicable */
const char *twin_precision_name(enum twin_precision_outcome o);

/* One thing that a rule does not allow. */
struct twin_precision_breach {
    int32_t rank;
    /* the first step in which it was seen; false: a switch of the process */
    bool in_step;
    uint32_t step;
    uint64_t times; /* records of this tensor, or steps */
    bool is_tensor;
    enum twin_phase phase;
    enum twin_kind kind;            /* of a tensor */
    char *name, *scope, *op, *site; /* "" when not known; of a switch only name */
    char *found;                    /* "bf16"; "True" */
};

/* What was found about one rule. */
struct twin_precision_result {
    size_t line;  /* of the rule in the policy */
    char *rule;   /* in words: the tensors and the types allowed, or "tf32 off" */
    char *reason; /* as the policy has it; "" */
    enum twin_precision_outcome outcome;
    char *why;       /* unknown, idle: what was not seen; kept: what was; never NULL */
    uint64_t judged; /* records, steps or ranks */
    /* by rank, then by step; at most 1000, all are counted in `broken` */
    struct twin_precision_breach *breach;
    size_t breaches;
    size_t broken;
};
/* The results of all rules, and what they make together. Needs twin_precision_verdict_free. */
struct twin_precision_verdict {
    /* broken when a rule is; else unknown when one is, or none applies; else kept */
    enum twin_precision_outcome outcome;
    /* one for each rule, in the order of the policy */
    struct twin_precision_result *result;
    size_t count;
    char **note;
    size_t notes; /* what could not be read */
};

/* TWIN_EFORMAT names line, key and, for a key that is not known, the nearest one; TWIN_ENOENT,
 * TWIN_EIO, TWIN_ELIMIT, TWIN_ENOMEM. */
int twin_precision_read(const char *path, struct twin_precision_policy **out,
                        struct twin_error *err);
void twin_precision_free(struct twin_precision_policy *p);

/* Errors are of memory only: what cannot be read makes rules unknown. */
int twin_precision_check(const struct twin_precision_policy *p, const struct twin_run *run,
                         struct twin_precision_verdict *out, struct twin_error *err);
void twin_precision_verdict_free(struct twin_precision_verdict *v);
#endif
