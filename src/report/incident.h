/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_INCIDENT_H
#define TWIN_INCIDENT_H
/*
 * The incident document: what is known of two runs that parted, as Markdown for a postmortem. Facts
 * are filled in; what only people know stays an open question. Room: src/report.
 */
#include "src/compare/compare.h"
#include "src/report/report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twin_incident_side {
    const struct twin_run *run;
    const char *state; /* "ok", "exit 3", ... */
    uint64_t steps, records;
    const char *code;     /* commit, with what was changed since; "" when not known */
    const char *versions; /* "python 3.11.7, torch 2.13.0"; "" */
};
/* a, b: NULL: not there */
struct twin_incident_world {
    const char *power, *group, *what, *a, *b;
};
struct twin_incident_check {
    int64_t time_ns;
    const char *verb, *outcome, *first, *cause;
    const char *id; /* by which one that is found twice is known; "" where all differ */
};

struct twin_incident {
    const struct twin_verdict *verdict;
    struct twin_incident_side side[2];
    const char *command; /* as one could type it; of side[0] */
    bool same_command;
    bool world_known; /* both runs have a record of their world */
    const struct twin_incident_world *world;
    size_t world_count; /* the most powerful first */
    /* on record for this command or these runs, oldest first */
    const struct twin_incident_check *check;
    size_t check_count;
    const struct twin_hint *hint;
    size_t hint_count;
    int64_t parted_ns; /* when B recorded the first difference; 0: not known */
    bool ledger;       /* one could be asked */
};

/* malloc'ed. Whatever a job made stands in code spans. 0, or TWIN_ENOMEM. */
int twin_incident_markdown(const struct twin_incident *x, char **out, struct twin_error *err);
#endif
