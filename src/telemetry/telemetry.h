/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_TELEMETRY_H
#define TWIN_TELEMETRY_H
/*
 * How fast a run went, and what the machine did meanwhile: per process and step a duration and
 * counters. Room: src/telemetry. Files: docs/format/telemetry.md. What is measured where, and why:
 * docs/internals/telemetry.md. Nothing here says anything about bits.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* Amounts that belong to a stretch of time, but for the levels. Of the process first, then of its
 * machine. */
enum twin_counter {
    TWIN_COUNTER_CPU, /* s, processor time of the process, all threads */
    /* s, in which the thread that ends the steps could run and had no processor */
    TWIN_COUNTER_WAIT,
    /* s, in which that thread ran; what is left of the time it waited for something else */
    TWIN_COUNTER_RAN,
    TWIN_COUNTER_FAULTS,       /* pages */
    TWIN_COUNTER_MAJOR_FAULTS, /* pages that came from a disk */
    TWIN_COUNTER_PREEMPTED,    /* times a thread of it was taken off a processor */
    TWIN_COUNTER_WAITS,        /* times a thread of it gave a processor up */
    TWIN_COUNTER_RSS,          /* bytes; level */
    TWIN_COUNTER_READ,         /* bytes from disks */
    TWIN_COUNTER_WRITTEN,      /* bytes to disks */
    TWIN_COUNTER_BUSY,         /* s, all processors together */
    TWIN_COUNTER_OTHERS,       /* s of BUSY that were not the job's processes' */
    TWIN_COUNTER_IOWAIT,       /* s */
    TWIN_COUNTER_STEAL,        /* s, in which the hypervisor gave a processor to somebody else */
    TWIN_COUNTER_THROTTLED,    /* s, in which the job's control group had used its quota up */
    /* s, in which at least one task of the machine waited for a processor */
    TWIN_COUNTER_CPU_STALL,
    TWIN_COUNTER_IO_STALL,     /* s */
    TWIN_COUNTER_MEMORY_STALL, /* s */
    TWIN_COUNTER_NET,          /* bytes in and out, all interfaces but loopback */
    TWIN_COUNTER_LOOPBACK,     /* bytes */
    TWIN_COUNTER_RETRANSMITS,  /* TCP segments */
    TWIN_COUNTER_DISK,         /* bytes read and written, all block devices */
    TWIN_COUNTER_THERMAL,      /* times a core was slowed down because of its temperature */
    TWIN_COUNTER_CLOCK,        /* Hz, mean over processors; level */
    TWIN_COUNTER_RUNNABLE,     /* tasks that run or could; level */
    TWIN_COUNTER_AVAILABLE,    /* bytes of memory; level */
    TWIN_COUNTER_PROCESSES,    /* of the job; level */
    TWIN_COUNTER_THREADS,      /* of the job; level */
    TWIN_COUNTER_GPU_BUSY,     /* 0 to 1, mean over GPUs; level */
    TWIN_COUNTER_GPU_CLOCK,    /* Hz, the slowest GPU's; level */
    TWIN_COUNTER_GPU_POWER,    /* W, all GPUs; level */
    TWIN_COUNTER_GPU_HEAT,     /* degrees Celsius, the hottest GPU's; level */
    /* 1 when a GPU is held below its clock by heat or power, else 0; level */
    TWIN_COUNTER_GPU_SLOWED,
    TWIN_COUNTERS
};

struct twin_counter_info {
    const char *name; /* "run-queue wait" */
    const char *key;  /* "wait_s": in JSON */
    const char *unit; /* "s", "bytes", "Hz", "": a count */
    bool level;       /* else an amount, which adds up over rows */
};
const struct twin_counter_info *twin_counter_info(enum twin_counter c); /* NULL for no counter */

/* One row stands for the steps first .. first + steps - 1; more than one where steps are shorter
 * than rows may be. */
struct twin_telemetry_row {
    uint32_t first, steps;
    double start_s;              /* since the first row of the run, any process's */
    double seconds;              /* of all its steps together */
    double value[TWIN_COUNTERS]; /* NaN: not known */
};
struct twin_telemetry_process {
    int rank, world, pid;
    char role[64], host[65]; /* "main"; "child 2" */
    /* by time. The first one holds what a process does once: compare without it */
    struct twin_telemetry_row *row;
    size_t rows;
    uint32_t steps; /* finished, as far as rows tell */
};
struct twin_telemetry {
    /* by rank, then by the time of the first row; those without a step are left out */
    struct twin_telemetry_process *process;
    size_t processes;
    bool host;     /* counters of the launcher's machine were found */
    uint32_t cpus; /* processors online there; 0: not known */
};

/* Reads <run_dir>/telemetry. A last line that was cut off is passed over; more than 32,768 rows of
 * a process are merged in pairs. TWIN_ENOENT: the run has none (made by an older twinrun, with
 * --no-telemetry, or no step ended); TWIN_EFORMAT: not such files (path and line are named);
 * TWIN_EVERSION; TWIN_ELIMIT: larger than any that twinrun writes; TWIN_EIO; TWIN_ENOMEM. */
int twin_telemetry_load(const char *run_dir, struct twin_telemetry **out, struct twin_error *err);
void twin_telemetry_free(struct twin_telemetry *t);

/* The process of a rank that made most steps; NULL when the rank has none. */
const struct twin_telemetry_process *twin_telemetry_rank(const struct twin_telemetry *t, int rank);

/* ---- of a run that goes on (latest.c): what its processes told last, from the ends of their
 * files, whose length does not matter. NaN: not known. */
struct twin_telemetry_now {
    size_t processes; /* that told something */
    double cpu;       /* processors in use, all these processes together, over their last second */
    double rss;       /* bytes, all of them together */
    double rate;      /* steps per second of the slowest of them, over that second */
    double age_s;     /* since the newest row; NaN: it is another machine's */
};
/* Never fails: a file that cannot be read tells nothing. */
void twin_telemetry_latest(const char *run_dir, struct twin_telemetry_now *out);

/* ---- slow stretches, and what moved with them (dips.c, causes.c; the method:
 * docs/internals/telemetry.md) */

enum twin_cause {
    TWIN_CAUSE_UNKNOWN,      /* nothing that was recorded accounts for it */
    TWIN_CAUSE_INTERFERENCE, /* somebody else used the processors */
    TWIN_CAUSE_STEAL,        /* another virtual machine did */
    TWIN_CAUSE_QUOTA,        /* the control group's CPU quota */
    TWIN_CAUSE_NETWORK,
    TWIN_CAUSE_DISK,
    TWIN_CAUSE_MEMORY,  /* pages had to be brought back */
    TWIN_CAUSE_WORKERS, /* the job's processes or threads became more or fewer */
    TWIN_CAUSE_CLOCK,   /* processors or GPUs ran slower: heat, power */
    TWIN_CAUSES
};
const char *twin_cause_name(enum twin_cause c);   /* "interference", ...: in JSON */
const char *twin_cause_words(enum twin_cause c);  /* "another process used the processors" */
const char *twin_cause_advice(enum twin_cause c); /* the practice that addresses it */

/* One counter against the time per step, over blocks of at least 80 ms. */
struct twin_moved {
    enum twin_counter counter;
    double rho, p, adjusted; /* Spearman; by permutation; Holm over the counters tested */
    double usual, slow;      /* per second; levels as they are */
    double share;            /* of the extra time per step, for counters of seconds; else NaN */
};

enum twin_dip_outcome { TWIN_DIP_NONE, TWIN_DIP_FOUND, TWIN_DIP_TOO_FEW };
struct twin_dip {
    enum twin_dip_outcome outcome;
    size_t blocks;        /* at least 12 are needed */
    uint32_t first, last; /* steps of the slow stretch, to within a block */
    double start_s, end_s;
    double usual_s, slow_s; /* seconds per step */
    /* .31: 31% slower; 95% interval (Hodges and Lehmann), NaN when there are too few blocks */
    double slower, low, high;
    double p; /* of the stretch, among all stretches of shuffled blocks */
    /* a fifth of the run slower by that would have shown, wherever it lay; INFINITY: none would; of
     * twin_dip_between what b must exceed */
    double visible;
    /* seconds per step of the blocks; of twin_dip_find without TOO_FEW */
    double median_s, fastest_s, slowest_s;
    /* blocks that are farther from the median than the run's own unrest explains */
    size_t odd;
    /* there are too many of these to call the run even, though no one stretch stands out */
    bool unsteady;
    enum twin_cause cause;
    struct twin_moved moved[TWIN_COUNTERS]; /* most telling first */
    size_t tested;
};
/* The slowest stretch of a process, 0 also when there is none. TWIN_ENOMEM. */
int twin_dip_find(const struct twin_telemetry_process *p, struct twin_dip *out,
                  struct twin_error *err);
/* Two processes as a whole: is b slower than a, and what moved? first and last are b's. Steps of
 * one run are not independent runs: p and the interval speak about these two runs only.
 * TWIN_DIP_TOO_FEW: below 6 blocks in one of them. */
int twin_dip_between(const struct twin_telemetry_process *a, const struct twin_telemetry_process *b,
                     struct twin_dip *out, struct twin_error *err);
/* "steps 120 to 180 were 31% slower (24% to 38%): another process used the processors (run-queue
 * wait x9.1, p = 0.0021)". malloc'ed (tw_free). */
char *twin_dip_sentence(const struct twin_dip *d);

/* ---- the ranks of one run against each other (ranks.c) */

enum twin_uneven_outcome { TWIN_UNEVEN_NONE, TWIN_UNEVEN_FOUND, TWIN_UNEVEN_NOT_KNOWN };
struct twin_uneven {
    enum twin_uneven_outcome outcome;
    /* compared; slower than the others. Below, the slowest of these */
    size_t ranks, slow_ranks;
    int rank;
    /* than all others together; 95% interval; one-sided, of this rank alone */
    double slower, low, high, p;
    /* share of its stretches that are slower than the others' median */
    double above;
    double step_s; /* seconds per step */
    /* in which the thread of the steps ran or waited for a processor; mean of the others */
    double own_s, others_s;
    double wait_s, others_wait_s; /* in which it waited for one */
    /* all ranks run or wait for a processor all the time: only the latter was compared */
    bool spin;
    /* most of its extra time is waiting for a processor, not running */
    bool waits;
};
/* Is a rank slower than the others all through, by 10% or more? NOT_KNOWN: below two ranks with 6
 * blocks that have counters of their thread. TWIN_ENOMEM. */
int twin_uneven_find(const struct twin_telemetry *t, struct twin_uneven *out,
                     struct twin_error *err);
char *twin_uneven_sentence(const struct twin_uneven *u); /* malloc'ed (tw_free) */
const char *twin_uneven_advice(const struct twin_uneven *u);

#endif
