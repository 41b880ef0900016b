/* SPDX-License-Identifier: Apache-2.0 */
#include "src/trace/trace.h"

const char *twin_phase_name(enum twin_phase p)
{
    static const char *const names[TWIN_PHASE_COUNT] = {
        "none",       "data",      "rng",        "init",        "forward", "backward",
        "collective", "optimizer", "checkpoint", "environment", "kernel",  "output"};
    return (unsigned)p < TWIN_PHASE_COUNT ? names[p] : "?";
}

const char *twin_kind_name(enum twin_kind k)
{
    static const char *const names[TWIN_KIND_COUNT] = {
        "none",     "batch",  "indices", "state", "weight", "activation", "gradient (local)",
        "gradient", "moment", "loss",    "in",    "out",    "match",      "order",
        "file",     "line",   "value",   "hyper"};
    return (unsigned)k < TWIN_KIND_COUNT ? names[k] : "?";
}
