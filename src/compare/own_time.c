/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges whether a time or a rate in a printed line is the run's own. grammar.c calls
 * tw_time_of_run() for a number with a unit of time, or with a label that names a time, and
 * tw_rate_of_run() for a number per something. The answer is "noise" where the number is how long
 * or how fast the machine worked, and "open" where that is not known; never "result".
 *
 * A unit alone does not say whose time it is: "epoch took 3.2 s" is how long the machine worked,
 * "half-life 3.2 s" and "predicted arrival time: 3.2 s" are what the job computed; "1300 img/s" is
 * a speed of the machine, "heart rate 72/min" is not. So the words of the label decide. A time is
 * the run's own when the head of its label is known for that, a rate when the thing that it counts
 * is one that programs work through. What is left open can be told by an experiment with the clock
 * (clock_world.c).
 */
#include "grammar.h"
#include "printed.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Words before a time that make it one of the world that the job speaks of. */
static const char *const other_worlds[] = {"predicted",     "prediction",  "forecast",
                                           "simulated",     "simulation",  "sim",
                                           "virtual",       "physical",    "arrival",
                                           "arrive",        "arrives",     "arrived",
                                           "departure",     "travel",      "transit",
                                           "flight",        "lap",         "response",
                                           "reaction",      "rise",        "settling",
                                           "relaxation",    "decay",       "decays",
                                           "decayed",       "life",        "halflife",
                                           "lifetime",      "half",        "survival",
                                           "survived",      "failure",     "onset",
                                           "delay",         "dwell",       "residence",
                                           "hitting",       "passage",     "escape",
                                           "mixing",        "dead",        "orbit",
                                           "orbital",       "period",      "true",
                                           "final",         "best",        "race",
                                           "integration",   "correlation", "autocorrelation",
                                           "crossing",      "collision",   "recovery",
                                           "reverberation", "exposure",    "shutter",
                                           "pulse",         "heart",       "beat",
                                           "beats",         "breath",      "pulsar",
                                           "spike",         "burst",       "event",
                                           "reaches",       "reached",     "falls",
                                           "lands",         "peak",        "signal",
                                           "reach",         "target",      "goal",
                                           "death",         "relapse",     "progression",
                                           "recurrence",    "extinction",  "absorption",
                                           "threshold",     "audio",       "video",
                                           "clip",          "song",        "movie",
                                           "tau",           "tf",          "tmax",
                                           "tend",          NULL};
/* Heads of labels of what a run does, or measures of itself. */
static const char *const own_heads[] = {"time",
                                        "times",
                                        "elapsed",
                                        "duration",
                                        "durations",
                                        "took",
                                        "takes",
                                        "taken",
                                        "taking",
                                        "spent",
                                        "needed",
                                        "walltime",
                                        "wallclock",
                                        "wall",
                                        "runtime",
                                        "latency",
                                        "uptime",
                                        "cputime",
                                        "seconds",
                                        "secs",
                                        "sec",
                                        "milliseconds",
                                        "timestamp",
                                        "ms",
                                        "eta",
                                        "remaining",
                                        "left",
                                        "timeout",
                                        "overhead",
                                        "done",
                                        "finished",
                                        "completed",
                                        "complete",
                                        "ended",
                                        "exited",
                                        "stopped",
                                        "total",
                                        "overall",
                                        "cpu",
                                        "gpu",
                                        "user",
                                        "sys",
                                        "system",
                                        "real",
                                        "epoch",
                                        "epochs",
                                        "step",
                                        "steps",
                                        "iter",
                                        "iters",
                                        "iteration",
                                        "iterations",
                                        "batch",
                                        "batches",
                                        "round",
                                        "fold",
                                        "stage",
                                        "phase",
                                        "train",
                                        "training",
                                        "trained",
                                        "eval",
                                        "evaluation",
                                        "evaluating",
                                        "evaluated",
                                        "validation",
                                        "validating",
                                        "val",
                                        "test",
                                        "testing",
                                        "inference",
                                        "infer",
                                        "forward",
                                        "fwd",
                                        "backward",
                                        "bwd",
                                        "optimizer",
                                        "optim",
                                        "update",
                                        "data",
                                        "dataloader",
                                        "loader",
                                        "load",
                                        "loaded",
                                        "loading",
                                        "save",
                                        "saved",
                                        "saving",
                                        "checkpoint",
                                        "ckpt",
                                        "checkpointing",
                                        "write",
                                        "wrote",
                                        "writing",
                                        "read",
                                        "reading",
                                        "compile",
                                        "compiled",
                                        "compiling",
                                        "compilation",
                                        "build",
                                        "built",
                                        "setup",
                                        "init",
                                        "initialization",
                                        "startup",
                                        "warmup",
                                        "import",
                                        "imports",
                                        "download",
                                        "downloaded",
                                        "preprocess",
                                        "preprocessing",
                                        "tokenize",
                                        "tokenization",
                                        "generation",
                                        "generated",
                                        "decode",
                                        "decoding",
                                        "encode",
                                        "encoding",
                                        "prefill",
                                        "ttft",
                                        "tpot",
                                        "comm",
                                        "communication",
                                        "allreduce",
                                        "allgather",
                                        "bcast",
                                        "barrier",
                                        "sync",
                                        "kernel",
                                        "io",
                                        "benchmark",
                                        "bench",
                                        "timer",
                                        "timing",
                                        "profile",
                                        "speed",
                                        "loop",
                                        "run",
                                        "ran",
                                        "job",
                                        "task",
                                        "process",
                                        "processed",
                                        "solve",
                                        "solver",
                                        "solved",
                                        "assembly",
                                        "sort",
                                        "sorted",
                                        "search",
                                        "fit",
                                        "fitted",
                                        "fitting",
                                        "main",
                                        "perf",
                                        "now",
                                        NULL};
/* "loaded 300 files in 3.2 s": what stood before it was done in that time. */
static const char *const adverbs[] = {"in", "after", "within", NULL};
/* In a line of a simulation's clock only a label with one of these is the machine's own time. */
static const char *const machine_words[] = {"wall",    "cpu",      "elapsed",   "took", "real",
                                            "runtime", "walltime", "wallclock", "step", NULL};
/*
 * Units too small for the clock of most simulations; units beyond ASCII (a micro sign) count as
 * such, too.
 */
static const char *const small_units[] = {"ms", "us", "ns", "msec", "usec", "nsec", NULL};
/*
 * What programs work through, in the singular: tw_thing_of_machine() takes one "s" off the end,
 * which is why "batche" and "entrie" stand here.
 */
static const char *const things[] = {
    "it",         "iter",      "iteration", "step",   "timestep", "sample",     "smp",
    "img",        "image",     "tok",       "token",  "seq",      "sequence",   "batch",
    "batche",     "ex",        "example",   "item",   "obj",      "object",     "row",
    "record",     "rec",       "file",      "doc",    "document", "word",       "w",
    "char",       "character", "byte",      "b",      "kb",       "mb",         "gb",
    "tb",         "kib",       "mib",       "gib",    "tib",      "bit",        "kbit",
    "mbit",       "gbit",      "flop",      "mflop",  "gflop",    "tflop",      "pflop",
    "op",         "req",       "request",   "query",  "querie",   "call",       "msg",
    "message",    "frame",     "sentence",  "sent",   "utt",      "utterance",  "game",
    "episode",    "env",       "epoch",     "update", "up",       "node",       "edge",
    "graph",      "atom",      "cell",      "zone",   "z",        "c",          "point",
    "pt",         "pixel",     "px",        "voxel",  "ray",      "element",    "elem",
    "dof",        "site",      "lup",       "mlup",   "glup",     "key",        "pair",
    "line",       "loop",      "task",      "job",    "test",     "trial",      "eval",
    "evaluation", "move",      "instr",     "packet", "pkt",      "entry",      "entrie",
    "tau",        "fs",        "ps",        "day",    "gpu",      "device",     "rank",
    "core",       "dom",       "fp",        "qp",     "micro",    "microbatch", "microbatche",
    "chunk",      "shard",     "page",      "block",  "patch",    "patche",     "crop",
    "tile",       "view",      "thread",    "worker", NULL};
/* Units of time, as the first word of a rate's unit ("ms/step"). */
static const char *const times[] = {"s",    "sec",  "secs",         "second", "seconds", "ms",
                                    "us",   "ns",   "min",          "mins",   "minute",  "minutes",
                                    "h",    "hr",   "hrs",          "hour",   "hours",   "msec",
                                    "usec", "nsec", "milliseconds", NULL};
/* Labels that make a bare "1300/s" a speed of the machine, when they stand alone. */
static const char *const speeds[] = {"throughput", "speed",      "rate",
                                     "processed",  "processing", NULL};

/* The case of letters does not count. The list ends with NULL. */
bool tw_word_in(const char *word, size_t n, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == n && strncasecmp(word, *list, n) == 0)
            return true;
    return false;
}

/* True when the word stands anywhere in the line with no letter, digit or '_' at either side. */
bool tw_line_says(const char *line, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = line; (p = strcasestr(p, word)); p++) {
        bool begins = p == line || (!isalnum((unsigned char)p[-1]) && p[-1] != '_');
        if (begins && !isalnum((unsigned char)p[n]) && p[n] != '_')
            return true;
    }
    return false;
}

bool tw_label_has(const struct tw_label *l, const char *const *list)
{
    for (size_t i = 0; i < l->count; i++)
        if (tw_word_in(l->part[i], strlen(l->part[i]), list))
            return true;
    return false;
}

/* What follows the thing itself in its name: "time avg", "Time taken", "elapsed_ms", "mem usage" */
static const char *const attributes[] = {
    "avg",  "average", "mean",  "std",   "stddev", "median",        "total", "sum", "max",
    "min",  "peak",    "taken", "spent", "used",   "usage",         "is",    "was", "of",
    "in",   "so",      "far",   "about", "approx", "approximately", "now",   "cur", "current",
    "last", "for",     "the",   "s",     "sec",    "secs",          "ms",    "us",  "ns",
    "h",    "mb",      "gb",    "kb",    "mib",    "gib",           NULL};

size_t tw_label_head(const struct tw_label *l)
{
    size_t at = 0, per = 0;
    for (size_t i = l->count; i-- > 1 && per == 0;) /* "time per iteration": the time */
        per = strcmp(l->part[i], "per") == 0 ? i : 0;
    if (per > 0)
        at = per + 1;
    while (at + 1 < l->count && tw_word_in(l->part[at], strlen(l->part[at]), attributes))
        at++;
    return at;
}

/* Is the head of the label, the word that says what the number is, one of the list? */
static bool head_in(const struct tw_label *l, const char *const *list)
{
    size_t head = tw_label_head(l);
    return head < l->count && tw_word_in(l->part[head], strlen(l->part[head]), list);
}

/* Do the words before the number, line[0 .. at), name another world than the machine's? */
static bool line_is_of_other_world(const char *line, size_t at)
{
    for (size_t i = 0; i < at;) {
        size_t n = 0;
        while (i + n < at && isalpha((unsigned char)line[i + n]))
            n++;
        if (n > 0 && tw_word_in(line + i, n, other_worlds))
            return true;
        i += n + 1;
    }
    return false;
}

/* "cycle = 1, time = 1.0e-02, dt = 2.5e-05": is this the clock of a simulation? */
bool tw_is_simulation(const char *line)
{
    static const char *const words[] = {"dt", "cycle", "timestep", "t_end", "dtime"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (tw_line_says(line, words[i]))
            return true;
    return false;
}

/*
 * "time to load cpu_adam op". The parts of a label go from its last word to its first, so "to"
 * stands before "time".
 */
static bool is_time_to(const struct tw_label *l)
{
    for (size_t i = 0; i + 1 < l->count; i++)
        if (strcmp(l->part[i], "to") == 0 && strcmp(l->part[i + 1], "time") == 0)
            return true;
    return false;
}

enum tw_worth tw_time_of_run(const char *line, size_t at, const struct tw_label *l,
                             const char *unit, size_t n)
{
    static const char *const step[] = {"dt", NULL}, *const t[] = {"t", NULL};
    bool small = tw_word_in(unit, n, small_units) || (unsigned char)unit[0] >= 0x80;
    if (l->count == 0 || l->measured)
        return line_is_of_other_world(line, at) ? TW_OPEN : TW_NOISE;
    /* One word of another world outweighs all others. */
    if (tw_label_has(l, other_worlds))
        return TW_OPEN;
    if (small && head_in(l, step)) /* nanoGPT's "dt: 92.11ms" */
        return TW_NOISE;
    if (tw_is_simulation(line) && !small && !tw_label_has(l, machine_words))
        return TW_OPEN;
    if (tw_word_in(l->part[0], strlen(l->part[0]), adverbs) || is_time_to(l) ||
        head_in(l, own_heads))
        return TW_NOISE;
    return head_in(l, t) && tw_line_says(line, "done") ? TW_NOISE : TW_OPEN;
}

bool tw_thing_of_machine(const char *thing, size_t n)
{
    if (n > 1 && tolower((unsigned char)thing[n - 1]) == 's' && tw_word_in(thing, n - 1, things))
        return true;
    if (tw_word_in(thing, n, things))
        return true;
    /* A prefix of thousands before a known thing. */
    bool thousands = n > 3 && strchr("kKMG", thing[0]) != NULL; /* "ktok/s", "Mcells/s" */
    return thousands && tw_thing_of_machine(thing + 1, n - 1);
}

/* How many letters p[0 .. n) begins with; bytes beyond ASCII count as letters. */
static size_t word_length(const char *p, size_t n)
{
    size_t k = 0;
    while (k < n && (isalpha((unsigned char)p[k]) || (unsigned char)p[k] >= 0x80))
        k++;
    return k;
}

enum tw_worth tw_rate_of_run(const struct tw_label *l, const char *unit, size_t n)
{
    /* The first word of the unit: "img" of "img/s", "ms" of "ms/step", none of "/s". */
    size_t first = word_length(unit, n);
    bool of_time = tw_word_in(unit, first, times) || (first > 0 && (unsigned char)unit[0] >= 0x80);
    if (first == 0) { /* "1300/s" */
        size_t head = tw_label_head(l);
        bool own = l->count == 0 || l->measured || head_in(l, own_heads);
        own |= head < l->count && tw_thing_of_machine(l->part[head], strlen(l->part[head]));
        own |= head_in(l, speeds) && l->count == 1;
        return own && !tw_label_has(l, other_worlds) ? TW_NOISE : TW_OPEN;
    }
    if (!of_time)
        return tw_thing_of_machine(unit, first) ? TW_NOISE : TW_OPEN;
    for (size_t at = first; at < n && unit[at] == '/';) { /* "ms/step", "us/z/c" */
        size_t m = word_length(unit + at + 1, n - at - 1);
        if (!tw_thing_of_machine(unit + at + 1, m) && !tw_word_in(unit + at + 1, m, times))
            return TW_OPEN;
        at += 1 + m;
    }
    return TW_NOISE;
}
